"""The embedded stack as three functions: `up`, `down`, `status`. A state directory comes in, addresses go out.

`up` is idempotent and may be called by several processes at once; `down` leaves no process behind, and neither ever
touches a process that is not its own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from framework.adapters.host.java import find_java
from framework.adapters.host.private_files import no_link_below, private_dir, remove_private, write_private
from framework.adapters.host.process import exclusive, running_pid
from framework.errors import SetupError
from framework.local import broker
from framework.local.catalog import catalog_uri, prepare_catalog, warehouse_uri
from framework.local.jars import KAFKA_VERSION, broker_jars
from framework.local.spark import cluster_runs, start_cluster, stop_cluster
from framework.local.state import LocalPaths, LocalState, default_state_dir, read_state, write_state

DEFAULT_KAFKA_PORT = 9392
_ATTEMPTS_WITH_FREE_PORT = 3
WORKER_MEMORY = "2g"

__all__ = ["LocalState", "LocalStatus", "default_state_dir", "down", "read_state", "status", "up"]


@dataclass(frozen=True)
class LocalStatus:
    """What is there. `state` is None when the stack is down; `pid` is the broker's, None when it does not run."""

    state_dir: str
    state: LocalState | None
    pid: int | None
    broker_log: str

    @property
    def running(self) -> bool:
        return self.state is not None and self.pid is not None


def up(
    state_dir: Path,
    kafka_port: int | None = None,
    progress: Callable[[str], None] = lambda text: None,
    broker_config: Mapping[str, str] | None = None,
    spark_cores: int = 0,
) -> LocalState:
    """Makes sure that the stack runs, and returns its addresses once the broker answers.

    Args:
        state_dir: all data is kept below it, in `local/`.
        kafka_port: loopback port of the broker; 0 takes any free one. None takes the port of the last time, else 9392,
            else, when that one is taken, any free one.
        progress: called with a line of text at each step that takes time.
        spark_cores: of the worker of a standalone cluster that is started, too; 0: none is.
        broker_config: further lines of server.properties; used when the broker is started, not when it runs already.

    Raises:
        SetupError: no Java, no jars, the port is taken, the broker runs on another port, or it does not start.
    """
    paths = LocalPaths.of(state_dir)
    with exclusive(paths.lock_file):
        no_link_below(private_dir(paths.root), but=paths.spark)
        now = _status(state_dir, paths)
        if now.running and now.state is not None:
            return _with_spark(_already_up(now.state, kafka_port, paths), state_dir, paths, spark_cores, progress)
        java = find_java()
        jars = broker_jars(java, progress)
        prepare_catalog(paths)
        cluster_id, port = _start_broker(java, jars, paths, kafka_port, broker_config or {}, progress)
        state = LocalState(
            bootstrap_servers=f"{broker.HOST}:{port}",
            catalog_uri=catalog_uri(paths),
            warehouse=warehouse_uri(paths),
            cluster_id=cluster_id,
            kafka_version=KAFKA_VERSION,
        )
        write_state(state_dir, state)
        return _with_spark(state, state_dir, paths, spark_cores, progress)


def down(state_dir: Path, wipe: bool = False) -> bool:
    """Ends the broker and Spark's cluster and waits until they are gone; with `wipe` the data is deleted, too.

    Returns:
        True if a broker was running.
    """
    paths = LocalPaths.of(state_dir)
    if not paths.root.exists():
        return False
    with exclusive(paths.lock_file):
        private_dir(paths.root)
        stop_cluster(paths)
        cluster_id = broker.read_cluster_id(paths)
        ended = broker.stop_broker(paths, cluster_id) if cluster_id else False
        remove_private(paths.state_file)
        if wipe:
            remove_private(paths.root)
        return ended


def status(state_dir: Path) -> LocalStatus:
    """What runs now. Changes nothing."""
    return _status(state_dir, LocalPaths.of(state_dir))


def _status(state_dir: Path, paths: LocalPaths) -> LocalStatus:
    cluster_id = broker.read_cluster_id(paths)
    pid = running_pid(paths.pid_file, broker.mark(cluster_id)) if cluster_id else None
    return LocalStatus(str(paths.root.parent), read_state(state_dir), pid, str(paths.broker_log))


def _with_spark(
    state: LocalState, state_dir: Path, paths: LocalPaths, cores: int, progress: Callable[[str], None]
) -> LocalState:
    """The state with the address of a cluster that runs, or that is started now."""
    if not cores and not (state.spark_master and cluster_runs(paths)):
        return state
    state = replace(state, spark_master=start_cluster(paths, cores or 1, WORKER_MEMORY, progress))
    write_state(state_dir, state)
    return state


def _already_up(state: LocalState, kafka_port: int | None, paths: LocalPaths) -> LocalState:
    if kafka_port and kafka_port != state.kafka_port:
        raise SetupError(
            f"the broker already runs on port {state.kafka_port}, not on {kafka_port}",
            code="FLOE-E025",
            place=str(paths.root),
            remedy=f"floe local down && floe local up --kafka-port {kafka_port}",
        )
    if not broker.answers(state.kafka_port, timeout_s=10.0):
        raise SetupError(
            "the broker's process runs but does not answer",
            code="FLOE-E024",
            place=state.bootstrap_servers,
            remedy="floe local down && floe local up",
        )
    return state


def _start_broker(
    java: str,
    jars: Path,
    paths: LocalPaths,
    kafka_port: int | None,
    config: Mapping[str, str],
    progress: Callable[[str], None],
) -> tuple[str, int]:
    cluster_id = broker.read_cluster_id(paths)
    if cluster_id:
        broker.stop_broker(paths, cluster_id)  # one that an interrupted `up` or a lost state file left behind
    for attempt in range(_ATTEMPTS_WITH_FREE_PORT):
        port, chosen_here = _choose_port(paths, kafka_port)
        broker.write_config(paths, port, config)
        if cluster_id is None:
            progress(f"Kafka {KAFKA_VERSION}: formatting {paths.broker_data}")
            cluster_id = broker.format_storage(java, jars, paths)
        progress(f"Kafka {KAFKA_VERSION}: starting on {broker.HOST}:{port}")
        try:
            broker.start(java, jars, paths, cluster_id, port)
        except SetupError:
            # A port that we chose can be taken by another program before the broker listens on it.
            if chosen_here and attempt + 1 < _ATTEMPTS_WITH_FREE_PORT and not broker.port_is_free(port):
                continue
            raise
        write_private(paths.port_file, f"{port}\n")
        return cluster_id, port
    raise AssertionError("the last attempt returns or raises")


def _choose_port(paths: LocalPaths, wanted: int | None) -> tuple[int, bool]:
    """A port, and whether it was our own choice among free ones."""
    if wanted == 0:
        return broker.free_port(), True
    if wanted is not None:
        if not broker.port_is_free(wanted):
            raise SetupError(
                f"port {wanted} is taken by another program",
                code="FLOE-E025",
                place=f"{broker.HOST}:{wanted}",
                remedy="floe local up --kafka-port 0   (any free port)",
            )
        return wanted, False
    usual = int(paths.port_file.read_text()) if paths.port_file.exists() else DEFAULT_KAFKA_PORT
    return (usual, True) if broker.port_is_free(usual) else (broker.free_port(), True)
