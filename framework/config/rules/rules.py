"""Rules between the values of one pipeline file, which no JSON Schema can state.

In: a tree whose references are resolved, and the target. Out: a diagnostic per violation. Each rule is one generator
whose docstring is its documentation; each looks at what is there and says nothing about values that the schema refuses.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property

from framework.config.names.table_names import matches_glob
from framework.config.spec import TargetSpec
from framework.config.tree import Entry, Mapping, Node, Path, PathPart, Scalar, Sequence, dotted
from framework.diagnose.diagnostic import Diagnostic, Severity


@dataclass(frozen=True)
class Document:
    """A tree with questions that rules ask of it. All answers are empty where the tree is malformed or unresolved."""

    tree: Mapping
    target: TargetSpec | None
    unresolved: frozenset[Path] = frozenset()
    refused: frozenset[str] = frozenset()  # dotted paths that the schema has spoken of

    def text(self, *path: str | int) -> str | None:
        """The text at a path; None where there is none or where it is a reference without a value."""
        node = self.nodes.get(path)
        if node.__class__ is not Scalar or node.value.__class__ is not str or path in self.unresolved:
            return None
        if self.refused and dotted(path) in self.refused:
            return None
        return node.value

    def sound(self, *path: str | int) -> bool:
        """Whether the schema has nothing against the value at a path or inside it."""
        return dotted(path) not in self._unsound

    @cached_property
    def _unsound(self) -> frozenset[str]:
        """The refused paths, and those that they are inside of."""
        ends = ((path, end) for path in self.refused for end in range(1, len(path)) if path[end] in ".[")
        return self.refused | {path[:end] for path, end in ends}

    def texts(self, *path: str | int) -> tuple[tuple[Path, str], ...]:
        """The items of a list that are text, each with its path."""
        return tuple([(where, text) for where, _ in self.items(*path) if (text := self.text(*where)) is not None])

    def node(self, *path: str | int) -> Node | None:
        """The node at a path."""
        return self.nodes.get(path)

    @cached_property
    def nodes(self) -> dict[Path, Node]:
        """All nodes by their paths, in the order of the file: rules ask some hundred times, and a walk is one."""
        found: dict[Path, Node] = {}
        _add_nodes(self.tree, (), found)
        return found

    def entry(self, *path: str | int) -> Entry | None:
        parent = self.nodes.get(path[:-1])
        return parent.entry(str(path[-1])) if isinstance(parent, Mapping) else None

    def names_match(self, name: str, pattern: str) -> bool:
        """Whether a table's name, or the beginning of one, matches a pattern under the `case` policy."""
        if (self.text("tables", "defaults", "case") or "insensitive") == "insensitive":
            name, pattern = name.lower(), pattern.lower()
        return matches_glob(name, pattern)

    def mapping(self, *path: str | int) -> tuple[Entry, ...]:
        node = self.nodes.get(path)
        return node.entries if isinstance(node, Mapping) else ()

    def items(self, *path: str | int) -> tuple[tuple[Path, Node], ...]:
        """The items of a list, each with its path."""
        node = self.nodes.get(path)
        if not isinstance(node, Sequence):
            return ()
        return tuple([((*path, index), item) for index, item in enumerate(node.items)])

    @cached_property
    def policies(self) -> tuple[Path, ...]:
        """The paths of the table policies; many rules go through them."""
        return (("tables", "defaults"), *(path for path, _ in self.items("tables", "overrides")))

    @cached_property
    def policy_keys(self) -> frozenset[str]:
        """What any policy says something of: rules about all else have nothing to look at."""
        return frozenset(entry.key for policy in self.policies for entry in self.mapping(*policy))


@dataclass(frozen=True)
class DoubtfulDocument(Document):
    """A tree of which the schema has refused parts. What rules ask of those is noted: nobody knows what was meant there,
    so what a rule concludes from it would be a second finding for one cause.

    Invariant: `doubts` holds each path at or inside a refused one that was asked for since it was last cleared.
    """

    doubts: list[Path] = field(default_factory=list)

    def text(self, *path: str | int) -> str | None:
        self._note(path)
        return super().text(*path)

    def node(self, *path: str | int) -> Node | None:
        self._note(path)
        return super().node(*path)

    def entry(self, *path: str | int) -> Entry | None:
        self._note(path)
        return super().entry(*path)

    def mapping(self, *path: str | int) -> tuple[Entry, ...]:
        self._note(path)
        return super().mapping(*path)

    def items(self, *path: str | int) -> tuple[tuple[Path, Node], ...]:
        self._note(path)
        return super().items(*path)

    def _note(self, path: Path) -> None:
        if any(dotted(path[:end]) in self.refused for end in range(1, len(path) + 1)):
            self.doubts.append(path)


def _add_nodes(node: Node, path: Path, found: dict[Path, Node]) -> None:
    found[path] = node
    inner: Iterable[tuple[PathPart, Node]] = ()
    if isinstance(node, Mapping):
        inner = [(key, value) for key, _, value in node.entries]
    elif isinstance(node, Sequence):
        inner = enumerate(node.items)
    for part, value in inner:
        where = (*path, part)
        if value.__class__ is Scalar:
            found[where] = value
        else:
            _add_nodes(value, where, found)


Rule = Callable[[Document], Iterator[Diagnostic]]


def findings_of(rules: Iterable[Rule], document: Document) -> Iterator[Diagnostic]:
    """What the rules find, without what follows from something that the schema has refused already."""
    for rule in rules:
        if not isinstance(document, DoubtfulDocument):
            yield from rule(document)
            continue
        document.doubts.clear()
        for finding in rule(document):
            if all(_of_another_item(doubt, finding.path) for doubt in map(dotted, document.doubts)):
                yield finding


_ITEM = re.compile(r"\[[0-9]+\]|(?<=^source\.schema)\..*$")


def _of_another_item(doubt: str, path: str) -> bool:
    """Whether a doubt is about another item of a list than a path, or about another declared field: each stands for itself."""
    pairs = zip(_ITEM.finditer(doubt), _ITEM.finditer(path), strict=False)
    return any(one[0] != other[0] and doubt[: one.start()] == path[: other.start()] for one, other in pairs)


def at(
    code: str,
    message: str,
    node: Node | Entry,
    path: Path,
    remedy: str,
    hint: str | None = None,
    severity: Severity = Severity.ERROR,
) -> Diagnostic:
    """A finding at a value, or at a key."""
    span = node.key_span if isinstance(node, Entry) else node.span
    # A quoted name in quotes.
    shown, way = (re.sub(r"``(?=\S)|(?<=\S)``", "`", text) for text in (message, remedy))
    return Diagnostic(code, shown, span, severity, dotted(path), hint, way)


def table_policies(document: Document) -> Iterator[Path]:
    """The paths of the table policies of a file: the defaults and each override."""
    return iter(document.policies)
