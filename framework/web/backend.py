"""What the page and its REST surface ask of the world, and in which words it refuses.

In: nothing; `framework.ops.backend` answers with a broker, tests with values. Out: an `Overview`, what a pipeline runs, and
what came of an act. Invariant: an act is performed by the functions of the command line's verbs, and has an author.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from framework.overview.values import Overview
from framework.web.documents import DeadLetterPage


@dataclass(frozen=True)
class SettingFinding:
    """What is wrong with one setting; `is_error` distinguishes it from a word of advice."""

    key: str
    message: str
    is_error: bool = True


class Backend(Protocol):
    """Called from many threads. What goes wrong is raised as a `FloeError`."""

    def view(self) -> Overview:
        """The newest overview; the same value until something has changed. Never raises."""

    def config(self, pipeline: str) -> Mapping[str, str]:
        """What the pipeline's newest run published that it runs, as flat settings; empty where none published. No secret."""

    def hold(self, pipeline: str, paused: bool, by: str, why: str) -> bool:
        """Pause or resume its reading; False when it stands so already."""

    def stop(self, pipeline: str, by: str, why: str) -> bool:
        """Ask its live run to drain and end; False when no run is live."""

    @property
    def has_dead_letters(self) -> bool:
        """Whether the target lets anybody see dead letters here."""

    def letters(self, pipeline: str, code: str, limit: int, by: str) -> DeadLetterPage:
        """Its newest dead letters, whole, of one code ("" for any), for whoever `by` names.

        Raises:
            Refused: 403, the target does not allow it. 404, it keeps none.
        """

    def check(self, plugin: str, settings: Mapping[str, str]) -> tuple[SettingFinding, ...]:
        """What is wrong with a configuration; asks no server."""


class Refused(Exception):
    """An answer that is no success: a status of HTTP, and a sentence for whoever asked."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
