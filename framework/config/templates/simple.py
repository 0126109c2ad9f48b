"""Renders the simplest templates without Jinja: loops over lists, conditions, names and a few filters.

In: a template's text and the values that it may use. Out: exactly the text that Jinja would make of them, or None: for
everything else, and wherever something is wrong, Jinja is asked. It saves importing Jinja and compiling a program for
each file, which takes longer than all other checks of the file. Invariant: a text that is given is Jinja's.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from typing import Any, NamedTuple

from framework.late import late_pattern

# What a value may not hold, since it could then leave the quotes around its `{{ }}`.
UNSAFE = late_pattern(r"[\"'\\\x00-\x1f\x7f\x85\u2028\u2029\ue000-\ue003]")
_TAG = late_pattern(r"^[ \t\v]*#%[ \t]*([^\n]*)|\{\{([^\n{}]*)\}\}", re.MULTILINE)
_STATEMENT_END = late_pattern(r"\s*(\n|$)", re.MULTILINE)
_PATH = r"[A-Za-z_][A-Za-z0-9_]*(?:\.[A-Za-z_][A-Za-z0-9_]*)*"
_LITERAL = r"\"[^\"\\\n]*\"|'[^'\\\n]*'|0|[1-9][0-9]{0,8}"
_FOR = late_pattern(rf"for[ \t]+([A-Za-z_][A-Za-z0-9_]*)[ \t]+in[ \t]+(?:({_PATH})|\[([^\[\]]*)\])\Z")
_IF = late_pattern(rf"if[ \t]+(?:(not)[ \t]+)?({_PATH})(?:[ \t]*(==|!=|>=|<=|>|<)[ \t]*({_LITERAL}))?\Z")
_ITEMS = late_pattern(rf"[ \t]*(?:(?:{_LITERAL})[ \t]*(?:,[ \t]*(?:{_LITERAL})[ \t]*)*)?\Z")
_ONE = late_pattern(_LITERAL)
_EXPRESSION = late_pattern(rf"[ \t]*({_PATH})((?:[ \t]*\|[ \t]*[a-z]+(?:\([^()\n|]*\))?)*)[ \t]*\Z")
_FILTER = late_pattern(r"\|[ \t]*([a-z]+)(?:\(([^()\n|]*)\))?")
_COMPARE: dict[str, Callable[[Any, Any], Any]] = {
    "==": operator.eq, "!=": operator.ne, ">": operator.gt, "<": operator.lt, ">=": operator.ge, "<=": operator.le,
}  # fmt: skip
_FILTERS: dict[str, Callable[..., str]] = {"lower": str.lower, "upper": str.upper, "replace": str.replace}
# Words of Jinja's, which are no names, and names that it gives a meaning.
_RESERVED = frozenset(
    [
        "and", "or", "not", "in", "is", "if", "else", "elif", "for", "import", "true", "false", "none", "True", "False", "None",
        "loop", "self", "super", "caller", "varargs", "kwargs", "range", "context", "recursive",
    ]
)  # fmt: skip
_MOST_STEPS, _MOST_CHARACTERS, _MOST_LEVELS = 10_000, 1_000_000, 20  # more than that is Jinja's to count, and to refuse


class _NotSimple(Exception):
    """Jinja must be asked."""


class _Output(NamedTuple):
    path: tuple[str, ...]
    filters: tuple[tuple[str, tuple[str | int, ...]], ...]


class _For(NamedTuple):
    name: str
    items: tuple[str, ...] | list[str | int]  # the path of a list, or one that is written out
    body: tuple[_Part, ...]


class _If(NamedTuple):
    negated: bool
    path: tuple[str, ...]
    compare: str | None
    value: str | int
    body: tuple[_Part, ...]
    other: tuple[_Part, ...]


_Part = str | _Output | _For | _If


def rendered_simply(text: str, context: Mapping[str, object]) -> str | None:
    """The text of a simple template; None where it is not simple, or not without a mistake."""
    program = _program(text)
    if program is None:
        return None
    try:
        run = _Run()
        run.run(program, context)
        return "".join(run.texts)
    except _NotSimple:
        return None


# ---- running ---------------------------------------------------------------------------------------------------------


class _Run:
    def __init__(self) -> None:
        self.steps, self.characters = 0, 0
        self.texts: list[str] = []

    def run(self, parts: tuple[_Part, ...], scope: Mapping[str, object]) -> None:
        for part in parts:
            if isinstance(part, str):
                self.count(len(part))
                self.texts.append(part)
            elif isinstance(part, _Output):
                shown = _shown(part, scope)
                self.count(len(shown))
                self.texts.append(shown)
            elif isinstance(part, _For):
                items = part.items if isinstance(part.items, list) else _value(part.items, scope)
                if type(items) is not list:
                    raise _NotSimple
                for item in items:
                    self.count(0)
                    self.run(part.body, {**scope, part.name: item})
            else:
                self.run(part.body if _holds(part, scope) else part.other, scope)

    def count(self, characters: int) -> None:
        self.steps += 1
        self.characters += characters
        if self.steps > _MOST_STEPS or self.characters > _MOST_CHARACTERS:
            raise _NotSimple


def _value(path: tuple[str, ...], scope: Mapping[str, object]) -> object:
    value: object = scope
    for name in path:
        if not isinstance(value, Mapping) or name not in value:
            raise _NotSimple
        value = value[name]
    return value


def _holds(part: _If, scope: Mapping[str, object]) -> bool:
    value = _value(part.path, scope)
    if part.compare is None:
        return bool(value) is not part.negated
    # Numbers with numbers, text with text; what Python says of other pairs Jinja may say, too, or refuse.
    if isinstance(value, str) is not isinstance(part.value, str) or not isinstance(value, (str, int, float)):
        raise _NotSimple
    return bool(_COMPARE[part.compare](value, part.value))


def _shown(part: _Output, scope: Mapping[str, object]) -> str:
    value = _value(part.path, scope)
    for name, arguments in part.filters:
        if not isinstance(value, str):
            raise _NotSimple
        value = _FILTERS[name](value, *arguments)
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (int, float)):
        return str(value)
    if not isinstance(value, str) or (not (value.isascii() and value.isalnum()) and UNSAFE.search(value)):
        raise _NotSimple
    return value


# ---- reading ---------------------------------------------------------------------------------------------------------


@lru_cache(maxsize=32)
def _program(text: str) -> tuple[_Part, ...] | None:
    """What a template does; kept, since a shared template is used by many files of one command."""
    if "\r" in text:
        return None
    try:
        tags = _tags(text)
        parts, ended = _block(tags, 0)
    except _NotSimple:
        return None
    return None if ended else parts


def _tags(text: str) -> Iterator[str | tuple[str]]:
    """Texts that stand as they are, `_Output` as `("{{", inside)`, and statements as one-tuples."""
    position = 0
    while match := _TAG.search(text, position):
        before = text[position : match.start()]
        if "{{" in before or (before.endswith("{") and match[1] is None):
            raise _NotSimple
        yield before
        if match[1] is None:
            yield ("{{" + match[2],)
            position = match.end()
        else:
            statement = match[1].rstrip()
            end = _STATEMENT_END.match(text, match.start(1) + len(statement))
            assert end is not None
            yield (statement,)
            position = end.end()
    if "{{" in text[position:]:
        raise _NotSimple
    yield text[position:]


def _block(tags: Iterator[str | tuple[str]], level: int) -> tuple[tuple[_Part, ...], str]:
    """The parts up to the statement that ends a block, and that statement; "" at the end of the text."""
    if level > _MOST_LEVELS:
        raise _NotSimple
    parts: list[_Part] = []
    for tag in tags:
        if isinstance(tag, str):
            if tag:
                parts.append(tag)
        elif tag[0].startswith("{{"):
            parts.append(_output(tag[0][2:]))
        elif tag[0] in ("endfor", "endif", "else"):
            return tuple(parts), tag[0]
        elif match := _FOR.match(tag[0]):
            body, ended = _block(tags, level + 1)
            if ended != "endfor" or match[1] in _RESERVED:
                raise _NotSimple
            parts.append(_For(match[1], _path(match[2]) if match[2] else _items(match[3]), body))
        elif match := _IF.match(tag[0]):
            body, ended = _block(tags, level + 1)
            other: tuple[_Part, ...] = ()
            if ended == "else":
                other, ended = _block(tags, level + 1)
            if ended != "endif" or (match[1] and match[3]):
                raise _NotSimple
            value = _literal(match[4]) if match[4] else ""
            parts.append(_If(bool(match[1]), _path(match[2]), match[3], value, body, other))
        else:
            raise _NotSimple
    return tuple(parts), ""


def _output(text: str) -> _Output:
    match = _EXPRESSION.match(text)
    if match is None:
        raise _NotSimple
    filters = []
    for name, written in _FILTER.findall(match[2]):
        if not _ITEMS.match(written):
            raise _NotSimple
        arguments = tuple(_items(written))
        if name in ("lower", "upper"):
            fits = not arguments
        else:
            kinds = [type(argument) for argument in arguments]
            fits = name == "replace" and kinds in ([str, str], [str, str, int]) and arguments[0] != ""
        # A text that grows is Jinja's to bound.
        if not fits or (name == "replace" and len(str(arguments[1])) > len(str(arguments[0]))):
            raise _NotSimple
        filters.append((name, arguments))
    return _Output(_path(match[1]), tuple(filters))


def _path(text: str) -> tuple[str, ...]:
    path = tuple(text.split("."))
    if path[0] in _RESERVED:
        raise _NotSimple
    return path


def _items(text: str) -> list[str | int]:
    if not _ITEMS.match(text):
        raise _NotSimple
    return [_literal(match[0]) for match in _ONE.finditer(text)]


def _literal(text: str) -> str | int:
    return text[1:-1] if text[0] in "\"'" else int(text)
