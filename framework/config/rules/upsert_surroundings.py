"""Rules between upsert tables and the rest of a pipeline file: SQL, branches, dead letters, histories, batches in
flight.

In: a pipeline's tree. Out: a diagnostic per violation.
"""

from __future__ import annotations

from collections.abc import Iterator

from framework.config.rules.rules import Document, Rule, at, table_policies
from framework.config.rules.upsert import UpsertPolicy, upsert_policies
from framework.config.tree import Node, Path, Scalar
from framework.diagnose.diagnostic import Diagnostic

_DEFAULTS: Path = ("tables", "defaults")


def no_sql(document: Document) -> Iterator[Diagnostic]:
    """The rows of a query no longer say where in its topic each of them stood, so no two of them have an order."""
    sql, found = document.entry("transform", "sql"), next(upsert_policies(document), None)
    if sql is not None and found is not None:
        message = "`transform.sql` gives rows without the order of their records, which upserts need"
        remedy = "remove the query, or write the table in mode `append`"
        yield at("FLOE-C458", message, sql, ("transform", "sql"), remedy)


def on_main(document: Document) -> Iterator[Diagnostic]:
    """Upsert tables are written on the branch `main`."""
    told: set[Path] = set()
    for found in upsert_policies(document):
        place = found.place("commit", "branch")
        branch, node = document.text(*place), document.node(*place)
        if branch not in (None, "main") and node is not None and place not in told:
            told.add(place)
            message = f"an upsert table cannot be written on the branch `{branch}`"
            yield at("FLOE-C455", message, node, place, "use `branch: main`, or remove the key")


def history_is_apart(document: Document) -> Iterator[Diagnostic]:
    """A history is a table of its own, inside `allow_tables`, to which every change is appended."""
    told: set[Path] = set()
    for found in upsert_policies(document):
        place = found.place("write", "history")
        history, node = document.text(*place), document.node(*place)
        if history is None or node is None or place in told:
            continue
        told.add(place)
        if reason := _no_history(document, found, history):
            yield at("FLOE-C456", f"`{history}` cannot be the history: {reason[0]}", node, place, reason[1])


def _no_history(document: Document, found: UpsertPolicy, history: str) -> tuple[str, str] | None:
    """Why a table cannot hold the history, and the remedy."""
    if any(document.names_match(history, table) for table in _tables_of(document, found.policy)):
        return "it is the table itself", "choose another table"
    letters = document.text("errors", "dead_letter_table")
    if letters and document.names_match(history, letters):
        return "it is the dead-letter table", "choose another table"
    globs = [text for path, _ in document.items("routes", "allow_tables") if (text := document.text(*path))]
    if globs and not any(document.names_match(history, glob) for glob in globs):
        return "it is not inside `routes.allow_tables`", f'add "{history}" to `allow_tables`'
    if UpsertPolicy(document, policy_of(document, history)).text("write", "mode") == "upsert":
        remedy = f"put first into `overrides`: `{{match: {history}, write: {{mode: append}}}}`"
        return "it is an upsert table", remedy
    return None


def _tables_of(document: Document, policy: Path) -> list[str]:
    """The tables that routes name as they are and that have the policy."""
    tables = (document.text(*path, "table") for path, _ in document.items("routes", "rules"))
    return [table for table in tables if table and "{" not in table and policy_of(document, table) == policy]


def policy_of(document: Document, table: str) -> Path:
    """The path of the policy that a table has: the first override that matches, or the defaults."""
    for path, _ in document.items("tables", "overrides"):
        glob = document.text(*path, "match")
        if glob is not None and document.names_match(table, glob):
            return path
    return _DEFAULTS


def dead_letters_are_appended(document: Document) -> Iterator[Diagnostic]:
    """Every dead letter is a row. A pattern or the defaults never make the table an upsert table; its own name
    cannot."""
    letters = document.text("errors", "dead_letter_table")
    for policy in table_policies(document):
        match, mode = document.text(*policy, "match"), document.node(*policy, "write", "mode")
        is_named = letters and match and not set(match) & set("*?[") and document.names_match(letters, match)
        if is_named and isinstance(mode, Scalar) and mode.value == "upsert":
            message = f"`{letters}` is the dead-letter table, and each dead letter is a row of its own"
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


RULES: tuple[Rule, ...] = (
    no_sql,
    on_main,
    history_is_apart,
    dead_letters_are_appended,
    one_batch_in_flight,
)
