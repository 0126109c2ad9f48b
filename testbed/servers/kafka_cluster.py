"""Kafka brokers of any version, several to a cluster, each with its own process, port and folder.

In: a folder, how many brokers, and a version of Kafka whose jars come once from Maven Central. Out: brokers that replicate
to each other and can be killed, ended, frozen and started again one by one. Each is a controller as well; where nothing else
is said, a topic has a copy on each broker, and a record counts once all but one of them have it.
"""

from __future__ import annotations

import base64
import logging
import os
import signal
import subprocess
import time
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, NewTopic

from framework.adapters.host.java import find_java
from framework.local.broker import HOST, free_port
from testbed.servers.maven import dependency, jars

OWN_VERSION = "4.1.2"
START_S = 90.0
_JVM = ("-Xms128m", "-Xmx512m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xshare:auto")
_LOG4J_2 = """rootLogger.level=INFO
rootLogger.appenderRef.console.ref=CONSOLE
appender.console.type=Console
appender.console.name=CONSOLE
appender.console.layout.type=PatternLayout
appender.console.layout.pattern=%d %p %m (%c{1})%n
"""


def kafka_jars(version: str = OWN_VERSION) -> Path:
    """The folder with the jars of this version of Kafka. Brokers before 4.0 log by another library."""
    logs_by = (
        dependency("org.apache.logging.log4j", "log4j-slf4j-impl", "2.25.3")
        if int(version.partition(".")[0]) >= 4
        else dependency("org.slf4j", "slf4j-reload4j", "1.7.36")
    )
    return jars(f"kafka-{version}-tests", [dependency("org.apache.kafka", "kafka_2.13", version), logs_by])


@dataclass
class Node:
    """One broker: its process is None while it is down."""

    number: int
    port: int
    folder: Path
    process: subprocess.Popen[bytes] | None = None

    @property
    def address(self) -> str:
        return f"{HOST}:{self.port}"

    @property
    def config(self) -> Path:
        return self.folder / "server.properties"


