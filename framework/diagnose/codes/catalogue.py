"""Every code that floe prints, with what it means; `floe explain CODE` reads it.

In: the tables of this package, one per family. Out: `CODES`, by code. FLOE-C is a file or an option, FLOE-E the
environment, FLOE-P a plan, FLOE-R a run, FLOE-D a record, FLOE-T a table. A code is never reused for something else.
"""

from __future__ import annotations

from framework.diagnose.codes.files import references as codes_references
from framework.diagnose.codes.files import rules as codes_rules
from framework.diagnose.codes.files import shape as codes_shape
from framework.diagnose.codes.files import templates as codes_templates
from framework.diagnose.codes.files import tests as codes_tests
from framework.diagnose.codes.files import upsert as codes_upsert
from framework.diagnose.codes.files import yaml as codes_yaml
from framework.diagnose.codes.runs import control_topic as codes_control_topic
from framework.diagnose.codes.runs import maintenance as codes_maintenance
from framework.diagnose.codes.runs import offsets as codes_offsets
from framework.diagnose.codes.runs import records as codes_records
from framework.diagnose.codes.runs import recovery as codes_recovery
from framework.diagnose.codes.runs import runs as codes_runs
from framework.diagnose.codes.runs import tables as codes_tables
from framework.diagnose.codes.setup import catalog as codes_catalog
from framework.diagnose.codes.setup import kafka as codes_kafka
from framework.diagnose.codes.setup import local as codes_local
from framework.diagnose.codes.setup import plans as codes_plans
from framework.diagnose.codes.setup import setup as codes_setup
from framework.diagnose.codes.setup import submit as codes_submit
from framework.diagnose.entry import CodeEntry
from framework.diagnose.transcript import repair_lines, seen_lines

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
    """The page of one code: what it means, what it looks like, and how to repair it."""
    parts = [f"{entry.code}: {entry.title}", "", entry.text]
    shown = (
        ("wrong", entry.wrong.rstrip("\n").split("\n") if entry.wrong else []),
        ("right", entry.right.rstrip("\n").split("\n") if entry.right else []),
        ("what you see", seen_lines(entry)),
        ("how to repair it" if entry.transcript else "check it with", repair_lines(entry)),
    )
    for word, lines in shown:
        if lines:
            parts += ["", f"{word}:", "", *(f"    {line}".rstrip() for line in lines)]
    return "\n".join(parts)
