"""Addresses in what floe ships and in what teams copy are known ones, or names that are reserved and nobody can own."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

import pytest
import yaml

from schemas import __path__ as schemas_path

ROOT = Path(__file__).parents[2]
SHIPPED = (
    "framework",
    "schemas",
    "pipelines",
    "docs",
    "README.md",
    "CONTRIBUTING.md",
    "mkdocs.yml",
    "setup.cfg",
    ".ci",
)
# Reserved by RFC 2606 and RFC 6761.
RESERVED = re.compile(r"(?:^|\.)(?:example|test|invalid|localhost|example\.(?:com|net|org))$")
# Whose they are is known, and each is named for what it is: standards, projects that floe works with, their pages.
KNOWN = {
    "ant.apache.org", "iceberg.apache.org", "kafka.apache.org", "spark.apache.org", "www.apache.org", "debezium.io",
    "docs.aws.amazon.com", "docs.confluent.io", "docs.redpanda.com", "docs.snowflake.com", "duckdb.org", "events.pagerduty.com",
    "get.sdkman.io", "glue.REGION.amazonaws.com", "glue.eu-west-1.amazonaws.com", "hooks.slack.com",
    "github.com", "json-schema.org", "json.schemastore.org", "keepachangelog.com", "mutmut.readthedocs.io",
    "nightlies.apache.org", "openlineage.io", "repo1.maven.org", "semver.org", "storage.azure.com", "tools.ietf.org",
    "www.apicur.io", "www.googleapis.com", "www.w3.org",
}  # fmt: skip
# Of repositories at github.com the owners count, since anybody may take a name that is free there.
OWNERS = {"apache", "AutoMQ", "google", "openlawlibrary", "redpanda-data", "trinodb"}
ADDRESS = re.compile(r"\b(?:https?|ssh)://(?:[^/@\s\"'`<>)]*@)?([A-Za-z0-9._-]+)(?:/([A-Za-z0-9_.-]+))?")
SCAFFOLDS = ("docs/ci/github-actions.yml", "framework/config/project/github.yml")


def _texts() -> list[tuple[str, str]]:
    listed = subprocess.run(["git", "ls-files", "--", *SHIPPED], cwd=ROOT, capture_output=True, text=True, check=True)
    found = []
    for name in listed.stdout.splitlines():
        try:
            found.append((name, (ROOT / name).read_text(encoding="utf-8")))
        except UnicodeDecodeError:
            continue
    return found


def test_every_address_is_known_or_reserved() -> None:
    """A host that has a dot, and the owner of a repository, stand in the lists above or are reserved."""
    unknown = set()
    for name, text in _texts():
        for host, first in ADDRESS.findall(text):
            if "." not in host or re.fullmatch(r"[0-9.]+", host) or RESERVED.search(host):
                continue
            if host not in KNOWN or (host == "github.com" and first not in OWNERS):
                unknown.add(f"{name}: {host}/{first}")
    assert sorted(unknown) == []


def test_schemas_have_names_and_no_addresses() -> None:
    """A schema's id says what it is, and leads nowhere."""
    files = sorted(Path(schemas_path[0]).glob("*.schema.json"))
    assert len(files) > 10
    for file in files:
        assert json.loads(file.read_text())["$id"] == f"urn:floe:schemas:{file.name.removesuffix('.schema.json')}"


@pytest.mark.parametrize("name", SCAFFOLDS)
def test_actions_are_of_a_commit(name: str) -> None:
    """A tag of an action may be moved; a commit may not."""
    jobs = yaml.safe_load((ROOT / name).read_text())["jobs"].values()
    used = [step["uses"] for job in jobs for step in job["steps"] if "uses" in step]
    assert len(used) == 3
    assert all(re.fullmatch(r"actions/[a-z-]+@[0-9a-f]{40}", each) for each in used)


def test_no_tag_is_named_that_does_not_exist() -> None:
    """Where a team's requirements name floe's repository, they name a commit."""
    for name in ("docs/ci.md", "framework/config/project/requirements.txt"):
        assert re.findall(r"floe\.git@(\S+)", (ROOT / name).read_text()) == ["COMMIT"]
