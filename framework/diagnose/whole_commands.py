"""Fills in what a command in a sentence leaves out: the file, the target, the control topic, the connection.

In: a remedy with commands between back quotes, and where its reader is. Out: the same remedy, whose commands work as typed.
Commands of others stay as they are, and so does a word that nobody here knows: FILE, where no run has said which file it runs.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from framework.diagnose.shown import argument

# Verbs that take --target, and those of them that have a control topic by an option rather than by a file.
_BY_TOPIC = frozenset(("clean", "coordinator", "discard", "log", "maintain", "offsets", "ops", "pause", "resume", "rollback",
                       "status", "stop", "top"))  # fmt: skip
_TARGETED = _BY_TOPIC | {"deploy", "diff", "dlq", "doctor", "drill", "graph", "plan", "readiness", "rebase", "render", "replay",
                         "run", "submit", "tap", "test", "validate"}  # fmt: skip
# With nothing behind them they are no command, but the name of one: they want a file, a table, a pipeline.
_WANT_A_FILE = frozenset(("cost", "diff", "dlq list", "dlq replay", "dlq stats", "graph", "plan", "readiness", "rebase", "render",
                          "replay", "run", "submit", "tap", "test", "validate"))  # fmt: skip
_WANT_MORE = frozenset(("compare", "deploy", "discard", "dlq", "dlq show", "maintain", "offsets", "offsets set", "offsets show",
                        "pause", "resume", "rollback", "stop"))  # fmt: skip
CONTROL_TOPIC = "control-iceberg"
_COMMAND = re.compile(r"`floe ([a-z]+)(?![a-z])([^`]*)`")
_FILE = re.compile(r" FILE(?![A-Za-z|.])")
_FOLDER = re.compile(r" FOLDER(?![A-Za-z|.])")
_PIPELINE = re.compile(r" PIPELINE(?![A-Za-z|.])")
_BROKER = re.compile(r"`kafka-[a-z]+\.sh --bootstrap-server BROKER ")
_HAS_TARGET = re.compile(r" (?:-t|--target)(?: |=|$)")


@dataclass(frozen=True)
class StartedFrom:
    """Of which pipeline a run is, and what it published of where it comes from: its pipeline file, and the deployment that
    started it, "" for none. A deployment has its folder's name, if nobody gave it another one."""

    file: str = ""
    deployment: str = ""
    pipeline: str = ""

    @property
    def folder(self) -> str:
        """The deployed folder; "" where the file's path does not show it."""
        parts = self.file.split("/")
        if not self.deployment or self.deployment not in parts[:-1]:
            return ""
        return "/".join(parts[: len(parts) - 1 - parts[-2::-1].index(self.deployment)])


UNKNOWN_RUN = StartedFrom()


@dataclass(frozen=True)
class ReaderPlace:
    """What whoever reads has typed, or would have to. `control_topic`: "" where it is the one that verbs take by themselves;
    `connection`: "" where the target has one; `broker`: its address, as Kafka's own tools take it."""

    target: str = ""
    control_topic: str = ""
    connection: str = ""
    broker: str = ""


def whole_commands(text: str, place: ReaderPlace, run: StartedFrom = UNKNOWN_RUN) -> str:
    """The text with whole commands. `run`: of the pipeline that it is about."""

    def whole(found: re.Match[str]) -> str:
        verb, rest = found[1], found[2]
        if f"{verb}{rest}" in _WANT_A_FILE and run.file:
            rest += " FILE"
        if verb not in _TARGETED or f"{verb}{rest}" in _WANT_A_FILE | _WANT_MORE:
            return found[0]
        for word, known in ((_FILE, run.file), (_FOLDER, run.folder), (_PIPELINE, run.pipeline)):
            if known:
                rest = word.sub(f" {argument(known)}".replace("\\", r"\\"), rest)
        if place.target and not _HAS_TARGET.search(rest):
            rest += f" -t {argument(place.target)}"
        if verb in _BY_TOPIC and place.connection and " --connection" not in rest:
            rest += f" --connection {argument(place.connection)}"
        is_other = place.control_topic not in ("", CONTROL_TOPIC)
        if verb in _BY_TOPIC and is_other and " --control-topic" not in rest:
            rest += f" --control-topic {argument(place.control_topic)}"
        return f"`floe {verb}{rest}`"

    if place.broker:
        text = _BROKER.sub(lambda found: found[0].replace(" BROKER ", f" {argument(place.broker)} "), text)
    return _COMMAND.sub(whole, text)
