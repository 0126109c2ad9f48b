"""Rows under headings as lines of text, for long lists: a thousand rows in a few milliseconds.

In: headings (several words stand in several lines) and rows of texts. Out: lines in which nothing is cut; what is the
same width on a terminal stands in the same column.
"""

from __future__ import annotations

import shutil
import sys
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


def terminal_width() -> int | None:
    """How wide lines may be; None where they go into a pipe or a file, in which nothing is left out."""
    if not sys.stdout.isatty():
        return None
    return shutil.get_terminal_size().columns


def fitting(
    headings: Sequence[str], rows: Sequence[Sequence[str]], spare: Sequence[str], width: int | None, gap: int = len(GAP)
) -> list[int]:
    """The numbers of the columns that fit into a width. Left out are those of `spare`, the first of them first: before all
    others those in which nothing stands but zeros."""
    widths = [
        max(map(cell_len, (*heading.split("\n"), *column))) for heading, *column in zip(headings, *rows, strict=True)
    ]
    kept = list(range(len(headings)))
    empty = [name for name in spare if not any(row[headings.index(name)] not in ("", "0") for row in rows)]
    for name in dict.fromkeys([*empty, *spare]):
        if width is None or sum(widths[column] + gap for column in kept) - gap <= width:
            break
        kept.remove(headings.index(name))
    return kept


def left_out(headings: Sequence[str], kept: Sequence[int]) -> str:
    """What a narrow terminal does not show."""
    names = [heading.replace("\n", " ").rstrip(" +=") for number, heading in enumerate(headings) if number not in kept]
    return f"  (too narrow for: {', '.join(names)})" if names else ""


def _line(cells: Sequence[str], widths: Sequence[int], is_left: Sequence[bool]) -> str:
    padded = []
    for cell, width, left in zip(cells, widths, is_left, strict=True):
        space = " " * (width - cell_len(cell))
        padded.append(cell + space if left else space + cell)
    return GAP.join(padded).rstrip()
