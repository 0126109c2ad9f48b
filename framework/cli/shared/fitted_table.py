"""A table on a terminal: it fits 100 columns where its words do, and is wider rather than cut a name or a number.

In: a console and a table. Out: the table, printed. Headings of several words stand in two lines.
"""

from __future__ import annotations

from rich.console import Console
from rich.measure import Measurement
from rich.table import Table

FEWEST_COLUMNS = 100


def print_table(console: Console, table: Table) -> None:
    """Print it as wide as it has to be; a pipe has no width of its own."""
    before = console.width
    needed = Measurement.get(console, console.options.update(max_width=10_000), table).maximum
    console.width = max(before, FEWEST_COLUMNS, needed)
    console.print(table)
    console.width = before
