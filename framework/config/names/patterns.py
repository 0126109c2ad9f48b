"""The regular expressions of pipeline files. They run on untrusted data, so RE2 runs them: its time is linear in the
text.

In: a pattern. Out: whether it matches a part of a text or all of it, or a sentence that says why it cannot be run.
Invariant: every pattern of a pipeline file that meets data is compiled here, so that no value of a record can block a
worker.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

from framework.errors import ConfigError

if TYPE_CHECKING:
    import re2

# RE2 falls back to stepping through all instructions for each byte where its table of states grows too large: with so
# many a value of a megabyte takes seconds at the worst, and not minutes.
MOST_INSTRUCTIONS = 4_000
NOT_ONE, NOT_RUN = "FLOE-C207", "FLOE-C220"

_ONE_PATTERN = "make it a part of the pattern, or test the field again under `and:`"
# What Python's expressions may hold and RE2's may not, looked for outside of character classes and escapes.
_UNSUPPORTED = (
    (r"\(\?<?[=!]", "it looks ahead or behind", _ONE_PATTERN),
    (r"\(\?P=|\\[1-9]", "it refers back to a group", "name the values, or use one rule for each"),
    (r"\(\?\(", "it has a conditional group", "use one rule for each case"),
    (r"\(\?>|[*+?}]\+", "it has an atomic group or a possessive quantifier", "leave it out: RE2 never backtracks"),
    (r"\(\?#|\(\?[a-zA-Z]*x", "it has comments or uses the verbose syntax", "write it without blanks and comments"),
    (r"\(\?[a-zA-Z]*[auL]", "it has a flag that is not supported", "use only `i`, `m` and `s`"),
    (r"\\Z", "it has `\\Z`", "write `\\z`"),
    (r"\\[uU]", "it gives a character by its number", "write the character itself, or `\\x{00e9}`"),
    (r"\\N", "it gives a character by its name", "write the character itself"),
)  # fmt: skip
_CLASS = re.compile(r"(\\[xpP]\{[^}]*(?:\}|\Z)|\\.)|\[\^?\]?(?:\\.|[^\]\\])*(?:\]|\\?\Z)", re.DOTALL)


@dataclass(frozen=True)
class Unfit:
    """Why a pattern cannot be run: `code` says whether it is none at all or one that floe does not run."""

    code: str
    reason: str
    remedy: str


class Pattern:
    """A compiled pattern; any text may be asked for, also one that no encoding has."""

    def __init__(self, compiled: re2._Regexp) -> None:
        self._compiled = compiled

    def is_within(self, text: str) -> bool:
        return self._compiled.search(_bytes(text)) is not None

    def is_all_of(self, text: str) -> bool:
        return self._compiled.fullmatch(_bytes(text)) is not None


@lru_cache(maxsize=1024)
def _capturing(pattern: str) -> re2._Regexp:
    import re2

    options = re2.Options()
    options.log_errors = False
    return re2.compile(pattern, options)


def groups(pattern: str) -> frozenset[str]:
    """The names of a pattern's groups; none of one that cannot be run."""
    return frozenset() if unfit(pattern) is not None else frozenset(_capturing(pattern).groupindex)


def captured(pattern: str, text: str) -> dict[str, str] | None:
    """What the named groups of a pattern match where it is first found in a text, without those that match nothing;
    None where it is not in the text."""
    found = _capturing(pattern).search(text)
    return None if found is None else {name: value for name, value in found.groupdict().items() if value is not None}


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def _is_text(pattern: str) -> bool:
    return not any("\ud800" <= character <= "\udfff" for character in pattern)


@lru_cache(maxsize=1024)
def compiled(pattern: str) -> Pattern:
    """The pattern, ready to run.

    Raises:
        ConfigError: it cannot be run; `floe validate` says so before.
    """
    found = _compiled(pattern)
    if isinstance(found, Unfit):
        raise ConfigError(f"`{pattern}` cannot be run: {found.reason}", code=found.code, remedy=found.remedy)
    return found


def unfit(pattern: str) -> Unfit | None:
    """Why a pattern cannot be run, None where it can."""
    found = _compiled(pattern)
    return found if isinstance(found, Unfit) else None


def _compiled(pattern: str) -> Pattern | Unfit:
    import re2  # here, since most files have no pattern

    if not pattern:
        return Unfit(NOT_ONE, "it is empty", "write at least one character")
    repeats = _CLASS.sub("[]", pattern)
    # RE2 takes both for text.
    if re.search(r"\{,[0-9]+\}", repeats):
        return Unfit(NOT_RUN, "`{,n}` has no beginning", "write `{0,n}`")
    if re.search(r"\{(?:[0-9]{5,}(?:,[0-9]*)?|[0-9]*,[0-9]{5,})\}", repeats):
        return Unfit(NOT_ONE, "it is too large", "use smaller repeat counts")
    if not _is_text(pattern):
        return Unfit(NOT_RUN, "it holds a lone surrogate", "write the character itself, or `\\x{00e9}`")
    options = re2.Options()
    options.log_errors = False
    options.never_capture = True
    try:
        made = re2.compile(pattern, options)
    except re2.error as error:
        return _explained(pattern, error)
    if made.programsize > MOST_INSTRUCTIONS:
        return Unfit(NOT_RUN, "it is too large", "use smaller repeat counts, or several rules")
    return Pattern(made)


def _explained(pattern: str, error: Exception) -> Unfit:
    try:
        re.compile(pattern)
    except re.error as wrong:
        where = f" at its character {wrong.pos + 1}" if wrong.pos is not None else ""
        return Unfit(NOT_ONE, f"{wrong.msg}{where}", "correct it, or escape special characters with `\\`")
    except (OverflowError, RecursionError):
        return Unfit(NOT_ONE, "it is too large", "use smaller repeat counts")
    bare = _CLASS.sub(lambda found: found[1] or "[]", pattern)
    for what, reason, remedy in _UNSUPPORTED:
        if re.search(what, bare):
            return Unfit(NOT_RUN, reason, remedy)
    said = error.args[0]
    text = said.decode("utf-8", "replace") if isinstance(said, bytes) else str(said)
    return Unfit(NOT_RUN, text, "use RE2's syntax: https://github.com/google/re2/wiki/Syntax")
