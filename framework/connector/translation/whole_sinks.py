"""Sinks that no pipeline file stands for, whatever else their settings say.

In: the connector's settings. Out: nothing, or the refusal of the first setting with which Connect starts no connector, or
whose records or catalog floe does not have. No option lifts these.
"""

from __future__ import annotations

from collections.abc import Mapping

from framework.connector.translation.converters import KEY as CONVERTER
from framework.connector.translation.converters import format_of, unreadable
from framework.connector.translation.untranslatable import refused

_FLAGS = (
    "iceberg.tables.auto-create-enabled",
    "iceberg.tables.dynamic-enabled",
    "iceberg.tables.evolve-schema-enabled",
    "iceberg.tables.schema-case-insensitive",
    "iceberg.tables.schema-force-optional",
    "iceberg.tables.upsert-mode-enabled",
)
_NEVER_STARTS = "and Connect starts no such connector"


def check_whole(settings: Mapping[str, str]) -> None:
    """Raises ConfigError: FLOE-R405, the sink as a whole cannot be a pipeline."""
    if settings.get("topics") and settings.get("topics.regex"):
        raise refused("topics.regex", f"`topics` is given too, {_NEVER_STARTS}", "keep one of them")
    for key in _FLAGS:
        if settings.get(key, "false").strip().lower() not in ("true", "false"):
            raise refused(key, f"`{settings[key]}` is neither true nor false, {_NEVER_STARTS}")
    converter = settings.get(CONVERTER, "")
    if (reason := unreadable(converter)) is not None:
        raise refused(CONVERTER, reason)
    has_envelope = settings.get("value.converter.schemas.enable", "true").strip().lower() != "false"
    if converter and format_of(converter) is None and has_envelope:
        raise refused(
            "value.converter.schemas.enable",
            "each record carries its schema (`schema` and `payload`), which floe does not unpack",
            "if the records are plain JSON objects, set it to false here, as in the worker",
        )
    kind, own_class = settings.get("iceberg.catalog.type", "").lower(), settings.get("iceberg.catalog.catalog-impl", "")
    if "hadoop" in kind or "HadoopCatalog" in own_class:
        raise refused(
            "iceberg.catalog.type", "a Hadoop catalog cannot commit safely from two writers", "move to another catalog"
        )
