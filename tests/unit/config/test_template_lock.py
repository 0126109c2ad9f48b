"""The lock of template libraries: what is read back is what was locked, and what is no lock is refused."""

from __future__ import annotations

import json

import pytest

from framework.config.load import load_pipelines
from framework.config.templates.lock import Library, library_of, lock_text, newer, read_lock, url_problem
from framework.config.text import SourceText
from framework.config.world import World
from tests.unit.config.in_memory import PIPELINE, TARGET, over, world

ONE = library_of("acme", "https://git.example/acme.git", "v1.2.0", "a" * 40, "templates", {"land.yaml": "a: 1\n"})
TWO = library_of(
    "acme", "ssh://git@git.example/acme.git", "v2.0.0", "b" * 40, "", {"land.yaml": "a: 2\n", "b/c.yaml": ""}
)
OTHER = library_of("base", "file:///srv/base", "release/7", "0" * 64, "x/y", {"é.yaml": "a: 3\n"})


def locked(text: str) -> tuple[tuple[Library, ...], list[str]]:
    libraries, findings = read_lock(SourceText("floe.lock", text))
    return libraries, [finding.code for finding in findings]


def test_a_lock_is_read_as_it_was_written() -> None:
    """Names, versions, commits and hashes survive, and the order in which libraries were locked does not show."""
    assert locked(lock_text([OTHER, TWO, ONE])) == ((ONE, TWO, OTHER), [])
    assert lock_text([ONE, TWO, OTHER]) == lock_text([OTHER, ONE, TWO])
    assert locked(lock_text([])) == ((), [])


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("version: 1", "version: 2"),
        ("libraries:", "library:"),
        ("name: acme", "name: ../acme"),
        ("https://git.example", "ext::https://git.example"),
        ('"v1.2.0"', '"-v1.2.0"'),
        ("a" * 40, "a" * 39),
        ("folder:", "fodler:"),
        ('"templates"', '"../templates"'),
        ('"land.yaml"', '"../land.yaml"'),
        ("sha256:", "md5:"),
        ("version: 1\n", "version: 1\n<<<<<<< ours\n"),
    ],
)
def test_a_lock_that_was_changed_by_hand_is_refused(before: str, after: str) -> None:
    """Whatever floe did not write is told, and no library of such a lock is used."""
    text = lock_text([ONE])
    assert before in text

    libraries, codes = locked(text.replace(before, after))

    assert libraries == ()
    assert codes[0] in ("FLOE-C615", "FLOE-C103", "FLOE-C106")


def test_a_wrong_lock_is_reported_at_its_line() -> None:
    """A pipeline that asks for a library of a wrong lock is refused, with the line of the lock."""
    text = lock_text([ONE]).replace("version: 1", "version: 7")

    assert reported("acme:land", text) == [("FLOE-C615", "floe.lock")]


@pytest.mark.parametrize(
    ("name", "code", "words"),
    [
        ("acme:land", "FLOE-C605", "`acme:land@1.2.0` or `acme:land@2.0.0`"),
        ("acme:land@3", "FLOE-C605", "has no version 3"),
        ("acme:land@1.2.0.0", "FLOE-C605", "has no version"),
        ("acme:landing@1", "FLOE-C605", "it has `land`"),
        ("base:é@7", "FLOE-C605", "has no version 7"),
        ("none:land@1", "FLOE-C605", "has the library `none`"),
        ("none:land", "FLOE-C605", "no installed package"),
        ("base:é@release/7", "FLOE-C614", "`floe templates lock`"),
        ("acme:land@v2", "FLOE-C614", "`floe templates lock`"),
    ],
)
def test_a_name_that_means_no_library_is_reported(name: str, code: str, words: str) -> None:
    """The finding says what the lock has, or which command fetches it."""
    (finding,) = load_pipelines(["base.yaml"], None, files(name, lock_text([ONE, TWO, OTHER])))[0].diagnostics

    assert (finding.code, finding.path) == (code, "template.name")
    assert words in f"{finding.message}; {finding.remedy}"


def test_the_command_names_the_lock_where_it_is() -> None:
    """A lock in another folder than the current one is named in the command that mends it."""
    found = files("acme:land@1", "", {"pipelines/floe.lock": lock_text([ONE])}, "pipelines/base.yaml")

    (finding,) = load_pipelines(["pipelines/base.yaml"], None, found)[0].diagnostics

    assert "`floe templates lock --lock pipelines/floe.lock`" in (finding.remedy or "")


def files(name: str, lock: str, more: dict[str, str] | None = None, path: str = "base.yaml") -> World:
    use = f"template: {{name: {json.dumps(name, ensure_ascii=False)}, version: 1}}"
    own = {"floe.lock": lock} if lock else {}
    return world({path: over(PIPELINE, use), "targets/local.yaml": TARGET, **own, **(more or {})})


def reported(name: str, lock: str) -> list[tuple[str, str]]:
    result = load_pipelines(["base.yaml"], None, files(name, lock))[0]
    return [(finding.code, finding.span.file) for finding in result.diagnostics if finding.span]


@pytest.mark.parametrize(
    ("tag", "any_major", "expected"),
    [
        ("v1.2.0", False, "v1.10.0"),
        ("v1.2.0", True, "v2.0.0"),
        ("v2.0.0", False, "v2.0.0"),
        ("release-7", True, "release-7"),
        ("1", False, "v1.10.0"),
    ],
)
def test_the_newest_version_is_found(tag: str, any_major: bool, expected: str) -> None:
    """Versions are compared as numbers, and tags that are no versions do not count."""
    assert newer(tag, ["v1.9.0", "v1.10.0", "v1.2.0", "v2.0.0", "v2.1.0-rc1", "latest"], any_major) == expected


@pytest.mark.parametrize(
    ("url", "is_taken"),
    [
        ("https://git.example/acme/templates.git", True),
        ("https://git.example:8443/acme", True),
        ("ssh://git@git.example/acme.git", True),
        ("file:///srv/git/acme", True),
        ("http://git.example/acme", False),
        ("git://git.example/acme", False),
        ("ext::sh -c true", False),
        ("git@git.example:acme.git", False),
        ("/srv/git/acme", False),
        ("--upload-pack=x", False),
        ("https://user@git.example/acme", False),
        ("ssh://git:secret@git.example/acme", False),
        ("ssh://-oProxyCommand=x/acme", False),
        ("ssh://-l@git.example/acme", False),
        ("https:///acme", False),
        ("https://git.example/acme?token=x", False),
        ("https://git.example/a b", False),
        ("https://git.example/a\nb", False),
        ("file://server/share", False),
        ("https://[git/acme", False),
    ],
)
def test_git_is_asked_for_listed_kinds_of_addresses(url: str, is_taken: bool) -> None:
    """Only https, ssh and file, to a host or a path, without a secret."""
    assert (url_problem(url) is None) is is_taken
