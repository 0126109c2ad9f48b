"""Does what a finding's remedy says, and knows nothing of floe: how a reader who has only the message would mend a file.

In: findings as `floe validate --format json` prints them, and the files. Out: the files with one edit. Three kinds of words
are followed by a machine (`did you mean`, one literal to write, a bound for a number); for the others somebody has read the
message, and nothing else, and noted the edit in `tests/acceptance/remedies.txt`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

NOTED = Path(__file__).parent / "acceptance" / "remedies.txt"
Finding = Mapping[str, Any]
_WORDS = (
    r"did you mean `([^`]+)`\?",
    r"^write `([^`]+)`(?:, or [^`]*)?$",
    r"such as `([^`]+)`$",
    r"write a number of at (?:least|most) (\S+)$",
    r"^use `([^`]+)`(?:,| or|$)",
    r"^begin with (?:a literal namespace, such as )?`([^`]+)`$",
    r"^write it like `([^`]+)`$",
    r"^write `([^`]+)`, ",
    r'^write ("[^"]+")$',
    r'^write `("[^"]+"): \.\.\.`$',
)


def by_machine(finding: Finding, text: str) -> Iterator[str]:
    """The texts that a machine makes of one file by the words of a finding: as they stand, and in quotes."""
    if finding.get("line") is None or finding["line"] != finding["end_line"]:
        return
    for words in _WORDS:
        for reported in (finding.get("hint"), finding.get("remedy")):
            if reported and (found := re.search(words, reported)):
                for written in (found[1], f'"{found[1]}"', f"'{found[1]}'"):
                    yield _put(text, finding, written)


def _put(text: str, place: Finding, written: str) -> str:
    lines = text.split("\n")
    line = lines[place["line"] - 1]
    lines[place["line"] - 1] = line[: place["column"] - 1] + written + line[place["end_column"] - 1 :]
    return "\n".join(lines)


def noted() -> dict[str, list[tuple[str, str]]]:
    """For each case the edits that somebody noted: what is replaced, and what it is replaced by. A case without edits is one
    whose remedy asks for more than a file: its first line says what."""
    cases: dict[str, list[tuple[str, str]]] = {}
    old: list[str] = []
    new: list[str] = []
    name = ""

    def end() -> None:
        if old or new:
            cases[name].append(("\n".join(old), "\n".join(new)))
            old.clear()
            new.clear()

    for line in NOTED.read_text(encoding="utf-8").splitlines():
        if line.startswith("== "):
            end()
            name = line[3:].strip()
            assert name not in cases, f"{name} is noted twice"
            cases[name] = []
        elif line[:1] == "-":
            if new:
                end()
            old.append(line[2:])
        elif line[:1] == "+":
            new.append(line[2:])
    end()
    return cases


def by_hand(edits: Sequence[tuple[str, str]], texts: dict[str, str]) -> dict[str, str]:
    """The files with the noted edits. What is replaced stands once in the case; an edit that replaces nothing adds to the
    end of the pipeline file."""
    for old, new in edits:
        if not old:
            texts = {**texts, "pipeline.yaml": texts["pipeline.yaml"].rstrip("\n") + f"\n{new}\n"}
            continue
        places = [name for name, text in texts.items() for _ in range(text.count(old))]
        assert len(places) == 1, f"{old!r} stands in {places}"
        texts = {**texts, places[0]: texts[places[0]].replace(old, new)}
    return texts
