"""Rules about histories: a table that gets every change of an upsert table, beside it.

In: a pipeline's tree. Out: a diagnostic per violation. A history is the history of one table, and nothing else is
written to it.
"""

from __future__ import annotations

from collections.abc import Iterator

from framework.config.names.metadata import HISTORY, OPERATION, metadata_column
from framework.config.names.table_names import DEFAULT_CATALOG, is_name, template_glob
from framework.config.rules.routes import may_meet
from framework.config.rules.rules import Document, Rule, at
from framework.config.rules.upsert.table import UpsertPolicy, upsert_policies
from framework.config.tree import Path
from framework.diagnose.diagnostic import Diagnostic

_DEFAULTS: Path = ("tables", "defaults")
_ANOTHER = "choose another table"
# Why a table cannot be the history, and the remedy.
_Reason = tuple[str, str]


def history_is_apart(document: Document) -> Iterator[Diagnostic]:
    """A history is a table of its own, inside `allow_tables` and in the table's catalog, to which every change of one
    table is appended."""
    reported: set[Path] = set()
    seen: dict[str, str] = {}
    for found in upsert_policies(document):
        place = found.place("write", "history")
        history, node = document.text(*place), document.node(*place)
        if history is None or node is None:
            continue
        reason = _of_another(document, found, history, seen) or _no_history(document, found, history)
        if reason is not None and place not in reported:
            reported.add(place)
            yield at("FLOE-C456", f"`{history}` cannot be the history: {reason[0]}", node, place, reason[1])


def _of_another(document: Document, found: UpsertPolicy, history: str, seen: dict[str, str]) -> _Reason | None:
    """Each table has a history of its own, so the table whose history it is must be known by name."""
    for template in _templates(document):
        if _may_have(document, found.policy, template):
            why = f"it would be that of every table that `{template}` leads to"
            return why, "give each table with a history an override that names it"
    for table in tables_of(document, found.policy):
        first = seen.setdefault(_folded(document, history), table)
        if not document.names_match(first, table):
            return f"it is that of `{first}`, and `{table}` has it as well", "give each table a history of its own"
    return None


def _no_history(document: Document, found: UpsertPolicy, history: str) -> _Reason | None:
    tables = tables_of(document, found.policy)
    if any(document.names_match(history, table) for table in tables):
        return "it is the table itself", _ANOTHER
    if any(document.names_match(history, table) for table in _named(document)):
        return "a rule of `routes` leads to it", _ANOTHER
    for template in _templates(document):
        if document.names_match(history, template_glob(template)):
            return f"the rule `{template}` may lead to it", _ANOTHER
    dead_letters = document.text("errors", "dead_letter_table")
    if dead_letters and document.names_match(history, dead_letters):
        return "it is the dead-letter table", _ANOTHER
    globs = [text for path, _ in document.items("routes", "allow_tables") if (text := document.text(*path))]
    if globs and not any(document.names_match(history, glob) for glob in globs):
        return "it is not inside `routes.allow_tables`", f'add "{history}" to `allow_tables`'
    return _by_policy(document, found, history) or _by_columns(document, found)


def _by_policy(document: Document, found: UpsertPolicy, history: str) -> _Reason | None:
    own = policy_of(document, history)
    if own == _DEFAULTS:
        return None  # it has the policy of the table
    is_upserted = UpsertPolicy(document, own).text("write", "mode") == "upsert"
    if is_upserted and is_name(document.text(*own, "match") or ""):
        return "it is an upsert table", f"remove `write` from the override of `{history}`"
    catalogs = [UpsertPolicy(document, policy).text("catalog") or DEFAULT_CATALOG for policy in (found.policy, own)]
    if not is_upserted and catalogs[0] != catalogs[1]:
        why = f"it is in the catalog `{catalogs[1]}`, and its table in `{catalogs[0]}`"
        return why, f"say `catalog: {catalogs[0]}` in the override of `{history}`"
    return None


def _by_columns(document: Document, found: UpsertPolicy) -> _Reason | None:
    """A field that is named like a column of the history would be in the table alone."""
    own = {metadata_column(name) for name in HISTORY}
    said = [entry.key for entry in document.mapping("source", "schema")]
    said += [column for _, _, column in found.key if column.lower() == metadata_column(OPERATION)]
    clash = next((name for name in said if name.lower() in own), None)
    if clash is None:
        return None
    return (
        f"its column `{clash}` is floe's, and the records have such a field",
        f"give the field `{clash}` another name",
    )


def _folded(document: Document, name: str) -> str:
    return name.lower() if (document.text("tables", "defaults", "case") or "insensitive") == "insensitive" else name


def _named(document: Document) -> list[str]:
    """The tables that routes name as they are."""
    tables = (document.text(*path, "table") for path, _ in document.items("routes", "rules"))
    return [table for table in tables if table and "{" not in table]


def _templates(document: Document) -> list[str]:
    tables = (document.text(*path, "table") for path, _ in document.items("routes", "rules"))
    return [table for table in tables if table and "{" in table]


def _may_have(document: Document, policy: Path, template: str) -> bool:
    """Whether tables of the template may have the policy whose names nobody knows yet."""
    match = document.text(*policy, "match") if policy != _DEFAULTS else "*"
    return match is not None and not is_name(match) and may_meet(document, template.partition("{")[0], match)


def tables_of(document: Document, policy: Path) -> list[str]:
    """The tables that have the policy: those that routes name as they are, and the one that an override names to which a
    rule with a field may lead."""
    found = [table for table in _named(document) if policy_of(document, table) == policy]
    match = document.text(*policy, "match") if policy != _DEFAULTS else None
    if match is None or not is_name(match) or any(document.names_match(match, table) for table in found):
        return found
    leads = any(document.names_match(match, template_glob(template)) for template in _templates(document))
    return [*found, match] if leads and policy_of(document, match) == policy else found


def policy_of(document: Document, table: str) -> Path:
    """The path of the policy that a table has: the first override that matches, or the defaults."""
    for path, _ in document.items("tables", "overrides"):
        glob = document.text(*path, "match")
        if glob is not None and document.names_match(table, glob):
            return path
    return _DEFAULTS


RULES: tuple[Rule, ...] = (history_is_apart,)
