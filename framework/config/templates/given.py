"""Which parameter a wrong value came from, so that a mistake is reported where the pipeline made it.

In: where a pipeline gives its parameters, and a place in a template. Out: the place of the parameter that the template
uses there. A default, and text that uses no parameter, are the template's own, and stay where they are.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from framework.config.text import SourceText
from framework.diagnose.diagnostic import Span

_COLLECTION = re.compile(r"\[|\{(?!\{)")
_PIECE = re.compile(r"\$\{(param\.[A-Za-z0-9_]*)\}|\{\{(.*?)(?:\}\}|$)", re.MULTILINE)
_NAME = re.compile(r"(?<![A-Za-z0-9_.])(param\.)?([A-Za-z_][A-Za-z0-9_]*)")
# `#% for topic in param.topics` and `#% set topic = param.topic`: another name of the same parameter.
_OTHER_NAME = re.compile(r"^[ \t]*#%-?[ \t]*(?:for[ \t]+(\w+)[ \t]+in|set[ \t]+(\w+)[ \t]*=)[ \t]+param\.(\w+)", re.M)


@dataclass(frozen=True)
class GivenValues:
    """`values` are the places of the parameters that a pipeline gives, by name; `whole` is the key above them."""

    values: Mapping[str, Span]
    whole: Span

    def cause(self, source: SourceText, span: Span) -> Span | None:
        """The place of the parameter that a template's value uses: the key above them where it uses several, None where
        it uses none. A list or a mapping is not a value that a parameter made."""
        if span.line != span.end_line:
            return None
        text = source.line(span.line)[span.column - 1 : span.end_column - 1]
        if _COLLECTION.match(text):
            return None
        used = {name for name in _used(source, text) if name in self.values}
        return self.values[used.pop()] if len(used) == 1 else self.whole if used else None


def _used(source: SourceText, text: str) -> Iterator[str]:
    pieces = [one or other for one, other in _PIECE.findall(text)]
    others = {loop or name: parameter for loop, name, parameter in _OTHER_NAME.findall(source.text)} if pieces else {}
    for piece in pieces:
        for param, name in _NAME.findall(piece):
            if param or name in others:
                yield name if param else others[name]
