"""The servers that both contenders share: one Kafka broker with usual settings, and one Iceberg REST catalog; on
loopback.

In: a folder. Out: addresses. Jars come from Maven Central, once for a machine. Everything ends with `stop`.
"""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.exceptions import NoSuchNamespaceError, NoSuchTableError
from pyiceberg.table import Table

from framework.adapters.host.java import find_java
from framework.local.broker import answers, free_port
from testbed.servers.maven import dependency, jars
from testbed.servers.rest_catalog import RestCatalog

KAFKA_VERSION = "4.3.1"
PARTITIONS = 4
_LOG4J = """rootLogger.level=INFO
rootLogger.appenderRef.stdout.ref=STDOUT
appender.console.type=Console
appender.console.name=STDOUT
appender.console.layout.type=PatternLayout
appender.console.layout.pattern=%d{yyyy-MM-dd HH:mm:ss.SSS} %p %m (%c{1}) [%t]%n
"""


def kafka_jars() -> Path:
    """The class path of the broker and of the Connect worker."""
    names = ("kafka_2.13", "connect-runtime", "connect-json", "connect-transforms")
    return jars(
        f"bench-connect-{KAFKA_VERSION}",
        [
            *(dependency("org.apache.kafka", name, KAFKA_VERSION) for name in names),
            dependency("org.apache.logging.log4j", "log4j-slf4j-impl", "2.25.4"),
        ],
    )


def log_settings(folder: Path) -> Path:
    path = folder / "log4j2.properties"
    path.write_text(_LOG4J)
    return path


class Broker:
    """Kafka in KRaft mode, with the JVM flags of its own start script."""

    def __init__(self, folder: Path) -> None:
        self.port, controller = free_port(), free_port()
        self.address = f"127.0.0.1:{self.port}"
        self.process: subprocess.Popen[bytes] | None = None
        self._folder = folder
        self._config = folder / "server.properties"
        self._config.write_text(
            f"""process.roles=broker,controller
node.id=1
listeners=PLAINTEXT://{self.address},CONTROLLER://127.0.0.1:{controller}
advertised.listeners=PLAINTEXT://{self.address}
controller.listener.names=CONTROLLER
controller.quorum.voters=1@127.0.0.1:{controller}
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT
log.dirs={folder}/log
offsets.topic.replication.factor=1
offsets.topic.num.partitions=5
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
transaction.state.log.num.partitions=5
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
group.initial.rebalance.delay.ms=0
log.retention.hours=-1
"""
        )

    def start(self) -> Broker:
        java, classes = find_java(), f"{kafka_jars()}/*"
        log4j = f"-Dlog4j2.configurationFile={log_settings(self._folder)}"
        command = [java, log4j, "-cp", classes, "kafka.tools.StorageTool"]
        made = [*command, "format", "-t", "MkU3OEVBNTcwNTJENDM2Qg", "-c", str(self._config)]
        subprocess.run(made, check=True, capture_output=True)
        flags = ["-Xms1G", "-Xmx1G", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20", "-XX:InitiatingHeapOccupancyPercent=35"]
        with (self._folder / "broker.log").open("wb") as log:
            self.process = subprocess.Popen(
                [java, *flags, log4j, "-cp", classes, "kafka.Kafka", str(self._config)],
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        deadline = time.monotonic() + 60
        while not answers(self.port, 2.0):
            if time.monotonic() > deadline or self.process.poll() is not None:
                raise RuntimeError(f"the broker does not start: {self._folder}/broker.log")
            time.sleep(0.2)
        return self

    def stop(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait()


@dataclass(frozen=True)
class Snapshots:
    """What a namespace holds: the totals, and (time in ms, rows added, files added) of each snapshot in order of
    time."""

    tables: int
    rows: int
    files: int
    nbytes: int
    added: tuple[tuple[int, int, int], ...]


class Servers:
    """The broker, the catalog, and the questions that are asked of them between runs."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "broker").mkdir(parents=True)
        self.broker = Broker(folder / "broker")
        self.rest = RestCatalog(folder / "catalog")

    def start(self) -> Servers:
        self.broker.start()
        self.rest.start()
        self.admin = AdminClient({"bootstrap.servers": self.broker.address})
        return self

    def stop(self) -> None:
        self.rest.stop()
        self.broker.stop()

    def pin(self, cores: Iterable[int]) -> None:
        """Keep broker and catalog to these cores."""
        for process in (self.broker.process, self.rest.process):
            if process is not None:
                command = ["taskset", "--all-tasks", "--cpu-list", "--pid", ",".join(map(str, cores)), str(process.pid)]
                subprocess.run(command, check=True, capture_output=True)

    def catalog(self) -> Catalog:
        return load_catalog("bench", **self.rest.settings())

    def make_namespace(self, name: str) -> None:
        """The namespace is there beforehand: two tasks of the sink that make one at once fail on this catalog."""
        self.catalog().create_namespace_if_not_exists(name)

    def make_topic(self, topic: str, partitions: int = PARTITIONS) -> None:
        self.admin.create_topics([NewTopic(topic, partitions, 1)])[topic].result(30)

    def load(
        self, topic: str, values: Iterable[bytes], partitions: int = PARTITIONS, compression: str = "none"
    ) -> tuple[int, int]:
        """Fill a new topic, record after record to the next partition; returns records and bytes before compression."""
        self.make_topic(topic, partitions)
        settings = {"linger.ms": 50, "batch.size": 1 << 19, "queue.buffering.max.messages": 1_000_000, "acks": "1"}
        producer = Producer({"bootstrap.servers": self.broker.address, "compression.type": compression, **settings})
        count = size = 0
        for value in values:
            while True:
                try:
                    producer.produce(topic, value, partition=count % partitions)
                    break
                except BufferError:
                    producer.poll(0.1)
            count, size = count + 1, size + len(value)
            if count % 10_000 == 0:
                producer.poll(0)
        producer.flush(120)
        return count, size

    def committed(self, group: str, topic: str, partitions: int = PARTITIONS) -> int:
        """The source offsets that a group has committed, summed."""
        # By a consumer: librdkafka's admin request ends the process while the group has no coordinator yet.
        consumer = Consumer({"bootstrap.servers": self.broker.address, "group.id": group})
        try:
            found = consumer.committed([TopicPartition(topic, p) for p in range(partitions)], timeout=10)
            return sum(max(part.offset, 0) for part in found)
        except KafkaException:
            return 0
        finally:
            consumer.close()

    def newest_offset(self, topic: str) -> int:
        consumer = Consumer({"bootstrap.servers": self.broker.address, "group.id": "bench"})
        try:
            return int(consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=10)[1])
        finally:
            consumer.close()

    def tables(self, namespace: str) -> list[Table]:
        catalog = self.catalog()
        try:
            return [catalog.load_table(name) for name in catalog.list_tables(namespace)]
        except (NoSuchNamespaceError, NoSuchTableError):
            return []

    def snapshots(self, namespace: str) -> Snapshots:
        tables = self.tables(namespace)
        rows = files = size = 0
        added = []
        for table in tables:
            newest = table.current_snapshot()
            if newest is None or newest.summary is None:
                continue
            rows += int(newest.summary["total-records"] or 0)
            files += int(newest.summary["total-data-files"] or 0)
            size += int(newest.summary["total-files-size"] or 0)
            for one in table.snapshots():
                summary = one.summary
                if summary is not None:
                    new = int(summary["added-records"] or 0), int(summary["added-data-files"] or 0)
                    added.append((one.timestamp_ms, *new))
        return Snapshots(len(tables), rows, files, size, tuple(sorted(added)))
