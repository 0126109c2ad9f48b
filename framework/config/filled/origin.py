"""Where each piece of a rendered text was written.

In: template texts with markers, and the rendered result. Out: a `SourceMap`, which turns positions in the rendered text
into positions in the templates. A marker is an invisible text in private-use characters before each line and around
each expression; it is removed before anything else sees the text.
"""

from __future__ import annotations

import bisect
import re
from dataclasses import dataclass

from framework.config.text import SourceText
from framework.diagnose.diagnostic import Span

_OPEN, _CLOSE = "\ue000", "\ue001"
_MARKER = re.compile(f"{_OPEN}([0-9]+):([0-9]+):([0-9]+):([0-9]+){_CLOSE}")
# Or the rest of the text, where none is closed any more: it is asked for once.
_EXPRESSION = re.compile(r"\{\{(?:.*?(\}\})|.*)", re.DOTALL)
_STATEMENT = re.compile(r"[ \t]*#%")
RESERVED = re.compile("[\ue000-\ue003]")


def marked(text: str, file_index: int) -> str:
    """A template's text with markers: `file:line:column:length`, where length is 0 for literal text."""
    parts: list[str] = []
    line, column, position = 1, 1, 0
    expressions = [match.span() for match in _EXPRESSION.finditer(text) if match[1]]
    expressions.append((len(text), len(text)))
    for start, end in expressions:
        literal = text[position:start]
        for index, piece in enumerate(literal.split("\n")):
            if index:
                parts.append("\n")
                line, column = line + 1, 1
            # A statement's line produces nothing, and a marker before it would stop it from being one.
            starts_statement = column == 1 and _STATEMENT.match(piece)
            at_end = start == len(text) and piece == "" and position + len(literal) == len(text)
            if not starts_statement and not at_end:
                parts.append(f"{_OPEN}{file_index}:{line}:{column}:0{_CLOSE}")
            parts.append(piece)
            column += len(piece)
        expression = text[start:end]
        if expression:
            length = len(expression) if "\n" not in expression else 1
            parts.append(f"{_OPEN}{file_index}:{line}:{column}:{length}{_CLOSE}{expression}")
            line += expression.count("\n")
            column = len(expression) - expression.rfind("\n") if "\n" in expression else column + len(expression)
        position = end
    return "".join(parts)


@dataclass(frozen=True)
class _Piece:
    column: int  # in the rendered line, from 1
    file: int
    line: int
    source_column: int
    length: int  # of the expression; 0 for literal text


@dataclass(frozen=True)
class SourceMap:
    """The map from a rendered text to its templates. `sources` are all templates that took part, in order of use."""

    sources: tuple[SourceText, ...]
    lines: tuple[tuple[_Piece, ...], ...]

    def locate(self, span: Span) -> Span:
        """The place in a template that a place in the rendered text came from; the same span where that is unknown."""
        start = self._piece(span.line, span.column)
        if start is None:
            return span
        file = self.sources[start.file]
        line, column = start.line, _source_column(start, span.column)
        if start.length:
            return file.at(line, column, start.length)
        end = self._piece(span.end_line, max(span.end_column - 1, 1))
        if end is None or end.file != start.file or end.line < line:
            return file.at(line, column, 1)
        end_column = _source_column(end, span.end_column - 1) + max(end.length, 1)
        if (end.line, end_column) <= (line, column):
            return file.at(line, column, 1)
        return Span(file.file, line, column, end.line, end_column)

    def _piece(self, line: int, column: int) -> _Piece | None:
        if not 0 < line <= len(self.lines) or not self.lines[line - 1]:
            return None
        pieces = self.lines[line - 1]
        index = bisect.bisect_right([piece.column for piece in pieces], column) - 1
        return pieces[max(index, 0)]


def _source_column(piece: _Piece, column: int) -> int:
    return piece.source_column if piece.length else piece.source_column + max(column - piece.column, 0)


def strip_markers(text: str, sources: tuple[SourceText, ...]) -> tuple[str, SourceMap]:
    """The rendered text without its markers, and the map that they are."""
    clean: list[str] = []
    lines: list[tuple[_Piece, ...]] = []
    for row in text.split("\n"):
        pieces: list[_Piece] = []
        parts: list[str] = []
        column, position = 1, 0
        for match in _MARKER.finditer(row):
            literal = row[position : match.start()]
            parts.append(literal)
            column += len(literal)
            position = match.end()
            piece = _Piece(column, int(match[1]), int(match[2]), int(match[3]), int(match[4]))
            if pieces and pieces[-1].column == column:
                pieces.pop()
            pieces.append(piece)
        parts.append(row[position:])
        clean.append("".join(parts))
        lines.append(tuple(pieces))
    return "\n".join(clean), SourceMap(sources, tuple(lines))
