"""What the page and its REST surface ask, answered by a real broker: the shared reader, and the verbs' own functions.

In: a control topic. Out: overviews, what pipelines run, acts. Invariant: a pause from here is the same event as one of
`floe pause`, with the token's name as its author; a configuration is checked without a file, a variable or a server.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from framework.adapters.secrets import hidden
from framework.commit.events.event_types import Deployed, Holds, PauseChanged
from framework.config.load import load_pipeline
from framework.config.world import World
from framework.connector.translation.translate import import_connector
from framework.errors import ConfigError, FloeError
from framework.observe.live.reader import LiveTarget, OverviewReader
from framework.ops.shown_dead_letters import ShownDeadLetters
from framework.overview.values import Overview
from framework.plan.compile import group_id
from framework.recovery.requests import ask_to_stop, say_pause
from framework.runtime.published_plans import newest_published
from framework.web.backend import Refused, SettingFinding
from framework.web.connect import PLUGIN
from framework.web.documents import DeadLetterPage

CONFIG_KEPT_S = 30.0
FILE_KEY = "file"
_NOWHERE = Path("/no/such/folder/pipeline.yaml")


class BrokerBackend:
    """`reader` is started, and closed by whoever started it."""

    def __init__(self, looked: LiveTarget, reader: OverviewReader, shown: ShownDeadLetters | None = None) -> None:
        """`shown`: the dead letters that the target lets it show; None: none."""
        self._shown = shown
        self._looked = looked
        self._kafka = dict(looked.kafka)
        self._reader = reader
        self._lock = threading.Lock()
        self._reported: Mapping[str, Deployed] = {}
        self._published_at = float("-inf")

    def view(self) -> Overview:
        return self._reader.view()

    def config(self, pipeline: str) -> Mapping[str, str]:
        reported = self._newest(pipeline)
        if reported is None:
            return {}
        return {**dict(_flat(reported.plan, "")), "floe.version": reported.floe, "floe.hash": reported.hash}

    @property
    def has_dead_letters(self) -> bool:
        return self._shown is not None and bool(self._shown.patterns)

    def letters(self, pipeline: str, code: str, limit: int, by: str) -> DeadLetterPage:
        if self._shown is None or not self._shown.allows(pipeline):
            raise Refused(
                403,
                f"the target does not let the page show dead letters of {pipeline}: `floe dlq list FILE` shows them, or add "
                "the name to `allow.dead_letters_on_page` of the target",
            )
        reported = self._newest(pipeline)
        return self._shown.read(pipeline, reported.plan if reported is not None else {}, code, limit, by)

    def _newest(self, pipeline: str) -> Deployed | None:
        with self._lock:
            if pipeline not in self._reported or time.monotonic() - self._published_at > CONFIG_KEPT_S:
                names = {each.pipeline for each in self.view().pipelines} | {pipeline}
                groups = {name: group_id(self._looked.prefix, name) for name in names}
                self._reported = newest_published(self._kafka, self._looked.control_topic, groups)
                self._published_at = time.monotonic()
            return self._reported.get(pipeline)

    def hold(self, pipeline: str, paused: bool, by: str, why: str) -> bool:
        event = PauseChanged(Holds.READING, pipeline, paused, why, by, int(time.time() * 1000))
        return say_pause(self._kafka, self._looked.prefix, self._looked.control_topic, event)

    def stop(self, pipeline: str, by: str, why: str) -> bool:
        return ask_to_stop(self._kafka, self._looked.prefix, self._looked.control_topic, pipeline, by, why)

    def check(self, plugin: str, settings: Mapping[str, str]) -> tuple[SettingFinding, ...]:
        return _of_file(settings) if plugin == PLUGIN else _of_sink({**settings, "connector.class": plugin})


def _flat(value: object, path: str) -> Iterator[tuple[str, str]]:
    """Nested values as settings: keys joined by dots, lists of plain values by commas, other lists as JSON."""
    if isinstance(value, Mapping):
        for key, held in value.items():
            yield from _flat(held, f"{path}.{key}" if path else str(key))
    elif isinstance(value, Sequence) and not isinstance(value, str):
        if value:
            is_plain = all(isinstance(each, str | int) for each in value)
            yield path, hidden(",".join(map(str, value)) if is_plain else json.dumps(value))
    elif isinstance(value, bool):
        yield path, str(value).lower()
    elif value is not None:
        yield path, hidden(str(value))


def _of_file(settings: Mapping[str, str]) -> tuple[SettingFinding, ...]:
    """As `floe validate` finds it, against the target `local`, in a world without files and variables."""
    unknown = tuple(
        SettingFinding(key, f"there is no such setting; `{FILE_KEY}` is the one") for key in settings if key != FILE_KEY
    )
    text = settings.get(FILE_KEY)
    if text is None:
        return (*unknown, SettingFinding(FILE_KEY, "it is missing: the text of a pipeline file"))

    def read(path: Path) -> str:
        if path == _NOWHERE:
            return text
        raise FileNotFoundError(2, "no file is read here", str(path))

    def no_bytes(path: Path) -> bytes:
        raise FileNotFoundError(2, "no file is read here", str(path))

    world = World(
        {}, {}, read, offline=True, secret_schemes=("env", "file"), read_bytes=no_bytes, real_path=Path.absolute
    )
    found = load_pipeline(_NOWHERE, None, world).diagnostics
    return (
        *unknown,
        *(
            SettingFinding(
                FILE_KEY,
                hidden(f"[{each.code}]{f' line {each.span.line}' if each.span else ''}: {each.message}"),
                each.is_error,
            )
            for each in found
        ),
    )


def _of_sink(settings: Mapping[str, str]) -> tuple[SettingFinding, ...]:
    """As `floe import-connector --allow-partial` reads it."""
    try:
        found = import_connector(settings.get("name"), settings, allow_partial=True)
    except ConfigError as error:
        return (SettingFinding(_key_of(error, settings), hidden(error.message)),)
    return (
        *(SettingFinding(todo.key, hidden(todo.message)) for todo in found.todos),
        *(SettingFinding(note.key, hidden(note.reason), is_error=False) for note in found.notes),
    )


def _key_of(error: FloeError, settings: Mapping[str, str]) -> str:
    """The setting that a refusal is about: it begins with its name."""
    named = error.message.partition("`: ")[0].removeprefix("`")
    return named if named in settings else "connector.class"
