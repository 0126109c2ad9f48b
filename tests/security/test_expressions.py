"""No regular expression of floe takes more than its share of time, whatever text it is asked about."""

from __future__ import annotations

import math
import re
import signal
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest

from testbed.pumps import Expression, expressions, pumps

LENGTH = 50_000  # so long that square time is found on a fast machine, too
# A step of a linear expression takes some nanoseconds for a character: all of them stay under a tenth of this.
MOST_S = 0.2
# Expression -> why long text never reaches it.
BOUNDED = {
    r"[-+]?[0-9]+\Z": "at most 40 characters are asked, and from the beginning only",
    r"[-+]?[0-9]+(\.[0-9]+)?\Z": "at most 40 characters are asked, and from the beginning only",
}


class _TooLong(Exception):
    pass


class _Alarm:
    """Raises `_TooLong` in a block that takes more than its share of this thread's time, and nowhere behind it. The timer
    counts other threads' time, too, so it rings again and again and the time is looked at."""

    def __init__(self) -> None:
        self._ends_s = math.inf

    def ring(self, _signal: int, _frame: object) -> None:
        if time.thread_time() > self._ends_s:
            raise _TooLong

    def within(self, seconds: float, work: Callable[[], object]) -> bool:
        """Whether the work was done in time."""
        self._ends_s = time.thread_time() + seconds
        try:
            signal.setitimer(signal.ITIMER_VIRTUAL, seconds, seconds / 4)
            work()
            # Within a repeat of one character the expression asks for no signal.
            is_in_time = time.thread_time() <= self._ends_s
            # The signal may come between two steps of Python, so also here: all of it stands inside of the block.
            self._ends_s = math.inf
        except _TooLong:
            self._ends_s, is_in_time = math.inf, False
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        return is_in_time


ALARM = _Alarm()


def _ask(compiled: re.Pattern[Any], text: str | bytes, is_searched: bool) -> None:
    if is_searched:
        for _ in compiled.finditer(text):
            pass
    else:
        compiled.match(text)
        compiled.fullmatch(text)


def too_slow(each: Expression) -> str | None:
    """The first text, shortened, for which an expression takes too long."""
    compiled = re.compile(each.text, each.flags)
    for pump in pumps(each, LENGTH):
        text = pump if isinstance(each.text, str) else pump.encode("utf-8", "surrogatepass")
        if not ALARM.within(MOST_S, partial(_ask, compiled, text, each.is_searched)):
            return f"{pump[:60]!r}... for more than {MOST_S} s"
    return None


@pytest.fixture(autouse=True)
def alarm() -> Iterator[None]:
    before = signal.signal(signal.SIGVTALRM, ALARM.ring)
    yield
    signal.signal(signal.SIGVTALRM, before)


def test_no_text_keeps_an_expression_busy() -> None:
    """Time grows with the length of a text and not with its square: for every expression, and texts that are made from
    its own parts."""
    found = {
        f"{each.module}: {each.text!r}": slow
        for each in expressions()
        if each.text not in BOUNDED and (slow := too_slow(each))
    }
    assert not found, "\n".join(f"{name}\n    {text}" for name, text in found.items())


@pytest.mark.parametrize("text", ["(?:a|aa)+b", "[a-z]*x[a-z]*=", r"\$\{[^}]*\}", r"\s+$"])
def test_an_expression_that_takes_too_long_is_found(text: str) -> None:
    """The texts are good enough for the usual kinds: of exponential and of square time."""
    assert too_slow(Expression("here", text, 0, True))
