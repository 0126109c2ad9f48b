"""One page of `floe explain`, as a value."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class CodeEntry:
    """What a code means.

    Args:
        title: a few words without a full stop.
        text: when it appears, why it is refused and what to do.
        wrong: an example that gives the code: keys of a file of the kind `about`, or arguments of `floe`.
        right: the same, mended. A test loads both.
        about: `pipeline`, `target`, `template` or `command`. The keys of an example replace those of a small whole
            file; a line `# file: NAME` begins another file beside it.
    """

    code: str
    title: str
    text: str
    wrong: str = ""
    right: str = ""
    about: str = "pipeline"
