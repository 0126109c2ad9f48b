"""Many texts of one declared format at once: Arrow parses them, and what it writes back must be what was read.

In: distinct texts and a strptime format. Out: local microseconds and offsets, and which texts are surely right; the
others are for `framework.record.convert.iso_time`, which decides. A text that Arrow's lenient parser bent does not come
back the same.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from framework.config.values.time_format import expanded
from framework.record.convert.iso_time import offset_seconds

_ARROW_KNOWS = re.compile(r"(?:%[YmdHMSby%]|[^%])*")
_SPLIT = re.compile(r"(?P<local>.*?)(?P<dot>\W?)(?P<fraction>%f)?(?P<gap>\s?)(?P<zone>%z)?")


@dataclass(frozen=True)
class ParsedTexts:
    """`local_us` are microseconds on the clock of the text; `offset_us` is null where the text has no zone; `sure` says
    which of them are right."""

    local_us: pa.Array
    offset_us: pa.Array
    sure: pa.Array


def parse_texts(texts: pa.Array, pattern: str) -> ParsedTexts | None:
    """The texts that are as Arrow itself would write them; None when the format is not one for Arrow."""
    match = _SPLIT.fullmatch(expanded(pattern))
    if match is None or not _ARROW_KNOWS.fullmatch(match["local"]):
        return None
    dot = match["dot"] if match["fraction"] else ""
    local_format = match["local"] + ("" if match["fraction"] else match["dot"])
    gap = match["gap"] if match["zone"] else ""
    if gap != match["gap"] or not _ARROW_KNOWS.fullmatch(local_format) or "%Y" not in local_format:
        return None
    found = pc.extract_regex(
        texts,
        r"^(?P<local>.+?)"
        + (re.escape(dot) + r"(?P<fraction>\d{1,6})" if match["fraction"] else "")
        + (re.escape(gap) + r"(?P<zone>[Zz]|[+-]\d\d:?\d\d)" if match["zone"] else "")
        + "$",
    )
    local = pc.struct_field(found, "local")
    seconds = pc.strptime(local, format=local_format, unit="s", error_is_null=True)
    sure = pc.equal(pc.strftime(seconds, format=local_format), local).fill_null(False)
    micros = pc.multiply(seconds.cast(pa.int64()), 1_000_000)
    if match["fraction"]:
        digits = pc.utf8_rpad(pc.struct_field(found, "fraction"), width=6, padding="0")
        micros = pc.add(micros, digits.cast(pa.int64()))
    offsets = pa.nulls(len(texts), pa.int64())
    if match["zone"]:
        zones = pc.struct_field(found, "zone").dictionary_encode()
        known = [offset_seconds(zone) for zone in zones.dictionary.to_pylist()]
        in_us = pa.array([None if each is None else each * 1_000_000 for each in known], pa.int64())
        offsets = in_us.take(zones.indices)
        sure = pc.and_(sure, offsets.is_valid())
    return ParsedTexts(micros, offsets, sure)
