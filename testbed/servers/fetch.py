"""Fetches the servers that tests start, before the first test: `python -m testbed.servers.fetch`.

In: nothing. Out: one line for each that was not there yet, and for each that cannot be had. A slow line costs no test its
time-out then. What cannot be had is no error here: the tests that need it say so.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from framework.adapters.host.java import find_java
from framework.adapters.project.files import cache_dir
from framework.local.jars import broker_jars
from testbed.servers import apicurio, connect, hive, kafka_cluster, mirror, rest_catalog, s3, sink, yarn

# By what a person calls it. `test_what_tests_fetch_is_fetched_before` finds those that are missing here.
FETCHED: dict[str, Callable[[], Path]] = {
    "Kafka": lambda: broker_jars(find_java(), lambda text: None),
    "the S3 server": s3.moto_server,
    "Apicurio Registry": apicurio.home,
    "Hive's metastore": hive.hive_jars,
    "Iceberg's REST catalog and Java library": rest_catalog.rest_catalog_jars,
    "what Iceberg's Java library reaches S3 with": rest_catalog.aws_jars,
    "Kafka Connect's transforms": connect.transform_jars,
    "Iceberg's sink": sink.sink_jars,
    "a converter of Avro": sink.avro_jars,
    "Kafka for clusters of brokers": kafka_cluster.kafka_jars,
    "Kafka's MirrorMaker": mirror.mirror_jars,
    "Hadoop's YARN and HDFS": yarn.yarn_jars,
}


def main() -> None:
    before = {each.name for each in cache_dir().iterdir()} if cache_dir().exists() else set()
    for number, (name, fetch) in enumerate(FETCHED.items(), start=1):
        began = time.monotonic()
        try:
            place = fetch()
        except BaseException as error:  # pytest's own skip is no Exception
            if isinstance(error, KeyboardInterrupt):
                raise
            print(f"test servers: {name} cannot be fetched ({number} of {len(FETCHED)}): {error}", flush=True)
            continue
        home = place if place.parent == cache_dir() else place.parents[1]
        if home.name not in before:
            seconds = time.monotonic() - began
            print(f"test servers: fetched {name} in {seconds:.0f} s ({number} of {len(FETCHED)})", flush=True)


if __name__ == "__main__":
    main()
