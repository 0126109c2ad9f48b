"""The regular expressions inside `transform.sql`: constants that Java's engine, which backtracks, runs in time.

In: an expression as Spark's parser reads it. Out: nothing, or a sentence that says why it is refused. Invariant: every
pattern that Spark gives to `java.util.regex` is a literal that framework.config.names.backtracking accepts, so no record can
supply one.
"""

from __future__ import annotations

from typing import Any

from framework.config.names.backtracking import backtracks, like_backtracks

# Which argument is a regular expression, in functions by name and in the nodes that operators become.
_OF_FUNCTIONS = {
    **dict.fromkeys(("regexp", "regexp_like", "rlike", "split"), (1,)),
    **dict.fromkeys(("regexp_count", "regexp_extract", "regexp_extract_all", "regexp_instr", "regexp_replace"), (1,)),
    "regexp_substr": (1,),
    "str_to_map": (1, 2),
    "parse_url": (2,),
    "try_parse_url": (2,),
}
_LIKE_FUNCTIONS = frozenset(("like", "ilike"))
_LIKE_NODES = frozenset(("Like", "ILike"))
_LIKE_MANY = frozenset(("LikeAll", "LikeAny", "NotLikeAll", "NotLikeAny"))
FUNCTIONS = _OF_FUNCTIONS.keys() | _LIKE_FUNCTIONS


def refused_pattern(name: str, expression: Any) -> str | None:
    """Why an expression is refused for a pattern in it. `name` is its class."""
    if name == "RLike":
        return _expression_at(expression, (1,), "RLIKE")
    if name in _LIKE_NODES:
        return _like_at(expression, name.upper())
    if name in _LIKE_MANY:
        patterns = expression.patterns()
        found = (like_backtracks(str(patterns.apply(i))) for i in range(patterns.size()))
        return next((_said("LIKE", str(patterns.apply(i)), why) for i, why in enumerate(found) if why), None)
    if name != "UnresolvedFunction":
        return None
    parts = expression.nameParts()
    function = str(parts.apply(parts.size() - 1)).lower()
    if function in _LIKE_FUNCTIONS:
        return _like_at(expression, f"{function}()")
    return _expression_at(expression, _OF_FUNCTIONS.get(function, ()), f"{function}()")


def _expression_at(expression: Any, places: tuple[int, ...], where: str) -> str | None:
    for place in places:
        if place < expression.children().size():
            pattern = _literal(expression.children().apply(place))
            why = _NOT_CONSTANT if pattern is None else backtracks(pattern) if pattern else None
            if why is not None:
                return _said(where, pattern, why)
    return None


def _like_at(expression: Any, where: str) -> str | None:
    if expression.children().size() < 2:
        return None
    pattern = _literal(expression.children().apply(1))
    why = _NOT_CONSTANT if pattern is None else like_backtracks(pattern)
    return None if why is None else _said(where, pattern, why)


_NOT_CONSTANT = "it must be a literal in the file, so that no record can supply one that never ends"


def _said(where: str, pattern: str | None, why: str) -> str:
    what = "the pattern" if pattern is None else f"the pattern `{pattern}`"
    return f"{what} of {where} may block a worker for hours: {why}"


def _literal(expression: Any) -> str | None:
    """The text of a literal; "" where it is NULL, None where it is no literal."""
    if str(expression.getClass().getSimpleName()) != "Literal":
        return None
    value = expression.value()
    return "" if value is None else str(value.toString() if hasattr(value, "toString") else value)
