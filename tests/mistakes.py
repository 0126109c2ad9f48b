"""Mistakes as people make them, one in a good file each: mistyped words, values of another kind, wrong indentation, lines in
the wrong order, missing or doubled punctuation.

In: a good text, what its JSON Schema says of its keys, and a source of chance. Out: a `Mistake`: the text with one
thing wrong, where a person would look for it, and the word that was meant where one is near.
"""

from __future__ import annotations

import re
import string
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from random import Random
from typing import Any

from framework.config.schema.document_schema import resolved
from framework.config.text import SourceText
from framework.config.tree import Entry, Mapping, Node, Scalar, Sequence, parse, plain
from framework.diagnose.diagnostic import Span

KINDS = {"Pipeline": "pipeline", "Target": "target", "Template": "template"}
SHORTEST_WORD = 4


@dataclass(frozen=True)
class Mistake:
    """One thing wrong in a text.

    Args:
        kind: how it was made.
        lines: the lines that a person would point to.
        columns: the columns of it on its line, where it is one word; None where it is whole lines.
        meant: the word that was there, where a suggestion is owed.
        certain: whether the text must be refused; lines in another order may be right, too.
    """

    kind: str
    what: str
    text: str
    lines: tuple[int, ...]
    columns: tuple[int, int] | None = None
    meant: str | None = None
    certain: bool = True


@dataclass(frozen=True)
class _Place:
    """A key with its value, and the schema of both."""

    entry: Entry
    schema: Any
    siblings: tuple[str, ...]
    known: tuple[str, ...]  # the keys that the schema has beside it


def mistake_in(text: str, chance: Random) -> Mistake | None:
    """One mistake in a good text; None where the one that was drawn has no place in it."""
    tree, _ = parse(SourceText("good.yaml", text))
    if not isinstance(tree, Mapping):
        return None
    kind = tree.get("kind")
    name = KINDS.get(str(kind.value)) if isinstance(kind, Scalar) else None
    places = list(_places(tree, resolved(name or "pipeline"), False))
    drawn = chance.choice(_SLIPS)
    return drawn(text, places, chance)


def _places(node: Node, schema: Any, inside: bool) -> Iterator[_Place]:
    if isinstance(node, Sequence):
        for item in node.items:
            yield from _places(item, schema.get("items", {}) if isinstance(schema, dict) else {}, inside)
    if not isinstance(node, Mapping) or not isinstance(schema, dict):
        return
    known = schema.get("properties", {})
    for entry in node.entries:
        of = known.get(entry.key, schema.get("additionalProperties"))
        yield _Place(entry, of if isinstance(of, dict) else {}, node.keys, tuple(known))
        yield from _places(entry.value, of if isinstance(of, dict) else {}, inside)


# ---- words ---------------------------------------------------------------------------------------------------------


def _slip(word: str, chance: Random) -> str:
    """A word with one letter left out, doubled, replaced or swapped with the next."""
    at = chance.randrange(0, len(word) - 1)
    match chance.randrange(4):
        case 0:
            return word[:at] + word[at + 1 :]
        case 1:
            return word[:at] + word[at] + word[at:]
        case 2:
            return word[:at] + chance.choice(string.ascii_lowercase) + word[at + 1 :]
        case _:
            return word[:at] + word[at + 1] + word[at] + word[at + 2 :]


def _replaced(text: str, span: Span, new: str) -> str:
    lines = text.split("\n")
    line = lines[span.line - 1]
    lines[span.line - 1] = line[: span.column - 1] + new + line[span.end_column - 1 :]
    return "\n".join(lines)


def _mistyped_key(text: str, places: list[_Place], chance: Random) -> Mistake | None:
    found = [one for one in places if one.entry.key in one.known and len(one.entry.key) >= SHORTEST_WORD]
    if not found:
        return None
    place = chance.choice(found)
    span, word = place.entry.key_span, place.entry.key
    new = _slip(word, chance)
    if new in place.known or _written(text, span) != word:
        return None
    columns = (span.column, span.column + len(new))
    return Mistake("mistyped key", f"{word} -> {new}", _replaced(text, span, new), (span.line,), columns, word)


def _written(text: str, span: Span) -> str:
    if span.line != span.end_line:
        return ""
    return text.split("\n")[span.line - 1][span.column - 1 : span.end_column - 1]


def _mistyped_word(text: str, places: list[_Place], chance: Random) -> Mistake | None:
    """A slip in a value that the schema lists, or in the name of a type."""
    found = []
    for one in places:
        value = one.entry.value
        words = one.schema.get("enum", [one.schema["const"]] if "const" in one.schema else [])
        listed = isinstance(value, Scalar) and value.value in words
        typed = isinstance(value, Scalar) and one.schema.get("x-floe-kind") == "iceberg-type"
        if (
            isinstance(value, Scalar)
            and isinstance(value.value, str)
            and value.value.isidentifier()
            and (listed or typed)
        ):
            found.append((value, value.value, tuple(words)))
    found = [one for one in found if len(one[1]) >= SHORTEST_WORD and _written(text, one[0].span) == one[1]]
    if not found:
        return None
    value, word, words = chance.choice(found)
    new = _slip(word, chance)
    if new in words or new == word:
        return None
    columns = (value.span.column, value.span.column + len(new))
    mutated = _replaced(text, value.span, new)
    return Mistake("mistyped value", f"{word} -> {new}", mutated, (value.span.line,), columns, word)


