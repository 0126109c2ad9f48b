"""What floe finds in people's files, as values: a place, a stable code, one sentence, a suggestion and a remedy.

In: findings of the loader. Out: frozen `Diagnostic` values, which carry the line they are about so that showing them
needs no file. `framework.diagnose.render` turns them into text, JSON, SARIF and the rest.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple


class Severity(str, Enum):
    """An error makes the file unusable; a warning fails only under `--strict`."""

    ERROR = "error"
    WARNING = "warning"


class Span(NamedTuple):
    """A piece of a file. Lines and columns count from 1, in characters; `end_column` is one past the last character."""

    file: str
    line: int
    column: int
    end_line: int
    end_column: int

    @property
    def start(self) -> str:
        """`file:line:column`, the form that editors and terminals turn into a link."""
        return f"{self.file}:{self.line}:{self.column}"


class Place(NamedTuple):
    """A second place that a finding is about: a span, and the text of the line that it begins on."""

    span: Span
    excerpt: str | None


@dataclass(frozen=True)
class Diagnostic:
    """One finding.

    Args:
        code: stable identifier; `floe explain CODE` says more.
        message: one sentence without a final full stop.
        span: where, or None when the finding is about no file (a wrong option of the command line).
        path: dotted path of the value in the file (`tables.overrides[0].commit.interval`), "" for the whole.
        hint: what was probably meant (`did you mean ...`), or None.
        remedy: one sentence that says what to do, or None where the message says it already.
        excerpt: the text of the line that `span` begins on.
        times: how often the same line was the cause; more than one for a line inside a loop of a template.
        template: where a template uses the parameter that `span` gives, or None.
    """

    code: str
    message: str
    span: Span | None
    severity: Severity = Severity.ERROR
    path: str = ""
    hint: str | None = None
    remedy: str | None = None
    excerpt: str | None = None
    times: int = 1
    template: Place | None = None

    def __str__(self) -> str:
        place = f"{self.span.start}: " if self.span else ""
        hint = f"; {self.hint}" if self.hint else ""
        remedy = f"\n  remedy: {self.remedy}" if self.remedy else ""
        return f"{place}{self.severity.value}[{self.code}] {self.message}{hint}{remedy}"

    @property
    def is_error(self) -> bool:
        return self.severity is Severity.ERROR

    @property
    def order(self) -> tuple[str, int, int, str]:
        """Sorts findings by place, then by code; findings without a place come first."""
        if self.span is None:
            return ("", 0, 0, self.code)
        return (self.span.file, self.span.line, self.span.column, self.code)
