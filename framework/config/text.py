"""Source texts and the places in them. In: a file's name and text. Out: lines for excerpts and spans for diagnostics."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from framework.diagnose.diagnostic import Span


@dataclass(frozen=True)
class SourceText:
    """One file as read. `file` is the name shown to people."""

    file: str
    text: str

    @cached_property
    def lines(self) -> list[str]:
        return self.text.split("\n")

    def line(self, number: int) -> str:
        """The text of a line, counted from 1, without its end; "" outside the file."""
        return self.lines[number - 1].rstrip("\r") if 0 < number <= len(self.lines) else ""

    def at(self, line: int, column: int, length: int = 1) -> Span:
        """A span of `length` characters on one line."""
        return Span(self.file, line, column, line, column + max(length, 1))

    def at_offset(self, offset: int, length: int = 1) -> Span:
        """A span of `length` characters that begins `offset` characters into the text."""
        before = self.text[:offset]
        line = before.count("\n") + 1
        return self.at(line, offset - (before.rfind("\n") + 1) + 1, length)


def start_of(file: str) -> Span:
    """The first character of a file, for findings about the file as a whole."""
    return Span(file, 1, 1, 1, 2)
