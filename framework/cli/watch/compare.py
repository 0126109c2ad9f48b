"""`floe compare TABLE OTHER`: whether two tables, snapshots or branches hold the same rows, and which differ."""

from __future__ import annotations

import json
import sys

import click

from framework.adapters.telemetry.safe_output import log_line
from framework.cli.shared import complete
from framework.cli.shared.dlq_options import parsed_place
from framework.cli.shared.options import json_option
from framework.cli.shared.target_options import load_target_or_raise

DIFFERENT = 10


@click.command()
@click.argument("table", metavar="TABLE", shell_complete=complete.tables)
@click.argument("other", metavar="OTHER", shell_complete=complete.tables)
@click.option(
    "--target", "-t", default=None, help="The target; `local` if you name none.", shell_complete=complete.targets
)
@click.option("--at", default="", metavar="REF", help="A branch, tag or snapshot id of TABLE; main if you name none.")
@click.option("--other-at", default="", metavar="REF", help="The same of OTHER.")
@click.option(
    "--key", "keys", multiple=True, metavar="COLUMN", help="A column by which a row is known; repeat it for several."
)
@click.option(
    "--by",
    type=click.Choice(("position",)),
    help="A row is known by `_kafka_topic`, `_kafka_partition` and `_kafka_offset`, and what differs is shown as offsets.",
)
@click.option("--without", multiple=True, metavar="COLUMN", help="A column that is not compared; repeat it.")
@click.option(
    "--from", "begin", callback=lambda c, p, value: value and parsed_place(c, p, value), metavar="PLACE",
    help="Only rows of this partition, from this offset on: TOPIC-PARTITION@OFFSET.",
)  # fmt: skip
@click.option("--to", type=click.IntRange(1), metavar="OFFSET", help="With --from: only rows before this offset.")
@click.option(
    "--most-rows",
    type=click.IntRange(1_000, 50_000_000),
    default=500_000,
    show_default=True,
    help="How many rows of each table may be looked at closely; they are in memory.",
)
@click.option(
    "--examples",
    type=click.IntRange(0, 1_000),
    default=10,
    show_default=True,
    help="How many rows of each kind to show, with their values; 0 shows none.",
)
@json_option
def compare(
    table: str,
    other: str,
    target: str | None,
    at: str,
    other_at: str,
    keys: tuple[str, ...],
    by: str | None,
    without: tuple[str, ...],
    begin: tuple[str, int, int] | None,
    to: int | None,
    most_rows: int,
    examples: int,
    as_json: bool,
) -> int:
    """Say whether two Iceberg tables hold the same rows, whoever wrote them, and show the rows that differ.

    Two snapshots or branches of one table can be compared as well. Each table is read once, in any order and bounded
    memory; where they differ, once more. Ends with 0 if they are equal and with 10 if not. Changes nothing.

    \b
    floe compare shop.orders shadow.orders -t prod --key order_id
    floe compare shop.orders shadow.orders -t prod --by position --from orders-0@120000 --to 240000
    floe compare shop.orders shop.orders --at audit -t prod
    """
    from framework.adapters.iceberg.row_scan import open_scan
    from framework.commit.events.event_types import SourceRange
    from framework.ops.compare.comparison import POSITION
    from framework.ops.compare.comparison import compare as compared
    from framework.ops.compare.model import Asked
    from framework.ops.compare.text import document, lines
    from framework.runtime.job import open_catalog

    if by and keys:
        raise click.UsageError("--by says by what a row is known; leave out --key")
    if to is not None and begin is None:
        raise click.UsageError("--to needs --from, which names the partition")
    of = None if begin is None else SourceRange(begin[0], "", begin[1], begin[2], sys.maxsize if to is None else to)
    spec = load_target_or_raise(target or "local")
    catalog = open_catalog(spec, spec.catalogs)
    left, right = (open_scan(catalog, *each, of, spec.name) for each in ((table, at), (other, other_at)))
    asked = Asked(POSITION if by else keys, by is not None, without, most_rows, examples)
    found = compared(left, right, asked, lambda text: click.echo(f"  {log_line(text)}", err=True))
    if as_json:
        click.echo(json.dumps(document(found, of), ensure_ascii=False))
    else:
        for line in lines(found):
            click.echo(line)
    return 0 if found.is_equal else DIFFERENT


__all__ = ["compare"]
