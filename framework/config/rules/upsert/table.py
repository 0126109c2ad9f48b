"""Rules about upsert tables: the words of `write`, the key, and what says that a row is newer or
gone.

In: a pipeline's tree. Out: a diagnostic per violation. What a table's policy leaves out comes from the defaults, so
each rule looks at the two together, and a fault in the defaults is reported once.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from framework.config.names.column_names import owner_of
from framework.config.names.metadata import DEBEZIUM_MOMENTS, PREFIX, metadata_column
from framework.config.rules.create import column_kind, is_column, missing_column
from framework.config.rules.format import is_described
from framework.config.rules.rules import Document, Rule, at, table_policies
from framework.config.spec import KeySpec
from framework.config.tree import Entry, Node, Path, Scalar
from framework.diagnose.diagnostic import Diagnostic
from framework.diagnose.suggest import listed

_DEFAULTS: Path = ("tables", "defaults")
_NO_KEYS = ("float", "double", "list", "map", "struct")
_NO_ORDER = (*_NO_KEYS, "boolean", "binary", "fixed", "uuid")
_DEFAULT_VERSION = "2"
_VERSION_OF = {"deletion_vectors": "3", "position_deletes": "2"}
_RAW_KEY = metadata_column("key")


@dataclass(frozen=True)
class UpsertPolicy:
    """A policy of the file that says `mode: upsert`, itself or by the defaults."""

    document: Document
    policy: Path

    def place(self, *keys: str) -> Path:
        """Where a key of the policy is written: here, or else in the defaults."""
        own = (*self.policy, *keys)
        return own if self.document.entry(*own) is not None else (*_DEFAULTS, *keys)

    def text(self, *keys: str) -> str | None:
        return self.document.text(*self.place(*keys))

    def node(self, *keys: str) -> Node | None:
        return self.document.node(*self.place(*keys))

    @property
    def mode_node(self) -> Node:
        return self.node("write", "mode") or self.document.tree

    @property
    def key(self) -> tuple[tuple[Path, Node, str], ...]:
        """Each column of the key with its place; without those that the schema refuses or whose value is not known."""
        items = self.document.items(*self.place("write", "key"))
        written = ((path, item, self.document.text(*path)) for path, item in items)
        return tuple((path, item, text) for path, item, text in written if text is not None and is_column(text))

    @property
    def format_version(self) -> str:
        """The format version of new tables, as text; "" where its value is not known."""
        place = self.place("create", "properties", "format-version")
        node = self.document.node(*place)
        if place in self.document.unresolved:
            return ""
        return str(node.value) if isinstance(node, Scalar) else _DEFAULT_VERSION


def upsert_policies(document: Document) -> Iterator[UpsertPolicy]:
    """The policies of the file by which tables are upserted."""
    for policy in table_policies(document) if "write" in document.policy_keys else ():
        found = UpsertPolicy(document, policy)
        if found.text("write", "mode") == "upsert":
            yield found


def _once(findings: Iterator[Diagnostic]) -> Iterator[Diagnostic]:
    """Each finding once, however many policies have the words from the defaults."""
    yield from {(finding.code, finding.path, finding.message): finding for finding in findings}.values()


def words_need_upsert(document: Document) -> Iterator[Diagnostic]:
    """Only upsert tables have a key; in the defaults its words may wait for an override that says `mode: upsert`."""
    if "write" not in document.policy_keys:
        return
    upserts = {found.policy for found in upsert_policies(document)}
    for policy in table_policies(document):
        place = UpsertPolicy(document, policy).place("write", "mode")
        if policy in upserts or place in document.unresolved or not document.sound(*place):
            continue
        if policy == _DEFAULTS and upserts:
            continue
        for entry in document.mapping(*policy, "write"):
            if entry.key != "mode" and not entry.key.startswith("x-"):
                yield at(
                    "FLOE-C451",
                    f"`{entry.key}` is for upsert tables, and this is written in mode `append`",
                    entry,
                    (*policy, "write", entry.key),
                    "add `mode: upsert`, or remove the key",
                )


def key_identifies(document: Document) -> Iterator[Diagnostic]:
    """An upsert table has a key: columns at the top of the table whose values can be compared exactly."""
    yield from _once(finding for found in upsert_policies(document) for finding in _key_findings(found))


def _key_findings(found: UpsertPolicy) -> Iterator[Diagnostic]:
    document, place = found.document, found.place("write", "key")
    if document.sound(*place) and place not in document.unresolved and not document.items(*place):
        remedy = "add `key:` with the columns that identify a row, such as `key: [order_id]`"
        yield at("FLOE-C450", "an upsert table needs a key", found.mode_node, (*found.policy, "write", "key"), remedy)
    seen: set[str] = set()
    for path, item, column in found.key:
        folded = column if found.text("case") == "sensitive" else column.lower()
        if folded in seen:
            yield at("FLOE-C218", f"`{column}` is given twice", item, path, "keep one of them")
        seen.add(folded)
        if "." in column:
            message = f"`{column}` lies inside another column, and a key is made of columns at the top"
            yield at("FLOE-C452", message, item, path, "choose a column at the top of the table")
            continue
        if owner := owner_of(column):
            message = f"{owner} keeps the name `{column}` for itself, so no column of the table can have it"
            yield at("FLOE-C452", message, item, path, "choose another column")
            continue
        yield from missing_column(document, column, item, path)
        kind = column_kind(document, column)
        if kind in _NO_KEYS:
            message = f"`{column}` is `{kind}`, which cannot be part of a key"
            yield at("FLOE-C452", message, item, path, "declare another type, or choose another column")
        elif not kind and _is_left_out(found, column):
            message = f"`evolve.include` and `evolve.exclude` keep `{column}` out of the table"
            yield at("FLOE-C452", message, item, path, "let the column in, or choose another one")


def _is_left_out(found: UpsertPolicy, column: str) -> bool:
    document = found.document
    patterns = {}
    for word in ("include", "exclude"):
        items = document.items(*found.place("evolve", word))
        patterns[word] = [text for path, _ in items if (text := document.text(*path)) is not None]
    is_in = not patterns["include"] or any(document.names_match(column, glob) for glob in patterns["include"])
    return not is_in or any(document.names_match(column, glob) for glob in patterns["exclude"])


def order_is_comparable(document: Document) -> Iterator[Diagnostic]:
    """The column that says which record is newer is one whose values have an exact order, and it is there."""
    yield from _once(finding for found in upsert_policies(document) for finding in _order_findings(found))


def _order_findings(found: UpsertPolicy) -> Iterator[Diagnostic]:
    document, path = found.document, (*found.place("write", "order"), "field")
    column, node = document.text(*path), document.node(*path)
    if column is None or node is None or not is_column(column):
        return
    if owner := owner_of(column):
        message = f"{owner} keeps the name `{column}` for itself, so no column of the table can have it"
        yield at("FLOE-C453", message, node, path, "choose another column")
        return
    folded = str if found.text("case") == "sensitive" else str.lower
    if "." in column:
        message = f"`{column}` lies inside another column, and a column at the top says which record is newer"
        yield at("FLOE-C453", message, node, path, "choose a column at the top of the table")
        return
    if folded(column) in {folded(key) for _, _, key in found.key}:
        message = f"`{column}` is part of the key, so all records of a key have the same value of it"
        yield at("FLOE-C453", message, node, path, "choose a column that grows with each change of a row")
        return
    missing = list(missing_column(document, column, node, path))
    yield from missing
    kind, declared = column_kind(document, column), document.mapping("source", "schema")
    is_debezium = document.text("source", "format", "envelope") == "debezium"
    is_given = is_debezium and column in DEBEZIUM_MOMENTS
    if kind in _NO_ORDER:
        message = f"`{column}` is `{kind}`, which says of no two records for certain which is newer"
        yield at("FLOE-C453", message, node, path, "choose a time, a whole number or a decimal")
    elif not kind and _is_left_out(found, column):
        message = f"`evolve.include` and `evolve.exclude` keep `{column}` out of the table"
        yield at("FLOE-C453", message, node, path, "let the column in, or choose another one")
    elif not kind and declared and not missing and not is_given:
        message = f"`{column}` says which record is newer, and `source.schema` does not declare it"
        yield at("FLOE-C453", message, node, path, f"declare it: `source: {{schema: {{{column}: timestamptz}}}}`")


def deletes_are_said_once(document: Document) -> Iterator[Diagnostic]:
    """What deletes a row is said once: by Debezium's envelope or by `delete_when`; a tombstone has only the record's
    key."""
    yield from _once(finding for found in upsert_policies(document) for finding in _delete_findings(found))


def _delete_findings(found: UpsertPolicy) -> Iterator[Diagnostic]:
    document, path = found.document, found.place("write", "delete_when")
    entry = document.entry(*path)
    if entry is None or not document.sound(*path):
        return
    if document.text("source", "format", "envelope") == "debezium":
        message = "Debezium's envelope says by itself which changes delete a row"
        yield at("FLOE-C457", message, entry, path, "remove `delete_when`")
    elif is_described(document):
        message = "the envelope says by itself which changes delete a row"
        yield at("FLOE-C457", message, entry, path, "remove `delete_when`")
    elif document.text(*path) == "tombstone":
        for item_path, item, column in found.key:
            if reason := _not_in_record_key(document, column):
                message = f"a tombstone has no value, and `{column}` {reason}"
                yield at("FLOE-C457", message, item, item_path, _key_remedy(document))
        field = (*found.place("write", "order"), "field")
        newer_by, node = document.text(*field), document.node(*field)
        if newer_by is None or node is None or newer_by.lower().startswith(PREFIX):
            return
        if reason := _not_in_record_key(document, newer_by):
            message = f"a tombstone has no value, and `{newer_by}`, which says which record is newer, {reason}"
            remedy = "use `order: {field: _kafka_timestamp}` with `source: {metadata_columns: [timestamp]}`"
            yield at("FLOE-C457", message, node, field, remedy)


def _not_in_record_key(document: Document, column: str) -> str:
    """Why a column is not known of a record without a value; "" where it is, or where that cannot be determined."""
    if column.lower() == _RAW_KEY:
        return ""  # the bytes of the key; that the file asks for them is looked at elsewhere
    entry = document.entry("source", "key")
    if entry is None:
        return "does not come from the record's key: the file has no `source.key`"
    prefix = document.text("source", "key", "prefix")
    if prefix is None:
        if document.entry("source", "key", "prefix") is not None:
            return ""
        prefix = KeySpec.prefix
    if not column.lower().startswith(prefix.lower()):
        return f"does not come from the record's key, whose columns begin with `{prefix}`"
    if document.text("source", "key", "type") == "raw":
        only = f"{prefix}{document.text('source', 'key', 'column') or 'value'}"
        return "" if column.lower() == only.lower() else f"does not come from the record's key, which is `{only}`"
    return ""


def _key_remedy(document: Document) -> str:
    if document.entry("source", "key") is None:
        return "say under `source.key` how the record's key is read, and use its columns, such as `key: [key_id]`"
    return "use columns of the record's key, or name a field that marks deletes: `delete_when: {field: op, equals: d}`"


def version_knows_deletes(document: Document) -> Iterator[Diagnostic]:
    """The format version of new tables has the kind of deletes that is asked for; version 1 has none."""
    yield from _once(finding for found in upsert_policies(document) for finding in _version_findings(found))


def _version_findings(found: UpsertPolicy) -> Iterator[Diagnostic]:
    version, deletes = found.format_version, found.text("write", "deletes") or "auto"
    is_given = found.document.entry(*found.place("create", "properties", "format-version")) is not None
    place = found.place("create", "properties", "format-version")
    node: Node | Entry = found.document.node(*place) or found.mode_node
    if version == "1":
        message = "tables of format version 1 know no deletes, so none can be upserted"
        yield at("FLOE-C454", message, node, place, 'use `format-version: "2"` or `"3"`')
    elif is_given and deletes in _VERSION_OF and version in ("2", "3") and version != _VERSION_OF[deletes]:
        message = f"tables of format version {version} have no `{deletes}`"
        wanted = "deletion_vectors" if version == "3" else "position_deletes"
        where = found.place("write", "deletes")
        remedy = f'use `deletes: auto` or `{wanted}`, or `format-version: "{_VERSION_OF[deletes]}"`'
        yield at("FLOE-C454", message, found.node("write", "deletes") or node, where, remedy)


def identifiers_are_the_key(document: Document) -> Iterator[Diagnostic]:
    """The identifier fields of an upsert table are its key, so that every reader of the table knows what its rows
    are."""
    for found in upsert_policies(document):
        place = found.place("create", "identifier_fields")
        node, items = document.node(*place), document.items(*place)
        given = [text for path, _ in items if (text := document.text(*path)) is not None]
        key = [column for _, _, column in found.key]
        if node is None or not key or len(given) != len(items):
            continue
        if {name.lower() for name in given} != {name.lower() for name in key}:
            message = f"the key is {listed(key, 'and')}, so `identifier_fields` cannot be {listed(given, 'and')}"
            yield at("FLOE-C460", message, node, place, "remove `identifier_fields`: new tables get the key's columns")


RULES: tuple[Rule, ...] = (
    words_need_upsert,
    key_identifies,
    order_is_comparable,
    deletes_are_said_once,
    version_knows_deletes,
    identifiers_are_the_key,
)
