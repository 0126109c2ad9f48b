"""A real Iceberg REST catalog for tests: Iceberg's own servlet over a JDBC catalog on SQLite, on loopback.

In: a folder, and a store's settings where the warehouse is to lie in one. Out: an address that PyIceberg's `rest`
catalog takes, and doors to stop and start the server on the same port and data. The jars come once from Maven Central
by PySpark's Ivy. The server is built through py4j, which PySpark ships too, so that no Java compiler is needed; it ends
with the test process.
"""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Mapping
from pathlib import Path

from py4j.java_gateway import GatewayParameters, JavaGateway, launch_gateway

from framework.adapters.host.java import find_java
from framework.local.broker import free_port
from testbed.servers.maven import JARS_OF_PYSPARK, dependency, jars

ICEBERG_VERSION = "1.11.0"


def rest_catalog_jars() -> Path:
    """The directory with the server's jars (83 MB)."""
    core = '<artifact name="iceberg-core" type="jar" ext="jar"/>'
    tests = '<artifact name="iceberg-core" type="jar" ext="jar" m:classifier="tests"/>'
    return jars(
        f"iceberg-rest-{ICEBERG_VERSION}",
        [
            dependency("org.apache.iceberg", "iceberg-core", ICEBERG_VERSION, core + tests),
            dependency("org.apache.hadoop", "hadoop-client-api", "3.4.3"),
            dependency("org.apache.hadoop", "hadoop-client-runtime", "3.4.3"),
            dependency("org.eclipse.jetty.ee10", "jetty-ee10-servlet", "12.1.12"),
            dependency("org.xerial", "sqlite-jdbc", "3.53.2.1"),
            dependency("org.slf4j", "slf4j-simple", "2.0.17"),
        ],
    )


def aws_jars() -> Path:
    """The directory with what Iceberg's Java library needs besides to reach an S3 store (70 MB)."""
    needed = (dependency("org.apache.iceberg", name, ICEBERG_VERSION) for name in ("iceberg-aws", "iceberg-aws-bundle"))
    return jars(f"iceberg-aws-{ICEBERG_VERSION}", list(needed))


def java_store(settings: Mapping[str, str]) -> dict[str, str]:
    """PyIceberg's settings of an S3 store in the words of Iceberg's Java library; of files on this machine, nothing."""
    if "s3.endpoint" not in settings:
        return {}
    return {
        "io-impl": "org.apache.iceberg.aws.s3.S3FileIO",
        "s3.endpoint": settings["s3.endpoint"],
        "s3.path-style-access": "true",
        "s3.access-key-id": settings["s3.access-key-id"],
        "s3.secret-access-key": settings["s3.secret-access-key"],
        "client.region": settings["s3.region"],
    }


class RestCatalog:
    """One REST catalog server. `port` stays the same over `stop` and `start`; the catalog is a SQLite file in
    `root`."""

    def __init__(self, root: Path, store: Mapping[str, str] | None = None) -> None:
        self.root = root
        self._store = dict(store or {})
        self._warehouse = self._store.get("warehouse", f"file://{root}/warehouse")
        self.port = free_port()
        self.process: subprocess.Popen[bytes] | None = None
        self._gateway: JavaGateway | None = None
        (root / "warehouse").mkdir(parents=True, exist_ok=True)

    @property
    def uri(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def settings(self, uri: str | None = None) -> dict[str, str]:
        """Settings of a PyIceberg catalog, at another address if a proxy stands in front of the server."""
        return {"type": "rest", "uri": uri or self.uri, "warehouse": self._warehouse}

    def start(self) -> RestCatalog:
        py4j = next(JARS_OF_PYSPARK.glob("py4j-*.jar"))
        port, token, self.process = launch_gateway(
            jarpath=str(py4j),
            classpath=f"{rest_catalog_jars()}/*" + (f":{aws_jars()}/*" if self._store else ""),
            javaopts=[
                "-Xmx512m",
                "-XX:TieredStopAtLevel=1",
                "-XX:+UseSerialGC",
                "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
                # Hadoop starts a `chmod` for each file that it writes: this way at half the price.
                "-Djdk.lang.Process.launchMechanism=VFORK",
            ],
            java_path=find_java(),
            die_on_exit=True,
            enable_auth=True,
            return_proc=True,
        )
        # Without management of memory: py4j's finalizers would ask a server that has been killed, at any moment after.
        parameters = GatewayParameters(port=port, auth_token=token, auto_convert=True, enable_memory_management=False)
        self._gateway = JavaGateway(gateway_parameters=parameters)
        jvm = self._gateway.jvm
        backend = jvm.org.apache.iceberg.CatalogUtil.buildIcebergCatalog(
            "backend",
            {
                "catalog-impl": "org.apache.iceberg.jdbc.JdbcCatalog",
                "uri": f"jdbc:sqlite:{self.root}/rest.db?journal_mode=WAL&synchronous=NORMAL&busy_timeout=60000",
                "warehouse": self._warehouse,
                "jdbc.schema-version": "V1",
                **java_store(self._store),
            },
            jvm.org.apache.hadoop.conf.Configuration(),
        )
        servlet = jvm.org.apache.iceberg.rest.RESTCatalogServlet(
            jvm.org.apache.iceberg.rest.RESTCatalogAdapter(backend)
        )
        context = jvm.org.eclipse.jetty.ee10.servlet.ServletContextHandler(0)
        context.addServlet(jvm.org.eclipse.jetty.ee10.servlet.ServletHolder(servlet), "/*")
        server = jvm.org.eclipse.jetty.server.Server(jvm.java.net.InetSocketAddress("127.0.0.1", self.port))
        server.setHandler(context)
        server.start()
        return self

    def stop(self) -> None:
        """End the server as a crash does."""
        if self.process is not None:
            self.process.send_signal(signal.SIGKILL)
            self.process.wait(30)
            self.process = None
        if self._gateway is not None:
            self._gateway.close()
            self._gateway = None