def _mistyped_reference(text: str, places: list[_Place], chance: Random) -> Mistake | None:
    lines = text.split("\n")
    pattern = r"(?:(?:var|param)\.|\b(?:env|file):)([A-Za-z_]{4,})"
    found = [
        (number, one)
        for number, line in enumerate(lines, 1)
        if not line.lstrip().startswith("#") and re.search(r"(?<!\$)\$\{|\{\{", line)
        for one in re.finditer(pattern, line)
    ]
    if not found:
        return None
    number, match = chance.choice(found)
    new = _slip(match[1], chance)
    if new == match[1] or new in text or match[0].startswith(("env", "file")):
        return None
    line = lines[number - 1]
    lines[number - 1] = line[: match.start(1)] + new + line[match.end(1) :]
    columns = (1, len(lines[number - 1]) + 1)
    return Mistake("mistyped reference", f"{match[1]} -> {new}", "\n".join(lines), (number,), columns, match[1])


# ---- kinds ---------------------------------------------------------------------------------------------------------


def _another_kind(text: str, places: list[_Place], chance: Random) -> Mistake | None:
    """A value of another kind than the schema asks for, in the same place."""
    found = []
    for one in places:
        value, types = one.entry.value, one.schema.get("type", "enum" in one.schema and "string")
        types = [types] if isinstance(types, str) else types or []
        if not one.schema or value.span.line != value.span.end_line or value.span.line != one.entry.key_span.line:
            continue
        found += [(one, new) for new in _other_kinds(value, types, _written(text, value.span))]
    if not found:
        return None
    place, new = chance.choice(found)
    span = place.entry.value.span
    columns = (place.entry.key_span.column, span.column + len(new))
    old = _written(text, span)
    return Mistake(
        "another kind", f"{place.entry.key}: {old} -> {new}", _replaced(text, span, new), (span.line,), columns
    )


def _other_kinds(value: Node, types: list[str], written: str) -> list[str]:
    if isinstance(value, Mapping):
        return ["true", "[a, b]", "some"] if types == ["object"] else []
    if isinstance(value, Sequence):
        first = plain(value)[0] if value.items else None
        is_word = isinstance(first, str) and re.fullmatch("[a-z_-]+", first) is not None
        return [
            *([f"{{a: {written}}}"] if "object" not in types else []),
            *([str(first)] if is_word and "string" not in types else []),
        ]
    new = [f"[{written}]"] if "array" not in types and written else []
    new += [f"{{value: {written}}}"] if "object" not in types and written else []
    if {"integer", "number"} & set(types) and "string" not in types:
        new += ["many", "-x"]
    if types == ["boolean"]:
        new += ["yes", "3"]
    if types == ["string"]:
        new += ["12", "true"]
    return new


# ---- lines ---------------------------------------------------------------------------------------------------------


def _content(text: str) -> list[int]:
    """The numbers of lines that say something, from 1."""
    return [n for n, line in enumerate(text.split("\n"), 1) if line.strip() and not line.lstrip().startswith("#")]


def _near(text: str, *numbers: int) -> tuple[int, ...]:
    """These lines, the ones with content before and after them, since of two that do not match either may be wrong, and the
    head of the block that they are in, which lacks what was taken out of it."""
    lines, content = text.split("\n"), _content(text)
    near = set(numbers)
    for number in numbers:
        near |= set([n for n in content if n < number][-1:]) | set([n for n in content if n > number][:1])
        depth = len(lines[number - 1]) - len(lines[number - 1].lstrip())
        near |= set([n for n in content if n < number and len(lines[n - 1]) - len(lines[n - 1].lstrip()) < depth][-1:])
    return tuple(sorted(near))


def _shifted_line(text: str, places: list[_Place], chance: Random) -> Mistake | None:
    lines, content = text.split("\n"), _content(text)
    number = chance.choice(content)
    by = chance.choice((-2, -1, 1, 2))
    line = lines[number - 1]
    if by < 0 and not line.startswith(" " * -by):
        return None
    lines[number - 1] = " " * by + line if by > 0 else line[-by:]
    changed = "\n".join(lines)
    return Mistake("shifted line", f"line {number} by {by}", changed, _near(changed, number), certain=False)


def _block(lines: list[str], number: int) -> int:
    """The last line of the block that begins on a line."""
    depth = len(lines[number - 1]) - len(lines[number - 1].lstrip())
    last = number
    for later in range(number + 1, len(lines) + 1):
        line = lines[later - 1]
        if line.strip():
            if len(line) - len(line.lstrip()) <= depth:
                break
            last = later
    return last


