"""floe inside of another program, such as a scheduler: what the verbs do, as functions that take and give values.

In: paths of files, names of targets. Out: the values that the verbs print, or one of the errors of `framework.errors`.
These five functions, their arguments and the fields of what they return are the public interface; all other modules may
change at any time. Nothing is printed, and no engine is imported before `run` is called.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from os import PathLike
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from framework.config.spec import LoadedPipeline
    from framework.diagnose.diagnostic import Diagnostic
    from framework.observe.status.read import Status
    from framework.ops.preview.model import PipelinePreview
    from framework.runtime.job import JobResult

__all__ = ["load", "plan", "run", "status", "validate"]

File = str | PathLike[str]
Files = File | Sequence[File]


def validate(
    files: Files,
    target: str | None = None,
    *,
    variables: Mapping[str, str] | None = None,
    sets: Mapping[str, str] | None = None,
) -> tuple[Diagnostic, ...]:
    """Everything that is wrong with pipeline, target and template files, as `floe validate` finds it. Asks no server.

    Args:
        files: a file, a folder (floe's *.yaml and *.yml files below it), or several of them.
        target: the target's name or file; `local` if none is named.
        variables, sets: what `--var NAME=VALUE` and `--set PATH=VALUE` give.

    Returns:
        The findings in file order. `finding.is_error` distinguishes errors from warnings; no finding means that all is well.
    """
    from framework.adapters.project.files import find_files, no_files, real_world
    from framework.config.check_files import check_files

    found = find_files(_listed(files))
    findings = check_files(found.files, target, real_world(offline=True), variables, sets)
    return (*findings, *map(no_files, found.empty))


def load(
    files: Files,
    target: str | None = None,
    *,
    variables: Mapping[str, str] | None = None,
    sets: Mapping[str, str] | None = None,
    offline: bool = False,
) -> list[LoadedPipeline]:
    """Pipeline files as pipelines, for `plan` and `run`. Arguments as `validate` has them.

    Args:
        offline: leave values open that only the place where the pipeline runs can give, as `floe plan --offline` does.

    Raises:
        ConfigError: a file is wrong; `error.diagnostics` has every finding.
        SetupError: the files are right, but the environment lacks a value that they need.
    """
    from framework.adapters.project.files import load_or_raise

    return load_or_raise(_listed(files), target, variables, sets, offline)


def plan(pipelines: Sequence[LoadedPipeline], *, offline: bool = False) -> list[PipelinePreview]:
    """What a run would do, one preview for each pipeline; changes nothing. `preview.to_json()` is what `floe plan
    --json` prints.

    Args:
        offline: ask neither broker nor catalog.

    Raises:
        SetupError: the broker or the catalog cannot be asked.
    """
    if offline:
        from framework.deploy.history import DeploymentHistory
        from framework.ops.preview.offline import preview_offline

        return preview_offline(pipelines, DeploymentHistory())
    from framework.ops.preview.facts import preview

    return preview(pipelines)


def run(
    pipelines: Sequence[LoadedPipeline],
    *,
    until_caught_up: bool = True,
    allow: Collection[str] = (),
    say: Callable[[str], None] = lambda text: None,
) -> JobResult:
    """Run pipelines of one target in this process, with one Spark session, until they are caught up and committed.

    Call it in the main thread: SIGTERM and SIGINT drain the run, after which it returns.

    Args:
        until_caught_up: False runs until a signal comes.
        allow: codes of dangerous changes since the last deployment, such as FLOE-P102, that may be made.
        say: gets a line of text for each step.

    Raises:
        ConfigError: a dangerous change is not allowed.
        FloeError: the first failure; the other pipelines are drained and committed before it is raised.
    """
    from framework.deploy.risks import check_breaking_changes
    from framework.plan.diff.consent import allowed_codes
    from framework.runtime.job import run_job

    check_breaking_changes(pipelines, allowed_codes(tuple(allow)))
    return run_job(pipelines, until_caught_up, say)


def status(
    target: str = "local",
    *,
    connection: str | None = None,
    control_topic: str | None = None,
    verify: bool = False,
) -> Status:
    """What a target's pipelines and tables are doing, as `floe status` shows it. `status.to_json()` has a schema,
    `schemas/status.v1.schema.json`.

    Args:
        connection: the target's Kafka connection; its only one if none is named.
        control_topic: `control-iceberg` if none is named.
        verify: load the tables, too, and say where they differ from what the control topic says.

    Raises:
        ConfigError: the target's file is wrong.
        SetupError: the broker cannot be asked.
    """
    from framework.cli.shared.target_options import open_control
    from framework.diagnose.whole_commands import CONTROL_TOPIC
    from framework.observe.status.read import read_status

    control = open_control(target, connection, control_topic or CONTROL_TOPIC)
    catalog = None
    if verify:
        from framework.runtime.job import open_catalog

        catalog = open_catalog(control.target, ())
    return read_status(control.target.name, control.target.prefix, control.kafka, control.topic, catalog)


def _listed(files: Files) -> Sequence[str]:
    several = [files] if isinstance(files, str | PathLike) else files
    return [str(each) for each in several]
