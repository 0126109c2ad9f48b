"""Twice as much to check takes about twice as long: pages and commands that check others' files are not held up."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable
from fnmatch import fnmatchcase

import pytest
from hypothesis import given
from hypothesis import strategies as st

from framework.config.rules.tables import _WILD, _Globs
from framework.ops.backend import _of_file

HEAD = "apiVersion: floe/v1\nkind: Pipeline\nmetadata: {name: a}\nsource: {kafka: {topics: [a]}, schema: {id: long}}\n"


def rules(count: int) -> str:
    each = ",\n".join(f"{{table: shop.t{i}, when: {{field: id, equals: {i}}}}}" for i in range(count))
    return f"{HEAD}routes: {{rules: [\n{each}]}}\n"


def one_line(count: int) -> str:
    each = ", ".join(f"{{match: shop.t{i}, bad{i}: 1}}" for i in range(count))
    return f"{HEAD}routes: {{rules: [{{table: shop.t}}]}}\ntables: {{overrides: [{each}]}}\n"


def overrides(count: int) -> str:
    each = "".join(f"    - {{match: shop.t{i}, commit: {{interval: 10s}}}}\n" for i in range(count))
    routed = "routes: {rules: [{table: 'shop.{k}'}], allow_tables: ['shop.*']}"
    return f"{HEAD}{routed}\ntables:\n  overrides:\n{each}"


def took_s(text: str) -> float:
    def once(turn: int) -> float:
        began = time.process_time()
        _of_file({"file": f"{text}# {turn}\n"})  # another text each time, since what was read is remembered
        return time.process_time() - began

    gc.collect()
    gc.disable()  # a collection looks at all that this process holds, however much there is to check
    try:
        return min(map(once, range(2)))
    finally:
        gc.enable()


@pytest.mark.parametrize(("made", "count"), [(rules, 3_000), (one_line, 150), (overrides, 3_000)])
def test_four_times_as_much_takes_four_times_as_long(made: Callable[[int], str], count: int) -> None:
    """And not sixteen times: rules that are compared, and findings that all lie in one long line."""
    took_s(made(10))  # what is compiled and imported at first
    assert took_s(made(4 * count)) < 9 * took_s(made(count)) + 0.1


@given(st.lists(st.text("ab*?[]!", min_size=1, max_size=5), min_size=1, max_size=8))
def test_a_pattern_is_covered_by_the_first_one_that_matches_it(globs: list[str]) -> None:
    """The same answer as comparing it with all before it."""
    seen = _Globs()
    for index, glob in enumerate(globs):
        covering = (
            i
            for i, earlier in enumerate(globs[:index])
            if earlier == glob or ("?" not in glob and set(earlier) & _WILD and fnmatchcase(glob, earlier))
        )
        assert seen.first_covering(glob) == next(covering, None)
        seen.add(glob)
