"""The words of the field are used, and words of our own are not: Kafka's, Spark's and Iceberg's names for things.

`WORDS` is the one list: what not to write, what to write instead, and why. It holds for identifiers, docstrings and
comments of `framework` and for the pages of `docs`. A place where such a word is the right one is listed with it.
"""

from __future__ import annotations

import io
import re
import tokenize
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
CODE = ROOT / "framework"
DOCS = ROOT / "docs"


@dataclass(frozen=True)
class Word:
    """`pattern` is searched, without regard to case, in prose as it stands and in identifiers with their parts apart.
    `allowed` are texts in which the word is right: a line that holds one of them is passed over."""

    pattern: str
    instead: str
    why: str
    allowed: tuple[str, ...] = field(default=())


WORDS = (
    Word("seats?", "coordinator leadership", "Kafka calls it leadership of a partition"),
    Word("goes round|went round", "leadership changes", "a figure of speech that nobody looks for"),
    Word(
        "told|tells",
        "published, reported; distinguished",
        "one verb for events, messages and differences says none of them",
    ),
    Word("follows? (its|their) keys", "upsert table", "`write.mode: upsert` is the setting's name"),
    Word(
        "keyed",
        "upsert",
        "`write.mode: upsert` is the setting's name",
        (
            "keyed by",  # a mapping is keyed by something
            "`keyed`",  # the field of control events, and what carries it
        ),
    ),
    Word(
        "tombstone files?|files? of tombstones",
        "file of deleted keys",
        "a tombstone is Kafka's record without a value, and nothing else",
    ),
    Word("(pieces?|slices?|spans?) of offsets", "offset range", "Spark's Kafka source calls it an offset range"),
    Word("condemned|careful", "poison record, isolation", "messaging systems call it a poison record"),
    Word("desks?", "backend", "it is what serves the page"),
    Word(
        "standing",
        "status",
        "it is a run's status",
        ("standing still",),  # progress that stands still
    ),
    Word(
        "patience|patient",
        "retry policy, time-out",
        "clients of Kafka have retries and time-outs",
        ("unknown.schema.patience.ms",),  # a key of the target file
    ),
    Word("veils?|sightings?", "mask, sample", "data is masked, records are sampled"),
    Word(
        "mend|mends|mended|mending",
        "repair",
        "Spark and Iceberg repair tables",
    ),
    Word(
        "dangers?",
        "risk (of what runs), breaking change (of a plan)",
        "it says which of the two",
        ("`dangers`",),  # a key of `floe status --json`
    ),
)

# Identifiers in which the word is right, whatever it is elsewhere.
NAMES = {
    "keyed": "the field of control events, whose name is on the wire, and values that carry it",
}


def apart(name: str) -> str:
    """An identifier as words: `_toldAt_ms` is `told at ms`."""
    return " ".join(re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z0-9]+", name)).lower()


def identifiers_and_prose(text: str) -> Iterator[tuple[int, str, bool]]:
    """Line, text and whether it is an identifier, of the names, docstrings and comments of a module."""
    before = tokenize.NEWLINE
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.NAME:
            yield token.start[0], token.string, True
        elif token.type == tokenize.COMMENT or (
            token.type == tokenize.STRING and before in (tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT)
        ):
            for number, line in enumerate(token.string.splitlines(), token.start[0]):
                yield number, line, False
        if token.type not in (tokenize.COMMENT, tokenize.NL):
            before = token.type


def is_found(word: Word, text: str, is_name: bool) -> bool:
    if is_name:
        return text not in NAMES and re.search(rf"\b({word.pattern})\b", apart(text)) is not None
    for right in word.allowed:
        text = text.replace(right, "")
    return re.search(rf"(?<![\w-])({word.pattern})(?![\w-])", text, re.IGNORECASE) is not None


@cache
def everything() -> tuple[dict[str, str], list[tuple[str, str]]]:
    """The first place of each identifier of `framework`, and each line of prose with its place."""
    names: dict[str, str] = {}
    prose = []
    for path in sorted(CODE.rglob("*.py")):
        for line, text, is_name in identifiers_and_prose(path.read_text(encoding="utf-8")):
            place = f"{path.relative_to(ROOT)}:{line}"
            if is_name:
                names.setdefault(text, place)
            else:
                prose.append((place, text))
    for path in sorted(DOCS.rglob("*.md")):
        lines = path.read_text(encoding="utf-8").splitlines()
        prose += [(f"{path.relative_to(ROOT)}:{line}", text) for line, text in enumerate(lines, 1)]
    return names, prose


def found(word: Word) -> list[str]:
    names, prose = everything()
    return [f"{place}: {name}" for name, place in names.items() if is_found(word, name, True)] + [
        f"{place}: {text.strip()}" for place, text in prose if is_found(word, text, False)
    ]


@pytest.mark.parametrize("word", WORDS, ids=lambda word: word.pattern)
def test_a_word_of_our_own_is_not_used(word: Word) -> None:
    """Identifiers, docstrings, comments and pages say it as the field does."""
    assert found(word) == [], f"say: {word.instead} ({word.why})"


@pytest.mark.parametrize(
    ("text", "is_name", "is_wrong"),
    [
        ("CoordinatorSeat", True, True),
        ("_told_at_ms", True, True),
        ("seatbelt", True, False),
        ("keyed", True, False),
        ("keyed_rows", True, True),
        ("It is told at once.", False, True),
        ("`unknown.schema.patience.ms` is waited for.", False, False),
        ("Metrics are keyed by field.", False, False),
        ("A table that follows its keys.", False, True),
    ],
)
def test_the_check_sees_words_in_names_and_prose(text: str, is_name: bool, is_wrong: bool) -> None:
    """The check can fail, and passes over places where the word is right."""
    assert any(is_found(word, text, is_name) for word in WORDS) is is_wrong


def test_each_exception_is_needed() -> None:
    """A place where a word is right is taken off the list once nobody writes it any more."""
    _, prose = everything()
    allowed = [right for word in WORDS for right in word.allowed]
    assert [right for right in allowed if not any(right in text for _, text in prose)] == []
