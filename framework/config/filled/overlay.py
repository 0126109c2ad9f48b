"""Lays one tree over another: targets over pipelines, pipelines over templates, `--set` over everything.

In: two trees. Out: one tree, in which every value keeps the position where it was written. Mappings are merged key by
key; lists and values replace what they cover. `rules+` adds its items behind those of the list `rules` that it covers.
"""

from __future__ import annotations

from framework.config.text import SourceText, start_of
from framework.config.tree import Entry, Mapping, Node, Path, PathPart, Scalar, Sequence, dotted, parse
from framework.diagnose.diagnostic import Diagnostic, Span


def lay_over(base: Node, over: Node) -> Node:
    """`over` on top of `base`."""
    if not (isinstance(base, Mapping) and isinstance(over, Mapping)):
        return over
    entries = {entry.key: entry for entry in base.entries}
    for entry in over.entries:
        if (longer := _longer(entry, entries.get(entry.key.removesuffix("+")), over)) is not None:
            entries[longer.key] = longer
            continue
        below = entries.get(entry.key)
        value = lay_over(below.value, entry.value) if below else entry.value
        joined = below is not None and isinstance(below.value, Mapping) and isinstance(entry.value, Mapping)
        span = below.key_span if below and joined else entry.key_span
        entries[entry.key] = Entry(entry.key, span, value)
    return Mapping(tuple(entries.values()), base.span)


def _longer(entry: Entry, below: Entry | None, over: Mapping) -> Entry | None:
    """The list below with the items of `NAME+` behind its own; None where the entry adds to no list."""
    if not _adds(entry) or below is None or below.key in over.keys or not isinstance(below.value, Sequence):
        return None
    assert isinstance(entry.value, Sequence)
    items = (*below.value.items, *entry.value.items)
    return Entry(below.key, entry.key_span, Sequence(items, entry.value.span))


def _adds(entry: Entry) -> bool:
    return entry.key.endswith("+") and isinstance(entry.value, Sequence)


def _adds_anywhere(node: Mapping) -> bool:
    for key, _, value in node.entries:  # noqa: SIM110  # a generator for each mapping takes twice as long
        if key[-1:] == "+" or (value.__class__ is Mapping and _adds_anywhere(value)):
            return True
    return False


def without_additions(node: Node, path: Path = ()) -> tuple[Node, list[Diagnostic]]:
    """The tree without the `NAME+` that covered no list, which stand for the list itself, and a finding for each."""
    if not isinstance(node, Mapping) or not _adds_anywhere(node):
        return node, []
    entries, findings = [], []
    for entry in node.entries:
        here = (*path, entry.key)
        if entry.key.startswith("x-"):
            entries.append(entry)
        elif _adds(entry):
            name = entry.key.removesuffix("+")
            message = f"`{dotted(here)}` adds to a list, and there is no list `{name}` below this file"
            remedy = (
                f"write `{name}:`; only over a template or from a target can a list be added to, and not to a reference"
            )
            findings.append(Diagnostic("FLOE-C617", message, entry.key_span, path=dotted(here), remedy=remedy))
            if name not in node.keys:  # so that nothing is said of a list that is missing
                entries.append(Entry(name, entry.key_span, entry.value))
        else:
            value, found = without_additions(entry.value, here)
            entries.append(Entry(entry.key, entry.key_span, value))
            findings += found
    return (Mapping(tuple(entries), node.span), findings) if findings else (node, [])


def without(node: Mapping, *keys: str) -> Mapping:
    """The mapping without some keys."""
    left_out = frozenset(keys)
    return Mapping(tuple(entry for entry in node.entries if entry.key not in left_out), node.span)


def apply_set(tree: Node, path_text: str, value_text: str) -> tuple[Node, SourceText, list[Diagnostic]]:
    """The tree with one value replaced, as `--set path=value` asks; also the option as a source, for excerpts."""
    source = SourceText(f"--set {path_text}", f"{path_text}={value_text}")
    path = parse_path(path_text)
    whole = Span(source.file, 1, 1, 1, len(path_text) + 1)
    if path is None:
        remedy = "write keys with dots between them, and `[0]` for list items, such as `tables.overrides[0].commit.interval=10s`"
        return tree, source, [Diagnostic("FLOE-C310", f"`{path_text}` is not a path in a file", whole, remedy=remedy)]
    value, findings = parse(SourceText(source.file, " " * (len(path_text) + 1) + value_text))
    if not value_text.strip():
        value, findings = Scalar("", start_of(source.file)), []
    if value is None or findings:
        return tree, source, findings
    changed = _put(tree, path, value, whole)
    if changed is None:
        remedy = "list items must exist, and keys must be inside mappings"
        return (
            tree,
            source,
            [Diagnostic("FLOE-C310", f"there is no place `{dotted(path)}` in the file", whole, remedy=remedy)],
        )
    return changed, source, []


def parse_path(text: str) -> Path | None:
    """`a.b[0].c` as ("a", "b", 0, "c"); None when it is not of that form. Keys with dots are written in quotes:
    `a."b.c"`."""
    parts: list[PathPart] = []
    rest = text
    while rest:
        if rest.startswith("["):
            number, closed, rest = rest[1:].partition("]")
            if not closed or not number.isdecimal():
                return None
            parts.append(int(number))
        elif rest.startswith('"'):
            key, closed, rest = rest[1:].partition('"')
            if not closed or not key:
                return None
            parts.append(key)
        else:
            end = min((at for at in (rest.find("."), rest.find("[")) if at >= 0), default=len(rest))
            if end == 0:
                return None
            parts.append(rest[:end])
            rest = rest[end:]
        if rest.startswith("."):
            rest = rest[1:]
            if not rest:
                return None
        elif rest and not rest.startswith("["):
            return None
    return tuple(parts) or None


def _put(node: Node | None, path: Path, value: Node, span: Span) -> Node | None:
    if not path:
        return value
    first, rest = path[0], path[1:]
    if isinstance(first, int):
        if not isinstance(node, Sequence) or first >= len(node.items):
            return None
        changed = _put(node.items[first], rest, value, span)
        if changed is None:
            return None
        return Sequence((*node.items[:first], changed, *node.items[first + 1 :]), node.span)
    if node is None:
        node = Mapping((), span)
    if not isinstance(node, Mapping):
        return None
    entry = node.entry(first)
    changed = _put(entry.value if entry else None, rest, value, span)
    if changed is None:
        return None
    if entry is None:
        return Mapping((*node.entries, Entry(first, span, changed)), node.span)
    entries = tuple(Entry(e.key, e.key_span, changed) if e is entry else e for e in node.entries)
    return Mapping(entries, node.span)
