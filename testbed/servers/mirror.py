"""Kafka's own MirrorMaker 2 between two brokers, as a process.

In: two brokers' addresses and topics. Out: copies of the topics under their own names on the second broker, and of what is
written to them later, until `stop`. The jars come once from Maven Central.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

from framework.adapters.host.java import find_java
from testbed.servers.maven import dependency, jars

KAFKA_VERSION = "4.1.2"
_KAFKA = "org.apache.kafka.connect.mirror"


def mirror_jars() -> Path:
    """The directory with MirrorMaker and the worker of Connect in which it runs."""
    return jars(
        f"mirror-maker-{KAFKA_VERSION}",
        [
            dependency("org.apache.kafka", "connect-mirror", KAFKA_VERSION),
            dependency("org.apache.logging.log4j", "log4j-slf4j-impl", "2.25.4"),
        ],
    )


class MirrorMaker:
    """Copies topics from broker `former` to broker `later`, from their beginnings."""

    def __init__(self, folder: Path, former: str, later: str, topics: str) -> None:
        folder.mkdir()
        settings = folder / "mirror.properties"
        settings.write_text(
            f"""clusters=former,later
former.bootstrap.servers={former}
later.bootstrap.servers={later}
former->later.enabled=true
later->former.enabled=false
former->later.topics={topics}
replication.policy.class={_KAFKA}.IdentityReplicationPolicy
former->later.emit.heartbeats.enabled=false
replication.factor=1
offset-syncs.topic.replication.factor=1
heartbeats.topic.replication.factor=1
checkpoints.topic.replication.factor=1
config.storage.replication.factor=1
offset.storage.replication.factor=1
status.storage.replication.factor=1
consumer.auto.offset.reset=earliest
offset.flush.interval.ms=1000
"""
        )
        self.log = folder / "log"
        command = [find_java(), "-Xmx512m", "-cp", f"{mirror_jars()}/*", f"{_KAFKA}.MirrorMaker", str(settings)]
        with self.log.open("wb") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT, start_new_session=True)

    def stop(self) -> None:
        self._process.kill()
        self._process.wait()
