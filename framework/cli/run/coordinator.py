"""`floe coordinator`: the commit coordinator alone, beside or instead of the ones embedded in drivers."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

import click

from framework.adapters.telemetry.run_log import RunLog
from framework.cli.shared.options import log_format_option
from framework.cli.shared.target_options import open_control, target_options
from framework.diagnose.log_lines import Level, LogFormat, LogLine, under
from framework.errors import SetupError

if TYPE_CHECKING:
    from framework.adapters.iceberg.tables import IcebergTables


@click.command()
@target_options
@log_format_option
def coordinator(target: str | None, connection: str | None, control_topic: str, log_format: LogFormat) -> None:
    """Commit what pipelines announce, until SIGTERM. Several may run: one owns the control topic, the others stand by."""
    from framework.plan.compile import coordinator_group
    from framework.runtime.coordinator.thread import Coordinator
    from framework.runtime.job import open_catalog
    from framework.runtime.lineage import lineage_of
    from framework.runtime.monitoring.monitor import Connections, Monitor

    control = open_control(target, connection, control_topic)
    log = RunLog(log_format)

    def say(text: str) -> None:
        log(under("coordinator", text))

    from framework.adapters.kafka.admin import KafkaAdmin
    from framework.adapters.kafka.control.topic import ensure_control_topic

    ensure_control_topic(KafkaAdmin(control.kafka), control.topic)
    group = coordinator_group(control.target.prefix, control.topic)
    catalog = open_catalog(control.target, ())
    check_some(catalog, say)
    monitoring = control.target.monitoring
    lineage = lineage_of(control.target, control.connection, catalog, say)
    committer = Coordinator(
        control.kafka,
        group,
        control.topic,
        catalog,
        say,
        monitoring.stalled_after_ms,
        control.target.maintenance,
        lineage,
        control.target.log_archive,
    )
    connections = Connections(control.target, (control.kafka,), (control.topic,), catalog, catalog.catalogs)
    monitor = Monitor(connections, (), (committer,), say, lambda: lineage.dropped if lineage is not None else 0)
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    committer.start()
    try:
        monitor.start()
        while not stop.wait(0.2) and committer.alive:
            pass
    finally:
        monitor.close()
        committer.stop(is_done=stop.is_set())
        if lineage is not None:
            lineage.close()
    if committer.error is not None:
        raise committer.error


def check_some(catalog: IcebergTables, say: Callable[[str], None]) -> None:
    """Begin although a catalog is down, which is said: invariant 10, its tables wait. Where none answers, do not begin.

    Raises:
        SetupError: of the first catalog.
    """
    troubles = []
    for name in catalog.catalogs:
        try:
            catalog.check((name,))
        except SetupError as error:
            troubles.append(error)
    if len(troubles) == len(catalog.catalogs):
        raise troubles[0]
    for trouble in troubles:
        say(LogLine(f"{trouble.message}; its tables wait", Level.WARNING))