class KafkaCluster:
    """Brokers that know each other; `settings` win over what is set here."""

    def __init__(
        self, folder: Path, brokers: int = 3, version: str = OWN_VERSION, settings: Mapping[str, str] | None = None
    ) -> None:
        self.version = version
        self._home = kafka_jars(version)
        self.nodes = [Node(number, free_port(), folder / f"broker-{number}") for number in range(1, brokers + 1)]
        voters = [(node.number, free_port()) for node in self.nodes]
        self._cluster_id = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=").replace("-", "A")
        for node, (_, controller) in zip(self.nodes, voters, strict=True):
            node.folder.mkdir(parents=True)
            config = {
                "process.roles": "broker,controller",
                "node.id": str(node.number),
                "controller.listener.names": "CONTROLLER",
                "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
                "listeners": f"PLAINTEXT://{node.address},CONTROLLER://{HOST}:{controller}",
                "advertised.listeners": f"PLAINTEXT://{node.address}",
                "controller.quorum.voters": ",".join(f"{number}@{HOST}:{port}" for number, port in voters),
                "log.dirs": str(node.folder / "data"),
                "auto.create.topics.enable": "false",
                "broker.session.timeout.ms": "3000",
                "broker.heartbeat.interval.ms": "500",
                "controller.quorum.election.timeout.ms": "1000",
                "controller.quorum.fetch.timeout.ms": "2000",
                "replica.lag.time.max.ms": "3000",
                "leader.imbalance.check.interval.seconds": "10",
                "group.initial.rebalance.delay.ms": "0",
                "log.cleaner.dedupe.buffer.size": "16777216",
                "transaction.abort.timed.out.transaction.cleanup.interval.ms": "1000",
                **_replication(brokers),
                **(settings or {}),
            }
            node.config.write_text("".join(f"{key}={value}\n" for key, value in config.items()))
            (node.folder / "log4j2.properties").write_text(_LOG4J_2)

    @property
    def bootstrap_servers(self) -> str:
        return ",".join(node.address for node in self.nodes)

    def start(self) -> KafkaCluster:
        """Formats and starts all, and waits until all of them serve."""
        for node in self.nodes:
            tool = [find_java(), *_JVM, "-cp", f"{self._home}/*", "kafka.tools.StorageTool", "format"]
            done = subprocess.run(
                [*tool, "-t", self._cluster_id, "-c", str(node.config)], capture_output=True, text=True, check=False
            )
            assert done.returncode == 0, done.stdout + done.stderr
            self._spawn(node)
        self.wait_for(len(self.nodes))
        return self

    def _spawn(self, node: Node) -> None:
        command = [find_java(), *_JVM, f"-Dlog4j2.configurationFile={node.folder}/log4j2.properties"]
        command += ["-cp", f"{self._home}/*", "kafka.Kafka", str(node.config)]
        with (node.folder / "log").open("ab") as log:
            node.process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT, start_new_session=True)

    @cached_property
    def admin(self) -> AdminClient:
        quiet = logging.Logger("floe.cluster", level=logging.CRITICAL + 1)  # refused connections are expected here
        return AdminClient({"bootstrap.servers": self.bootstrap_servers}, logger=quiet)

    def new_topic(self, name: str, partitions: int) -> str:
        """A topic with a copy on each broker, whose records stay."""
        settings = {"retention.ms": "-1"}
        self.admin.create_topics([NewTopic(name, partitions, -1, config=settings)])[name].result(30)
        self.wait_for(len(self.nodes))
        return name

    def wait_for(self, brokers: int) -> None:
        """Until this many brokers are members, and each partition has a leader and all copies on members."""
        limit = time.monotonic() + START_S
        admin = self.admin
        seen = ""
        while time.monotonic() < limit:
            try:
                cluster = admin.list_topics(timeout=5)
            except KafkaException as error:
                seen = str(error)
                continue
            partitions = [one for topic in cluster.topics.values() for one in topic.partitions.values()]
            behind = sum(
                each.leader < 0 or len(set(each.replicas) & set(cluster.brokers)) > len(each.isrs)
                for each in partitions
            )
            if len(cluster.brokers) == brokers and not behind:
                return
            seen = f"{sorted(cluster.brokers)}, {behind} partitions without a leader or a copy"
            time.sleep(0.3)
        tails = [(node.folder / "log").read_text(errors="replace")[-1500:] for node in self.nodes]
        raise AssertionError(f"{brokers} brokers did not serve within {START_S:.0f} s: {seen}\n" + "\n".join(tails))

    def end(self, node: Node, how: signal.Signals = signal.SIGKILL) -> None:
        """SIGKILL: a crash. SIGTERM: it gives its leaderships away first, as a rolling restart does."""
        assert node.process is not None
        os.kill(node.process.pid, how)
        node.process.wait(60)
        node.process = None

    def begin(self, *nodes: Node) -> None:
        """Starts some again on their own ports and folders, and waits until they have caught up."""
        for node in nodes:
            self._spawn(node)
        self.wait_for(sum(each.process is not None for each in self.nodes))

    def freeze(self, node: Node, seconds: float) -> None:
        """The cluster takes it for dead meanwhile, and it takes itself for alive afterwards."""
        assert node.process is not None
        os.kill(node.process.pid, signal.SIGSTOP)
        try:
            time.sleep(seconds)
        finally:
            os.kill(node.process.pid, signal.SIGCONT)
        self.wait_for(sum(each.process is not None for each in self.nodes))

    def stop(self) -> None:
        for node in self.nodes:
            if node.process is not None:
                node.process.kill()
                node.process.wait()


def _replication(brokers: int) -> dict[str, str]:
    """Copies of topics, floe's control topic and Kafka's own among them."""
    in_sync = str(max(1, brokers - 1))
    return {
        "default.replication.factor": str(brokers),
        "min.insync.replicas": in_sync,
        "offsets.topic.replication.factor": str(brokers),
        "offsets.topic.num.partitions": "3",
        "transaction.state.log.replication.factor": str(brokers),
        "transaction.state.log.min.isr": in_sync,
        "transaction.state.log.num.partitions": "3",
    }
