"""The page that a driver or a coordinator serves beside its work: one for each of its control topics, to be read alone.

In: what the process is connected to, and where the target wants the page. Out: pages in threads of their own, each with
one reader of its control topic. Nothing that is decided or committed waits for them.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Mapping
from importlib.util import find_spec
from typing import TYPE_CHECKING

from framework.errors import FloeError, SetupError
from framework.observe.live.reader import LiveTarget, OverviewReader
from framework.overview.values import Overview
from framework.web.backend import Refused, SettingFinding
from framework.web.documents import DeadLetterPage

if TYPE_CHECKING:
    from framework.web.beside import PageBeside

log = logging.getLogger(__name__)

AGAIN_AFTER_S = 10.0
NEEDED = ("starlette", "uvicorn")
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

    has_dead_letters = False

    def letters(self, pipeline: str, code: str, limit: int, by: str) -> DeadLetterPage:
        raise Refused(501, ELSEWHERE)

    def check(self, plugin: str, settings: Mapping[str, str]) -> tuple[SettingFinding, ...]:
        raise Refused(501, ELSEWHERE)


class Page:
    """Of one control topic. Listens at once, and answers as soon as the topic is read."""

    def __init__(
        self,
        looked: LiveTarget,
        host: str,
        port: int,
        token: str,
        say: Callable[[str], None],
        names: tuple[str, ...] = (),
    ) -> None:
        """Begin. `names`: those that clients may use beside the machine's own.

        Raises:
            SetupError: FLOE-E411, what serves it is not installed. FLOE-E036, the address cannot be listened at.
                FLOE-E037, others reach it, and there is no token.
        """
        check_installed()
        from framework.web.beside import PageBeside

        self._reader = OverviewReader(looked, say)
        self._served: PageBeside = PageBeside(host, port, token, names)
        self.address = self._served.address
        self._served.serve(self._begin)

    def close(self) -> None:
        self._served.close()
        self._reader.close()

    def _begin(self) -> ReadOnlyBackend | None:
        while not self._served.closing.is_set():
            try:
                self._reader.start()
                return ReadOnlyBackend(self._reader)
            except FloeError as error:  # it is asked again, and the run goes on meanwhile
                log.info("the page cannot read the control topic yet: %s", error)
                self._served.closing.wait(AGAIN_AFTER_S)
            except Exception:
                log.exception("the page is not served")
                return None
        return None


def check_installed() -> None:
    """Raises SetupError (FLOE-E411) where the extra `ops` is missing."""
    if missing := [name for name in NEEDED if find_spec(name) is None]:
        raise SetupError(
            f"package {missing[0]} is not installed",
            code="FLOE-E411",
            place=sys.prefix,
            remedy="install floe with its page: `pip install 'floe-pipelines[ops]'`",
        )
