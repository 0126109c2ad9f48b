"""Parses YAML text into a tree of nodes that know where they were written.

In: a `SourceText`. Out: a `Node`, or diagnostics. The rules are those of YAML 1.2's core schema (`no`, `1:30` and `on`
are text), and stricter: duplicate keys, keys that are not text, merge keys, tags and second documents are refused.
Positions stay beside the data, never in it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from operator import is_
from typing import Any, NamedTuple

import yaml

from framework.config.text import SourceText, start_of
from framework.config.yaml_errors import syntax_error
from framework.diagnose.diagnostic import Diagnostic, Span

ScalarValue = str | int | float | bool | None
_Fast: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_NULL = {"", "~", "null", "Null", "NULL"}
_BOOL = {"true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False}
_INT = re.compile(r"[-+]?[0-9]+\Z")
_OCTAL_HEX = re.compile(r"0o[0-7]+\Z|0x[0-9a-fA-F]+\Z")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?\Z")
_NOT_FINITE = frozenset(
    {*(f"{sign}.{word}" for sign in ("", "-", "+") for word in ("inf", "Inf", "INF")), ".nan", ".NaN", ".NAN"}
)
_WORD = frozenset("abcdeghijklmopqrsuvwxyzABCDEGHIJKLMOPQRSUVWXYZ_$/*")  # without `false`, `null`, `true` and no text
_MAX_NODES = 50_000
_MAX_DEPTH = 100
_SAFE_DEPTH = 500  # levels that the C library composes without a doubt; `_TreeReader` counts them exactly


class Scalar(NamedTuple):
    """A leaf. `plain` is true for a value written without quotes; `text` is then what was written (`1e3` for
    1000.0)."""

    value: ScalarValue
    span: Span
    plain: bool = True
    text: str = ""


class Sequence(NamedTuple):
    items: tuple[Node, ...]
    span: Span


class Entry(NamedTuple):
    key: str
    key_span: Span
    value: Node


class Mapping(NamedTuple):
    entries: tuple[Entry, ...]
    span: Span

    def entry(self, key: str) -> Entry | None:
        for entry in self.entries:
            if entry.key == key:
                return entry
        return None

    def get(self, key: str) -> Node | None:
        found = self.entry(key)
        return found.value if found else None

    @property
    def keys(self) -> tuple[str, ...]:
        return tuple(entry.key for entry in self.entries)


Node = Scalar | Sequence | Mapping
PathPart = str | int
Path = tuple[PathPart, ...]


class _Loader(_Fast):  # type: ignore[misc]  # PyYAML's loaders have no types
    """Gives every value without a tag the same one: what a plain scalar means is decided by `core_value`."""

    # Asked for each node, and nobody looks at the answers: these take as many arguments and cost no call of Python's.
    resolve = slice
    descend_resolver = is_
    ascend_resolver = tuple


# What a named tuple's own `__new__` calls: each node of each file is one, so the step between is left out.
_made: Any = tuple.__new__
_SCALAR, _MAPPING = yaml.ScalarNode, yaml.MappingNode


class _Stop(Exception):
    """Ends the reading of a file whose nesting is out of all bounds."""


def parse(source: SourceText, only: frozenset[str] | None = None) -> tuple[Node | None, list[Diagnostic]]:
    """The tree of a file and what is wrong with its YAML. A None tree means that nothing more can be said.

    Args:
        only: for a template's head before it is rendered: the top keys whose values are wanted. Duplicate keys are then
            no fault, since a `#%` line may stand between them.
    """
    reader = _TreeReader(source, only)
    try:
        _check_depth(source.text)
        documents = list(yaml.compose_all(source.text, Loader=_Loader))
        node = reader.document(documents)
    except yaml.YAMLError as error:
        return None, [*reader.findings, syntax_error(source, error)]
    except (_Stop, RecursionError):
        return None, [
            *reader.findings,
            Diagnostic(
                "FLOE-C107",
                f"the file has more than {_MAX_DEPTH} levels or {_MAX_NODES:,} values",
                start_of(source.file),
                remedy="make it smaller; the content of an alias (`*name`) counts each time",
            ),
        ]
    return node, reader.findings


def _check_depth(text: str) -> None:
    """Stops before the C library composes a tree: it calls itself for each level, and ends the process where that is
    too deep. Its events come one after the other."""
    # A block begins to the right of the one around it, or is a list below its key; a bracket is one level. Most texts
    # cannot be deep, and reading their events would take as long as composing them.
    if 2 * max(map(len, text.split("\n"))) + text.count("[") + text.count("{") < _SAFE_DEPTH:
        return
    depth = 0
    for event in yaml.parse(text, Loader=_Fast):
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
            if depth > _MAX_DEPTH + 1:
                raise _Stop
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1


class _TreeReader:
    def __init__(self, source: SourceText, only: frozenset[str] | None) -> None:
        self.source = source
        self.file = source.file
        self.only = only
        self.has_tags = "!" in source.text
        self.findings: list[Diagnostic] = []
        self.count = 0

    def document(self, documents: list[Any]) -> Node | None:
        if not documents or documents[0] is None:
            message = "the file is empty"
            self.findings.append(
                Diagnostic("FLOE-C110", message, start_of(self.source.file), remedy="begin with `apiVersion: floe/v1`")
            )
            return None
        if len(documents) > 1:
            self.refuse(
                "FLOE-C109",
                "the file holds more than one YAML document",
                documents[1],
                remedy="put each document in a file of its own",
            )
        return self.convert(documents[0], 0)

    def convert(self, node: Any, depth: int) -> Node:
        kind = node.__class__
        if kind is _SCALAR:
            return self.scalar(node)
        # Each collection counts what it holds, so that scalars, which most values are, need no step of their own.
        self.count += len(node.value)
        if (depth >= _MAX_DEPTH and node.value) or self.count >= _MAX_NODES:
            raise _Stop
        if self.has_tags:
            self.check_tag(node)
        if kind is _MAPPING:
            return self.mapping(node, depth)
        deeper = depth + 1
        items = [self.scalar(item) if item.__class__ is _SCALAR else self.convert(item, deeper) for item in node.value]
        return Sequence(tuple(items), self.span(node))

    def mapping(self, node: Any, depth: int) -> Mapping:
        scalar, file = self.scalar, self.file
        entries: dict[str, Entry] = {}
        deeper = depth + 1
        skips = self.only if depth == 0 else None
        for key_node, value_node in node.value:
            key = key_node.value if key_node.__class__ is _SCALAR else None
            if key is None or key == "<<":
                key = self.key(key_node)
                if key is None:
                    continue
            if key in entries and self.only is None:
                first = entries[key].key_span
                self.refuse(
                    "FLOE-C105",
                    f"the key `{key}` is written twice; the first is on line {first.line}",
                    key_node,
                    remedy=f"keep one of them{'; put a second field under `and:`' if key == 'field' else ''}",
                )
                held = entries[key].value
                if not isinstance(held, Scalar) or held.value is not None:
                    continue  # of a line that stands there twice, the lower one has what is below it
            start, end = key_node.start_mark, key_node.end_mark
            line = start.line + 1
            short = end.line < line
            span = _made(Span, (file, line, start.column + 1, line, end.column + 1)) if short else self.span(key_node)
            if skips and key not in skips:
                value: Node = Scalar(None, span)
            else:
                value = scalar(value_node) if value_node.__class__ is _SCALAR else self.convert(value_node, deeper)
            entries[key] = _made(Entry, (key, span, value))
        return Mapping(tuple(entries.values()), self.span(node))

    def key(self, node: Any) -> str | None:
        if node.__class__ is not _SCALAR:
            remedy = (
                'put quotes around it: `"{{ ... }}"`'
                if "{" in self.source.line(node.start_mark.line + 1)
                else "use a plain name"
            )
            self.refuse("FLOE-C106", "a key must be a word, not a list or a mapping", node, remedy=remedy)
            return None
        text: str = node.value
        if text == "<<" and not node.style:
            remedy = "write the keys out, or use a template from `pipelines/templates/`"
            self.refuse("FLOE-C111", "merge keys (`<<`) are not part of YAML 1.2", node, remedy=remedy)
            return None
        return text

    def scalar(self, node: Any) -> Scalar:
        start, end = node.start_mark, node.end_mark
        line = start.line + 1
        short = end.line < line  # as `span` has it, without a call for each value
        span = _made(Span, (self.file, line, start.column + 1, line, end.column + 1)) if short else self.span(node)
        if self.has_tags:
            self.check_tag(node)
        text: str = node.value
        if node.style:  # None or "" for a plain one, as the loader has it
            return _made(Scalar, (text, span, False, ""))  # type: ignore[no-any-return]
        if text[:1] in _WORD:  # what most values are: nothing of what `core_value` looks for begins so
            return _made(Scalar, (text, span, True, text))  # type: ignore[no-any-return]
        if text in _NOT_FINITE:
            self.refuse(
                "FLOE-C112",
                f"`{text}` is not a finite number",
                node,
                remedy="write a number, or put quotes around text",
            )
            return Scalar(0.0, span, text=text)
        return Scalar(core_value(text), span, text=text)

    def check_tag(self, node: Any) -> None:
        start, end = node.start_mark, node.end_mark
        begins = self.source.line(start.line + 1)[start.column : start.column + 1]
        if begins == "!" and (start.line, start.column) != (end.line, end.column):
            remedy = "remove the tag; put quotes around a value that must be text"
            self.refuse("FLOE-C108", "YAML tags are not used in these files", node, remedy=remedy)

    def span(self, node: Any) -> Span:
        start, end = node.start_mark, node.end_mark
        line, end_line, end_column = start.line, end.line, end.column
        if end_line == line:
            return _made(Span, (self.file, line + 1, start.column + 1, line + 1, end_column + 1))  # type: ignore[no-any-return]
        if end_line > line and end_column == 0:  # a block's end mark stands on the line after it
            end_line = max(line, end_line - 1)
            end_column = len(self.source.line(end_line + 1))
        return Span(self.file, line + 1, start.column + 1, end_line + 1, end_column + 1)

    def refuse(self, code: str, message: str, node: Any, remedy: str) -> None:
        self.findings.append(Diagnostic(code, message, self.span(node), remedy=remedy))


def core_value(text: str) -> ScalarValue:
    """A plain scalar by YAML 1.2's core schema; numbers that are not finite stay text."""
    if text in _NULL:
        return None
    if text in _BOOL:
        return _BOOL[text]
    if _INT.match(text):
        return int(text) if len(text) < 4000 else text
    if _OCTAL_HEX.match(text) and len(text) < 1000:
        return int(text, 0)
    if _FLOAT.match(text):
        number = float(text)
        return number if abs(number) != float("inf") else text
    return text


