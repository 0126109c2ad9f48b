"""A run that dies in an open transaction: `half_done.py BOOTSTRAP TRANSACTIONAL_ID CONTROL_TOPIC`, killed by itself."""

import os
import signal
import sys

from confluent_kafka import Producer

bootstrap, transactional_id, topic = sys.argv[1:]
# The time-out is the one that framework.adapters.kafka.control.transactions sets.
producer = Producer(
    {"bootstrap.servers": bootstrap, "transactional.id": transactional_id, "transaction.timeout.ms": 10_000}
)
producer.init_transactions(20)
producer.begin_transaction()
producer.produce(topic, b'{"type":"heartbeat"}', partition=0)
assert producer.flush(20) == 0
os.kill(os.getpid(), signal.SIGKILL)
