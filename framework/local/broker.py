"""One real Kafka broker on loopback, as a process of its own: configured for one node and a quick start.

Paths, a port and extra settings come in; a running broker that answers metadata requests comes out, or a SetupError
that quotes the broker's log. The cluster id is part of the command line, which is how the process is known again.
"""

from __future__ import annotations

import base64
import logging
import re
import socket
import subprocess
import time
import uuid
from collections.abc import Mapping
from pathlib import Path

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from framework.adapters.host.private_files import UMASK, remove_private, write_private
from framework.adapters.host.process import spawn, stop
from framework.errors import SetupError
from framework.local.state import LocalPaths

HOST = "127.0.0.1"
START_TIMEOUT_S = 60.0
_JVM = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xshare:auto", "-Djava.awt.headless=true")

# One node, so every internal topic has one replica; one partition each, since every partition costs start-up time.
_CONFIG = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "controller.listener.names": "CONTROLLER",
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
    "offsets.topic.replication.factor": "1",
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "transaction.state.log.num.partitions": "1",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "share.coordinator.state.topic.num.partitions": "1",
    "group.initial.rebalance.delay.ms": "0",
    "num.network.threads": "2",
    "num.io.threads": "4",
    "background.threads": "2",
    "log.cleaner.dedupe.buffer.size": "16777216",
    "auto.create.topics.enable": "false",  # a misspelt topic is an error here as it is in production
    # After a crash the controller waits for the old session to end before the broker may register again (default 9 s).
    "broker.session.timeout.ms": "3000",
    "broker.heartbeat.interval.ms": "500",
}
_LOGGING = """rootLogger.level=INFO
rootLogger.appenderRef.console.ref=CONSOLE
appender.console.type=Console
appender.console.name=CONSOLE
appender.console.layout.type=PatternLayout
appender.console.layout.pattern=%d{yyyy-MM-dd HH:mm:ss.SSS} %p %m (%c{1}) [%t]%n
"""
_CLUSTER_ID = re.compile(r"^cluster\.id=(\S+)$", re.MULTILINE)


def mark(cluster_id: str) -> str:
    """The word on the broker's command line by which it is known again."""
    return f"-Dfloe.local.cluster={cluster_id}"


def read_cluster_id(paths: LocalPaths) -> str | None:
    """The cluster id that the data directory was formatted with; None before the first start."""
    try:
        match = _CLUSTER_ID.search((paths.broker_data / "meta.properties").read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    return match.group(1) if match else None


_given_ports: set[int] = set()


def free_port() -> int:
    """A loopback port that nobody listens on at this moment, and that this process was not given before: the system may
    name one twice, and a broker that is to listen on both refuses to begin."""
    while True:
        with socket.socket() as probe:
            probe.bind((HOST, 0))
            port = int(probe.getsockname()[1])
        if port not in _given_ports:
            _given_ports.add(port)
            return port


def port_is_free(port: int) -> bool:
    """Whether a server could listen on this loopback port now."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError:
            return False
    return True


def format_storage(java: str, jars: Path, paths: LocalPaths) -> str:
    """Prepares an empty data directory and returns its new cluster id."""
    cluster_id = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=").replace("-", "A")
    command = [java, *_JVM, "-cp", f"{jars}/*", "kafka.tools.StorageTool", "format"]
    command += ["-t", cluster_id, "-c", str(paths.broker_config)]
    answer = subprocess.run(command, capture_output=True, text=True, check=False, umask=UMASK)
    if answer.returncode != 0:
        raise SetupError(
            f"the broker's data directory cannot be formatted{_reporting_line(answer.stdout + answer.stderr)}",
            code="FLOE-E024",
            place=str(paths.broker_data),
            remedy="floe local down --wipe && floe local up",
        )
    return cluster_id


def write_config(paths: LocalPaths, port: int, extra: Mapping[str, str]) -> None:
    """Writes server.properties and log4j2.properties; `extra` wins over our own settings."""
    controller = free_port()
    config = {
        **_CONFIG,
        "listeners": f"PLAINTEXT://{HOST}:{port},CONTROLLER://{HOST}:{controller}",
        "advertised.listeners": f"PLAINTEXT://{HOST}:{port}",
        "controller.quorum.voters": f"1@{HOST}:{controller}",
        "log.dirs": str(paths.broker_data),
        **extra,
    }
    write_private(paths.broker_config, "".join(f"{key}={value}\n" for key, value in config.items()))
    write_private(paths.logging_config, _LOGGING)


def start(java: str, jars: Path, paths: LocalPaths, cluster_id: str, port: int) -> int:
    """Starts the broker and waits until it answers; returns its pid. What was started is ended if it does not answer.

    Raises:
        SetupError: the process ended, or did not answer within a minute.
    """
    command = [java, "-Xms256m", "-Xmx768m", *_JVM, f"-Dlog4j2.configurationFile={paths.logging_config}"]
    command += [mark(cluster_id), "-cp", f"{jars}/*", "kafka.Kafka", str(paths.broker_config)]
    process = spawn(command, paths.pid_file, paths.broker_log, paths.root, umask=UMASK)
    try:
        _wait_until_ready(process, paths, port)
    except BaseException:
        process.kill()
        process.wait()
        remove_private(paths.pid_file)
        raise
    return process.pid


def _wait_until_ready(process: subprocess.Popen[bytes], paths: LocalPaths, port: int) -> None:
    deadline = time.monotonic() + START_TIMEOUT_S
    while time.monotonic() < deadline:
        if process.poll() is not None:
            raise _start_error(f"the broker ended with exit code {process.returncode}", paths)
        if answers(port, timeout_s=2.0):
            return
        time.sleep(0.1)
    raise _start_error(f"the broker did not answer within {START_TIMEOUT_S:.0f} s", paths)


def answers(port: int, timeout_s: float) -> bool:
    """Whether a broker on this loopback port answers a metadata request in time."""
    with socket.socket() as probe:
        probe.settimeout(timeout_s)
        if probe.connect_ex((HOST, port)) != 0:
            return False
    quiet = logging.Logger("floe.local.probe", level=logging.CRITICAL + 1)  # refused connections are expected here
    admin = AdminClient({"bootstrap.servers": f"{HOST}:{port}"}, logger=quiet)
    try:
        admin.list_topics(timeout=timeout_s)
    except KafkaException:
        return False
    return True


def _start_error(message: str, paths: LocalPaths) -> SetupError:
    detail = _reporting_line(paths.broker_log.read_text(encoding="utf-8", errors="replace"))
    return SetupError(
        f"{message}{detail}", code="FLOE-E024", place=str(paths.broker_log), remedy=f"read {paths.broker_log}"
    )


def _reporting_line(log: str) -> str:
    """The first line that names an exception, to follow a sentence; empty when there is none."""
    reporting = [line.strip() for line in log.splitlines() if "Exception" in line]
    return f": {reporting[0][:300]}" if reporting else ""


def stop_broker(paths: LocalPaths, cluster_id: str) -> bool:
    """Ends the broker of these paths and waits until it is gone. True: one was running."""
    return stop(paths.pid_file, mark(cluster_id))
