"""Parses the text of a declared type, and writes it: Iceberg's primitives, and lists, maps and structs of them.

In: `list<double>`, `map<string, struct<at: timestamptz, n: long>>`. Out: a primitive's canonical text, `["list",
element]`, `["map", key, value]` or `["struct", [[name, type], ...]]`, as observed types are written
(framework.table.model). A field name that is more than a word is in backquotes. Types that are nested too deeply, or
have too many fields, are refused, so a table can be created from every accepted text.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any

Structure = str | list[Any]
MOST_LEVELS = 16
MOST_FIELDS = 1_000
_PLAIN = frozenset(
    {"boolean", "int", "long", "float", "double", "date", "time", "timestamp", "timestamptz", "timestamp_ns",
     "timestamptz_ns", "string", "uuid", "binary"}
)  # fmt: skip
_NESTED = {"list": "list<string>", "map": "map<string, long>", "struct": "struct<name: string>"}
_TOKEN = re.compile(
    r" *(?:(decimal *\( *\d{1,3} *, *\d{1,3} *\)|fixed *\[ *\d{1,5} *\])|(`[^`]*`)|([<>,:])|([^<>,:`()\[\]]+))"
)
_WORD = re.compile(r"[^<>,:`()\[\]. ]+")


def structure(text: str) -> Structure:
    """What a type's text says.

    Raises:
        ValueError: it is no type; the message says which part of it.
    """
    parser = _TypeParser(text)
    found = parser.type(1)
    parser.end()
    return found


def text_of(kind: Structure) -> str:
    """The text of a structure, as `structure` reads it."""
    if isinstance(kind, str):
        return kind
    if kind[0] == "struct":
        return f"struct<{', '.join(f'{_name(name)}: {text_of(inner)}' for name, inner in kind[1])}>"
    return f"{kind[0]}<{', '.join(map(text_of, kind[1:]))}>"


@lru_cache(maxsize=4096)
def innermost(text: str) -> str:
    """The type of the values in a type's lists and maps: a primitive, or `struct`. Lists and maps add nothing to a
    path."""
    kind = structure(text)
    while isinstance(kind, list) and kind[0] != "struct":
        kind = kind[-1]
    return kind if isinstance(kind, str) else "struct"


def fields_inside(path: str, text: str) -> list[tuple[str, str]]:
    """Each field of the structs of a type with its dotted path, and its type's text."""
    found: list[tuple[str, str]] = []

    def inside(path: str, kind: Structure) -> None:
        if isinstance(kind, str):
            return
        if kind[0] != "struct":
            inside(path, kind[-1])
            return
        for name, inner in kind[1]:
            found.append((f"{path}.{name}", text_of(inner)))
            inside(f"{path}.{name}", inner)

    inside(path, structure(text))
    return found


def _name(name: str) -> str:
    return name if _WORD.fullmatch(name) else f"`{name}`"


class _TypeParser:
    """One pass over the text, one token ahead."""

    def __init__(self, text: str) -> None:
        self._tokens = _tokens(text)
        self._at = 0
        self._fields = 0

    def type(self, level: int) -> Structure:
        if level > MOST_LEVELS:
            raise ValueError(f"types can be nested at most {MOST_LEVELS} levels deep")
        word = self._take("a type")
        if word in _NESTED:
            return self._nested(word, level)
        return primitive(word)

    def _nested(self, word: str, level: int) -> Structure:
        if self._peek() != "<":
            raise ValueError(f"`{word}` must say what it holds: `{_NESTED[word]}`")
        self._at += 1
        if word == "list":
            found: Structure = ["list", self.type(level + 1)]
        elif word == "map":
            key = self.type(level + 1)
            if not isinstance(key, str):
                raise ValueError("the key of a `map` is a primitive type")
            self._expect(",", "a `map` has a key and a value: `map<string, long>`")
            found = ["map", key, self.type(level + 1)]
        else:
            found = ["struct", self._struct(level)]
        self._expect(">", f"`{word}<` has no closing `>`")
        return found

    def _struct(self, level: int) -> list[list[Any]]:
        fields: list[list[Any]] = []
        seen: set[str] = set()
        while True:
            name = self._take("a field's name")
            name = name[1:-1] if name[0] == "`" else name
            if not name.strip() or "." in name:
                raise ValueError(f"`{name}` cannot name a field of a struct: names must not be empty or contain `.`")
            if name.lower() in seen:
                raise ValueError(f"the field `{name}` is in a struct twice")
            seen.add(name.lower())
            self._fields += 1
            if self._fields > MOST_FIELDS:
                raise ValueError(f"a type can have at most {MOST_FIELDS:,} fields")
            self._expect(":", f"the field `{name}` has no type: `struct<{_name(name)}: string>`")
            fields.append([name, self.type(level + 1)])
            if self._peek() != ",":
                return fields
            self._at += 1

    def end(self) -> None:
        if self._at < len(self._tokens):
            raise ValueError(f"`{self._tokens[self._at]}` comes after the end of the type")

    def _peek(self) -> str:
        return self._tokens[self._at] if self._at < len(self._tokens) else ""

    def _take(self, what: str) -> str:
        token = self._peek()
        if token in ("", "<", ">", ",", ":"):
            raise ValueError(f"there is no {what.removeprefix('a ')} {f'before `{token}`' if token else 'at the end'}")
        self._at += 1
        return token

    def _expect(self, token: str, otherwise: str) -> None:
        if self._peek() != token:
            raise ValueError(otherwise)
        self._at += 1


def _tokens(text: str) -> list[str]:
    found, at = [], 0
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            if not text[at:].strip(" "):
                break
            raise ValueError(f"`{text[at:].strip()[:40]}` is not a type")
        found.append(match[0].strip(" "))
        at = match.end()
    return [token for token in found if token]


def primitive(text: str) -> str:
    """The canonical text of a primitive type, as Iceberg's own JSON writes it.

    Raises:
        ValueError: there is no such type.
    """
    word = text.strip(" ")
    if word in _PLAIN:
        return word
    if found := re.fullmatch(r"decimal *\( *(\d+) *, *(\d+) *\)", word):
        precision, scale = int(found[1]), int(found[2])
        if not 1 <= precision <= 38 or scale > precision:
            raise ValueError(
                f"`{text}` is not a valid Iceberg decimal: the precision is 1 to 38, and the scale at most the precision"
            )
        return f"decimal({precision}, {scale})"
    if (found := re.fullmatch(r"fixed *\[ *(\d+) *\]", word)) and int(found[1]):
        return f"fixed[{int(found[1])}]"
    raise ValueError(f"`{text}` is not an Iceberg type")
