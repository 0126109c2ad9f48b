"""The Jinja environment of templates: structure only, with no way to the environment, to files, to the clock or to chance.

In: nothing. Out: an environment in which control lines begin with `#%` and expressions stand in `{{ }}`; so a file that is
not rendered yet is YAML all the same. Filters and globals are an allow-list, and work is bounded, since templates come
from other teams.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from types import CodeType
from typing import Any

from jinja2 import BaseLoader, StrictUndefined, nodes
from jinja2.ext import Extension
from jinja2.parser import Parser
from jinja2.sandbox import ImmutableSandboxedEnvironment

FILTERS = frozenset(
    [
        "abs",
        "batch",
        "capitalize",
        "default",
        "dictsort",
        "first",
        "float",
        "int",
        "items",
        "join",
        "last",
        "length",
        "list",
        "lower",
        "map",
        "max",
        "min",
        "reject",
        "rejectattr",
        "replace",
        "reverse",
        "round",
        "select",
        "selectattr",
        "sort",
        "string",
        "sum",
        "title",
        "trim",
        "unique",
        "upper",
    ]
)
MAX_ITEMS = 100_000
MAX_OUTPUT = 4 * 1024 * 1024
_UNSAFE = re.compile(r"[\"'\\\x00-\x1f\x7f\x85\u2028\u2029\ue000-\ue003]")


class UnsafeValue(Exception):
    """A value that could leave the quotes around its `{{ }}`. `value` is the value, cut."""

    def __init__(self, value: object) -> None:
        super().__init__(value)
        self.value = value


class TooMuch(Exception):
    """A template asks for more work or output than any pipeline needs."""


class InsertStatement(Extension):
    """`#% insert macro(...)`: puts whole lines that a macro makes here; `{{ }}` is for what stands inside quotes."""

    tags = {"insert"}  # noqa: RUF012

    def parse(self, parser: Parser) -> nodes.Node:
        line = next(parser.stream).lineno
        call = self.call_method("_text", [parser.parse_expression()])
        return nodes.CallBlock(call, [], [], []).set_lineno(line)

    def _text(self, value: object, caller: object) -> str:
        return str(value)


class Sandbox(ImmutableSandboxedEnvironment):
    """Jinja's sandbox with bounded arithmetic and includes that are relative to the including file."""

    intercepted_binops = frozenset(["*", "**"])

    def __init__(self, loader: BaseLoader, join: Callable[[str, str], str]) -> None:
        super().__init__(
            loader=loader,
            undefined=StrictUndefined,
            finalize=finalize,
            keep_trailing_newline=True,
            line_statement_prefix="#%",
            # Only `#%` lines and quoted `{{ }}`: block tags and comments would not be YAML before rendering.
            block_start_string="\ue002%",
            block_end_string="%\ue002",
            comment_start_string="\ue002#",
            comment_end_string="#\ue002",
            extensions=[InsertStatement],
        )
        self._join = join
        self.filters = {name: self.filters[name] for name in FILTERS}
        self.globals = {"range": _Budget()}

    def compile(self, source: str, name: str | None = None, filename: str | None = None, **_: Any) -> CodeType:  # type: ignore[override]  # what a loader asks for
        return _compiled(source, name, filename)

    def getattr(self, obj: Any, attribute: str) -> Any:
        """`param.values` is the parameter, not a method of the mapping that holds it."""
        if isinstance(obj, Mapping):
            return obj[attribute] if attribute in obj else self.undefined(obj=obj, name=attribute)
        return super().getattr(obj, attribute)

    def join_path(self, template: str, parent: str) -> str:
        return self._join(template, parent)

    def call_binop(self, context: Any, operator: str, left: Any, right: Any) -> Any:
        numbers = isinstance(left, (int, float)) and isinstance(right, (int, float))
        if not numbers or (operator == "**" and (abs(left) > 1000 or abs(right) > 20)):
            raise TooMuch(f"`{operator}` is for small numbers")
        return super().call_binop(context, operator, left, right)


@lru_cache(maxsize=32)
def _compiled(text: str, name: str | None, filename: str | None) -> CodeType:
    """A template's code, which hangs on its text alone: a shared template is used by many files of one command."""
    plain = Sandbox(BaseLoader(), lambda one, other: one)
    return super(Sandbox, plain).compile(text, name, filename)


class _Budget:
    """`range`, of which a template gets `MAX_ITEMS` numbers in all."""

    def __init__(self) -> None:
        self.left = MAX_ITEMS

    def __call__(self, *arguments: int) -> Iterator[int]:
        numbers = range(*arguments)
        self.left -= len(numbers)
        if self.left < 0:
            raise TooMuch(f"`range` gives more than {MAX_ITEMS} numbers")
        return iter(numbers)


def finalize(value: object) -> object:
    """What `{{ }}` prints: text, numbers and booleans that cannot leave their quotes.

    Raises:
        UnsafeValue: the value holds a quote, a backslash or a control character, or is no plain value.
    """
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (int, float)):
        return value
    if not isinstance(value, str):
        if isinstance(value, StrictUndefined):
            return value  # Jinja itself says which name is undefined
        raise UnsafeValue(value)
    if _UNSAFE.search(value):
        raise UnsafeValue(value)
    return value
