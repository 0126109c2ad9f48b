"""Rules between upsert tables and the rest of a pipeline file: SQL, branches, dead letters, batches in flight.

In: a pipeline's tree. Out: a diagnostic per violation.
"""

from __future__ import annotations

from collections.abc import Iterator

from framework.config.rules.rules import Document, Rule, at, table_policies
from framework.config.rules.upsert.table import upsert_policies
from framework.config.tree import Node, Path, Scalar
from framework.diagnose.diagnostic import Diagnostic


def no_sql(document: Document) -> Iterator[Diagnostic]:
    """The rows of a query no longer say where in its topic each of them stood, so no two of them have an order."""
    sql, found = document.entry("transform", "sql"), next(upsert_policies(document), None)
    if sql is not None and found is not None:
        message = "`transform.sql` gives rows without the order of their records, which upserts need"
        remedy = "remove the query, or write the table in mode `append`"
        yield at("FLOE-C458", message, sql, ("transform", "sql"), remedy)


def on_main(document: Document) -> Iterator[Diagnostic]:
    """Upsert tables are written on the branch `main`."""
    reported: set[Path] = set()
    for found in upsert_policies(document):
        place = found.place("commit", "branch")
        branch, node = document.text(*place), document.node(*place)
        if branch not in (None, "main") and node is not None and place not in reported:
            reported.add(place)
            message = f"an upsert table cannot be written on the branch `{branch}`"
            yield at("FLOE-C455", message, node, place, "use `branch: main`, or remove the key")


def dead_letters_are_appended(document: Document) -> Iterator[Diagnostic]:
    """Every dead letter is a row. A pattern or the defaults never make the table an upsert table; its own name
    cannot."""
    dead_letters = document.text("errors", "dead_letter_table")
    for policy in table_policies(document):
        match, mode = document.text(*policy, "match"), document.node(*policy, "write", "mode")
        is_named = dead_letters and match and not set(match) & set("*?[") and document.names_match(dead_letters, match)
        if is_named and isinstance(mode, Scalar) and mode.value == "upsert":
            message = f"`{dead_letters}` is the dead-letter table, and each dead letter is a row of its own"
            yield at("FLOE-C459", message, mode, (*policy, "write", "mode"), "remove `write`")


def one_batch_in_flight(document: Document) -> Iterator[Diagnostic]:
    """Which rows a batch replaces is known when the batch before it is in the tables, so no second one may wait."""
    path: Path = ("commit", "max_waiting_batches")
    node: Node | None = document.node(*path)
    if next(upsert_policies(document), None) is None or path in document.unresolved or not document.sound(*path):
        return
    if isinstance(node, Scalar) and isinstance(node.value, int) and node.value > 1:
        message = f"a pipeline with an upsert table has one batch waiting at most, not {node.value:,}"
        yield at("FLOE-C461", message, node, path, "remove the key, or write 1")


def partial_updates_have_no_schema(document: Document) -> Iterator[Diagnostic]:
    """A schema gives every record all columns, so nothing shows which of them an update leaves out."""
    source: Path = ("source", "format")
    kind, envelope = document.text(*source, "type") or "json", document.text(*source, "envelope")
    if (kind == "json" and envelope != "connect") or {source, (*source, "type")} & document.unresolved:
        return
    reported: set[Path] = set()
    for found in upsert_policies(document):
        place = found.place("write", "updates")
        node = document.node(*place)
        if document.text(*place) == "partial" and node is not None and place not in reported:
            reported.add(place)
            what = f"`{kind}`" if kind != "json" else "Kafka Connect's JSON with schemas"
            message = f"`updates: partial` is for JSON without schemas: in {what} each record has all columns"
            remedy = (
                "remove it; or let the producer write JSON without schemas (`schemas.enable: false` in Kafka Connect)"
            )
            yield at("FLOE-C463", message, node, place, remedy)


RULES: tuple[Rule, ...] = (
    no_sql,
    partial_updates_have_no_schema,
    on_main,
    dead_letters_are_appended,
    one_batch_in_flight,
)
