"""The Jinja environment of templates: they have no access to environment variables, files, the clock or random numbers.

In: nothing. Out: an environment in which control lines begin with `#%` and expressions are in `{{ }}`, so that a file
is valid YAML even before it is rendered. Only listed filters and globals are allowed, and work is bounded, since
templates come from other teams.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from types import CodeType
from typing import Any

from jinja2 import BaseLoader, StrictUndefined, nodes
from jinja2.compiler import CodeGenerator, Frame
from jinja2.ext import Extension
from jinja2.filters import do_batch, do_round
from jinja2.parser import Parser
from jinja2.sandbox import ImmutableSandboxedEnvironment

# What a value may not hold, since it could then leave the quotes around its `{{ }}`.
UNSAFE = re.compile(r"[\"'\\\x00-\x1f\x7f\x85\u2028\u2029\ue000-\ue003]")
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
EACH = "__each"  # what every loop goes through
MAX_OUTPUT = 4 * 1024 * 1024
MAX_TEXT = 64 * 1024  # characters of one value
MAX_WORK = 64 * 1024 * 1024  # characters of all values that are made
MAX_DIGITS_BITS = 256
# Methods of text that give no more than they get. `ljust`, `format`, `replace` and the like make texts of any length.
TEXT_METHODS = frozenset(
    [
        "capitalize", "count", "endswith", "find", "index", "isalnum", "isalpha", "isascii", "isdecimal", "isdigit",
        "isidentifier", "islower", "isnumeric", "isspace", "istitle", "isupper", "lower", "lstrip", "partition", "removeprefix",
        "removesuffix", "rfind", "rindex", "rpartition", "rsplit", "rstrip", "split", "splitlines", "startswith", "strip",
        "swapcase", "title", "upper",
    ]
)  # fmt: skip


class UnsafeValue(Exception):
    """A value that could leave the quotes around its `{{ }}`. `value` is the value, cut."""

    def __init__(self, value: object) -> None:
        super().__init__(value)
        self.value = value


class TooMuch(Exception):
    """A template asks for more work or output than any pipeline needs."""


class TextInLoop(Exception):
    """`#% for` was given a text, and would go through its characters. `text` is the text, cut."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.text = text[:40]


class InsertStatement(Extension):
    """`#% insert macro(...)`: puts whole lines that a macro makes here; `{{ }}` is for what stands inside quotes."""

    tags = {"insert"}  # noqa: RUF012

    def parse(self, parser: Parser) -> nodes.Node:
        line = next(parser.stream).lineno
        call = self.call_method("_interpolated", [parser.parse_expression()])
        return nodes.CallBlock(call, [], [], []).set_lineno(line)

    def _interpolated(self, value: object, caller: object) -> str:
        return str(value)


class _Generator(CodeGenerator):
    """`~` is counted before it is done."""

    def visit_Concat(self, node: nodes.Concat, frame: Frame) -> None:
        self.write("environment.joined((")
        for part in node.nodes:
            self.visit(part, frame)
            self.write(", ")
        self.write("))")


class _CountingParser(Parser):
    """Every loop goes through the filter that counts its turns."""

    def parse_for(self) -> nodes.For:
        loop = super().parse_for()
        loop.iter = nodes.Filter(loop.iter, EACH, [], [], None, None).set_lineno(loop.lineno)
        return loop


