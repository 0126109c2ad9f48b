"""Which table a record goes to, as `routes` of a pipeline file.

In: the connector's settings and the shape of the records behind its transforms. Out: the tables and the rules. The
sink gives a record to every table whose expression matches; a rule may look only at what the sink sees, and records
that no rule takes stop the pipeline, since no rule of the sink's says that they may be lost.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

from framework.config.names.patterns import compiled
from framework.connector.translation.transforms.record_shape import RecordShape, is_struct
from framework.connector.translation.untranslatable import Untranslatable, refused, same_regex

TABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*(\.[A-Za-z0-9_-]+)+\Z")
_FIELD = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*(\.[A-Za-z_][A-Za-z0-9_-]*)*\Z")
ROUTE_FIELD, DYNAMIC, TABLES = "iceberg.tables.route-field", "iceberg.tables.dynamic-enabled", "iceberg.tables"


@dataclass
class ConnectorRoutes:
    """`tables` in the order of the configuration; `notes` are (key, sentence) of what is good to know."""

    tables: list[str]
    values: dict[str, Any]
    taken: set[str] = field(default_factory=lambda: {TABLES, ROUTE_FIELD, DYNAMIC})
    notes: list[tuple[str, str]] = field(default_factory=list)


def routes_of(settings: dict[str, str], given_tables: tuple[str, ...], shape: RecordShape) -> ConnectorRoutes:
    """The tables and the rules of a sink.

    Raises:
        ConfigError: FLOE-R405, records would go nowhere, or to a table that is not known.
    """
    is_dynamic = settings.get(DYNAMIC, "").strip().lower() == "true"
    route_field = settings.get(ROUTE_FIELD)
    if route_field is not None and not _FIELD.match(route_field):
        raise refused(ROUTE_FIELD, f"`{route_field}` is not a field's name")
    if is_dynamic and not route_field:
        raise refused(ROUTE_FIELD, "dynamic routing needs it")
    topics = _topics(route_field, shape)
    tables = _tables(settings, given_tables, is_dynamic, route_field or "?", topics)
    routed = ConnectorRoutes(tables, {})
    rules: list[dict[str, Any]] = []
    for table in tables:
        key = f"iceberg.table.{table}.route-regex"
        routed.taken.add(key)
        regex = settings.get(key)
        if is_dynamic:
            regex = _in_any_case(table)
        elif route_field is None:
            rules.append({"table": table})
            if regex is not None:
                routed.notes.append((key, f"without `{ROUTE_FIELD}` it has no effect"))
            continue
        if regex is None:
            routed.notes.append((TABLES, f"`{table}` has no `route-regex`, so no record goes there"))
            continue
        try:
            regex = regex if is_dynamic else same_regex(key, regex)
        except Untranslatable as problem:
            raise problem.as_error() from None
        if topics is None:
            rules.append({"when": {"field": route_field, "matches": regex}, "table": table})
            continue
        for topic, text in topics.items():
            if compiled(regex).is_all_of(text):
                rules.append({"when": {"topic": f"^{re.escape(topic)}$"}, "table": table})
    if not rules:
        raise refused(ROUTE_FIELD, "no record goes to any table", "give the tables a `route-regex` that values match")
    used = list(dict.fromkeys(rule["table"] for rule in rules))
    several = {"mode": "all_match"} if len(rules) > 1 and not is_dynamic else {}
    if route_field is not None:
        reason = "a record that no rule takes stops the pipeline; the sink skips it, as `unrouted: drop` does"
        routed.notes.append((ROUTE_FIELD, reason))
    routed.values = {**several, "rules": rules, "unrouted": "fail", "allow_tables": used}
    return routed


def _tables(
    settings: dict[str, str], given: tuple[str, ...], is_dynamic: bool, route_field: str, topics: dict[str, str] | None
) -> list[str]:
    listed = [part.strip() for part in settings.get(TABLES, "").split(",") if part.strip()]
    if is_dynamic:
        if listed:
            raise refused(TABLES, f"`{DYNAMIC}` is true, so it cannot be given")
        listed = list(given)
        if not listed and topics is not None:
            listed = [text.lower() for text in topics.values()]
        if not listed:
            message = (
                f"records can name any table in `{route_field}`, but floe only writes to tables that the file names"
            )
            raise refused(DYNAMIC, message, "name the tables: `--tables db.one,db.two`")
        if wrong := next((name for name in listed if name != name.lower()), None):
            raise refused(
                DYNAMIC, f"the sink makes names lower case, so it never writes `{wrong}`", f"name `{wrong.lower()}`"
            )
    if not listed:
        raise refused(TABLES, "it names no table")
    if wrong := next((name for name in listed if not TABLE.match(name)), None):
        raise refused(TABLES, f"`{wrong}` is not `namespace.name`")
    return list(dict.fromkeys(listed))


def _topics(route_field: str | None, shape: RecordShape) -> dict[str, str] | None:
    """The route field's value for each topic, where it holds the topic's name; None where a rule looks at the field.

    Raises:
        ConfigError: FLOE-R405, the sink finds no such field behind the transforms, or not the value that the record has.
    """
    if route_field is None:
        return None
    head, *path = route_field.split(".")
    column = shape.column(head)
    if column is None:
        if shape.columns is not None:
            reported = ", ".join(one.name for one in shape.columns)
            raise refused(
                ROUTE_FIELD,
                f"behind the transforms no record has the field `{head}`, so the sink writes none",
                f"route by one of these fields: {reported}",
            )
        if head in shape.hints:
            raise refused(ROUTE_FIELD, f"a transform makes a moment of `{head}`, and rules look at text")
        return None
    if column.topics is not None and not path:
        if None in column.topics.values():
            raise refused(ROUTE_FIELD, f"what transforms make of the topic's name, in `{head}`, depends on the record")
        return {topic: str(text) for topic, text in column.topics.items()}
    kind = column.kind
    for name in path:
        inner = dict(kind[1]) if isinstance(kind, list) and is_struct(kind) else {}
        if name not in inner:
            raise refused(ROUTE_FIELD, f"behind the transforms no record has the field `{route_field}`")
        kind = inner[name]
    if kind not in ("string", "int", "long", "boolean"):
        raise refused(
            ROUTE_FIELD, f"rules look at text, and `{route_field}` is {kind if isinstance(kind, str) else 'an object'}"
        )
    return None


def _in_any_case(table: str) -> str:
    """A regex of the texts that Java makes this lower-case name of, as the sink does with values before they name a
    table. `(?i:s)` would match the long s (U+017F) too, which Java leaves alone."""
    parts = (f"(?i:{re.escape(part)})" if part else "" for part in table.split("s"))
    return "[sS]".join(parts)
