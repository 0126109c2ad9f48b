"""Every code that floe prints, with what it means; `floe explain CODE` reads it.

In: the tables of this package, one per family. Out: `CODES`, by code. FLOE-C is a file or an option, FLOE-E the
environment, FLOE-P a plan, FLOE-R a run, FLOE-D a record, FLOE-T a table. A code is never reused for something else.
"""

from __future__ import annotations

from framework.diagnose import (
    codes_catalog,
    codes_control_topic,
    codes_kafka,
    codes_local,
    codes_maintenance,
    codes_offsets,
    codes_plans,
    codes_records,
    codes_recovery,
    codes_references,
    codes_rules,
    codes_runs,
    codes_setup,
    codes_shape,
    codes_submit,
    codes_tables,
    codes_templates,
    codes_tests,
    codes_upsert,
    codes_yaml,
)
from framework.diagnose.entry import CodeEntry
from framework.diagnose.transcript import mending_lines, seen_lines

_FAMILIES = (
    codes_yaml.ENTRIES,
    codes_shape.ENTRIES,
    codes_references.ENTRIES,
    codes_rules.ENTRIES,
    codes_upsert.ENTRIES,
    codes_maintenance.ENTRIES,
    codes_templates.ENTRIES,
    codes_setup.ENTRIES,
    codes_local.ENTRIES,
    codes_kafka.ENTRIES,
    codes_catalog.ENTRIES,
    codes_submit.ENTRIES,
    codes_plans.ENTRIES,
    codes_runs.ENTRIES,
    codes_control_topic.ENTRIES,
    codes_offsets.ENTRIES,
    codes_recovery.ENTRIES,
    codes_records.ENTRIES,
    codes_tables.ENTRIES,
    codes_tests.ENTRIES,
)
CODES: dict[str, CodeEntry] = {entry.code: entry for family in _FAMILIES for entry in family}


def lookup(word: str) -> CodeEntry | None:
    """The entry for a code, also when written `C205` or `floe-c205`."""
    code = word.strip().upper()
    return CODES.get(code if code.startswith("FLOE-") else f"FLOE-{code}")


def explanation(entry: CodeEntry) -> str:
    """The page of one code: what it means, what it looks like, and what mends it."""
    parts = [f"{entry.code}: {entry.title}", "", entry.text]
    shown = (
        ("wrong", entry.wrong.rstrip("\n").split("\n") if entry.wrong else []),
        ("right", entry.right.rstrip("\n").split("\n") if entry.right else []),
        ("what you see", seen_lines(entry)),
        ("what mends it" if entry.transcript else "check it with", mending_lines(entry)),
    )
    for word, lines in shown:
        if lines:
            parts += ["", f"{word}:", "", *(f"    {line}".rstrip() for line in lines)]
    return "\n".join(parts)
