"""`floe demo`: from nothing to filled tables in one command; `floe demo pizzas`: orders that keep coming.

The demo does nothing that a person could not type: `floe local up`, filling two topics, `floe run`, a look at the tables.
"""

from __future__ import annotations

import random
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from framework.adapters.host.process import python, python_environment
from framework.adapters.telemetry.safe_output import unguarded
from framework.cli.run.local import KAFKA_PORT, STATE_DIR, progress_lines
from framework.diagnose.counted import counted
from framework.errors import FloeError, SetupError
from framework.local.landed import FullScan, Landed
from framework.local.nycflights import DemoTopic
from framework.local.state import HOME_VARIABLE, LocalState

_TABLES = {"carrier": 16, "dest": 105, "origin": 3}  # how many different values the flights have
_SHOWN = 20
_NUMBERS_WIDTH = 67  # of the columns before the bar, their frames and padding
_SHORTEST_BAR, _LONGEST_BAR = 10, 40


@click.group("demo", invoke_without_command=True)
@click.option(
    "--by",
    type=click.Choice(list(_TABLES)),
    default="carrier",
    show_default=True,
    help="The field that names a flight's table: 16 carriers, 105 destinations or 3 airports.",
)
@KAFKA_PORT
@STATE_DIR
@click.pass_context
def demo(context: click.Context, by: str, kafka_port: int | None, state_dir: Path) -> None:
    """Replay 336,776 real flights into Kafka, run pipelines/flights.yaml, and show what landed."""
    if context.invoked_subcommand is None:
        _flights(by, kafka_port, state_dir)


@demo.command("pizzas")
@click.option("--rate", type=click.FloatRange(0.01, 10_000), default=20.0, show_default=True, help="Orders per second.")
@click.option("--seconds", type=click.FloatRange(min=0.1), help="Stop after this many seconds; without it, at Ctrl-C.")
@click.option("--seed", type=int, help="Make the same orders on every run.")
@KAFKA_PORT
@STATE_DIR
def pizzas_command(
    rate: float, seconds: float | None, seed: int | None, kafka_port: int | None, state_dir: Path
) -> None:
    """Keep producing pizza orders to topic completed-pizzas, for pipelines/pizzas.yaml."""
    from framework.local import pizzas, stack
    from framework.local.fill_topic import ensure_topic

    with progress_lines() as progress:
        state = stack.up(state_dir, kafka_port, progress)
    ensure_topic(state.bootstrap_servers, pizzas.TOPIC, 1)
    console = Console(file=unguarded(sys.stderr))
    console.print(f"{rate:g} orders a second to topic {pizzas.TOPIC} at {state.bootstrap_servers}; Ctrl-C ends it.")
    console.print("In another terminal:  floe run pipelines/pizzas.yaml")
    with console.status("") as line:
        sent = pizzas.produce(
            state.bootstrap_servers, rate, seconds, lambda n: line.update(f"{n:,} orders"), random.Random(seed)
        )
    click.echo(f"{counted(sent, 'order')} written to {pizzas.TOPIC}")


def _flights(by: str, kafka_port: int | None, state_dir: Path) -> None:
    from framework.local import nycflights, stack
    from framework.local.landed import landed, read_whole

    pipeline = _pipeline_file("flights.yaml")
    with progress_lines() as progress:
        state = stack.up(state_dir, kafka_port, progress)
        archive = nycflights.fetch(progress)
    console = Console()
    console.print(f"[bold]1[/] Kafka {state.kafka_version} runs on {state.bootstrap_servers}, its data in {state_dir}")
    console.print("[bold]2[/] filling the topics")
    _fill_topics(state, archive)
    command = ["run", pipeline, "--target", "local", "--until-caught-up", "--var", f"by={by}"]
    console.print(f"[bold]3[/] floe {' '.join(command)}")
    _floe(command, state_dir)
    namespace = f"flights_by_{by}"
    console.print(f"[bold]4[/] reading namespace {namespace} through PyIceberg")
    tables = landed(state.catalog_settings(), namespace)
    _show(console, [facts for facts in tables if facts.table != f"{namespace}.dead_letters"], namespace)
    _check(tables, namespace, by)
    click.echo(_files(tables, read_whole(state.catalog_settings(), tables[0].table)))
    console.print("\nTry next:")
    console.print("  floe status", highlight=False)
    console.print("  floe log", highlight=False)
    console.print(f"  floe demo --by {'dest' if by != 'dest' else 'origin'}", highlight=False)
    console.print("\n[dim]The stack keeps running; `floe local down` stops it, `--wipe` deletes its data.[/]")


