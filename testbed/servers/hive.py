"""A Hive metastore for tests: Hive's standalone metastore over Derby, as a process on this machine.

In: a folder. Out: settings of PyIceberg's `hive` catalog, whose warehouse is below the folder. The jars come once from Maven
Central by PySpark's Ivy. The server is started through py4j, which PySpark ships too; it ends with the test process. Hive's
own scripts make the tables of locks with a tool that is not in this jar, so its class for tests makes them.
"""

from __future__ import annotations

import signal
import socket
import subprocess
import threading
import time
from contextlib import suppress
from pathlib import Path

from py4j.java_gateway import GatewayParameters, JavaGateway, launch_gateway
from py4j.protocol import Py4JError

from framework.adapters.host.java import find_java
from framework.local.broker import HOST, free_port
from testbed.servers.maven import JARS_OF_PYSPARK, dependency, jars

HIVE_VERSION = "3.1.3"
_HIVE = "org.apache.hadoop.hive.metastore"
_OPEN = ("java.lang", "java.net", "java.util")


def hive_jars() -> Path:
    """The directory with the server's jars (53 MB)."""
    needed = [dependency("org.apache.hive", "hive-standalone-metastore", HIVE_VERSION)]
    return jars(f"hive-metastore-{HIVE_VERSION}", needed)


class HiveMetastore:
    """One metastore with an empty database."""

    def __init__(self, root: Path) -> None:
        self._port = free_port()
        self._warehouse = root / "warehouse"
        self._warehouse.mkdir(parents=True)
        self._write_settings(root)
        port, token, self._process = launch_gateway(
            jarpath=str(next(JARS_OF_PYSPARK.glob("py4j-*.jar"))),
            classpath=":".join([str(root), *map(str, JARS_OF_PYSPARK.glob("log4j-[ac]*.jar")), f"{hive_jars()}/*"]),
            javaopts=["-Xmx512m", "-XX:TieredStopAtLevel=1", f"-Dderby.stream.error.file={root}/derby.log"]
            + [f"--add-opens=java.base/{package}=ALL-UNNAMED" for package in _OPEN],
            java_path=find_java(),
            die_on_exit=True,
            enable_auth=True,
            return_proc=True,
            redirect_stdout=subprocess.DEVNULL,
            redirect_stderr=subprocess.DEVNULL,
        )
        # Without management of memory: py4j's finalizers would ask a server that has been killed, at any moment after.
        parameters = GatewayParameters(port=port, auth_token=token, auto_convert=True, enable_memory_management=False)
        self._gateway = JavaGateway(gateway_parameters=parameters)
        hive = self._gateway.jvm.org.apache.hadoop.hive.metastore
        hive.txn.TxnDbUtil.prepDb(hive.conf.MetastoreConf.newMetastoreConf())
        threading.Thread(target=self._serve, daemon=True).start()
        limit = time.monotonic() + 120
        while not self._listens():
            assert self._process.poll() is None, "the metastore has ended"
            assert time.monotonic() < limit, "the metastore does not listen"
            time.sleep(0.2)

    def settings(self) -> dict[str, str]:
        return {"type": "hive", "uri": f"thrift://{HOST}:{self._port}", "warehouse": f"file://{self._warehouse}"}

    def stop(self) -> None:
        self._process.send_signal(signal.SIGKILL)
        self._process.wait(30)
        self._gateway.close()

    def _serve(self) -> None:
        arguments = self._gateway.new_array(self._gateway.jvm.java.lang.String, 2)
        arguments[0], arguments[1] = "-p", str(self._port)
        with suppress(Py4JError, OSError):  # it serves until the process is ended
            self._gateway.jvm.org.apache.hadoop.hive.metastore.HiveMetaStore.main(arguments)

    def _listens(self) -> bool:
        with suppress(OSError), socket.create_connection((HOST, self._port), timeout=1):
            return True
        return False

    def _write_settings(self, root: Path) -> None:
        values = {
            "javax.jdo.option.ConnectionURL": f"jdbc:derby:;databaseName={root}/db;create=true",
            "javax.jdo.option.ConnectionDriverName": "org.apache.derby.jdbc.EmbeddedDriver",
            "datanucleus.schema.autoCreateAll": "true",
            "metastore.schema.verification": "false",
            "metastore.warehouse.dir": str(self._warehouse),
            # The classes that Hive names by default are in another jar of it.
            "metastore.expression.proxy": f"{_HIVE}.DefaultPartitionExpressionProxy",
            "metastore.task.threads.always": f"{_HIVE}.events.EventCleanerTask",
            # The lock of a client that was killed ends then; Hive's default is five minutes.
            "metastore.txn.timeout": "20s",
            "metastore.timedout.txn.reaper.interval": "5s",
            "metastore.timedout.txn.reaper.start": "5s",
        }
        properties = (f"<property><name>{key}</name><value>{value}</value></property>" for key, value in values.items())
        (root / "metastore-site.xml").write_text(f"<configuration>{''.join(properties)}</configuration>")
        (root / "log4j.properties").write_text("log4j.rootLogger=OFF\n")
