"""Source texts and the places in them. In: a file's name and text. Out: lines for excerpts and spans for
diagnostics."""

from __future__ import annotations

from collections.abc import Iterable
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


def masked(source: SourceText, spans: Iterable[Span]) -> SourceText:
    """The same text for people to see, with `*` in place of the characters of some spans (secrets)."""
    lines = list(source.lines)
    for span in spans:
        for number in range(span.line, min(span.end_line, len(lines)) + 1):
            line = lines[number - 1]
            start = span.column - 1 if number == span.line else len(line) - len(line.lstrip())
            end = span.end_column - 1 if number == span.end_line else len(line)
            lines[number - 1] = line[:start] + "*" * (end - start) + line[end:]
    return SourceText(source.file, "\n".join(lines))


def start_of(file: str) -> Span:
    """The first character of a file, for findings about the file as a whole."""
    return Span(file, 1, 1, 1, 2)
