"""Maintenance policies in the words of the pipeline file, for people who compare or explain plans.

In: a policy as a plan's JSON has it. Out: its words by their place under `maintenance:`, in the order of the file.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict
from typing import Any

from framework.config.units import duration_text
from framework.config.values.maintenance import MaintenancePolicy

_IN_THE_FILE = {
    "compaction.target_file_bytes": "compaction.target_file_size",
    "compaction.delete_ratio": "compaction.delete_ratio_threshold",
}


def words(policy: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Every word of a policy with its text."""
    for part, value in policy.items():
        for name, item in value.items() if isinstance(value, Mapping) else (("", value),):
            place = f"{part}.{name}" if name else part
            place = _IN_THE_FILE.get(place, place)
            yield place.removesuffix("_ms"), duration_text(item) if place.endswith("_ms") else _text(item)


def unusual_words(policy: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Only the words that differ from what holds where nothing is said."""
    usual = dict(words(asdict(MaintenancePolicy())))
    return ((place, text) for place, text in words(policy) if usual[place] != text)


def _text(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return f"{value:,}" if isinstance(value, int) else str(getattr(value, "value", value))
