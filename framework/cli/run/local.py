"""`floe local up | down | status`: the embedded stack, a real broker and a catalog on loopback."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click
from rich.console import Console

from framework.adapters.telemetry.safe_output import log_line, unguarded
from framework.local.state import LocalState, default_state_dir

STATE_DIR = click.option(
    "--state-dir",
    type=click.Path(file_okay=False, path_type=Path),
    default=default_state_dir,
    show_default="$FLOE_HOME, or .floe",
    help="Where the broker's data, the catalog and the tables are kept.",
)
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
