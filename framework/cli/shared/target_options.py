"""Options of verbs that need a target but no pipeline file, and what these options open."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import click

from framework.adapters.project.files import load_or_raise, raise_findings, real_world
from framework.adapters.secrets import resolve
from framework.cli.shared import complete
from framework.config.names.file_kinds import YAML_ENDINGS
from framework.config.spec import LoadedPipeline, TargetSpec
from framework.config.target import load_target
from framework.diagnose.whole_commands import CONTROL_TOPIC
from framework.errors import SetupError

if TYPE_CHECKING:
    from framework.adapters.kafka.control.log import ControlReader

F = TypeVar("F", bound=Callable[..., object])


def target_options(command: F) -> F:
    """--target, --connection and --control-topic."""
    command = click.option("--control-topic", default=CONTROL_TOPIC, show_default=True, help="The control topic.")(
        command
    )
    command = click.option(
        "--connection", default=None, help="The target's Kafka connection; its only one if not named."
    )(command)
    return click.option(
        "--target", "-t", default=None, help="The target; `local` if you name none.", shell_complete=complete.targets
    )(command)


def pipeline_argument(command: F) -> F:
    """PIPELINE: a pipeline file, or a pipeline's name; arrives as `pipeline`."""
    return click.argument("pipeline", metavar="FILE|PIPELINE", shell_complete=complete.pipelines)(command)


@dataclass(frozen=True)
class Control:
    """A target's control topic, opened by name; settings are resolved and never printed."""

    target: TargetSpec
    connection: str
    topic: str

    @property
    def other(self) -> str:
        """The connection's name, where a command has to name it since the target has several."""
        return self.connection if len(self.target.kafka) > 1 else ""

    @property
    def kafka(self) -> dict[str, str]:
        return resolve(self.target.kafka[self.connection])

    def reader(self, notice: Callable[[int, str, bytes], None] | None = None) -> ControlReader:
        """A reader of the control topic, which is checked first. `notice` as `ControlReader` has it."""
        from framework.adapters.kafka.admin import KafkaAdmin
        from framework.adapters.kafka.control.log import ControlReader
        from framework.adapters.kafka.control.topic import check_control_topic

        check_control_topic(KafkaAdmin(self.kafka), self.topic)
        return ControlReader(self.kafka, self.topic, notice=notice)


def open_control(target: str | None, connection: str | None, control_topic: str) -> Control:
    """Load the target and choose its connection.

    Raises:
        ConfigError, SetupError: the target is wrong, or the connection is not one of its own.
    """
    spec = load_target_or_raise(target or "local")
    names = sorted(spec.kafka)
    if connection is None and len(names) == 1:
        connection = names[0]
    if connection not in spec.kafka:
        said = f"no Kafka connection {connection}" if connection else "several Kafka connections"
        raise SetupError(
            f"target {spec.name} has {said}: {', '.join(names) or 'none'}",
            code="FLOE-E312",
            place=spec.name,
            remedy="name one with --connection",
        )
    return Control(spec, connection, control_topic)


def open_pipeline(
    pipeline: str, target: str | None, connection: str | None, control_topic: str
) -> tuple[str, Control, LoadedPipeline | None]:
    """A pipeline by its file, which says where its state is, or by its name, with the options that say so.

    Returns:
        Its name, its control topic, and the file's content where a file was given.
    """
    if not (pipeline.endswith(YAML_ENDINGS) or Path(pipeline).is_file()):
        return pipeline, open_control(target, connection, control_topic), None
    (loaded,) = load_or_raise((pipeline,), target, {}, {})
    control = Control(loaded.target, connection or loaded.spec.source.kafka.connection, loaded.spec.control_topic)
    return loaded.spec.name, control, loaded


def load_target_or_raise(name_or_path: str) -> TargetSpec:
    """One target, without a pipeline.

    Raises:
        ConfigError: the file is wrong; carries every finding.
    """
    result = load_target(name_or_path, real_world(), Path.cwd())
    if result.target is None:
        raise_findings(f"target {name_or_path} is wrong", result.diagnostics)
    return result.target
