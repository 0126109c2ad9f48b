"""`floe local up | down | status | topic | send`: the embedded stack, a real broker and a catalog on loopback."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

from framework.adapters.telemetry.safe_output import log_line, unguarded
from framework.cli.shared.record_files import read_record_file
from framework.diagnose.counted import counted
from framework.errors import SetupError
from framework.local.state import LocalState, default_state_dir

STATE_DIR = click.option(
    "--state-dir",
    type=click.Path(file_okay=False, path_type=Path),
    default=default_state_dir,
    show_default="$FLOE_HOME, or .floe",
    help="Where the broker's data, the catalog and the tables are kept.",
)
_COLUMNS = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
_JSON = click.option("--json", "as_json", is_flag=True, help="Print the result as JSON on standard output.")
KAFKA_PORT = click.option(
    "--kafka-port",
    type=click.IntRange(0, 65535),
    show_default="the port used last time, or 9392",
    help="The broker's loopback port; 0 takes any free one.",
)


@click.group("local")
def local() -> None:
    """Start, stop and look at the embedded stack: a real Kafka broker and an Iceberg catalog, no Docker."""


@local.command("up")
@KAFKA_PORT
@click.option(
    "--spark", "with_spark", is_flag=True, help="Also start a Spark standalone cluster: a master and a worker."
)
@click.option(
    "--spark-cores", type=click.IntRange(1), default=2, show_default=True, help="The worker's cores, with --spark."
)
@STATE_DIR
@_JSON
def up_command(kafka_port: int | None, with_spark: bool, spark_cores: int, state_dir: Path, as_json: bool) -> None:
    """Start the stack, or say where it already runs.

    \b
    floe local up
    floe local up --spark     with a cluster for `floe submit FILE --target standalone`

    The first time on a machine, it fetches the broker's jars from Maven Central (43 MB) and checks them against pinned
    SHA-256 sums. To use a mirror, name an Ivy settings file in FLOE_IVY_SETTINGS.
    """
    from framework.local import stack

    with progress_lines() as progress:
        state = stack.up(state_dir, kafka_port, progress, spark_cores=spark_cores if with_spark else 0)
    if as_json:
        _print_json("local up", {"running": True, **state.as_mapping()})
    else:
        click.echo(_addresses(state))


@local.command("down")
@click.option("--wipe", is_flag=True, help="Also delete the broker's topics, the catalog and the tables.")
@STATE_DIR
@_JSON
def down_command(wipe: bool, state_dir: Path, as_json: bool) -> None:
    """Stop the stack and wait until its process is gone. Data stays unless you give --wipe."""
    from framework.local import stack

    ended = stack.down(state_dir, wipe)
    if as_json:
        _print_json("local down", {"was_running": ended, "wiped": wipe})
    else:
        click.echo(
            ("stopped" if ended else "nothing was running") + (f"; {state_dir}/local is deleted" if wipe else "")
        )


@local.command("status")
@STATE_DIR
@_JSON
def status_command(state_dir: Path, as_json: bool) -> None:
    """Say whether the stack runs, and where. The exit code is 0 when it runs and 3 when it does not."""
    from framework.local import stack

    now = stack.status(state_dir)
    if as_json:
        addresses = now.state.as_mapping() if now.state else {}
        _print_json("local status", {"running": now.running, "pid": now.pid, "log": now.broker_log, **addresses})
    elif now.state is not None and now.running:
        click.echo(_addresses(now.state) + f"\npid        {now.pid}\nlog        {now.broker_log}")
    elif now.state is not None:
        click.echo("the broker has ended on its own; start it with: floe local up")
    else:
        click.echo("not running; start it with: floe local up")
    if not now.running:
        sys.exit(3)


@local.command("topic")
@click.argument("name")
@click.option("--partitions", type=click.IntRange(1, 1000), help="How many partitions; one where it is made.")
@STATE_DIR
@_JSON
def topic_command(name: str, partitions: int | None, state_dir: Path, as_json: bool) -> None:
    """Make a topic on the embedded stack, or say that it is there.

    \b
    floe local topic orders --partitions 3
    """
    from framework.local.topics import make_topic

    there, made = make_topic(_running(state_dir).bootstrap_servers, name, partitions)
    if as_json:
        _print_json("local topic", {"topic": name, "partitions": there, "made": made})
    else:
        click.echo(f"topic {name} {'made' if made else 'is there'}, with {counted(there, 'partition')}")


@local.command("send")
@click.argument("topic")
@click.argument("file", metavar="FILE")
@click.option(
    "--key", metavar="FIELD", help="The field whose value is each record's key; by default records have no key."
)
@click.option(
    "--rate", type=click.FloatRange(min=0, min_open=True), help="Records a second; by default as fast as it goes."
)
@STATE_DIR
@_JSON
def send_command(topic: str, file: str, key: str | None, rate: float | None, state_dir: Path, as_json: bool) -> None:
    """Send the records of a file to a topic of the embedded stack, which is made where it is missing.

    \b
    floe local send orders orders.jsonl
    floe local send orders orders.csv --key id --rate 100

    The file holds one JSON value a line, a JSON list, JSON values of several lines, or CSV with a head: each row becomes a
    JSON object. A second call sends the records again.
    """
    from framework.local.topics import make_topic, send

    records = read_record_file(file)
    servers = _running(state_dir).bootstrap_servers
    _, made = make_topic(servers, topic)
    console = Console(file=unguarded(sys.stderr))
    with Progress(*_COLUMNS, console=console, disable=not console.is_terminal) as bar:
        task = bar.add_task(topic, total=len(records.values))
        sent = send(servers, topic, records.values, key, rate, lambda count: bar.advance(task, count))
    if as_json:
        _print_json("local send", {"topic": topic, "sent": sent, "form": records.form, "made": made})
    else:
        new = ", which was made with one partition" if made else ""
        click.echo(f"sent {counted(sent, 'record')} ({records.form}) to {topic}{new}")


def _running(state_dir: Path) -> LocalState:
    """Where the stack runs.

    Raises:
        SetupError: FLOE-E039, it does not.
    """
    from framework.local import stack

    now = stack.status(state_dir)
    if now.state is None or not now.running:
        raise SetupError(
            "the embedded stack does not run", code="FLOE-E039", place=str(state_dir), remedy="floe local up"
        )
    return now.state


@contextmanager
def progress_lines() -> Iterator[Callable[[str], None]]:
    """A function that shows what is going on: a spinner on a terminal, lines elsewhere, always on standard error."""
    console = Console(file=unguarded(sys.stderr))
    if not console.is_terminal:
        yield lambda text: click.echo(log_line(text), err=True)
        return
    with console.status("looking at the embedded stack") as spinner:
        yield lambda text: spinner.update(log_line(text))


def _addresses(state: LocalState) -> str:
    return (
        f"kafka      {state.bootstrap_servers}   (Kafka {state.kafka_version}, cluster {state.cluster_id})\n"
        f"catalog    {state.catalog_uri}\nwarehouse  {state.warehouse}"
        + (f"\nspark      {state.spark_master}" if state.spark_master else "")
    )


def _print_json(command: str, result: dict[str, Any]) -> None:
    click.echo(json.dumps({"command": command, "ok": True, **result}))
