"""What to type when a table is blocked, by the reason that a coordinator reports.

In: a table's name and the reason. Out: a remedy, which has a command for every reason. The reasons are floe's own
sentences, and they stand in control logs of earlier versions, too: each is known by the words it is made with.
"""

from __future__ import annotations

import re

from framework.diagnose.shown import argument

FILES_GONE = "announced files are gone"
GOES_ON = "the table goes on by itself within a minute, and nothing announced is lost"
FAILING_REMEDY = "check that the catalog and the store answer (`floe doctor`); floe tries again by itself"
CLOCK_REMEDY = "set the clock of the coordinator's machine: it is ahead of the catalog's; floe tries again by itself"
_ROLLED_BACK = re.compile(r"`floe rollback --table (?:\S+) --to (-?\d+)(?: --replay)?`")


def failing_remedy(reason: str) -> str:
    """What a person does about commits that fail and are tried again."""
    # As Iceberg's own server says that a snapshot is more than a minute after its clock.
    return CLOCK_REMEDY if "before last snapshot log entry" in reason else FAILING_REMEDY


def blocked_remedy(table: str, reason: str) -> str:
    """What a person does about it."""
    named = argument(table)
    give_up = f"`floe discard --table {named} --dry-run` shows what giving it up would give up"
    if (found := _ROLLED_BACK.search(reason)) is not None:
        settle = f"`floe rollback --table {named} --to {found[1]} --replay --dry-run`"
        return (
            f"`floe stop PIPELINE`; then {settle} shows what the table lacks and can be read again, and without --dry-run does "
            "it (with --skip that is given up); `floe run FILE` goes on"
        )
    if "floe rebase FILE" in reason or reason.startswith("its progress belongs to control topic"):
        return (
            "`floe stop PIPELINE`; then `floe rebase FILE --dry-run` shows where it would go on, and what is read again"
        )
    if reason.startswith("its recorded progress is gone"):
        return f"set the property again; `floe status --table {named} --verify` says whether that is enough; {GOES_ON}"
    if reason.startswith(("it is missing", "it was replaced")) or "was dropped or changed its type" in reason:
        return f"put it back as it was: {GOES_ON}. If it is gone for good, {give_up}"
    if reason.startswith(FILES_GONE):
        return f"put the files back: {GOES_ON}. If they are gone for good, {give_up}"
    if (pipeline := _pipeline_of(reason)) is not None:
        name = argument(pipeline)
        return f"`floe stop {name}`, then `floe offsets set {name} --from-log` goes on where its good chain ends"
    if " commits failed, the last one with: " in reason or reason.startswith("not committed by the deadline: "):
        return failing_remedy(reason)
    if reason == "not committed by the deadline":
        return f"it goes on by itself; `floe status --table {named} --verify` says how far it is"
    return f"repair what the reason names: {GOES_ON}. If it cannot be repaired, {give_up}"


def _pipeline_of(reason: str) -> str | None:
    """The pipeline whose chain is broken, if that is the reason."""
    found = re.match(r"pipeline (\S+): ", reason)
    return found[1] if found is not None else None
