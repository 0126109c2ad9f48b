"""Starts Spark's JVM, with what Java itself always says left out of what it says.

In: Spark's settings. Out: a gateway to a running JVM, whose standard error is this process's but for one line: Spark asks
for a module of Java's that is not final, and Java warns of it at every start, which helps nobody.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping
from contextlib import suppress
from typing import IO, TYPE_CHECKING

if TYPE_CHECKING:
    from py4j.java_gateway import JavaGateway

STDERR = 2
ALWAYS_SAID = b"WARNING: Using incubator modules: "


def start_java(settings: Mapping[str, str], master: str, name: str) -> JavaGateway:
    """The JVM, as PySpark starts it."""
    from pyspark import SparkConf
    from pyspark.java_gateway import launch_gateway

    conf = SparkConf(loadDefaults=False).setMaster(master).setAppName(name).setAll(list(settings.items()))
    read, write = os.pipe()
    thread = threading.Thread(target=_pass_on, args=(os.fdopen(read, "rb"),), name="java-stderr", daemon=True)
    thread.start()
    try:
        return launch_gateway(conf, {"stderr": write})
    finally:
        os.close(write)


def _pass_on(said: IO[bytes]) -> None:
    """Until Java has ended, and all that it started."""
    with said:
        for line in said:
            if not line.startswith(ALWAYS_SAID):
                with suppress(OSError):  # nobody reads any more: Java must not wait for us all the same
                    os.write(STDERR, line)
