"""Regular expressions that are compiled when they are first used.

In: what `re.compile` takes. Out: something that answers as its result does. Compiling all expressions of floe takes as long
as checking thirty files, and a right file needs few of them.
"""

from __future__ import annotations

import re
from typing import Any, cast

_METHODS = ("match", "fullmatch", "search", "finditer", "findall", "split", "sub", "subn")


def late_pattern(text: str, flags: int = 0) -> re.Pattern[str]:
    """The expression, for its methods only; `re.sub(expression, ...)` wants one of `re.compile`."""
    return cast("re.Pattern[str]", _LatePattern(text, flags))


class _LatePattern:
    """Looks like a pattern. Once it is asked for a method it has those of the compiled one as its own attributes."""

    def __init__(self, pattern: str, flags: int) -> None:
        self.pattern, self._flags = pattern, flags

    def __getattr__(self, name: str) -> Any:
        if name not in _METHODS:
            raise AttributeError(name)
        compiled = re.compile(self.pattern, self._flags)
        vars(self).update((method, getattr(compiled, method)) for method in _METHODS)
        return getattr(compiled, name)
