"""What people see of one mistake in a good file: one finding, in the right place, with the word that was meant.

The files are those of the acceptance cases, the record corpus and the examples that have nothing to report.
FLOE_MISTAKES=3000 makes more of them.
"""

from __future__ import annotations

import os
import re
from dataclasses import replace
from functools import cache
from pathlib import Path
from random import Random
from typing import NamedTuple

import pytest

from framework.config.check_files import check_files
from framework.diagnose.diagnostic import Diagnostic
from framework.diagnose.render import text_of
from tests.mistakes import Mistake, mistake_in
from tests.unit.config.in_memory import TARGET, load, world
from tests.unit.config.test_mutated_files import PROJECTS

MISTAKES = int(os.environ.get("FLOE_MISTAKES", "400"))
SEEDS = (1, 2, 3)
ONE_IN_100 = 95


class Seen(NamedTuple):
    """A mistake, and what `floe validate` says of the project that has it."""

    file: str
    mistake: Mistake
    findings: tuple[Diagnostic, ...]

    def __str__(self) -> str:
        said = "\n".join(map(text_of, self.findings))
        return f"{self.mistake.kind} in {self.file}: {self.mistake.what}\n{said}"


def _findings(files: dict[str, str]) -> tuple[Diagnostic, ...]:
    return check_files([Path(name) for name in files], None, world(files, {"FLOE_CASE": "orders"}))


@cache
def _good_files() -> list[tuple[str, dict[str, str]]]:
    """Each file of a project with nothing to report, once, with its project."""
    projects = [{"targets/local.yaml": TARGET, **project} for project in PROJECTS]
    good = [files for files in projects if not _findings(files)]
    return list({text: (name, files) for files in good for name, text in files.items()}.values())


@cache
def _seen(seed: int) -> tuple[Seen, ...]:
    """Mistakes of a seed. One that leaves a right file, as lines in another order may, is none."""
    chance, seen = Random(seed), []
    while len(seen) < MISTAKES:
        name, files = chance.choice(_good_files())
        mistake = mistake_in(files[name], chance)
        findings = _findings({**files, name: mistake.text}) if mistake else ()
        if mistake and (findings or mistake.certain):
            seen.append(Seen(name, mistake, findings))
    return tuple(seen)


@pytest.mark.parametrize("seed", SEEDS)
def test_one_cause_is_one_finding(seed: int) -> None:
    """Each mistake is found; of 100 mistakes at least 95 are told in one finding, and no more than one needs three."""
    seen = _seen(seed)
    several = [one for one in seen if len(one.findings) > 1]

    assert not [str(one) for one in seen if not one.findings]
    assert len(several) * 100 <= (100 - ONE_IN_100) * len(seen), "\n\n".join(map(str, several))
    assert sum(len(one.findings) > 2 for one in several) * 100 <= len(seen), "\n\n".join(map(str, several))


@pytest.mark.parametrize("seed", SEEDS)
def test_the_place_is_right(seed: int) -> None:
    """The first finding stands at the word that was changed; for whole lines, at one of them or at one that names it."""
    elsewhere = [str(one) for one in _seen(seed) if one.findings and not _is_there(one)]

    assert not elsewhere, "\n\n".join(elsewhere)


def _is_there(one: Seen) -> bool:
    finding, mistake = one.findings[0], one.mistake
    if finding.span is None or finding.span.file != one.file:
        return False
    named = {finding.span.line, *(int(line) for line in re.findall(r"line (\d+)", finding.message))}
    if mistake.columns is None:
        return bool(named & set(mistake.lines))
    begin, end = mistake.columns
    return finding.span.line in mistake.lines and begin <= finding.span.column <= end


@pytest.mark.parametrize("seed", SEEDS)
def test_the_word_that_was_meant_is_named(seed: int) -> None:
    """A hint or the remedy of the first finding has the word that a slip was made in."""
    unnamed = [
        str(one)
        for one in _seen(seed)
        if one.mistake.meant and one.findings and f"`{one.mistake.meant}`" not in f"{one.findings[0].hint}"
    ]

    assert not unnamed, "\n\n".join(unnamed)


@pytest.mark.parametrize(
    ("line", "remedy"),
    [
        ("    - {when: {field: a, matches: *refund}, table: shop.b}", '`".*refund"`'),
        ("    - {when: {field: a, equals: *refund}, table: shop.b}", '`"*refund"`'),
        ("    - {when: {field: a, matches: '*refund'}, table: shop.b}", "`.*refund`"),
        ("    - {when: {field: a, equals: b, field: c}, table: shop.b}", "under `and:`"),
        ("    - {when: {field: a, equals: b, matches: c}, table: shop.b}", "under `and:`"),
        ("    - {when: {field: a, matches: '(?=b)c'}, table: shop.b}", "under `and:`"),
    ],
)
def test_advice_means_what_was_wanted(line: str, remedy: str) -> None:
    """A `*` without quotes becomes the expression that was meant, and no advice turns AND into OR: two rules would take
    what either of them matches."""
    rules = "routes:\n  rules:\n" + line + "\n    - {table: shop.orders}\n"
    (finding,) = load(rules).diagnostics

    assert remedy in f"{finding.hint} {finding.remedy}"


def test_names_that_do_not_exist_have_a_guess() -> None:
    """A target, a template and a file whose names are slips of ones that are there are named, once for all files."""
    use = "apiVersion: floe/v1\nkind: Pipeline\nmetadata: {name: %s}\ntemplate: {name: lnading, version: '1'}\n"
    files = {"a.yaml": use % "a", "sub/b.yaml": use % "b", "targets/prod.yaml": TARGET, "templates/landing.yaml": ""}
    outside = replace(world(files), names_in=lambda folder: _names_in(folder, files))
    found = check_files([Path("a.yaml"), Path("sub/b.yaml"), Path("sub/c.yaml")], "prd", outside)

    assert [(one.code, one.hint) for one in found if one.code != "FLOE-C101"] == [
        ("FLOE-C701", "did you mean `prod`?"),
        ("FLOE-C605", "did you mean `landing`?"),
        ("FLOE-C605", "did you mean `landing`?"),
    ]
    assert [one.hint for one in found if one.code == "FLOE-C101"] == ["did you mean `sub/b.yaml`?"]


def _names_in(folder: Path, files: dict[str, str]) -> list[str]:
    """What is in a folder of files in memory, the folders among them, from wherever it is looked at."""
    parts = [part for part in folder.parts if part != ".."]
    return sorted({Path(name).parts[len(parts)] for name in files if list(Path(name).parts[: len(parts)]) == parts})
