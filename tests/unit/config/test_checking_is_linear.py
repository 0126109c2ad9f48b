"""Twice as much to check takes about twice as long: pages and commands that check others' files are not held up."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from framework.ops.desk import _of_file

HEAD = "apiVersion: floe/v1\nkind: Pipeline\nmetadata: {name: a}\nsource: {kafka: {topics: [a]}, schema: {id: long}}\n"


def rules(count: int) -> str:
    each = ",\n".join(f"{{table: shop.t{i}, when: {{field: id, equals: {i}}}}}" for i in range(count))
    return f"{HEAD}routes: {{rules: [\n{each}]}}\n"


def one_line(count: int) -> str:
    each = ", ".join(f"{{match: shop.t{i}, bad{i}: 1}}" for i in range(count))
    return f"{HEAD}routes: {{rules: [{{table: shop.t}}]}}\ntables: {{overrides: [{each}]}}\n"


def took_s(text: str) -> float:
    def once() -> float:
        began = time.process_time()
        _of_file({"file": text})
        return time.process_time() - began

    return min(once() for _ in range(2))


@pytest.mark.parametrize(("made", "count"), [(rules, 750), (one_line, 150)])
def test_four_times_as_much_takes_four_times_as_long(made: Callable[[int], str], count: int) -> None:
    """And not sixteen times: rules that are compared, and findings that all lie in one long line."""
    took_s(made(10))  # what is compiled and imported at first
    assert took_s(made(4 * count)) < 9 * took_s(made(count)) + 0.1
