"""The process that serves the page beside a run: it reads one control topic, and shows it.

In: the number of a socket that listens; on standard input one line with what to read and whom to answer. Out: HTTP.
Invariants: nobody acts through it, and off loopback nobody reads without the token; it runs behind everything else on the
machine, and ends with its standard input, so that it never outlives the run.
"""

from __future__ import annotations

import json
import logging
import os
import signal
import sys
import threading
import time
from collections.abc import Mapping
from typing import Any

from framework.adapters.host.listener import Listener
from framework.errors import FloeError
from framework.observe.live.reader import LiveTarget, OverviewReader
from framework.overview.values import Overview
from framework.web.access.access import Access, Role, Token, token_of
from framework.web.app import create_app
from framework.web.backend import Refused, SettingFinding
from framework.web.documents import DeadLetterPage
from framework.web.serve import server

log = logging.getLogger(__name__)

READ_AGAIN_AFTER_S = 10.0
NICE = 10
READER = "monitoring"
ELSEWHERE = "this process only shows; `floe ops` serves that"


class ReadOnlyBackend:
    """What a page beside a run answers; `reader` is started."""

    def __init__(self, reader: OverviewReader) -> None:
        self._reader = reader

    def view(self) -> Overview:
        return self._reader.view()

    def config(self, pipeline: str) -> Mapping[str, str]:
        raise Refused(501, ELSEWHERE)

    def hold(self, pipeline: str, paused: bool, by: str, why: str) -> bool:
        raise Refused(501, ELSEWHERE)

    def stop(self, pipeline: str, by: str, why: str) -> bool:
        raise Refused(501, ELSEWHERE)

    has_dead_letters = False

    def letters(self, pipeline: str, code: str, limit: int, by: str) -> DeadLetterPage:
        raise Refused(501, ELSEWHERE)

    def check(self, plugin: str, settings: Mapping[str, str]) -> tuple[SettingFinding, ...]:
        raise Refused(501, ELSEWHERE)


def main(descriptor: int) -> None:
    signal.signal(
        signal.SIGINT, signal.SIG_IGN
    )  # of the terminal, meant for the run: it drains, and is shown meanwhile
    os.nice(NICE)
    settings = json.loads(sys.stdin.readline())
    threading.Thread(target=_serve, args=(descriptor, settings), name="page", daemon=True).start()
    sys.stdin.read()
    os._exit(0)


def _serve(descriptor: int, settings: Mapping[str, Any]) -> None:
    try:
        known: tuple[Token, ...] = (token_of(READER, Role.READ, settings["token"]),)
        access = Access((lambda: known) if settings["token"] else None, tuple(settings["names"]))
        reader = _begun(LiveTarget(**settings["looked"]))
        server(create_app(ReadOnlyBackend(reader), access)).run(sockets=[Listener(settings["host"], fileno=descriptor)])
    except Exception:
        log.exception("the page is not served")
    finally:
        os._exit(1)


def _begun(looked: LiveTarget) -> OverviewReader:
    """A reader of the control topic, as soon as it can be read."""
    while True:
        reader = OverviewReader(looked, lambda line: print(line, file=sys.stderr))
        try:
            reader.start()
            return reader
        except FloeError as error:  # it is asked again, and the run goes on meanwhile
            log.info("the page cannot read the control topic yet: %s", error)
            reader.close()
            time.sleep(READ_AGAIN_AFTER_S)


if __name__ == "__main__":
    main(int(sys.argv[1]))
