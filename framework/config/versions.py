"""Versions of the file format, and the migration from an older one to the current one.

In: the text of a pipeline, target or template file. Out: the text in the current version, or what is wrong with the
version that it names. A step is a pure function from text to text that keeps what it does not change to the byte; the
line with the version is changed here.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from framework.config.document import read_head
from framework.config.text import SourceText
from framework.config.tree import Scalar
from framework.diagnose.diagnostic import Diagnostic, Span

CURRENT = "floe/v1"
CODE = "FLOE-C219"
# By the version that a step begins from: the version that it leads to, and what it does to a text.
Steps = Mapping[str, tuple[str, Callable[[str], str]]]
STEPS: Steps = {}
_NUMBERED = re.compile(r"floe/v([0-9]{1,4})\Z")


@dataclass(frozen=True)
class Migration:
    """`version` is what the file named; `text` is the file in the current version, None when something is wrong with
    it."""

    version: str
    text: str | None
    findings: tuple[Diagnostic, ...] = ()


def migrate(source: SourceText, steps: Steps = STEPS, current: str = CURRENT) -> Migration:
    """A file's text in the current version."""
    head = read_head(source)
    node = head.tree.get("apiVersion") if head.tree else None
    if not isinstance(node, Scalar):
        missing = Diagnostic("FLOE-C202", "the file has no `apiVersion`", head.tree.span if head.tree else None,
                             path="apiVersion", remedy=f"add `apiVersion: {current}`")  # fmt: skip
        return Migration("", None, (*head.findings, *(() if head.findings else (missing,))))
    first = version = str(node.value)
    text = source.text
    while version != current:
        if version not in steps:
            return Migration(first, None, (unknown_version(first, node.span, steps),))
        later, step = steps[version]
        text = _with_version(step(text), version, later)
        version = later
    return Migration(first, text)


def unknown_version(version: str, span: Span, steps: Steps = STEPS) -> Diagnostic:
    """What is said of a version that is not the current one."""
    message = f"`apiVersion` is `{version}`, and this floe reads `{CURRENT}`"
    number, own = _NUMBERED.match(version), _NUMBERED.match(CURRENT)
    if version in steps:
        remedy, hint = "run `floe migrate` on the file", None
    elif number and own and int(number[1]) > int(own[1]):
        remedy, hint = "use a newer floe: the file was written for one", None
    else:
        remedy, hint = f"write `{CURRENT}`", f"did you mean `{CURRENT}`?"
    return Diagnostic(CODE, message, span, path="apiVersion", hint=hint, remedy=remedy)


def _with_version(text: str, version: str, later: str) -> str:
    """The text with another version in its line, whatever quotes or comments that has."""
    return re.sub(rf"""(?m)^(apiVersion:[ ]*["']?){re.escape(version)}(?=["'\s]|$)""", rf"\g<1>{later}", text, count=1)
