"""Notifies people of troubles by webhook, for those who have no Alertmanager.

In: a file of receivers that only its owner may read, and overviews. Out: a POST for each notice to each receiver, again until
it is taken, and a file beside that one with what was sent. Invariants: no address and no key of a receiver is printed, also
where it fails; what was sent and then ended while no notifier ran is ended by the next one.
"""

from __future__ import annotations

import hashlib
import json
import os
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from framework.adapters.host.private_files import why_not_private, write_private
from framework.adapters.telemetry.lineage_sinks import HttpSink
from framework.errors import SetupError
from framework.overview.notices import (
    Notice,
    Subject,
    due,
    noticed,
    pagerduty_body,
    recalled,
    remembered,
    slack_body,
)
from framework.overview.values import Overview
from framework.task.failures import in_words, say_safely

LOOK_EVERY_S = 5.0
PAGERDUTY = "https://events.pagerduty.com/v2/enqueue"
MEMORY_MOST_BYTES = 1 << 20
FORMS = "a line `slack URL` or `pagerduty ROUTING_KEY` for each receiver"


@dataclass
class Receiver:
    """One line of the file. `digest` knows the line without telling it; `sent`: what it has taken, by subject."""

    kind: str
    line: int
    digest: str
    sink: HttpSink
    routing_key: str = ""
    sent: dict[Subject, Notice] = field(default_factory=dict)
    fails: bool = False

    def __str__(self) -> str:
        return f"receiver {self.kind} of line {self.line}"

    def send(self, notice: Notice, found: Overview) -> None:
        body = (
            slack_body(notice, found.target)
            if self.kind == "slack"
            else pagerduty_body(notice, found.target, found.control_topic, self.routing_key)
        )
        self.sink.send("", json.dumps(body).encode())
        if notice.is_over:
            del self.sent[notice.subject]
        else:
            self.sent[notice.subject] = notice


def read_receivers(path: Path) -> list[Receiver]:
    """Those of a file.

    Raises:
        SetupError: FLOE-E040, it cannot be read, is not private, or holds something else.
    """
    place = str(path)
    try:
        with _opened(path) as file:
            reason = why_not_private(os.fstat(file.fileno()), path)
            text = "" if reason is not None else file.read().decode()
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", None) or "it is not text"
        raise _refused(f"the file of receivers cannot be read: {why}", place, f"give it {FORMS}") from None
    if reason is not None:
        raise _refused(f"the file of receivers {reason[0]}", place, reason[1])
    lines = [(number, line.split()) for number, line in enumerate(text.splitlines(), 1)]
    found = [_receiver(number, words, place) for number, words in lines if words and not words[0].startswith("#")]
    if not found:
        raise _refused("the file of receivers names none", place, f"give it {FORMS}")
    return found


def _receiver(number: int, words: list[str], place: str) -> Receiver:
    kind, *rest = words
    digest = hashlib.sha256("\0".join(words).encode()).hexdigest()
    if kind == "slack" and len(rest) == 1 and _is_url(rest[0]):
        return Receiver(kind, number, digest, HttpSink(rest[0], ""))
    if kind == "pagerduty" and rest and (len(rest) == 1 or (len(rest) == 2 and _is_url(rest[1]))):
        return Receiver(kind, number, digest, HttpSink(rest[1] if rest[1:] else PAGERDUTY, ""), rest[0])
    raise _refused(f"line {number} of the file of receivers names none", place, f"give it {FORMS}")


def _opened(path: Path) -> IO[bytes]:
    """For reading, at once: a pipe in the file's place would wait for somebody who writes."""
    return open(path, "rb", opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK))


def _is_url(text: str) -> bool:
    return text.startswith(("https://", "http://"))


def _refused(message: str, place: str, remedy: str) -> SetupError:
    return SetupError(message, code="FLOE-E040", place=place, remedy=remedy)


class SentFile:
    """What each receiver has taken, for the process that comes next: `FILE.sent` beside the file of receivers. It is of one
    target and one control topic. Where it cannot be read or written, the next process begins without it."""

    def __init__(self, receivers_file: Path, target: str, control_topic: str, say: Callable[[str], None]) -> None:
        self._path = receivers_file.with_name(f"{receivers_file.name}.sent")
        self._of = {"version": 1, "target": target, "control_topic": control_topic}
        self._say = say
        self._fails = False

    def recall(self, receivers: list[Receiver]) -> None:
        try:
            with _opened(self._path) as file:
                reason = why_not_private(os.fstat(file.fileno()), self._path)
                text = file.read(MEMORY_MOST_BYTES) if reason is None else b""
            found = json.loads(text) if reason is None else None
        except FileNotFoundError:
            return
        except (OSError, ValueError, RecursionError) as error:
            found, reason = None, (f"cannot be read ({in_words(error)})", "")
        if not isinstance(found, dict) or not isinstance(found.get("receivers"), dict):
            why = f"it {reason[0]}" if reason is not None else "it holds something else"
            say_safely(self._say, f"{self._path} is passed over, and troubles of this moment are sent again: {why}")
        elif self._of.items() <= found.items():
            for receiver in receivers:
                receiver.sent = recalled(found["receivers"].get(receiver.digest))

    def keep(self, receivers: list[Receiver]) -> None:
        document = {**self._of, "receivers": {each.digest: remembered(each.sent) for each in receivers}}
        try:
            write_private(self._path, json.dumps(document))
            self._fails = False
        except (OSError, SetupError) as error:
            if not self._fails:
                why = in_words(error)
                say_safely(self._say, f"{self._path} cannot be written, so that a restart sends troubles again: {why}")
            self._fails = True


class Notifier:
    """`start`, then `close`. `view` gives the newest overview, and never raises."""

    def __init__(
        self,
        receivers: list[Receiver],
        view: Callable[[], Overview],
        say: Callable[[str], None],
        every_s: float,
        sent_file: SentFile,
    ) -> None:
        self._receivers = receivers
        self._view = view
        self._say = say
        self._every_s = every_s
        self._sent_file = sent_file
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._run, name="notifier", daemon=True)

    def start(self) -> None:
        self._sent_file.recall(self._receivers)
        self._thread.start()

    def close(self) -> None:
        self._closing.set()
        if self._thread.is_alive():
            self._thread.join(self._every_s)

    def _run(self) -> None:
        before = noticed(self._view())
        while not self._closing.wait(self._every_s):
            found = self._view()
            now = noticed(found)
            rounds = [(each, list(due(each.sent, before, now, bool(found.broker.trouble)))) for each in self._receivers]
            for receiver, notices in rounds:
                self._send(receiver, notices, found)
            if any(notices for _, notices in rounds):
                self._sent_file.keep(self._receivers)
            before = now

    def _send(self, receiver: Receiver, notices: list[Notice], found: Overview) -> None:
        """The first that is not taken ends this round: it is sent again in the next one."""
        try:
            for notice in notices:
                receiver.send(notice, found)
            if receiver.fails and notices:
                receiver.fails = False
                say_safely(self._say, f"{receiver} takes notifications again")
        except Exception as error:  # whatever it is: the next round tries again
            # A client's error has the address in it.
            why = str(error) if type(error) is OSError else type(error).__name__
            if not receiver.fails:
                say_safely(self._say, f"{receiver} did not take a notification: {why}; trying again")
            receiver.fails = True