# ---- walking -----------------------------------------------------------------------------------------------------


def plain(node: Node) -> Any:
    """The node's values as dicts, lists and scalars, without places."""
    if isinstance(node, Mapping):
        return {key: value.value if isinstance(value, Scalar) else plain(value) for key, _, value in node.entries}
    if isinstance(node, Sequence):
        return [plain(item) for item in node.items]
    return node.value


def find(node: Node, path: Path) -> Node | None:
    """The node at `path`, or None."""
    for part in path:
        if isinstance(node, Mapping):  # asked tens of thousands of times a run, so the loop is here and not in `entry`
            for key, _, value in node.entries:
                if key == part:
                    node = value
                    break
            else:
                return None
        elif isinstance(node, Sequence) and isinstance(part, int) and part < len(node.items):
            node = node.items[part]
        else:
            return None
    return node


def nearest_span(node: Node, path: Path) -> Span:
    """The span of the node at `path`, or of the last one on the way to it that exists."""
    for part in path:
        following = find(node, (part,))
        if following is None:
            break
        node = following
    return node.span


def leaves(node: Node, path: Path = ()) -> Iterator[tuple[Path, Scalar]]:
    """All scalars with their paths, in the order they were written."""
    if isinstance(node, Mapping):
        for entry in node.entries:
            yield from leaves(entry.value, (*path, entry.key))
    elif isinstance(node, Sequence):
        for index, item in enumerate(node.items):
            yield from leaves(item, (*path, index))
    else:
        yield path, node


def dotted(path: Path) -> str:
    """`("rules", 0, "when")` as `rules[0].when`."""
    text = ""
    for part in path:
        if isinstance(part, int):
            text += f"[{part}]"
        else:
            text += f".{part}" if text else part
    return text