class Sandbox(ImmutableSandboxedEnvironment):
    """Jinja's sandbox with bounded arithmetic and includes that are relative to the including file."""

    code_generator_class = _Generator
    intercepted_binops = frozenset(["+", "-", "*", "/", "//", "%", "**"])

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
            optimized=False,  # a template is rendered once or a few times: folding its constants takes longer
        )
        self._join = join
        self.filters = {name: self.filters[name] for name in FILTERS}
        self.filters |= {"replace": _replace, "join": _join_filter, "batch": _batch, "round": _round, EACH: self._each}
        self.globals = {"range": _Budget()}
        self._steps, self._work = MAX_ITEMS, MAX_WORK

    def compile(self, source: str, name: str | None = None, filename: str | None = None, **_: Any) -> CodeType:  # type: ignore[override]  # what a loader asks for
        return _compiled(source, name, filename)

    def getattr(self, obj: Any, attribute: str) -> Any:
        """`param.values` is the parameter, not a method of the mapping that holds it."""
        if isinstance(obj, Mapping):
            return obj[attribute] if attribute in obj else self.undefined(obj=obj, name=attribute)
        return super().getattr(obj, attribute)

    def is_safe_attribute(self, obj: Any, attr: str, value: Any) -> bool:
        if isinstance(obj, str):
            return attr in TEXT_METHODS
        if isinstance(obj, (int, float, list, tuple, bytes)):
            return False
        return bool(super().is_safe_attribute(obj, attr, value))

    def wrap_str_format(self, value: Any) -> None:
        """Jinja would give `format` a place of its own, beside what is safe; a width in it makes texts of any
        length."""
        return

    def _parse(self, source: str, name: str | None, filename: str | None) -> nodes.Template:
        return _CountingParser(self, source, name, filename).parse()

    def _each(self, items: Any) -> Iterator[Any]:
        if isinstance(items, str):
            raise TextInLoop(items)
        return self._counted(items)

    def _counted(self, items: Any) -> Iterator[Any]:
        for item in items:
            self.step()
            yield item

    def step(self) -> None:
        """One turn of a loop, call or include."""
        self._steps -= 1
        if self._steps < 0:
            raise TooMuch(f"it takes more than {MAX_ITEMS} steps")

    def joined(self, parts: tuple[object, ...]) -> str:
        texts = []
        length = 0
        for part in parts:
            texts.append(_bounded_text(part))
            length += len(texts[-1])
            if length > MAX_TEXT:
                raise TooMuch(f"a text has more than {MAX_TEXT} characters")
        self._charge(length)
        return "".join(texts)

    def concat(self, parts: Any) -> str:
        texts = []
        for part in parts:
            self._charge(len(part))
            texts.append(part)
        return "".join(texts)

    def _charge(self, length: int) -> None:
        self._work -= length
        if self._work < 0:
            raise TooMuch("it produces too much text")

    def call(self, context: Any, obj: Any, /, *args: Any, **kwargs: Any) -> Any:
        self.step()
        return super().call(context, obj, *args, **kwargs)

    def get_template(self, name: Any, parent: str | None = None, globals: Any = None) -> Any:
        self.step()
        return super().get_template(name, parent, globals)

    def join_path(self, template: str, parent: str) -> str:
        return self._join(template, parent)

    def call_binop(self, context: Any, operator: str, left: Any, right: Any) -> Any:
        numbers = isinstance(left, (int, float)) and isinstance(right, (int, float))
        if operator == "+" and type(left) is type(right) and isinstance(left, (str, list)):
            if len(left) + len(right) > MAX_TEXT:
                raise TooMuch("`+` gives too much")
            self._charge(len(left) + len(right))
            return left + right
        if operator in ("*", "**", "%") and not numbers:
            raise TooMuch(f"`{operator}` is for small numbers")
        if operator == "**" and (abs(left) > 1000 or abs(right) > 20):
            raise TooMuch(f"`{operator}` is for small numbers")
        found = super().call_binop(context, operator, left, right)
        if isinstance(found, int) and found.bit_length() > MAX_DIGITS_BITS:
            raise TooMuch(f"`{operator}` gives a number of too many digits")
        return found


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


def _bounded_text(value: object, most: int = MAX_TEXT) -> str:
    if isinstance(value, (list, tuple, Mapping)) and _size(value) > most:
        raise TooMuch("a value is too large to be text")
    return str(value)


def _size(value: object) -> int:
    """About how many characters a value has as text."""
    if isinstance(value, Mapping):
        return sum(_size(key) + _size(each) for key, each in value.items())
    if isinstance(value, (list, tuple)):
        return sum(map(_size, value))
    return len(value) if isinstance(value, str) else 20


def _replace(text: object, old: str, new: str, count: int = -1) -> str:
    text, old, new = _bounded_text(text), _bounded_text(old), _bounded_text(new)
    if len(text) + (text.count(old) if old else len(text) + 1) * max(0, len(new) - len(old)) > MAX_TEXT:
        raise TooMuch("`replace` gives too much text")
    return text.replace(old, new, -1 if count is None else count)


def _join_filter(values: Any, d: object = "", attribute: str | int | None = None) -> str:
    separator = _bounded_text(d)
    texts: list[str] = []
    length = 0
    for value in values:
        for part in () if attribute is None else str(attribute).split("."):
            value = value[int(part) if part.isdecimal() else part]
        texts.append(_bounded_text(value))
        length += len(texts[-1]) + len(separator)
        if length > MAX_OUTPUT:
            raise TooMuch("`join` gives too much text")
    return separator.join(texts)


def _batch(value: Any, linecount: int, fill_with: object = None) -> Iterator[list[Any]]:
    if linecount > MAX_ITEMS:
        raise TooMuch("`batch` gives too many items")
    return do_batch(value, linecount, fill_with)


def _round(value: float, precision: int = 0, method: Any = "common") -> float:
    if abs(precision) > 20:
        raise TooMuch("`round` is for at most 20 digits")
    return do_round(value, precision, method)


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
    if UNSAFE.search(value):
        raise UnsafeValue(value)
    return value
