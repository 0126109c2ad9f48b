"""Calls into a library that may never return, with a time limit.

In: a call and a number of seconds. Out: its result or its exception, or `NotBack` if it has not returned. Its thread is
then abandoned, so the call must not change any of floe's state if it ends late.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeoutError
from typing import TypeVar

T = TypeVar("T")


class NotBack(Exception):
    """The call did not come back in time; what it was to do may still happen."""


def with_timeout(call: Callable[[], T], timeout_s: float) -> T:
    """The result of `call`, made in a thread of its own.

    Raises:
        NotBack: it did not end within `timeout_s`.
        Exception: whatever the call raised.
    """
    answer: Future[T] = Future()

    def run() -> None:
        try:
            answer.set_result(call())
        except BaseException as error:  # handed to the caller
            answer.set_exception(error)

    threading.Thread(target=run, name="bounded", daemon=True).start()
    try:
        return answer.result(timeout_s)
    except FutureTimeoutError:
        if answer.done():
            raise  # the call's own
        raise NotBack(f"no return within {timeout_s:.0f} s") from None
