"""Java's regular expressions in RE2's words, where both can say the same.

In: an expression of a connector, which Java matches against all of a text. Out: one that RE2 matches against exactly the same
texts, or a sentence about what it holds that means something else there. Invariant: no expression is let through whose meaning
differs; what is not known here is refused. A slow test compares both on made-up expressions and texts.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

_QUANTIFIER = re.compile(r"(?:[*+?]|\{[0-9]+(?:,[0-9]*)?\})(\+?)\??")
_NAMED = re.compile(r"\(\?<[A-Za-z][A-Za-z0-9]*>")
_FLAGS = re.compile(r"\(\?([a-zA-Z]*)(?:-([a-zA-Z]*))?([:)])")
_HEX = re.compile(r"\\x(?:([0-9A-Fa-f]{2})|\{([0-9A-Fa-f]{1,6})\})")
# Java's line ends, at which its `.` stops, and its blanks; RE2 knows fewer of each.
_DOT = r"[^\n\r\x{85}\x{2028}\x{2029}]"
_BLANKS = r"\t\n\x0B\f\r "
_SPECIAL = frozenset(r"\.^$*+?()[]{}|")


class Differs(ValueError):
    """The expression holds something that RE2 lacks or takes for something else."""


@dataclass(frozen=True)
class _Flags:
    folds: bool = False  # ASCII letters alone, as in Java
    dot_is_all: bool = False


def translated(pattern: str, of_topics: bool = False) -> str:
    """The expression for RE2, matched against all of a text.

    Args:
        of_topics: the texts are names of topics, which hold no blanks and no line ends.

    Raises:
        Differs: it cannot be said, and why.
    """
    return "".join(_Translation(pattern, of_topics).parts())


class _Translation:
    def __init__(self, pattern: str, of_topics: bool) -> None:
        self.pattern, self.of_topics = pattern, of_topics
        self.at = 0
        self.flags = _Flags()
        self.groups: list[_Flags] = []

    def parts(self) -> Iterator[str]:
        while self.at < len(self.pattern):
            yield self._next()

    def _next(self) -> str:
        character = self.pattern[self.at]
        if character == "\\":
            return self._escape()
        if character == "[":
            return self._class()
        if character == "(":
            return self._group()
        if found := _QUANTIFIER.match(self.pattern, self.at):
            return self._quantifier(found[0], found[1])
        self.at += 1
        if character == ")":
            if self.groups:
                self.flags = self.groups.pop()
            return ")"
        if character == "$" and (self.groups or self.pattern[self.at :][:1] not in ("", "|")):
            raise Differs("a `$` that is not at its end stands before a last line end, too")
        if character == "{":
            raise Differs("a `{` begins no count")
        if character == "." and not self.of_topics:
            return "(?s:.)" if self.flags.dot_is_all else _DOT
        return character if character in "^$|." else self._literal(character, character)

    def _quantifier(self, text: str, possessive: str) -> str:
        if possessive:
            raise Differs("it has a possessive quantifier")
        self.at += len(text)
        if _QUANTIFIER.match(self.pattern, self.at):
            raise Differs("one quantifier follows another")
        return text

    def _literal(self, character: str, written: str) -> str:
        if self.flags.folds and _is_letter(character):
            return f"[{character.lower()}{character.upper()}]"
        return written

    def _group(self) -> str:
        if not self.pattern.startswith("(?", self.at):
            self.at += 1
            self.groups.append(self.flags)
            return "("
        if found := _NAMED.match(self.pattern, self.at):
            self.at = found.end()
            self.groups.append(self.flags)
            return "("
        found = _FLAGS.match(self.pattern, self.at)
        if found is None:
            raise Differs("it looks around, or has a group of another kind")
        on, off = found[1], found[2] or ""
        if other := set(on + off) - {"i", "s"}:
            raise Differs(f"it has the flag `{min(other)}`")
        self.at = found.end()
        if found[3] == ":":
            self.groups.append(self.flags)
        folds = (self.flags.folds or "i" in on) and "i" not in off
        dot_is_all = (self.flags.dot_is_all or "s" in on) and "s" not in off
        self.flags = _Flags(folds, dot_is_all)
        return "(?:" if found[3] == ":" else ""

    def _escape(self) -> str:
        kind = self.pattern[self.at + 1 : self.at + 2]
        if kind == "Q":
            return self._quoted()
        if kind in ("s", "S") and not self.of_topics:
            self.at += 2
            return f"[{'^' if kind == 'S' else ''}{_BLANKS}]"
        if kind and kind in "dDwWsS":
            self.at += 2
            return f"\\{kind}"
        character, written = self._character()
        return self._literal(character, written)

    def _quoted(self) -> str:
        text, _, rest = self.pattern[self.at + 2 :].partition("\\E")
        self.at = len(self.pattern) - len(rest)
        return "".join(self._literal(each, f"\\{each}" if each in _SPECIAL else each) for each in text)

    def _character(self) -> tuple[str, str]:
        """One character and how it is written, from here on; an escape that both know."""
        character = self.pattern[self.at]
        if character != "\\":
            self.at += 1
            return character, character
        kind = self.pattern[self.at + 1 : self.at + 2]
        if kind == "x" and (found := _HEX.match(self.pattern, self.at)):
            number = int(found[1] or found[2], 16)
            if number > 0x10FFFF:
                raise Differs("a number is no character's")
            self.at = found.end()
            return chr(number), f"\\x{{{number:X}}}"
        if kind and kind in "tnrfa":
            self.at += 2
            return "\t\n\r\f\a"["tnrfa".index(kind)], f"\\{kind}"
        if not kind or not kind.isascii() or kind.isalnum() or kind == "_":
            raise Differs(f"`\\{kind}` means something else, or nothing, in the language of floe's rules")
        self.at += 2
        return kind, f"\\{kind}"

    # ---- classes -------------------------------------------------------------------------------------------------

    def _class(self) -> str:
        self.at += 1
        parts = ["["]
        if self.pattern.startswith("^", self.at):
            self.at += 1
            parts.append("^")
        if self.pattern.startswith("]", self.at):
            raise Differs("a class begins with `]`")
        while not self.pattern.startswith("]", self.at):
            if self.at >= len(self.pattern):
                raise Differs("a class is not closed")
            if self.pattern.startswith("[", self.at):
                raise Differs("a class stands in a class")
            if self.pattern.startswith("&&", self.at):
                raise Differs("a class is cut with another (`&&`)")
            parts.append(self._member())
        self.at += 1
        return "".join(parts) + "]"

    def _member(self) -> str:
        kind = self.pattern[self.at + 1 : self.at + 2] if self.pattern[self.at] == "\\" else ""
        if kind and kind in "dDwWs":
            self.at += 2
            if self._is_range():
                raise Differs("a range begins with a class")
            return _BLANKS if kind == "s" and not self.of_topics else f"\\{kind}"
        first, written = self._character()
        if not self._is_range():
            return written + (first.swapcase() if self.flags.folds and _is_letter(first) else "")
        self.at += 1
        if self.pattern[self.at] == "[":
            raise Differs("a class stands in a class")
        last, text = self._character()
        return f"{written}-{text}{self._folded(first, last) if self.flags.folds else ''}"

    def _is_range(self) -> bool:
        """Whether a `-` follows that is no character itself."""
        return self.pattern.startswith("-", self.at) and self.pattern[self.at + 1 : self.at + 2] not in ("", "]")

    def _folded(self, first: str, last: str) -> str:
        if all(map(_is_letter, (first, last))) and first.isupper() == last.isupper():
            return f"{first.swapcase()}-{last.swapcase()}"
        if first <= "z" and last >= "A":
            raise Differs("a range without regard to case begins or ends within the letters")
        return ""


def _is_letter(character: str) -> bool:
    return character.isascii() and character.isalpha()
