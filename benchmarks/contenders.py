"""The two that are compared: floe, and the Apache Iceberg sink on Kafka Connect.

In: the shared servers, a topic, and where its records go. Out: a running contender that can be asked how far its safe
source offset is, and stopped. Both are started from nothing, with their own defaults where the case does not say
otherwise.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

import requests
from typing_extensions import override

from benchmarks.looks import Looks, addresses
from benchmarks.servers import Servers, kafka_jars, log_settings
from framework.adapters.host.java import find_java
from framework.local.broker import free_port
from testbed.servers.maven import dependency, jars

SINK_VERSION = "1.12.0"
CORES = 2


@dataclass(frozen=True)
class Job:
    """What is to be done. `table` is one table's name without namespace, or `{kind}` for the record's own table;
    `schema` is floe's `source.schema`, where types are declared; `write` is its `write`, where it is not to append."""

    topic: str
    namespace: str
    table: str
    interval_ms: int
    partition_by: str = ""
    schema: str = ""
    write: str = ""
    run: str = field(default_factory=lambda: f"r{uuid.uuid4().hex[:6]}")
    """Names the pipeline, the connector and all that belongs to this run alone."""


class Contender(Protocol):
    name: str
    started_at: float

    def start(self, job: Job) -> None: ...
    @property
    def pid(self) -> int: ...
    @property
    def group(self) -> str:
        """The consumer group whose offsets are the safe ones."""

    def check(self) -> None:
        """Raises when it has failed."""

    def stop(self) -> None: ...


class Floe:
    name = "floe"

    def __init__(
        self,
        servers: Servers,
        folder: Path,
        master: str = f"local[{CORES},4]",
        conf: Mapping[str, str] | None = None,
        words: Sequence[str] = (),
        monitoring: str = "",
    ) -> None:
        """`conf` is for Spark; `words` stand before the command, as `taskset` would; `monitoring` is the target's."""
        self._servers = servers
        self._folder = folder
        self._master = master
        self._conf = dict(conf or {})
        self._monitoring = f"monitoring: {monitoring}\n" if monitoring else ""
        self._words = [*words, sys.executable, "-m", "framework.cli.main"]

    def start(self, job: Job) -> None:
        self._name = job.run
        self._write(job)
        self._log = (self._folder / f"floe-{self._name}.log").open("wb")
        self.started_at = time.time()
        self._process = subprocess.Popen(
            [*self._words, "run", f"pipelines/{self._name}.yaml", "--target", "bench"],
            cwd=self._folder,
            stdout=self._log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )

    def write_files(self, count: int) -> Path:
        """The folder of so many pipeline files, which `floe validate` can be asked about; nothing is started."""
        for number in range(count):
            self._name = f"many-{number}"
            self._write(Job(f"topic-{number}", "space", "orders", 10_000))
        return self._folder

    def _write(self, job: Job) -> None:
        (self._folder / "pipelines" / "targets").mkdir(parents=True, exist_ok=True)
        catalog = "".join(f'      {key}: "{value}"\n' for key, value in self._servers.rest.settings().items())
        conf = "".join(f', "{key}": "{value}"' for key, value in self._conf.items())[2:]
        (self._folder / "pipelines" / "targets" / "bench.yaml").write_text(
            "apiVersion: floe/v1\nkind: Target\nmetadata: {name: bench}\nprefix: bench\nconnections:\n"
            f'  kafka: {{main: {{bootstrap.servers: "{self._servers.broker.address}"}}}}\n'
            f'  catalog:\n    default:\n{catalog}spark: {{master: "{self._master}", conf: {{{conf}}}}}\n'
            + self._monitoring
        )
        schema = f", schema: {job.schema}" if job.schema else ""
        write = f"write: {job.write}, " if job.write else ""
        create = f'create: {{partition_by: ["{job.partition_by}"]}}, ' if job.partition_by else ""
        (self._folder / "pipelines" / f"{self._name}.yaml").write_text(
            f"apiVersion: floe/v1\nkind: Pipeline\nmetadata: {{name: {self._name}}}\n"
            f"source: {{kafka: {{connection: main, topics: [{job.topic}]}}{schema}}}\n"
            f'routes:\n  rules: [{{table: "{job.namespace}.{job.table}"}}]\n  allow_tables: ["{job.namespace}.*"]\n'
            "  max_new_tables_per_hour: 100000\n"
            f"tables: {{defaults: {{{write}{create}commit: {{interval: {job.interval_ms}ms}}}}}}\n"
            f"errors: {{policy: dead_letter, dead_letter_table: {job.namespace}.dead_letters}}\n"
            f"commit: {{control_topic: control-{self._name}}}\n"
        )

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def group(self) -> str:
        return f"bench-{self._name}"

    def check(self) -> None:
        if self._process.poll() is not None:
            raise RuntimeError(f"floe ended with {self._process.returncode}: {self._log.name}")

    def stop(self) -> None:
        _end(self._process)
        self._log.close()


