"""One page of `floe explain`, as a value: what a code means, and an example or a transcript of it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class ShownAs(str, Enum):
    """In which of its forms floe shows a trouble."""

    ERROR = "error"
    FINDING = "finding"
    WARNING = "warning"
    STATUS = "status"
    PLAN = "plan"


@dataclass(frozen=True)
class Transcript:
    """What a person ran and saw, and how to repair it.

    Args:
        command: arguments of `floe` that ended with the code.
        message: the sentence of the error.
        place: what it is about. For findings `FILE:LINE:COLUMN`, for `floe status` the subject, its state and for how
            long.
        remedy: the remedy that floe shows; "" for none.
        repairs: lines for a shell. A line that begins with `#` says when the lines below it are meant.
        shown_as: the form in which it is shown.
        printed: the code that is shown, where it is another one: a table's refusal reaches people as that of a record.
    """

    command: str
    message: str
    place: str
    remedy: str
    repairs: tuple[str, ...]
    shown_as: ShownAs = ShownAs.ERROR
    printed: str = ""


@dataclass(frozen=True)
class CodeEntry:
    """What a code means.

    Args:
        title: a few words without a full stop.
        text: when it appears, why it is refused and what to do.
        wrong: an example that gives the code: keys of a file of the kind `about`, or arguments of `floe`.
        right: the same, repaired. A test loads both.
        about: `pipeline`, `target`, `template` or `command`. The keys of an example replace those of a small whole
            file; a line `# file: NAME` begins another file beside it.
        transcript: for what no file alone can show.
    """

    code: str
    title: str
    text: str
    wrong: str = ""
    right: str = ""
    about: str = "pipeline"
    transcript: Transcript | None = None
