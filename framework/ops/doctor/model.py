"""What `floe doctor` finds, as plain lines: each is ok, a warning or an error, with its remedy.

In: checks as functions. Out: Findings. Nothing here raises: whatever goes wrong during a check becomes an error line,
so that one problem never hides the next. The checks themselves are in `doctor_machine`, `doctor_kafka`,
`doctor_catalog` and `doctor_registry`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from enum import Enum

from framework.adapters.secrets import hidden
from framework.errors import FloeError, SetupError


class CheckState(str, Enum):
    OK = "ok"
    WARNING = "warning"
    ERROR = "error"


@dataclass(frozen=True)
class DoctorFinding:
    """One line. `remedy` is empty where nothing needs to be done. `looked` is whether it was found out at all, `needed`
    whether a run depends on it."""

    check: str
    state: CheckState
    message: str
    remedy: str = ""
    looked: bool = True
    needed: bool = True

    def to_json(self) -> dict[str, str]:
        return {"check": self.check, "state": self.state.value, "message": self.message, "remedy": self.remedy}


def ok(check: str, message: str, looked: bool = True, needed: bool = True) -> DoctorFinding:
    return DoctorFinding(check, CheckState.OK, message, looked=looked, needed=needed)


def warning(check: str, message: str, remedy: str) -> DoctorFinding:
    return DoctorFinding(check, CheckState.WARNING, message, remedy)


def error(check: str, message: str, remedy: str) -> DoctorFinding:
    return DoctorFinding(check, CheckState.ERROR, message, remedy)


def ask(check: str, question: Callable[[], Iterable[DoctorFinding]]) -> list[DoctorFinding]:
    """The findings of one question. What it raises becomes an error line after the lines it gave before."""
    found: list[DoctorFinding] = []
    try:
        for finding in question():
            found.append(finding)
    except FloeError as raised:
        place = f" ({raised.place})" if raised.place else ""
        found.append(error(check, f"{raised.message}{place} [{raised.code}]", raised.remedy))
    except Exception as raised:  # a doctor reports what it did not expect, and looks on
        lines = str(raised).strip().splitlines() or [""]
        found.append(
            error(check, f"{type(raised).__name__}: {lines[0]}", "this is unexpected; please report it with this line")
        )
    return [replace(each, message=hidden(each.message), remedy=hidden(each.remedy)) for each in found]


def exit_code(findings: Iterable[DoctorFinding]) -> int:
    """3, as for a wrong environment, when there is an error; warnings do not count."""
    return SetupError.exit_code if any(finding.state is CheckState.ERROR for finding in findings) else 0