class WatchedFloe(Floe):
    """floe with its metrics and its page, a scraper of the one and three who have the other open."""

    name = "watched"

    def __init__(self, servers: Servers, folder: Path) -> None:
        listening = f'{{listen: "127.0.0.1:{free_port()}", page: "127.0.0.1:{free_port()}"}}'
        super().__init__(servers, folder, monitoring=listening)

    @override
    def start(self, job: Job) -> None:
        super().start(job)
        self._end = threading.Event()
        self.looks = Looks(self._end)
        threading.Thread(target=self._look, args=(Path(self._log.name), self.looks), daemon=True).start()

    def _look(self, log: Path, looks: Looks) -> None:
        while not self._end.wait(0.5):
            if found := addresses(log):
                looks.at(*found, f"/pipelines/{self._name}", f"/pipelines/{self._name}")
                return

    @override
    def stop(self) -> None:
        self._end.set()
        super().stop()
        if not self.looks.events or self.looks.failures > 1:  # one where it ended
            raise RuntimeError(f"nobody could look: {self.looks.events} events, {self.looks.failures} failures")


class Connect:
    """One Connect worker with the sink, as the reference measurements ran it: parallel collector, small polls."""

    name = "connect"

    def __init__(self, servers: Servers, folder: Path) -> None:
        self._servers = servers
        self._folder = folder
        (folder / "plugins").mkdir(parents=True, exist_ok=True)
        link = folder / "plugins" / "iceberg-sink"
        if not link.exists():
            link.symlink_to(sink_jars())

    def start(self, job: Job) -> None:
        self._name = job.run
        address = f"http://127.0.0.1:{free_port()}"
        config = self._folder / f"worker-{self._name}.properties"
        config.write_text("".join(f"{key}={value}\n" for key, value in self._worker(address).items()))
        self._log = (self._folder / f"connect-{self._name}.log").open("wb")
        command = [find_java(), "-Xms256M", "-Xmx4G", "-server", "-XX:+UseParallelGC", "-XX:MaxInlineLevel=15"]
        command += ["-Djava.awt.headless=true", f"-Dlog4j2.configurationFile={log_settings(self._folder)}"]
        command += ["-cp", f"{kafka_jars()}/*", "org.apache.kafka.connect.cli.ConnectDistributed", str(config)]
        self.started_at = time.time()
        self._process = subprocess.Popen(
            command, stdout=self._log, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, start_new_session=True
        )
        self._address = f"{address}/connectors/{self._name}"
        self._post(self._connector(job))

    def _worker(self, address: str) -> dict[str, object]:
        name = f"cx-{self._name}"
        return {
            "bootstrap.servers": self._servers.broker.address,
            "group.id": name,
            "key.converter": "org.apache.kafka.connect.storage.StringConverter",
            "value.converter": "org.apache.kafka.connect.json.JsonConverter",
            "value.converter.schemas.enable": "false",
            "config.storage.topic": f"{name}-config",
            "config.storage.replication.factor": 1,
            "offset.storage.topic": f"{name}-offset",
            "offset.storage.replication.factor": 1,
            "offset.storage.partitions": 1,
            "status.storage.topic": f"{name}-status",
            "status.storage.replication.factor": 1,
            "status.storage.partitions": 1,
            # The sink answers a commit request only inside put(); an idle task calls put() once in this interval.
            "offset.flush.interval.ms": 500,
            "plugin.discovery": "service_load",
            "plugin.path": self._folder / "plugins",
            "listeners": address,
            "rest.advertised.host.name": "127.0.0.1",
        }

    def _connector(self, job: Job) -> dict[str, str]:
        settings = {
            "connector.class": "org.apache.iceberg.connect.IcebergSinkConnector",
            "tasks.max": str(CORES),
            "topics": job.topic,
            "iceberg.catalog.type": "rest",
            "iceberg.catalog.uri": self._servers.rest.uri,
            "iceberg.tables.auto-create-enabled": "true",
            "iceberg.tables.evolve-schema-enabled": "true",
            "iceberg.control.topic": f"control-{self._name}",
            "iceberg.control.commit.interval-ms": str(job.interval_ms),
            "consumer.override.max.poll.records": "500",
            "consumer.override.max.partition.fetch.bytes": str(4 << 20),
            "consumer.override.fetch.max.bytes": str(50 << 20),
        }
        if "{" in job.table:
            settings |= {"iceberg.tables.dynamic-enabled": "true", "iceberg.tables.route-field": "table"}
        else:
            settings["iceberg.tables"] = f"{job.namespace}.{job.table}"
        if job.partition_by:
            settings["iceberg.tables.default-partition-by"] = job.partition_by
        return settings

    def _post(self, settings: dict[str, str]) -> None:
        deadline = time.monotonic() + 120
        while True:
            self._alive()
            try:
                answer = requests.put(f"{self._address}/config", json=settings, timeout=30)
                if answer.ok:
                    return
                if answer.status_code not in (404, 409, 500, 503):
                    raise RuntimeError(f"the connector is refused: {answer.text[:2000]}")
            except requests.ConnectionError:
                pass
            if time.monotonic() > deadline:
                raise RuntimeError(f"Connect does not start: {self._log.name}")
            time.sleep(0.1)

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def group(self) -> str:
        return f"connect-{self._name}"

    def _alive(self) -> None:
        if self._process.poll() is not None:
            raise RuntimeError(f"Connect ended with {self._process.returncode}: {self._log.name}")

    def check(self) -> None:
        self._alive()
        try:
            status = requests.get(f"{self._address}/status", timeout=5).json()
        except (requests.RequestException, ValueError):
            return
        failed = [task for task in status.get("tasks", []) if task["state"] == "FAILED"]
        if failed:
            raise RuntimeError(f"a task of the sink failed: {failed[0].get('trace', '')[:500]}")

    def stop(self) -> None:
        _end(self._process)
        self._log.close()


def sink_jars() -> Path:
    """The plugin folder of the sink."""
    names = ("iceberg-kafka-connect", "iceberg-kafka-connect-transforms", "iceberg-parquet", "iceberg-orc")
    return jars(
        f"bench-iceberg-sink-{SINK_VERSION}",
        [
            *(dependency("org.apache.iceberg", name, SINK_VERSION) for name in names),
            dependency("org.apache.hadoop", "hadoop-client-api", "3.4.3"),
            dependency("org.apache.hadoop", "hadoop-client-runtime", "3.4.3"),
        ],
    )


def _end(process: subprocess.Popen[bytes]) -> None:
    """Ask it to end, and end it if it does not; nothing of its session stays."""
    if process.poll() is None:
        process.terminate()
        try:
            process.wait(60)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        return
