"""Envelopes of change events as paths: what happened, where the row is, and which words mean what.

In: a word (`maxwell`) or a mapping of a pipeline file. Out: EnvelopePaths. Debezium's and Connect's envelopes are more than
paths, and are read by code of their own.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from framework.config.spec import EnvelopePaths
from framework.config.units import unquoted

# What these systems write beside changes of rows, as their documentation has it, Canal's of its protocol.
_DDL = tuple(f"{what}-{verb}" for what in ("database", "table") for verb in ("create", "alter", "drop"))
_CONTROL = (
    *(f"{verb}-table" for verb in ("create", "rename", "drop")),
    *(f"{verb}-column" for verb in ("add", "drop", "rename")),
    "change-columns",
    "column-type-change",
)
_EVENTS = (
    *("CREATE", "ALTER", "ERASE", "RENAME", "TRUNCATE", "CINDEX", "DINDEX", "QUERY"),
    *("GTID", "XACOMMIT", "XAROLLBACK", "MHEARTBEAT"),
)
ENVELOPES: Mapping[str, EnvelopePaths] = {
    "maxwell": EnvelopePaths(
        operation="type",
        after="data",
        operations=(("c", ("insert",)), ("u", ("update",)), ("d", ("delete",)), ("r", ("bootstrap-insert",))),
        ignore=("bootstrap-start", "bootstrap-complete", *_DDL),
        fields=("database", "table", "ts", "xid", "xoffset"),
    ),
    "canal": EnvelopePaths(
        operation="type",
        after="data",
        operations=(("c", ("INSERT",)), ("u", ("UPDATE",)), ("d", ("DELETE",))),
        ignore=_EVENTS,
        fields=("database", "table", "es", "ts", "id"),
    ),
    "dms": EnvelopePaths(
        operation="metadata.operation",
        after="data",
        operations=(("c", ("insert",)), ("u", ("update",)), ("d", ("delete",)), ("r", ("load",))),
        ignore=_CONTROL,
        fields=("metadata.timestamp", "metadata.schema-name", "metadata.table-name", "metadata.transaction-id"),
    ),
}


def envelope_paths(values: Mapping[str, Any]) -> EnvelopePaths:
    """The paths that a mapping says; it has passed the schema."""
    known: dict[str, Any] = {
        name: unquoted(values[name]) for name in ("operation", "after", "before") if name in values
    }
    if "fields" in values:
        known["fields"] = tuple(map(unquoted, values["fields"]))
    if "ignore" in values:
        known["ignore"] = tuple(values["ignore"])
    found = EnvelopePaths(**known)
    if "operations" not in values:
        return found
    words = {letter: tuple(each) for letter, each in values["operations"].items() if not letter.startswith("x-")}
    return replace(found, operations=tuple(sorted(words.items())))