def _fill_topics(state: LocalState, archive: Path) -> None:
    from framework.local import nycflights

    columns = (TextColumn("  {task.description:<8}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(file=unguarded(sys.stderr))) as bars:
        for topic in (nycflights.FLIGHTS, nycflights.WEATHER):
            _fill_topic(bars, state, archive, topic)


def _fill_topic(bars: Progress, state: LocalState, archive: Path, topic: DemoTopic) -> None:
    from framework.local import nycflights
    from framework.local.fill_topic import replay

    task = bars.add_task(topic.name, total=topic.records)
    replay(
        state.bootstrap_servers,
        topic.name,
        topic.partitions,
        lambda: nycflights.records(archive, topic),
        topic.records,
        lambda count: bars.advance(task, count),
    )


def _floe(arguments: list[str], state_dir: Path) -> None:
    """Runs another verb as a process of its own, as a person would; its exit code becomes ours when it fails."""
    environment = python_environment(**{HOME_VARIABLE: str(state_dir.absolute())})
    code = subprocess.run(python("-m", "framework.cli.main", *arguments), env=environment, check=False)
    if code.returncode != 0:
        sys.exit(code.returncode if code.returncode > 0 else 128 - code.returncode)


def _pipeline_file(name: str) -> str:
    """The demo's pipeline in the current directory, or in the checkout that this program runs from."""
    for folder in (Path("pipelines"), Path(__file__).parents[3] / "pipelines"):
        if (folder / name).is_file():
            return str(folder / name)
    raise SetupError(
        f"there is no pipelines/{name} here",
        code="FLOE-E028",
        place=str(Path.cwd()),
        remedy="run the demo in a checkout of the project",
    )


def _show(console: Console, tables: list[Landed], namespace: str) -> None:
    most = max((facts.rows for facts in tables), default=1)
    width = max(_SHORTEST_BAR, min(_LONGEST_BAR, console.width - _NUMBERS_WIDTH))
    grid = Table(title=f"{counted(len(tables), 'table')} in {namespace}", title_justify="left", title_style="bold")
    grid.add_column("table")
    for heading in ("rows", "partitions", "files", "snapshots"):
        grid.add_column(heading, justify="right")
    grid.add_column("rows per table", min_width=width, no_wrap=True)
    for facts in tables[:_SHOWN]:
        bar = "█" * max(1, round(width * facts.rows / most))
        numbers = (f"{number:,}" for number in (facts.rows, facts.partitions, facts.files, facts.snapshots))
        grid.add_row(facts.table.removeprefix(f"{namespace}."), *numbers, f"[cyan]{bar}[/]")
    if len(tables) > _SHOWN:
        rest = tables[_SHOWN:]
        sums = [sum(getattr(facts, name) for facts in rest) for name in ("rows", "partitions", "files", "snapshots")]
        grid.add_row(f"{counted(len(rest), 'smaller table')}", *(f"{number:,}" for number in sums), "", style="dim")
    console.print(grid)


def _files(tables: Sequence[Landed], scan: FullScan) -> str:
    """What a reader of the tables has to open: a scan takes as long as it has files."""
    files, partitions = (sum(getattr(facts, name) for facts in tables) for name in ("files", "partitions"))
    of_scan = next(facts.files for facts in tables if facts.table == scan.table)
    return (
        f"{counted(files, 'file')} in {counted(partitions, 'partition')}; all {scan.rows:,} rows of {scan.table}, in "
        f"{counted(of_scan, 'file')}, are read in {scan.seconds:.1f} s"
    )


def _check(tables: list[Landed], namespace: str, by: str) -> None:
    """The demo's promise: every flight is in a table, once.

    Raises:
        FloeError: the sums differ.
    """
    from framework.local.nycflights import FLIGHTS, WEATHER

    of_flights = [facts.rows for facts in tables if facts.table.startswith(f"{namespace}.{by}_")]
    flights = sum(of_flights)
    weather = sum(facts.rows for facts in tables if facts.table == f"{namespace}.weather")
    click.echo(
        f"{flights:,} of {FLIGHTS.records:,} flights in {len(of_flights)} tables, "
        f"{weather:,} of {WEATHER.records:,} hours of weather in another"
    )
    if (len(of_flights), flights, weather) != (_TABLES[by], FLIGHTS.records, WEATHER.records):
        raise FloeError(
            "the tables do not hold every record exactly once",
            code="FLOE-R190",
            place=namespace,
            remedy="look at `floe status` and `floe log`; `floe local down --wipe` deletes everything and starts over",
        )
