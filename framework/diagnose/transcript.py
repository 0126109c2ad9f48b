"""The transcript of a code as lines of a terminal.

In: an entry with a transcript. Out: what its command printed, and how to repair it. Invariant: the lines come from the
functions that print real troubles, so that a transcript cannot look different from them.
"""

from __future__ import annotations

from framework.diagnose.diagnostic import Diagnostic, Severity, Span
from framework.diagnose.entry import CodeEntry, ShownAs, Transcript
from framework.diagnose.render import refused_table, text_of, trouble
from framework.diagnose.whole_commands import ReaderPlace, StartedFrom, whole_commands
from framework.errors import FloeError

# Whose terminal a status is shown on.
SEEN_AT = ReaderPlace("prod", broker="broker-1:9092")
SEEN_RUN = StartedFrom("orders.yaml")


def seen_lines(entry: CodeEntry) -> list[str]:
    """The command and what it printed; empty without a transcript."""
    if entry.transcript is None:
        return []
    return [f"$ floe {entry.transcript.command}", *_printed(entry.code, entry.transcript)]


def repair_lines(entry: CodeEntry) -> list[str]:
    """The lines to type, with remarks between them. What an example shows is checked by loading the file again."""
    if entry.transcript is not None:
        return [line if line.startswith("#") else f"$ {line}" for line in entry.transcript.repairs]
    target = " --target TARGET" if entry.about == "target" else ""
    return [f"$ floe validate FILE{target}"] if entry.right and entry.about != "command" else []


def _printed(code: str, seen: Transcript) -> list[str]:
    code = seen.printed or code
    if seen.shown_as is ShownAs.STATUS:
        return trouble(seen.place, seen.message, whole_commands(seen.remedy, SEEN_AT, SEEN_RUN))
    if seen.shown_as is ShownAs.PLAN:
        return [f"    ! {refused_table(seen.place, seen.message, code)}"]
    if seen.shown_as is ShownAs.ERROR:
        return str(FloeError(seen.message, code=code, place=seen.place, remedy=seen.remedy)).splitlines()
    file, line, column = seen.place.rsplit(":", 2)
    span = Span(file, int(line), int(column), int(line), int(column) + 1)
    severity = Severity.WARNING if seen.shown_as is ShownAs.WARNING else Severity.ERROR
    return text_of(Diagnostic(code, seen.message, span, severity, remedy=seen.remedy or None)).splitlines()
