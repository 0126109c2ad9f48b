"""Makes text of unknown origin safe to show: nothing in it moves a cursor, hides a word or begins a line.

In: any text. Out: the same text, with an escape for each character that is invisible or has an effect. Records, names,
keys and servers' answers come from others; they reach terminals and log lines only through here.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from dataclasses import fields, is_dataclass, replace
from enum import Enum
from operator import is_
from typing import Any, TypeVar
from unicodedata import category

T = TypeVar("T")

# Characters that are not seen as themselves: controls (C0, C1, DEL), formats (bidi overrides, zero width), surrogates,
# private and unassigned ones, and what separates lines and paragraphs.
_UNSEEN = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
_SEEN = re.compile(r"[\x20-\x7e]*\Z")
_SEEN_LINES = re.compile(r"[\x20-\x7e\n\t]*\Z")
_KAFKAS = re.compile(r"kafka-[a-z]+\.sh\Z")
# Colours and weights, as floe sets them itself; nothing that moves, hides, blinks, links or asks the terminal.
_STYLE = re.compile(r"\x1b\[(?:(?:0|1|2|3|4|2[2-4]|3[0-79]|9[0-7]|38;5;\d{1,3})(?:;(?=[0-9])|(?=m)))*m")


def shown(text: str) -> str:
    """One line: all that is unseen is escaped, line breaks with it."""
    if _SEEN.match(text):
        return text
    return "".join(repr(c)[1:-1] if category(c) in _UNSEEN else c for c in text)


def argument(value: object) -> str:
    """A value as one word of a command that stands in a sentence, between back quotes. What no such sentence can hold is
    left for its reader to fill in: NAME."""
    text = str(value)
    is_word = "`" not in text and not text.startswith("-") and shown(text) == text
    return shlex.quote(text) if is_word else "NAME"


def is_command(text: str) -> bool:
    """Whether a text is one command of floe's or Kafka's with nothing but its words, each quoted where it has to be."""
    try:
        words = shlex.split(text)
    except ValueError:
        return False
    is_known = bool(words) and (words[0] == "floe" or _KAFKAS.match(words[0]) is not None)
    return is_known and shlex.join(words) == text == shown(text)


def shown_lines(text: str, styled: bool = False) -> str:
    """Lines that floe has put together: its own line breaks, tabs and, where `styled`, colours stay. The escapes are
    JSON's, so that a line of JSON says the same afterwards."""
    if _SEEN_LINES.match(text):
        return text
    if styled and "\x1b" in text:
        parts, at = [], 0
        for found in _STYLE.finditer(text):
            parts += [shown_lines(text[at : found.start()]), found[0]]
            at = found.end()
        return "".join([*parts, shown_lines(text[at:])])
    text = text.replace("\r\n", "\n")
    return "".join(_json_escape(c) if c not in "\n\t" and category(c) in _UNSEEN else c for c in text)


def _json_escape(character: str) -> str:
    code = ord(character)
    if code < 0x10000:
        return f"\\u{code:04x}"
    code -= 0x10000
    return f"\\u{0xD800 + (code >> 10):04x}\\u{0xDC00 + (code & 0x3FF):04x}"


def all_shown(value: T) -> T:
    """A value of dataclasses and containers, each text in it as `shown`; for whoever prints one whole."""
    return _all(value)  # type: ignore[no-any-return]


def _all(value: Any) -> Any:
    if isinstance(value, str) and not isinstance(value, Enum):
        return shown(value)
    if is_dataclass(value) and not isinstance(value, type):
        other = {}
        for each in fields(value):
            held = getattr(value, each.name)
            if each.init and (harmless := _all(held)) is not held:
                other[each.name] = harmless
        return replace(value, **other) if other else value
    if isinstance(value, Mapping):
        return {_all(key): _all(item) for key, item in value.items()}
    if isinstance(value, tuple) and not hasattr(value, "_fields"):
        items = tuple([_all(item) for item in value])
        return value if all(map(is_, items, value)) else items
    if isinstance(value, list | frozenset | set):
        return type(value)(_all(item) for item in value)
    return value
