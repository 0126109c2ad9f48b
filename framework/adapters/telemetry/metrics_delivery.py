"""Metrics of runs that are too short to be scraped: a file for the node exporter, and a push to a Pushgateway.

In: a registry, and where it goes. Out: a file that is whole at every moment, or one request. Whoever calls decides what
a failure means.
"""

from __future__ import annotations

from pathlib import Path

from prometheus_client import CollectorRegistry, push_to_gateway, write_to_textfile

PUSH_TIMEOUT_S = 5.0
JOB = "floe"
_READABLE = 0o644  # the exporter is another user; nothing in the file is secret


def write_textfile(folder: str, instance: str, registry: CollectorRegistry) -> None:
    """`floe-INSTANCE.prom` in the folder, replaced as a whole.

    Raises:
        OSError: the file cannot be written.
    """
    path = Path(folder) / f"floe-{instance}.prom"
    write_to_textfile(str(path), registry)
    path.chmod(_READABLE)


def push(url: str, instance: str, registry: CollectorRegistry) -> None:
    """Replace what the gateway has of this job and instance.

    Raises:
        OSError: the gateway does not take it.
    """
    push_to_gateway(url, JOB, registry, grouping_key={"instance": instance}, timeout=PUSH_TIMEOUT_S)
