"""`floe top`: what is in trouble, what lags and what waits, live in a terminal; from one reader of the control topic."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import click

from framework.cli.shared.columns import terminal_width
from framework.cli.shared.target_options import open_control, target_options

if TYPE_CHECKING:
    from rich.console import RenderableType

    from framework.overview.values import Overview

REFRESH_S = 1.0
WIDE = 200


@click.command()
@target_options
@click.option("--once", is_flag=True, help="Print it once, whole, and end.")
def top(target: str | None, connection: str | None, control_topic: str, once: bool) -> None:
    """Show live what is in trouble (with since when, why, and what to do), each pipeline's lag and each table's commits, and
    what people did lately. Ctrl-C ends it; nothing is changed.

    \b
    floe top --target prod
    floe top --target prod --once
    """
    from rich.console import Console
    from rich.live import Live

    from framework.cli.watch.top_text import screen
    from framework.observe.live.reader import LiveTarget, OverviewReader

    control = open_control(target, connection, control_topic)
    looked = LiveTarget(control.target.name, control.target.prefix, control.kafka, control.topic, control.other)
    reader = OverviewReader(looked, lambda text: None)
    console = Console(highlight=False, markup=False, emoji=False, soft_wrap=once)
    if once:
        console.width = max(console.width, WIDE)  # a name that is cut cannot be copied

    def shown(found: Overview) -> RenderableType:
        rows = None if once else max(8, console.height - 1)
        return screen(found, int(time.time() * 1000), console.width, rows, terminal_width())

    try:
        reader.start()
        if once:
            console.print(shown(reader.view()))
            return
        with Live(shown(reader.view()), console=console, screen=console.is_terminal, auto_refresh=False) as live:
            while True:
                time.sleep(REFRESH_S)
                live.update(shown(reader.view()), refresh=True)
    finally:
        reader.close()