def _shifted_block(text: str, places: list[_Place], chance: Random) -> Mistake | None:
    """A key with all that is below it, in or out by one step."""
    lines, content = text.split("\n"), _content(text)
    number = chance.choice(content)
    last, by = _block(lines, number), chance.choice((-2, 2))
    if last == number or (by < 0 and not lines[number - 1].startswith("  ")):
        return None
    for each in range(number, last + 1):
        lines[each - 1] = " " * by + lines[each - 1] if by > 0 else lines[each - 1][-by:]
    changed = "\n".join(lines)
    return Mistake("shifted block", f"lines {number}-{last} by {by}", changed, _near(changed, number), certain=False)


def _tab(text: str, places: list[_Place], chance: Random) -> Mistake | None:
    indented = [n for n in _content(text) if text.split("\n")[n - 1].startswith("  ")]
    if not indented:
        return None
    lines, number = text.split("\n"), chance.choice(indented)
    lines[number - 1] = "\t" + lines[number - 1].lstrip()
    return Mistake("tab", f"line {number}", "\n".join(lines), (number,), certain=False)


def _moved_line(text: str, places: list[_Place], chance: Random) -> Mistake | None:
    """A line cut out and pasted somewhere else."""
    lines, content = text.split("\n"), _content(text)
    number, before = chance.choice(content), chance.choice(content)
    if before in (number, number + 1):
        return None
    line = lines.pop(number - 1)
    to = before - 1 if before > number else before
    lines.insert(to - 1, line)
    changed = "\n".join(lines)
    near = (*_near(text, number), *_near(changed, to, min(number, len(lines))))
    return Mistake("moved line", f"line {number} to {to}", changed, near, certain=False)


def _swapped_lines(text: str, places: list[_Place], chance: Random) -> Mistake | None:
    lines, content = text.split("\n"), _content(text)
    number = chance.choice(content)
    if number + 1 not in content:
        return None
    lines[number - 1 : number + 1] = lines[number], lines[number - 1]
    changed = "\n".join(lines)
    near = (*_near(text, number, number + 1), *_near(changed, number, number + 1))
    return Mistake("swapped lines", f"lines {number}, {number + 1}", changed, near, certain=False)


def _doubled_line(text: str, places: list[_Place], chance: Random) -> Mistake | None:
    lines, number = text.split("\n"), chance.choice(_content(text))
    lines.insert(number, lines[number - 1])
    return Mistake("doubled line", f"line {number}", "\n".join(lines), (number, number + 1), certain=False)


# ---- punctuation ---------------------------------------------------------------------------------------------------


def _punctuation(text: str, places: list[_Place], chance: Random) -> Mistake | None:
    lines, number = text.split("\n"), chance.choice(_content(text))
    line = lines[number - 1]
    changes = [change for pattern, change in _MARKS if re.search(pattern, line)]
    if "\nkind: Target" in text:  # half a pair of quotes is a part of the value there, as any other character is
        changes = [change for pattern, change in _MARKS if re.search(pattern, line) and pattern != _QUOTES]
    if not changes:
        return None
    new = chance.choice(changes)(line, chance)
    if new == line:
        return None
    lines[number - 1] = new
    changed = "\n".join(lines)
    return Mistake(
        "punctuation", f"`{line.strip()}` -> `{new.strip()}`", changed, _near(changed, number), certain=False
    )


def _without(mark: str) -> Callable[[str, Random], str]:
    def change(line: str, chance: Random) -> str:
        at = chance.choice([one.start() for one in re.finditer(re.escape(mark), line)])
        return line[:at] + line[at + len(mark) :]

    return change


def _with(pattern: str, new: str) -> Callable[[str, Random], str]:
    def change(line: str, chance: Random) -> str:
        one = chance.choice(list(re.finditer(pattern, line)))
        return line[: one.start()] + new + line[one.end() :]

    return change


_QUOTES = r"['\"]"
_MARKS: tuple[tuple[str, Callable[[str, Random], str]], ...] = (
    (r"\w:( |$)", _without(":")),
    (r"\w: ", _with(r"(?<=\w): ", ":")),
    (r"\w:( |$)", _with(r"(?<=\w):(?= |$)", "::")),
    (r"\w:( |$)", _with(r"(?<=\w):(?= |$)", " =")),
    (r"[\]}]", _with(r"[\]}]", "")),
    (r"[\[{]", _with(r"[\[{]", "")),
    (_QUOTES, _with(_QUOTES, "")),
    (r", ", _with(r", ", " ")),
    (r"^ *- ", _with(r"- ", "")),
    (r"^ *- ", _with(r"- ", "-")),
    (r"(['\"])(\*|\{\{)[^'\"]*\1", lambda line, chance: re.sub(r"(['\"])((?:\*|\{\{)[^'\"]*)\1", r"\2", line, count=1)),
)

_SLIPS: tuple[Callable[[str, list[_Place], Random], Mistake | None], ...] = (
    *(_mistyped_key, _mistyped_key, _mistyped_word, _mistyped_word, _mistyped_reference, _another_kind, _another_kind),
    *(_shifted_line, _shifted_block, _tab, _moved_line, _swapped_lines, _doubled_line, _punctuation, _punctuation),
)
