"""`floe ops`: the web page of operations and its REST surface, from one reader of the control topic."""

from __future__ import annotations

import socket
from functools import cache
from pathlib import Path

import click

from framework.adapters.telemetry.safe_output import log_line
from framework.cli.shared.target_options import open_control, target_options
from framework.config.rules.target.monitoring import host_and_port

LISTEN = "127.0.0.1:8765"


@click.command()
@target_options
@click.option("--listen", default=LISTEN, show_default=True, metavar="HOST:PORT", help="Where to listen.")
@click.option(
    "--tokens",
    "tokens_file",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Who may read and act: a line `NAME read|act TOKEN` for each. Needed off loopback, and to act.",
)
@click.option(
    "--allow-host",
    "hosts",
    multiple=True,
    metavar="NAME",
    help="A name of this server, beside its addresses and this machine's name, that browsers may use. May be repeated.",
)
@click.option(
    "--notify",
    "receivers_file",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Send troubles to Slack and PagerDuty: a line `slack URL` or `pagerduty ROUTING_KEY` for each receiver.",
)
def ops(
    target: str | None,
    connection: str | None,
    control_topic: str,
    listen: str,
    tokens_file: Path | None,
    hosts: tuple[str, ...],
    receivers_file: Path | None,
) -> None:
    """Serve a page that shows what is in trouble, since when and what to do, and the same as JSON: floe's own under /v1, and the
    shape of Kafka Connect's REST interface. Ctrl-C ends it.

    Anybody on this machine may read. With --tokens every request needs a token, and one of role `act` may pause and resume, and
    see dead letters of the pipelines that the target names under `allow.dead_letters_on_page`.

    \b
    floe ops --target prod
    floe ops --target prod --listen 0.0.0.0:8765 --tokens ops-tokens --allow-host floe.example.com
    """
    from framework.runtime.monitoring.page import check_installed

    check_installed()
    address = host_and_port(listen)
    if address is None:
        raise click.BadParameter(f"`{listen}` is not HOST:PORT, such as {LISTEN}", param_hint="--listen")
    from framework.observe.live.notifier import LOOK_EVERY_S, Notifier, SentFile, read_receivers
    from framework.observe.live.reader import LiveTarget, OverviewReader
    from framework.ops.backend import BrokerBackend
    from framework.ops.shown_dead_letters import ShownDeadLetters
    from framework.runtime.job import open_catalog
    from framework.web.access.access import Access, needs_tokens, refused
    from framework.web.access.token_file import TokenFile
    from framework.web.app import create_app
    from framework.web.serve import bind, serve

    if tokens_file is None and needs_tokens(address[0]):
        raise refused(f"others can reach {listen}, and there is no token file", listen, "give one with --tokens FILE")
    tokens = TokenFile(tokens_file).tokens if tokens_file is not None else None
    receivers = read_receivers(receivers_file) if receivers_file is not None else []
    control = open_control(target, connection, control_topic)
    looked = LiveTarget(control.target.name, control.target.prefix, control.kafka, control.topic, control.other)
    bound = bind(*address)

    def say(text: str) -> None:
        click.echo(log_line(text), err=True)

    reader = OverviewReader(looked, say)
    notifier = None
    try:
        reader.start(waits=True)
        if receivers_file is not None:
            sent_file = SentFile(receivers_file, looked.target, looked.control_topic, say)
            notifier = Notifier(receivers, reader.view, say, LOOK_EVERY_S, sent_file)
            notifier.start()
        access = Access(tokens, (address[0], socket.gethostname(), *hosts))
        patterns = control.target.allow_dead_letters_on_page if tokens is not None else ()
        shown = ShownDeadLetters(patterns, cache(lambda: open_catalog(control.target, ())), say)
        app = create_app(BrokerBackend(looked, reader, shown), access)
        serve(app, bound, lambda url: click.echo(f"the page is at {url}", err=True))
    finally:
        bound.close()
        if notifier is not None:
            notifier.close()
        reader.close()
