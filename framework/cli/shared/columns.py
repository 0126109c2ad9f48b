"""Rows under headings as lines of text, for long lists: a thousand rows in a few milliseconds.

In: headings (several words stand in several lines) and rows of texts. Out: lines in which nothing is cut; what is the
same width on a terminal stands in the same column.
"""

from __future__ import annotations

from collections.abc import Sequence

from rich.cells import cell_len

GAP = " "


def in_columns(
    headings: Sequence[str], rows: Sequence[Sequence[str]], left: frozenset[str] = frozenset(), bold: bool = False
) -> list[str]:
    """The lines of the headings and one of each row.

    Args:
        left: headings of columns that are aligned left.
        bold: write the headings bold, as on a terminal.
    """
    split = [heading.split("\n") for heading in headings]
    height = max(map(len, split), default=0)
    heads = [[words[line] if line < len(words) else "" for words in split] for line in range(height)]
    widths = [max(map(cell_len, column)) for column in zip(*heads, *rows, strict=True)]
    is_left = [heading in left for heading in headings]
    lines = [_line(head, widths, is_left) for head in heads]
    return [*(f"\x1b[1m{line}\x1b[0m" if bold else line for line in lines), *(_line(r, widths, is_left) for r in rows)]


def _line(cells: Sequence[str], widths: Sequence[int], is_left: Sequence[bool]) -> str:
    padded = []
    for cell, width, left in zip(cells, widths, is_left, strict=True):
        space = " " * (width - cell_len(cell))
        padded.append(cell + space if left else space + cell)
    return GAP.join(padded).rstrip()
