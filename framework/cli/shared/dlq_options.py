"""Options that the verbs of `floe dlq` share: a pipeline file and which of its dead letters, as one value."""

from __future__ import annotations

import functools
import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any, TypeVar

import click

from framework.adapters.project.files import load_or_raise
from framework.cli.shared.options import loading_options
from framework.config.spec import LoadedPipeline
from framework.config.units import duration_ms

if TYPE_CHECKING:
    from framework.recovery.dead_letters import Selection

F = TypeVar("F", bound=Callable[..., object])
STAGES = ("decode", "route", "convert")
_PLACE = re.compile(r"(?P<topic>.+)-(?P<partition>\d+)@(?P<offset>\d+)")


@dataclass(frozen=True)
class PipelineFile:
    """A pipeline file as it is named on the command line."""

    file: str
    target: str | None
    variables: Mapping[str, str]
    sets: Mapping[str, str]

    def load(self) -> LoadedPipeline:
        """The pipeline.

        Raises:
            ConfigError, SetupError: as `load_or_raise`.
        """
        return load_or_raise((self.file,), self.target, self.variables, self.sets)[0]


@dataclass(frozen=True)
class DeadLetterSelection:
    """A pipeline file and which of its dead letters are asked for."""

    pipeline_file: PipelineFile
    code: str | None
    stage: str | None
    topic: str | None
    since_ms: int | None

    @property
    def selection(self) -> Selection:
        """The same for the table of dead letters."""
        from framework.recovery.dead_letters import Selection

        return Selection(self.code.upper() if self.code else None, self.stage, self.topic, self.since_ms)


def _since(context: click.Context, parameter: click.Parameter, value: str | None) -> int | None:
    if value is None:
        return None
    if (back := duration_ms(value)) is not None:
        return int(time.time() * 1000) - back
    try:
        moment = datetime.fromisoformat(value.replace("Z", "+00:00"))
    except ValueError:
        raise click.BadParameter(
            f"`{value}` is neither a duration such as 2h nor a time such as 2026-11-21T10:00:00Z", context, parameter
        ) from None
    return int((moment if moment.tzinfo else moment.replace(tzinfo=timezone.utc)).timestamp() * 1000)


def parsed_place(context: click.Context, parameter: click.Parameter, value: str) -> tuple[str, int, int]:
    """TOPIC-PARTITION@OFFSET as its parts."""
    match = _PLACE.fullmatch(value)
    if match is None:
        raise click.BadParameter(f"`{value}` is no TOPIC-PARTITION@OFFSET, such as orders-0@51", context, parameter)
    return match["topic"], int(match["partition"]), int(match["offset"])


def pipeline_file(command: F) -> Callable[..., object]:
    """FILE and the options of loading, which arrive as one `pipeline_file`."""

    @click.argument("file", type=click.Path(), metavar="FILE")
    @loading_options
    @functools.wraps(command)
    def called(
        file: str, target: str | None, variables: Mapping[str, str], sets: Mapping[str, str], **others: Any
    ) -> object:
        return command(PipelineFile(file, target, variables, sets), **others)

    return called


def dead_letters(command: F) -> Callable[..., object]:
    """FILE, the options of loading, --code, --stage, --topic and --since, which arrive as one `dead_letters`."""

    @pipeline_file
    @click.option("--code", metavar="CODE", help="Records that failed with one code, such as FLOE-D304.")
    @click.option("--stage", type=click.Choice(STAGES), help="Records that failed at one stage.")
    @click.option("--topic", metavar="TOPIC", help="Records of one topic.")
    @click.option(
        "--since",
        callback=_since,
        metavar="WHEN",
        help="Records since then: `2h` for two hours ago, or an ISO 8601 time (UTC).",
    )
    @functools.wraps(command)
    def called(
        pipeline_file: PipelineFile,
        code: str | None,
        stage: str | None,
        topic: str | None,
        since: int | None,
        **others: Any,
    ) -> object:
        return command(DeadLetterSelection(pipeline_file, code, stage, topic, since), **others)

    return called


def place(command: F) -> F:
    """TOPIC-PARTITION@OFFSET, which arrives as `place`."""
    return click.argument("place", callback=parsed_place, metavar="TOPIC-PARTITION@OFFSET")(command)
