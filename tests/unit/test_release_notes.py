"""CHANGELOG.md and docs/scaling.md stay short enough to be read, and the notes fit the version of the code."""

from __future__ import annotations

import re
from pathlib import Path

from packaging.version import Version

import framework

ROOT = Path(__file__).parents[2]
MOST_UNRELEASED = 40
MOST_SCALING = 120


def sections() -> dict[str, str]:
    """The heading of each version, in order, with what stands below it."""
    _, *parts = re.split(r"^## (.+)$", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), flags=re.MULTILINE)
    return dict(zip(parts[::2], parts[1::2], strict=True))


def test_the_newest_release_is_no_newer_than_the_code() -> None:
    """After `Unreleased` come the releases, newest first, each with its date, and the code is of the first or later."""
    first, *releases = sections()
    assert first == "Unreleased"
    found = [re.fullmatch(r"(\d+\.\d+\.\d+) - \d{4}-\d{2}-\d{2}", heading) for heading in releases]
    versions = [Version(each[1]) for each in found if each is not None]
    assert len(versions) == len(releases) > 0
    assert versions == sorted(versions, reverse=True)
    assert versions[0] <= Version(framework.__version__)


def test_what_is_unreleased_is_short() -> None:
    """Whoever upgrades reads all of it; a change has one line."""
    lines = [line for line in sections()["Unreleased"].splitlines() if line]
    assert len(lines) <= MOST_UNRELEASED
    assert [line for line in lines if not line.startswith(("### ", "- "))] == []


def test_speed_and_scaling_is_one_page() -> None:
    """Figures that were replaced go to decisions."""
    assert len((ROOT / "docs" / "scaling.md").read_text(encoding="utf-8").splitlines()) <= MOST_SCALING
