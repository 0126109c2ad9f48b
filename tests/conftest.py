"""Fixtures on real servers: one broker for the test run, started on first use and ended with it; catalogs on disk."""

from __future__ import annotations

import importlib.metadata
import json
import os
import platform
import signal
import subprocess
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from hypothesis import HealthCheck, settings

from framework.adapters.host.java import find_java, java_major
from framework.local import stack
from framework.local.fill_topic import counts
from tests import turns

# No test fails for being slow on a busy machine: speed is measured by benchmarks.
settings.register_profile("floe", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("floe")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--turn", type=int, help="Leave out long tests of other turns than this one (tests/turns.py).")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    turn = config.getoption("turn", None)
    if turn is not None:
        others = turns.of_other_turns(turns.long_tests(), turn)
        left = [item for item in items if item.nodeid in others]
        items[:] = [item for item in items if item.nodeid not in others]
        config.hook.pytest_deselected(items=left)


@pytest.fixture(scope="session", autouse=True)
def _platform(request: pytest.FixtureRequest, record_testsuite_property: Callable[[str, object], None]) -> None:
    """A result file says what it was made on; docs/compatibility.md is made of such files."""
    if request.config.getoption("xmlpath", None):
        record_testsuite_property("python", platform.python_version())
        record_testsuite_property("spark", importlib.metadata.version("pyspark"))
        said = subprocess.run([find_java(), "-version"], capture_output=True, text=True, check=True).stderr
        record_testsuite_property("java", java_major(said))
        head = ["git", "-C", str(Path(__file__).parent), "rev-parse", "--short=7", "HEAD"]
        commit = subprocess.run(head, capture_output=True, text=True, check=False).stdout.strip()
        record_testsuite_property("commit", commit or "?")
        if "FLOE_FLIGHTS" in os.environ:  # see tests/flights.py
            record_testsuite_property("flights", os.environ["FLOE_FLIGHTS"])


@dataclass(frozen=True)
class Broker:
    """A real broker that tests may write to, kill and start again. Topics are never shared between tests."""

    state_dir: Path
    bootstrap_servers: str
    config: Mapping[str, str]

    def new_topic(self, prefix: str = "t", partitions: int = 1, config: Mapping[str, str] | None = None) -> str:
        """Creates a topic under a name that nobody else has, and returns the name. Its records stay, whatever their
        times are, unless `config` says otherwise."""
        name = f"{prefix}-{uuid.uuid4().hex[:8]}"
        admin = AdminClient({"bootstrap.servers": self.bootstrap_servers})
        topic = NewTopic(
            name, num_partitions=partitions, replication_factor=1, config={"retention.ms": "-1", **(config or {})}
        )
        admin.create_topics([topic])[name].result(timeout=30)
        counts(self.bootstrap_servers, name, partitions)  # waits until every partition has its leader
        return name

    def produce(
        self,
        topic: str,
        values: Iterable[object],
        partition: int | None = None,
        keys: Sequence[str | bytes | None] | None = None,
        timestamps_ms: Sequence[int] | None = None,
    ) -> None:
        """Writes records in order and waits until the broker has them.

        Bytes, text and None (a tombstone) are written as they are, anything else as JSON.
        """
        producer = Producer({"bootstrap.servers": self.bootstrap_servers, "linger.ms": 5, "enable.idempotence": True})
        for index, value in enumerate(values):
            raw = value if value is None or isinstance(value, (bytes, str)) else json.dumps(value)
            further: dict[str, object] = {} if partition is None else {"partition": partition}
            if timestamps_ms is not None:
                further["timestamp"] = timestamps_ms[index]
            while True:
                try:
                    producer.produce(topic, value=raw, key=keys[index] if keys else None, **further)
                    break
                except BufferError:
                    producer.poll(0.5)
            producer.poll(0)
        assert producer.flush(30) == 0

    def kill(self) -> None:
        """Ends the broker as a crash does: SIGKILL, nothing closed."""
        pid = stack.status(self.state_dir).pid
        assert pid is not None
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)

    def restart(self) -> None:
        """Starts the broker again on the same port and data, if it is not running, and waits until it answers."""
        port = int(self.bootstrap_servers.rpartition(":")[2])
        stack.up(self.state_dir, kafka_port=port, broker_config=self.config)


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """One broker for the whole run, on a free port, with a short check for transactions left open. What retention takes
    it takes within seconds: with Kafka's five minutes a test that counts on old records would fail once in many
    runs."""
    state_dir = tmp_path_factory.mktemp("broker")
    config = {
        "transaction.abort.timed.out.transaction.cleanup.interval.ms": "1000",
        "log.retention.check.interval.ms": "1000",
        "log.initial.task.delay.ms": "1000",
    }
    state = stack.up(state_dir, kafka_port=0, progress=print, broker_config=config)
    try:
        yield Broker(state_dir, state.bootstrap_servers, config)
    finally:
        stack.down(state_dir, wipe=True)


@pytest.fixture
def catalog_settings(tmp_path: Path) -> dict[str, str]:
    """Settings of a new, empty SQL catalog with a warehouse of its own."""
    warehouse = tmp_path / "warehouse"
    warehouse.mkdir()
    return {"type": "sql", "uri": f"sqlite:///{tmp_path}/catalog.db", "warehouse": f"file://{warehouse}"}
