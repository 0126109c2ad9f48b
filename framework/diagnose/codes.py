"""Every code that floe prints, with what it means; `floe explain CODE` reads it.

In: the tables of this package, one per family. Out: `CODES`, by code. FLOE-C is a file or an option, FLOE-E the
environment, FLOE-P a plan, FLOE-R a run, FLOE-D a record, FLOE-T a table. A code is never reused for something else.
"""

from __future__ import annotations

from framework.diagnose import (
    codes_maintenance,
    codes_plans,
    codes_records,
    codes_references,
    codes_rules,
    codes_runs,
    codes_setup,
    codes_shape,
    codes_tables,
    codes_templates,
    codes_tests,
    codes_upsert,
    codes_yaml,
)
from framework.diagnose.entry import CodeEntry

_FAMILIES = (
    codes_yaml.ENTRIES,
    codes_shape.ENTRIES,
    codes_references.ENTRIES,
    codes_rules.ENTRIES,
    codes_upsert.ENTRIES,
    codes_maintenance.ENTRIES,
    codes_templates.ENTRIES,
    codes_setup.ENTRIES,
    codes_plans.ENTRIES,
    codes_runs.ENTRIES,
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
    """The page of one code."""
    parts = [f"{entry.code}: {entry.title}", "", entry.text]
    for word, example in (("wrong", entry.wrong), ("right", entry.right)):
        if example:
            parts += ["", f"{word}:", "", *(f"    {line}".rstrip() for line in example.rstrip("\n").split("\n"))]
    return "\n".join(parts)
