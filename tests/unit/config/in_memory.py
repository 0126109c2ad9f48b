"""Pipeline files in memory: a small whole file, fragments laid over it by key, and a world that reads from a dict."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from framework.config.load import LoadResult, World, load_pipelines

PIPELINE = """\
apiVersion: floe/v1
kind: Pipeline
metadata: {name: orders}
source: {kafka: {topics: [orders]}}
routes: {rules: [{table: shop.orders}]}
errors: {dead_letter_table: shop.dead_letters}
"""
TARGET = """\
apiVersion: floe/v1
kind: Target
metadata: {name: local}
connections:
  kafka: {main: {bootstrap.servers: "broker:9092"}}
  catalog: {default: {type: rest, uri: "http://catalog"}}
allow: {locations: ["s3://lake"], environment: [FLOE_EXAMPLE_SET, FLOE_EXAMPLE_UNSET, ROWS, TOPIC], properties: ["write.?"]}
"""
_KEY = re.compile(r"^[A-Za-z][A-Za-z0-9-]*(?=:)", re.MULTILINE)


def over(base: str, fragment: str) -> str:
    """The base without the top keys that the fragment holds, then the fragment."""
    given = set(_KEY.findall(fragment))
    if "template" in given:
        given |= {"source"}
    kept, keep = [], True
    for line in base.splitlines():
        key = _KEY.match(line)
        keep = key[0] not in given if key else keep
        if keep:
            kept.append(line)
    return "\n".join([*kept, fragment.rstrip("\n"), ""])


def example_files(fragment: str, about: str = "pipeline") -> dict[str, str]:
    """The files of a fragment that may hold several, each after a line `# file: NAME`."""
    first, *others = re.split(r"^# file: (\S+)\n", fragment + "\n", flags=re.MULTILINE)
    files = {"base.yaml": over(PIPELINE, first if about == "pipeline" else ""), "targets/local.yaml": TARGET}
    if about == "target":
        files["targets/local.yaml"] = over(TARGET, first)
    for name, text in zip(others[::2], others[1::2], strict=True):
        # A file beside the first is a pipeline when it has keys of one; a part or a template stands alone.
        stands_alone = "kind: Template" in text or ("metadata" not in text and name != "other.yaml")
        files[name] = text if stands_alone else over(PIPELINE, text)
    return files


def world(files: Mapping[str, str], env: Mapping[str, str] | None = None, offline: bool = False) -> World:
    """A world that holds these files and nothing else."""

    def read(path: Path) -> str:
        try:
            return files[str(path)]
        except KeyError:
            raise FileNotFoundError(2, "No such file or directory", str(path)) from None

    return World(env=env or {}, local={}, read_file=read, offline=offline)


def load(
    fragment: str = "",
    variables: Mapping[str, str] | None = None,
    sets: Mapping[str, str] | None = None,
    env: Mapping[str, str] | None = None,
    files: Mapping[str, str] | None = None,
    target: str | None = None,
    offline: bool = False,
) -> LoadResult:
    """A fragment over the small pipeline, loaded."""
    texts = {**example_files(fragment), **(files or {})}
    return load_pipelines(["base.yaml"], target, world(texts, env, offline), variables, sets)[0]


def codes(result: LoadResult) -> list[str]:
    """The codes of what was found, in file order."""
    return [finding.code for finding in result.diagnostics]
