"""Which regular expressions are safe in an engine that backtracks, such as Java's in `transform.sql`.

In: an expression, or a pattern of LIKE. Out: nothing, or a sentence that says why it is refused. Invariant: on any
value, such an engine takes at most polynomial time; a repetition never contains a repetition, or branches that begin
alike.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from framework.config.names.patterns import unfit

# A value of 60 characters can be cut in so many parts in five million ways.
MOST_OF_ANYTHING = 5
_MORE_THAN_ONCE = "it repeats a group that holds a repetition"
_ALIKE = "it repeats a choice whose branches can begin the same way"


def backtracks(pattern: str) -> str | None:
    """Why an expression is refused; None where it may be run."""
    if (found := unfit(pattern)) is not None:
        return found.reason
    return _Scan(pattern).refusal()


def like_backtracks(pattern: str) -> str | None:
    """As `backtracks`, for a pattern of LIKE."""
    return f"it has more than {MOST_OF_ANYTHING} `%`" if pattern.count("%") > MOST_OF_ANYTHING else None


@dataclass
class _RegexGroup:
    """What is known of a group while it is read: whether something in it repeats, and how its branches begin."""

    repeats: bool = False
    chooses: bool = False  # among branches that may begin alike, in a group within
    begins: list[str] = field(default_factory=list)  # "" where a branch does not begin with one certain character
    is_new: bool = True

    def add(self, literal: str) -> None:
        if self.is_new:
            self.begins.append(literal.lower())
            self.is_new = False

    def branch(self) -> None:
        self.add("")
        self.is_new = True

    @property
    def is_a_choice_of_likes(self) -> bool:
        return len(self.begins) > 1 and ("" in self.begins or len(set(self.begins)) < len(self.begins))


class _Scan:
    """Reads an expression that RE2 takes, which has fewer forms than Java's."""

    def __init__(self, pattern: str) -> None:
        self._pattern = pattern
        self._at = 0
        self._groups = [_RegexGroup()]
        self._anything = 0

    def refusal(self) -> str | None:
        while self._at < len(self._pattern):
            if (why := self._next()) is not None:
                return why
        return f"it has more than {MOST_OF_ANYTHING} `.*`" if self._anything > MOST_OF_ANYTHING else None

    def _next(self) -> str | None:
        group = self._groups[-1]
        begin = self._pattern[self._at]
        self._at += 1
        closed: _RegexGroup | None = None
        literal = ""
        if begin == "(":
            self._skip_flags()
            self._groups.append(_RegexGroup())
            return None
        if begin == ")" and len(self._groups) > 1:
            closed = self._groups.pop()
            closed.add("")
            group = self._groups[-1]
            group.repeats |= closed.repeats
            group.chooses |= closed.chooses or closed.is_a_choice_of_likes
        elif begin == "|":
            group.branch()
            return None
        elif begin == "[":
            if (why := self._skip_class()) is not None:
                return why
        elif begin == "\\":
            if self._pattern[self._at] == "Q":
                return "it has `\\Q`"
            self._skip_escape()
        elif begin not in ".^$":
            literal = begin
        least, most = self._quantifier()
        group.add(literal if least else "")
        if least == most:
            return _repeated(closed, most)
        group.repeats = True
        self._anything += begin == "." and most > MOST_OF_ANYTHING
        return _repeated(closed, most)

    def _skip_flags(self) -> None:
        """`?:`, `?P<name>` or flags behind an opening parenthesis, with the one that closes flags alone left in
        place."""
        if self._pattern[self._at] != "?":
            return
        while self._pattern[self._at] not in ":>)":
            self._at += 1
        if self._pattern[self._at] != ")":
            self._at += 1

    def _skip_class(self) -> str | None:
        """Java has classes in classes and cuts of them, and RE2 has neither: what both read alike has no `[` in it, nor
        `&&`."""
        end = self._at + (self._pattern[self._at] == "^")
        end += self._pattern[end] == "]"
        while self._pattern[end] != "]":
            if self._pattern[end] == "[" or self._pattern.startswith("&&", end):
                return "a character class holds `[` or `&&`, which regular expression engines treat differently"
            end += 2 if self._pattern[end] == "\\" else 1
        self._at = end + 1
        return None

    def _skip_escape(self) -> None:
        kind = self._pattern[self._at]
        self._at += 1
        if kind in "xpP" and self._pattern[self._at : self._at + 1] == "{":
            self._at = self._pattern.index("}", self._at) + 1

    def _quantifier(self) -> tuple[int, float]:
        """How often what was just read stands there, at least and at most."""
        sign = self._pattern[self._at : self._at + 1]
        least, most = 1, 1.0
        if sign and sign in "*+?":
            least, most = (1 if sign == "+" else 0), (1.0 if sign == "?" else float("inf"))
            self._at += 1
        elif sign == "{":
            first, comma, last = self._pattern[self._at + 1 :].partition("}")[0].partition(",")
            if not first.isdecimal() or (last and not last.isdecimal()):
                return 1, 1.0  # a brace that stands for itself
            least = int(first)
            most = float(last) if last else float("inf") if comma else float(least)
            self._at = self._pattern.index("}", self._at) + 1
        else:
            return 1, 1.0
        self._at += self._pattern[self._at : self._at + 1] == "?"
        return least, most


def _repeated(closed: _RegexGroup | None, most: float) -> str | None:
    if closed is None or most <= 1:
        return None
    if closed.repeats:
        return _MORE_THAN_ONCE
    return _ALIKE if closed.chooses or closed.is_a_choice_of_likes else None
