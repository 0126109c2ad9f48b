"""Asks what may take long beside each other, and gives the answers in the order of the questions.

In: questions, in order. Out: their findings, in order, as soon as all before them are answered. Each question has a thread of its
own that ends with the process, so that a server that does not answer holds up neither the others nor who interrupts.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator

from framework.ops.doctor.model import DoctorFinding, ask

Question = tuple[str, Callable[[], Iterable[DoctorFinding]]]
SAID_EVERY_S = 5.0


class _Waited:
    """One question, from when it is asked."""

    def __init__(self, check: str, question: Callable[[], Iterable[DoctorFinding]]) -> None:
        self.check = check
        self._question = question
        self._findings: list[DoctorFinding] = []
        self._thread = threading.Thread(target=self._run, name=check, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        self._findings = ask(self.check, self._question)

    @property
    def is_answered(self) -> bool:
        return not self._thread.is_alive()

    def answer(self, timeout_s: float) -> list[DoctorFinding] | None:
        """The findings; None: not within this time."""
        self._thread.join(timeout_s)
        return self._findings if self.is_answered else None


def ask_together(questions: Iterable[Question], waits: Callable[[list[str], int], None]) -> Iterator[DoctorFinding]:
    """All findings. `waits` gets every few seconds what has no answer yet, and for how many seconds it was waited."""
    begun_s = time.monotonic()
    asked = [_Waited(check, question) for check, question in questions]
    for number, one in enumerate(asked):
        while (found := one.answer(SAID_EVERY_S)) is None:
            waits([each.check for each in asked[number:] if not each.is_answered], round(time.monotonic() - begun_s))
        yield from found
