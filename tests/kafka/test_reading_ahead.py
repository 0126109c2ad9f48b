"""A client that reads a log holds little of it at once, however long the log is."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import Broker

pytestmark = [pytest.mark.kafka]
ROOT = Path(__file__).parents[2]
RECORD = b"x" * 100_000
RECORDS = 800
PROGRAM = """
import sys, time
from confluent_kafka import Consumer, TopicPartition
from framework.adapters.kafka.client import ClientLog, consumer_config

def mebibytes():
    return int(open("/proc/self/statm").read().split()[1]) * 4096 / 2**20

consumer = Consumer(consumer_config({"bootstrap.servers": sys.argv[1]}, ClientLog(), "floe-test"))
before = mebibytes()
consumer.assign([TopicPartition(sys.argv[2], 0, 0)])
while consumer.poll(1) is None:
    pass
time.sleep(3)  # it reads ahead as far as it may
print(mebibytes() - before)
read = 1
while read < int(sys.argv[3]):
    message = consumer.poll(10)
    read += message is not None and message.error() is None
print(mebibytes() - before)
"""


def test_a_long_log_is_not_held(broker: Broker) -> None:
    """While 80 MB wait, and after they were read, the process is larger by a part of that."""
    topic = broker.new_topic("ahead")
    broker.produce(topic, [RECORD] * RECORDS)
    command = [sys.executable, "-c", PROGRAM, broker.bootstrap_servers, topic, str(RECORDS)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    waiting, read = map(float, done.stdout.split())
    assert waiting < 30
    assert read < 40
