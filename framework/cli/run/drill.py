"""`floe drill`: faults in small pipelines of their own, on a target's broker, catalog and store, with a dated result of each."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import click

from framework.adapters.project.files import real_world
from framework.adapters.telemetry.safe_output import log_line
from framework.cli.shared import complete
from framework.cli.shared.options import json_option, whoami
from framework.cli.shared.recovery import whole_here
from framework.cli.shared.target_options import open_control
from framework.config.names.table_names import DEFAULT_CATALOG
from framework.config.target import load_target
from framework.diagnose.whole_commands import CONTROL_TOPIC
from framework.errors import SetupError
from framework.ops.drill.model import MEANING, Drill

if TYPE_CHECKING:
    from framework.ops.drill.model import DrillResult
    from framework.ops.drill.scratch_world import DrillWorld

FAILED = 10
_NAMES = [each.value for each in Drill]


@click.command()
@click.argument("drills", metavar="[DRILL]...", nargs=-1, type=click.Choice(_NAMES))
@click.option(
    "--target", "-t", default=None, help="The target; `local` if you name none.", shell_complete=complete.targets
)
@click.option("--connection", default=None, help="The target's Kafka connection; its only one if not named.")
@click.option("--catalog", default=None, help="The target's catalog; its only one, or `default`, if not named.")
@click.option("--clean", is_flag=True, help="Run none: remove at once what drills that were killed have left.")
@click.option("--results", is_flag=True, help="Run none: show the last result of each.")
@json_option
def drill(
    drills: tuple[str, ...],
    target: str | None,
    connection: str | None,
    catalog: str | None,
    clean: bool,
    results: bool,
    as_json: bool,
) -> int:
    """Try what a pipeline must survive, on the target's own broker, catalog and store, and check every row.

    Each DRILL (all six if you name none) fills two small tables of its own from a topic of its own, meets its fault, and must end
    with each record in a table once. Spark runs on this machine. Topics, groups, tables and files are removed afterwards. What a
    killed drill leaves is removed by --clean, or by a drill an hour later. The results are kept in the topic PREFIX-drills, and
    `floe readiness` shows them.

    Ends with 0 if all pass and with 10 if not.

    \b
    floe drill -t prod
    floe drill crash-before-commit lost-offsets -t prod
    """
    if sum((clean, results, bool(drills))) > 1:
        raise click.UsageError("name drills, --clean or --results")
    world = _world(target, connection, catalog)
    if clean:
        return _clean(world, as_json)
    from framework.ops.drill.model import newest
    from framework.ops.drill.perform import kept_results, perform

    if results:
        found = list(newest(kept_results(world), world.target.name, world.catalog).values())
    else:
        asked = tuple(map(Drill, drills or _NAMES))
        found = []
        for result in perform(world, asked, whoami(), _say):
            found.append(result)
            if not as_json:
                _show(result)
    ok = all(each.passed for each in found)
    if as_json:
        click.echo(
            json.dumps(
                {"version": 1, "command": "drill", "ok": ok, "results": [_whole(each) for each in found]}, indent=2
            )
        )
    elif results:
        for each in found:
            _show(each)
        if not found:
            click.echo("no drill has a result here yet")
    return 0 if ok else FAILED


def _world(target: str | None, connection: str | None, catalog: str | None) -> DrillWorld:
    from framework.ops.drill.scratch_world import DrillWorld

    control = open_control(target, connection, CONTROL_TOPIC)
    names = sorted(control.target.catalogs)
    chosen = catalog or (names[0] if len(names) == 1 else DEFAULT_CATALOG)
    if chosen not in names:
        raise SetupError(
            f"target {control.target.name} has no catalog {chosen}: {', '.join(names) or 'none'}",
            code="FLOE-E311",
            place=control.target.name,
            remedy="name one with --catalog",
        )
    return DrillWorld(control.target, control.connection, chosen, _named(target or "local"))


def _named(target: str) -> str:
    """What finds the target also from another folder."""
    source = load_target(target, real_world(), Path.cwd()).source
    return str(Path(source.file).absolute()) if source is not None and Path(source.file).is_file() else target


def _clean(world: DrillWorld, as_json: bool) -> int:
    stays = world.remove_left(0)
    if as_json:
        click.echo(
            json.dumps({"version": 1, "command": "drill", "ok": not stays, "results": [], "stays": stays}, indent=2)
        )
    else:
        click.echo(f"could not be removed: {', '.join(stays)}" if stays else "nothing of a drill is left")
    return FAILED if stays else 0


def _whole(result: DrillResult) -> dict[str, object]:
    return {**result.to_json(), "remedy": whole_here(result.remedy)}


def _show(result: DrillResult) -> None:
    from framework.diagnose.counted import moment_text

    verdict = "passed" if result.passed else "FAILED"
    click.echo(
        f"{result.drill.value}: {verdict}, {moment_text(result.timestamp_ms)}, {result.seconds:.0f} s, by {log_line(result.by)}"
    )
    click.echo(f"  {MEANING[result.drill]}")
    for step in result.steps:
        click.echo(f"  - {log_line(step)}")
    if not result.passed:
        click.echo(f"  problem: {log_line(result.problem)} [{result.code}]")
        click.echo(f"  remedy: {log_line(whole_here(result.remedy))}")


def _say(text: str) -> None:
    click.echo(f"  {log_line(text)}", err=True)
