"""A real Iceberg REST catalog for tests: Iceberg's own servlet over a JDBC catalog on SQLite, on loopback.

In: a folder. Out: an address that PyIceberg's `rest` catalog takes, and doors to stop and start the server on the same
port and data. The jars come once from Maven Central by PySpark's Ivy. The server is built through py4j, which PySpark
ships too, so that no Java compiler is needed; it ends with the test process.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
from pathlib import Path

import pyspark
from py4j.java_gateway import GatewayParameters, JavaGateway, launch_gateway

from framework.local.broker import free_port
from framework.local.jars import SETTINGS_VARIABLE, cache_dir
from framework.local.java import find_java
from framework.local.process import exclusive

ICEBERG_VERSION = "1.11.0"
JARS_OF_PYSPARK = Path(pyspark.__file__).parent / "jars"
_MODULE = f"""<ivy-module version="2.0" xmlns:m="http://ant.apache.org/ivy/maven">
  <info organisation="floe" module="rest-catalog"/>
  <configurations><conf name="default"/></configurations>
  <dependencies>
    <dependency org="org.apache.iceberg" name="iceberg-core" rev="{ICEBERG_VERSION}" conf="default->default">
      <artifact name="iceberg-core" type="jar" ext="jar"/>
      <artifact name="iceberg-core" type="jar" ext="jar" m:classifier="tests"/>
    </dependency>
    <dependency org="org.apache.hadoop" name="hadoop-client-api" rev="3.4.3" conf="default->default"/>
    <dependency org="org.apache.hadoop" name="hadoop-client-runtime" rev="3.4.3" conf="default->default"/>
    <dependency org="org.eclipse.jetty.ee10" name="jetty-ee10-servlet" rev="12.1.12" conf="default->default"/>
    <dependency org="org.xerial" name="sqlite-jdbc" rev="3.53.2.1" conf="default->default"/>
    <dependency org="org.slf4j" name="slf4j-simple" rev="2.0.17" conf="default->default"/>
  </dependencies>
</ivy-module>
"""


def rest_catalog_jars() -> Path:
    """The directory with the server's jars, fetched if it is not there (83 MB, once for a machine)."""
    home = cache_dir() / f"iceberg-rest-{ICEBERG_VERSION}"
    with exclusive(home.with_name(f"{home.name}.lock")):
        if not home.exists():
            _fetch(home)
    return home


def _fetch(home: Path) -> None:
    with tempfile.TemporaryDirectory(dir=home.parent, prefix="fetch-") as scratch:
        module, jars = Path(scratch) / "module.ivy", Path(scratch) / "jars"
        module.write_text(_MODULE)
        settings = os.environ.get(SETTINGS_VARIABLE)
        command = [find_java(), "-jar", str(next(JARS_OF_PYSPARK.glob("ivy-*.jar")))]
        command += ["-cache", f"{scratch}/ivy", "-ivy", str(module), *(["-settings", settings] if settings else [])]
        command += ["-types", "jar", "bundle", "-confs", "default"]
        command += ["-retrieve", f"{jars}/[artifact](-[classifier])-[revision].[ext]"]
        answer = subprocess.run(command, capture_output=True, text=True, check=False)
        assert answer.returncode == 0, answer.stdout[-3000:]
        assert any(jars.glob(f"iceberg-core-tests-{ICEBERG_VERSION}.jar")), answer.stdout[-3000:]
        shutil.move(jars, home)


class RestCatalog:
    """One REST catalog server. `port` stays the same over `stop` and `start`; the catalog is a SQLite file in `root`."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.port = free_port()
        self.process: subprocess.Popen[bytes] | None = None
        self._gateway: JavaGateway | None = None
        (root / "warehouse").mkdir(parents=True, exist_ok=True)

    @property
    def uri(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def settings(self, uri: str | None = None) -> dict[str, str]:
        """Settings of a PyIceberg catalog, at another address if a proxy stands in front of the server."""
        return {"type": "rest", "uri": uri or self.uri, "warehouse": f"file://{self.root}/warehouse"}

    def start(self) -> RestCatalog:
        py4j = next(JARS_OF_PYSPARK.glob("py4j-*.jar"))
        port, token, self.process = launch_gateway(
            jarpath=str(py4j),
            classpath=f"{rest_catalog_jars()}/*",
            javaopts=[
                "-Xmx512m",
                "-XX:TieredStopAtLevel=1",
                "-XX:+UseSerialGC",
                "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
            ],
            java_path=find_java(),
            die_on_exit=True,
            enable_auth=True,
            return_proc=True,
        )
        parameters = GatewayParameters(port=port, auth_token=token, auto_convert=True)
        self._gateway = JavaGateway(gateway_parameters=parameters)
        jvm = self._gateway.jvm
        backend = jvm.org.apache.iceberg.CatalogUtil.buildIcebergCatalog(
            "backend",
            {
                "catalog-impl": "org.apache.iceberg.jdbc.JdbcCatalog",
                "uri": f"jdbc:sqlite:{self.root}/rest.db?journal_mode=WAL&synchronous=NORMAL&busy_timeout=60000",
                "warehouse": f"file://{self.root}/warehouse",
                "jdbc.schema-version": "V1",
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
