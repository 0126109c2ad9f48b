"""Changes a file's text at nodes of its tree; everything else stays as it is, to the byte.

In: a text, nodes of its tree, new texts for them. Out: the changed text. A block ends with its last value, so that
comments and blank lines after it stay.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import accumulate

from framework.config.tree import Entry, Mapping, Node, Scalar, Sequence
from framework.diagnose.diagnostic import Span
from framework.testing.rewriting.emit import block, flow
from framework.testing.values import Plain


@dataclass(frozen=True)
class Edit:
    """The characters [start, end) become `text`. `span` is what they were, for messages."""

    start: int
    end: int
    text: str
    span: Span


class NodePlaces:
    """Where the nodes of a tree are in the text that they were read from."""

    def __init__(self, text: str) -> None:
        self.text = text
        self._starts = [0, *accumulate(len(line) + 1 for line in text.split("\n"))]

    def start(self, node: Node) -> int:
        return self._starts[node.span.line - 1] + node.span.column - 1

    def end(self, node: Node) -> int:
        """One past the last character of a node."""
        if self.is_block(node) and not isinstance(node, Scalar):
            children = [entry.value for entry in node.entries] if isinstance(node, Mapping) else node.items
            return max((self.end(child) for child in children), default=self.start(node))
        start, end = self.start(node), self._starts[node.span.end_line - 1] + node.span.end_column - 1
        return start + len(self.text[start:end].rstrip())

    def is_block(self, node: Node) -> bool:
        return not isinstance(node, Scalar) and self.text[self.start(node) : self.start(node) + 1] not in ("[", "{")

    def line_end(self, offset: int) -> int:
        found = self.text.find("\n", offset)
        return len(self.text) if found < 0 else found

    # ---- edits -------------------------------------------------------------------------------------------------

    def replace(self, node: Node, value: Plain) -> Edit:
        """A value on one line in place of a node."""
        return Edit(self.start(node), self.end(node), flow(value), node.span)

    def replace_entry(self, entry: Entry, value: Plain) -> Edit:
        """A new value for a key, over several lines where the old one was and the new one is worth it."""
        node = entry.value
        if self.is_block(node):
            column = node.span.column - 1
            text = block(value, column)
            if "\n" in text or text.startswith("- "):
                return Edit(self.start(node), self.end(node), text, node.span)
        key_end = self._starts[entry.key_span.end_line - 1] + entry.key_span.end_column - 1
        colon = self.text.index(":", key_end)
        return Edit(colon + 1, max(self.end(node), colon + 1), f" {flow(value)}", node.span)

    def add_entry(self, mapping: Mapping, key: str, value: Plain) -> Edit:
        """One more key at the end of a mapping."""
        if self.is_block(mapping):
            at = self.line_end(self.end(mapping))
            column = mapping.entries[0].key_span.column - 1
            return Edit(at, at, f"\n{' ' * column}{key}: {flow(value)}", mapping.span)
        at = self.end(mapping) - 1
        return Edit(at, at, f"{', ' if mapping.entries else ''}{key}: {flow(value)}", mapping.span)

    def add_item(self, sequence: Sequence, text: str) -> Edit:
        """One more item at the end of a block sequence; the lines of `text` are indented to its column."""
        at = self.line_end(self.end(sequence))
        indent = "\n" + " " * (sequence.span.column - 1)
        return Edit(at, at, indent + text.replace("\n", indent), sequence.span)


def apply(text: str, edits: Iterable[Edit]) -> str:
    """The text with all edits made; they do not overlap."""
    for edit in sorted(edits, key=lambda edit: (edit.start, edit.end), reverse=True):
        text = text[: edit.start] + edit.text + text[edit.end :]
    return text
