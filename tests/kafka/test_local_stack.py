"""The embedded stack on a real broker: it starts, answers, survives, and leaves nothing behind."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from pyiceberg.catalog import load_catalog

from framework.adapters.host.process import command_line
from framework.errors import SetupError
from framework.local import stack

if TYPE_CHECKING:
    from tests.conftest import Broker

pytestmark = pytest.mark.kafka


@pytest.fixture
def state_dir(tmp_path: Path) -> Iterator[Path]:
    directory = tmp_path / "state with a space"
    try:
        yield directory
    finally:
        stack.down(directory, wipe=True)


def read_committed(bootstrap_servers: str, topic: str, count: int) -> list[bytes]:
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap_servers,
            "group.id": uuid.uuid4().hex,
            "isolation.level": "read_committed",
            "enable.auto.commit": False,
            "auto.offset.reset": "error",
        }
    )
    consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
    try:
        messages = consumer.consume(count, timeout=20)
        assert all(message.error() is None for message in messages)
        return [message.value() for message in messages]
    finally:
        consumer.close()


def test_committed_transactions_are_read_and_aborted_ones_are_not(broker: Broker) -> None:
    """The embedded broker keeps Kafka's transactional promises."""
    topic = broker.new_topic()
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "transactional.id": uuid.uuid4().hex})
    producer.init_transactions(20)
    for value, commits in ((b"aborted", False), (b"committed", True)):
        producer.begin_transaction()
        producer.produce(topic, value)
        producer.flush(20)
        if commits:
            producer.commit_transaction(20)
        else:
            producer.abort_transaction(20)
    assert read_committed(broker.bootstrap_servers, topic, 1) == [b"committed"]


def test_records_survive_the_death_of_the_broker(broker: Broker) -> None:
    """What the broker acknowledged is there after SIGKILL and a new start on the same port."""
    topic = broker.new_topic()
    broker.produce(topic, [{"n": 1}, b"raw", None, "text"])
    broker.kill()
    assert not stack.status(broker.state_dir).running
    broker.restart()
    assert read_committed(broker.bootstrap_servers, topic, 4) == [b'{"n": 1}', b"raw", None, b"text"]


def test_up_is_idempotent_and_down_leaves_no_process(state_dir: Path) -> None:
    """Two `up` at the same moment make one broker; `down` ends it; the next `up` finds port and tables again."""
    with ThreadPoolExecutor(2) as pool:
        first, second = pool.map(lambda _: stack.up(state_dir, kafka_port=0), range(2))
    assert first == second == stack.up(state_dir)
    assert stack.read_state(state_dir) == first
    pid = stack.status(state_dir).pid
    assert pid is not None

    load_catalog("default", **first.catalog_settings()).create_namespace("rpc")
    assert stack.down(state_dir) is True
    assert "kafka.Kafka" not in command_line(pid)
    assert stack.read_state(state_dir) is None
    assert stack.down(state_dir) is False

    again = stack.up(state_dir)
    assert again == first
    assert load_catalog("default", **again.catalog_settings()).list_namespaces() == [("rpc",)]


def test_down_never_ends_a_stranger_that_was_given_the_brokers_pid(state_dir: Path) -> None:
    """A pid file that names a process with another command line is stale: the process is left alone."""
    stack.up(state_dir, kafka_port=0)
    pid_file = state_dir / "local" / "kafka.pid"
    broker_pid = int(pid_file.read_text())
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"]) as stranger:
        try:
            pid_file.write_text(str(stranger.pid))
            assert not stack.status(state_dir).running
            assert stack.down(state_dir) is False
            assert stranger.poll() is None
        finally:
            stranger.kill()
            os.kill(broker_pid, signal.SIGKILL)
            os.waitpid(broker_pid, 0)


def test_a_taken_port_is_named_with_the_way_out(state_dir: Path) -> None:
    """A port that another program holds is refused before anything is started; without a wish, a free one is taken."""
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        with pytest.raises(SetupError, match=f"port {port} is taken") as caught:
            stack.up(state_dir, kafka_port=port)
        assert "--kafka-port 0" in caught.value.remedy
        assert stack.status(state_dir).pid is None
        (state_dir / "local" / "kafka.port").write_text(f"{port}\n")
        assert stack.up(state_dir).kafka_port != port


def test_up_on_another_port_while_running_is_refused(state_dir: Path) -> None:
    """`up` never moves a running broker: it says where it runs and how to move it."""
    state = stack.up(state_dir, kafka_port=0)
    with pytest.raises(SetupError, match=f"already runs on port {state.kafka_port}"):
        stack.up(state_dir, kafka_port=state.kafka_port + 1)


def test_a_broker_that_does_not_start_says_why_and_leaves_nothing(state_dir: Path) -> None:
    """A wrong broker setting ends in an error that quotes the broker's log, without a process or a state file."""
    with pytest.raises(SetupError, match=r"cannot be formatted|the broker ended") as caught:
        stack.up(state_dir, kafka_port=0, broker_config={"num.io.threads": "none"})
    assert "num.io.threads" in str(caught.value)
    assert stack.status(state_dir).state is None
    assert not (state_dir / "local" / "kafka.pid").exists()


def test_topics_are_not_made_by_accident(broker: Broker) -> None:
    """Reading a misspelt topic does not create it."""
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    name = f"misspelt-{uuid.uuid4().hex}"
    admin.list_topics(name, timeout=20)
    assert name not in admin.list_topics(timeout=20).topics
