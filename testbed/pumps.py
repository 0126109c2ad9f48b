"""Texts that keep a regular expression busy, and every expression that floe has.

In: the modules of floe; an expression. Out: the expressions with the way they are used, read from the source; for one of
them texts of a length, each a repeated part of it after what leads there. Nothing here decides what is too slow.
"""

from __future__ import annotations

import ast
import importlib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from re import _constants as sre  # type: ignore[attr-defined]  # the standard library's parser has no public name
from re import _parser as sre_parse  # type: ignore[attr-defined]
from typing import Any

ROOT = Path(__file__).parents[1]
_SEARCHING = frozenset({"search", "finditer", "findall", "sub", "subn", "split"})
_METHODS = _SEARCHING | {"match", "fullmatch"}
# After a pump: what the expression does not expect there, of several kinds.
_BREAKS = ("", "\x00", '"')


@dataclass(frozen=True)
class Expression:
    """`text` is of bytes for an expression over bytes."""

    module: str
    text: Any
    flags: int
    is_searched: bool


def expressions() -> list[Expression]:
    """Every expression in the source of floe: those with a name in a module, and those that stand where they are used."""
    found: dict[tuple[str, object, int], Expression] = {}
    for file in sorted((ROOT / "framework").rglob("*.py")):
        source = file.read_text(encoding="utf-8")
        if "re." not in source:
            continue
        module = ".".join(file.relative_to(ROOT).with_suffix("").parts)
        for each in (*_named(module, source), *_inline(module, source)):
            key = (each.module, each.text, each.flags)
            if key not in found or each.is_searched:
                found[key] = each
    return list(found.values())


def _named(module: str, source: str) -> Iterator[Expression]:
    tree = ast.parse(source)
    names = {
        target.id
        for node in tree.body
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call) and _called(node.value) in _MAKERS
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    if not names:
        return
    held = vars(importlib.import_module(module))
    for name in sorted(names):
        pattern = held[name]
        flags = pattern.flags if isinstance(pattern, re.Pattern) else pattern._flags
        # One that other modules use as well is taken for searched.
        uses = set(re.findall(rf"\b{name}\.(\w+)\(", source)) & _METHODS
        is_searched = not uses or bool(uses & _SEARCHING)
        yield Expression(module, pattern.pattern, flags & ~re.UNICODE, is_searched)


_MAKERS = frozenset({"re.compile"})


def _called(node: ast.Call) -> str:
    return ast.unparse(node.func)


def _inline(module: str, source: str) -> Iterator[Expression]:
    held = vars(importlib.import_module(module))
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.Call) or not node.args or not _called(node).startswith("re."):
            continue
        method, first = _called(node).removeprefix("re."), node.args[0]
        text = (
            first.value
            if isinstance(first, ast.Constant)
            else held.get(first.id)
            if isinstance(first, ast.Name)
            else None
        )
        if method in _METHODS and isinstance(text, str | bytes):
            flags = 0
            for part in (*node.args[2:], *(word.value for word in node.keywords)):
                for name in re.findall(r"re\.([A-Z]+)", ast.unparse(part)):
                    flags |= getattr(re, name)
            yield Expression(module, text, flags, method in _SEARCHING)


def pumps(each: Expression, length: int) -> Iterator[str]:
    """Texts of about this length: each part of the expression again and again, after what leads to it, and before what
    it does not expect."""
    text = each.text.decode("latin-1") if isinstance(each.text, bytes) else each.text
    seen = set()
    for before, part in _parts(list(sre_parse.parse(text, each.flags))):
        if not part or (before, part) in seen:
            continue
        seen.add((before, part))
        for repeated in dict.fromkeys((part, before + part)):
            body = repeated * (length // len(repeated))
            for end in _BREAKS:
                yield before + body + end


def _parts(nodes: list[Any], before: str = "") -> Iterator[tuple[str, str]]:
    """What leads to a part, and the part: for each that repeats, and for the beginnings of the sequence."""
    so_far = before
    for at, node in enumerate(nodes):
        kind, argument = node
        for inner in _inner(kind, argument):
            yield from _parts(list(inner), so_far)
        if kind in _REPEATS:
            for sample in _samples(argument[2]):
                yield so_far, sample
            if at + 1 < len(nodes):  # with what follows, so that it is nearly a match each time
                yield before, _sample(nodes[: at + 1])
        so_far += _one(node)
        yield before, so_far[len(before) :]


_REPEATS = {sre.MAX_REPEAT, sre.MIN_REPEAT, *({sre.POSSESSIVE_REPEAT} if hasattr(sre, "POSSESSIVE_REPEAT") else set())}


def _inner(kind: Any, argument: Any) -> Iterator[Any]:
    if kind in _REPEATS:
        yield argument[2]
    elif kind is sre.SUBPATTERN:
        yield argument[3]
    elif kind is sre.BRANCH:
        yield from argument[1]
    elif kind in (sre.ASSERT, sre.ASSERT_NOT):
        yield argument[1]
    elif kind is getattr(sre, "ATOMIC_GROUP", None):
        yield argument


def _sample(nodes: Any) -> str:
    return "".join(_one(node) for node in nodes)


def _samples(nodes: Any) -> list[str]:
    """Of one node each character class is tried with several characters, so that another part of the expression may
    take them as well."""
    nodes = list(nodes)
    if len(nodes) == 1 and nodes[0][0] in (sre.IN, sre.NOT_LITERAL, sre.ANY):
        accepted = re.compile(_one_class(nodes[0]), re.DOTALL)
        return [each for each in "a1A_ .-\"'\\=:$({[<`,/@+\t" if accepted.fullmatch(each)] or [_one(nodes[0])]
    return [_sample(nodes)]


def _one(node: Any) -> str:
    kind, argument = node
    if kind is sre.LITERAL:
        return chr(argument)
    if kind in (sre.IN, sre.NOT_LITERAL, sre.ANY):
        return _member(_one_class(node))
    if kind in _REPEATS:
        return _sample(argument[2]) * max(argument[0], 1)
    if kind is sre.SUBPATTERN:
        return _sample(argument[3])
    if kind is sre.BRANCH:
        return _sample(argument[1][0])
    if kind is getattr(sre, "ATOMIC_GROUP", None):
        return _sample(argument)
    return ""


@cache
def _member(character_class: str) -> str:
    """A character of the class, a letter if there is one."""
    accepted = re.compile(character_class)
    likely = (*range(97, 123), *range(32, 127))
    return next((each for each in map(chr, (*likely, *range(0x110000))) if accepted.fullmatch(each)), "")


_CATEGORIES = {
    sre.CATEGORY_DIGIT: r"\d", sre.CATEGORY_NOT_DIGIT: r"\D", sre.CATEGORY_SPACE: r"\s", sre.CATEGORY_NOT_SPACE: r"\S",
    sre.CATEGORY_WORD: r"\w", sre.CATEGORY_NOT_WORD: r"\W",
}  # fmt: skip


def _one_class(node: Any) -> str:
    kind, argument = node
    if kind is sre.ANY:
        return r"[^\n]"
    if kind is sre.NOT_LITERAL:
        return f"[^{_escaped(argument)}]"
    inner = ""
    for what, value in argument:
        if what is sre.NEGATE:
            inner += "^"
        elif what is sre.LITERAL:
            inner += _escaped(value)
        elif what is sre.RANGE:
            inner += f"{_escaped(value[0])}-{_escaped(value[1])}"
        elif what is sre.CATEGORY:
            inner += _CATEGORIES[value]
    return f"[{inner}]"


def _escaped(code: int) -> str:
    return f"\\U{code:08x}"
