"""A YARN cluster for tests: Hadoop's own mini cluster, which is a resource manager, node managers and HDFS in one
process on loopback.

In: a folder and a number of nodes. Out: a folder for HADOOP_CONF_DIR, the applications as the resource manager reports them,
 and doors to end one of them or a container. Containers are processes on this machine; their folders, scripts and
logs stay, so that a test can read them. The jars come once from Maven Central by PySpark's Ivy. The cluster is started
through py4j, which PySpark ships too, and ends with the test process.
"""

from __future__ import annotations

import os
import signal
import urllib.request
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

from py4j.java_gateway import GatewayParameters, JavaGateway, launch_gateway

from framework.adapters.host.java import find_java
from framework.local.broker import HOST, free_port
from testbed.servers.maven import JARS_OF_PYSPARK, dependency, jars

HADOOP_VERSION = "3.4.2"
_NAME = "yarn"
_LOGGING = [
    jar
    for name in ("slf4j-api", "log4j-1.2-api", "log4j-api", "log4j-core", "log4j-slf4j2-impl")
    for jar in JARS_OF_PYSPARK.glob(f"{name}-*.jar")
]


def yarn_jars() -> Path:
    """The directory with Hadoop's client and mini cluster (89 MB)."""
    needed = [dependency("org.apache.hadoop", "hadoop-client-minicluster", HADOOP_VERSION)]
    # What the resource manager's authority and web server load, and the mini cluster's description does not name.
    needed += [dependency("org.bouncycastle", name, "1.78.1") for name in ("bcprov-jdk18on", "bcpkix-jdk18on")]
    needed += [dependency("org.glassfish.jaxb", "jaxb-runtime", "2.3.9")]
    return jars(f"yarn-{HADOOP_VERSION}", needed)


@dataclass(frozen=True)
class YarnApplication:
    """`state` is RUNNING, FINISHED, FAILED, KILLED, ...; `final` is what the application said of its end; `attempt` counts
    the application masters from 1."""

    id: str
    name: str
    state: str
    final: str
    attempt: int
    diagnostics: str

    @property
    def has_ended(self) -> bool:
        return self.state in ("FINISHED", "FAILED", "KILLED")


def _application(report: Any) -> YarnApplication:
    """Java's report as a value."""
    return YarnApplication(
        id=report.getApplicationId().toString(),
        name=report.getName(),
        state=report.getYarnApplicationState().toString(),
        final=report.getFinalApplicationStatus().toString(),
        attempt=report.getCurrentApplicationAttemptId().getAttemptId(),
        diagnostics=report.getDiagnostics() or "",
    )


def _read(file: Path) -> bytes:
    """The content of a file; nothing of one that has gone, as those of processes and containers do."""
    try:
        return file.read_bytes()
    except OSError:
        return b""


class YarnCluster:
    """One resource manager, `nodes` node managers of `memory_mb` each, and HDFS with one data node."""

    def __init__(self, root: Path, nodes: int = 1, memory_mb: int = 6144) -> None:
        self.root = root
        self.conf_dir = root / "conf"
        java = Path(find_java()).resolve()
        name_node_port = free_port()
        self._write_settings(name_node_port, memory_mb, java)
        port, token, self._process = launch_gateway(
            jarpath=str(next(JARS_OF_PYSPARK.glob("py4j-*.jar"))),
            classpath=":".join([str(self.conf_dir), *map(str, _LOGGING), f"{yarn_jars()}/*"]),
            javaopts=[
                *("-Xmx768m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Djava.net.preferIPv4Stack=true"),
                # Without Hadoop's native library it starts a `chmod` for each file that it unpacks: this way at half the price.
                "-Djdk.lang.Process.launchMechanism=VFORK",
                "--add-opens=java.base/java.lang=ALL-UNNAMED",  # its web servers write classes as Java 8 let them
                f"-Dlog4j2.configurationFile={self.root}/log4j2.properties",
            ],
            java_path=str(java),
            die_on_exit=True,
            enable_auth=True,
            return_proc=True,
            cwd=str(root),  # the mini cluster's folder is `target/NAME` below this one
        )
        parameters = GatewayParameters(port=port, auth_token=token, auto_convert=True, enable_memory_management=False)
        self._gateway = JavaGateway(gateway_parameters=parameters)
        try:
            hadoop = self._gateway.jvm.org.apache.hadoop
            builder = getattr(hadoop.hdfs, "MiniDFSCluster$Builder")(hadoop.hdfs.HdfsConfiguration())
            hdfs = builder.numDataNodes(1).nameNodePort(name_node_port).build()
            hdfs.waitActive()
            self._files = hdfs.getFileSystem()
            mini = hadoop.yarn.server.MiniYARNCluster(_NAME, nodes, 1, 1)
            mini.init(hadoop.yarn.conf.YarnConfiguration())
            mini.start()
            self._client = hadoop.yarn.client.api.YarnClient.createYarnClient()
            self._client.init(hadoop.yarn.conf.YarnConfiguration())
            self._client.start()
            assert mini.waitForNodeManagersToConnect(60_000), "the node managers do not connect"
        except BaseException:
            self.stop()
            raise

    @property
    def environment(self) -> dict[str, str]:
        """What Spark needs to find the cluster."""
        return {"HADOOP_CONF_DIR": str(self.conf_dir), "SPARK_LOCAL_IP": HOST}

    def applications(self) -> list[YarnApplication]:
        """What the resource manager says of each application, the oldest first."""
        reports = (_application(report) for report in self._client.getApplications())
        return sorted(reports, key=lambda each: each.id)

    def end_application(self, application_id: str) -> None:
        """What `yarn application -kill` does."""
        known = self._gateway.jvm.org.apache.hadoop.yarn.api.records.ApplicationId.fromString(application_id)
        self._client.killApplication(known)

    def containers(self, application_id: str) -> dict[int, Path]:
        """The processes of an application's containers that live, and the folder that each runs in."""
        found = {}
        for process, folder in self._processes().items():
            if folder.parent.name == application_id and _read(process / "cmdline").split(b"\0")[0].endswith(b"/java"):
                found[int(process.name)] = folder
        return found

    def _processes(self) -> dict[Path, Path]:
        """Every process that runs in the folder of a container, below /proc, and that folder."""
        found = {}
        for process in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):  # it has ended
                folder = (process / "cwd").readlink()
                if folder.is_relative_to(self.root / "target"):
                    found[process] = folder
        return found

    def kill_container(self, pid: int) -> None:
        """Ends the Java process of a container at once, as a node's kernel does when memory is short."""
        os.kill(pid, signal.SIGKILL)

    def logs(self, application_id: str) -> dict[str, str]:
        """What each container wrote: the container's name, and its output and errors."""
        found: dict[str, str] = {}
        for file in sorted(self.root.glob(f"target/**/*-logDir-*/{application_id}/*/std*")):
            found[file.parent.name] = found.get(file.parent.name, "") + file.read_text(errors="replace")
        return found

    def shown(self, application_id: str) -> dict[str, bytes]:
        """All that is to be read of an application that runs: environment and command line of each process in a container,
        the files of its containers and in HDFS, what the resource manager says, and Spark's page of the settings."""
        found: dict[str, bytes] = {}
        for process in self._processes():
            found |= {f"{process}/{name}": _read(process / name) for name in ("environ", "cmdline")}
        for folder, folders, files in os.walk(self.root / "target"):
            # Packages, which were there before; and links lead into other folders of the node.
            folders[:] = [name for name in folders if not name.endswith(".tar.gz")]
            found |= {f"{folder}/{name}": _read(Path(folder, name)) for name in files}
        copies = self.root / "copies"
        path = self._gateway.jvm.org.apache.hadoop.fs.Path
        for number, name in enumerate(name for name in self.hdfs_files() if name.startswith("/user/")):
            self._files.copyToLocalFile(path(name), path(f"{copies}/{number}"))
            found[f"hdfs:{name}"] = _read(copies / str(number))
        known = self._gateway.jvm.org.apache.hadoop.yarn.api.records.ApplicationId.fromString(application_id)
        report = self._client.getApplicationReport(known)
        found["report"] = report.toString().encode()
        for page in ("environment/", f"api/v1/applications/{application_id}/environment"):
            with urllib.request.urlopen(f"{report.getOriginalTrackingUrl()}/{page}", timeout=30) as answer:
                found[f"page {page}"] = answer.read()
        return found

    def put(self, file: Path) -> str:
        """Copies a file into HDFS, where everybody may read it, and returns its address."""
        path = self._gateway.jvm.org.apache.hadoop.fs.Path
        self._files.copyFromLocalFile(path(str(file)), path(f"/shared/{file.name}"))
        return f"{self._files.getUri().toString()}/shared/{file.name}"

    def hdfs_files(self) -> list[str]:
        """The paths of all files in HDFS."""
        path = self._gateway.jvm.org.apache.hadoop.fs.Path("/")
        files, found = self._files.listFiles(path, True), []
        while files.hasNext():
            found.append(files.next().getPath().toUri().getPath())
        return sorted(found)

    def stop(self) -> None:
        """Ends the cluster and the containers that it has started."""
        self._process.send_signal(signal.SIGKILL)
        self._process.wait(30)
        self._gateway.close()
        for process in self._processes():
            with suppress(OSError):  # it has ended
                os.kill(int(process.name), signal.SIGKILL)

    def _write_settings(self, name_node_port: int, memory_mb: int, java: Path) -> None:
        self.conf_dir.mkdir(parents=True)
        manager = {
            f"yarn.resourcemanager.{name}": f"{HOST}:{free_port()}"
            for name in ("address", "scheduler.address", "resource-tracker.address", "admin.address", "webapp.address")
        }
        node = {f"yarn.nodemanager.{name}": f"{HOST}:0" for name in ("address", "localizer.address", "webapp.address")}
        where = {"fs.defaultFS": f"hdfs://{HOST}:{name_node_port}", "hadoop.tmp.dir": f"{self.root}/tmp"}
        self._write("core-site.xml", where)
        self._write("hdfs-site.xml", {"hdfs.minidfs.basedir": f"{self.root}/dfs", "dfs.replication": "1"})
        self._write(
            "yarn-site.xml",
            {
                **manager,
                **node,
                "yarn.resourcemanager.hostname": HOST,
                "yarn.minicluster.fixed.ports": "true",
                "yarn.minicluster.yarn.nodemanager.resource.memory-mb": str(memory_mb),
                "yarn.nodemanager.resource.memory-mb": str(memory_mb),
                "yarn.nodemanager.vmem-check-enabled": "false",  # a JVM reserves far more than it uses
                "yarn.nodemanager.disk-health-checker.enable": "false",
                "yarn.nodemanager.delete.debug-delay-sec": "3600",
                "yarn.nodemanager.admin-env": f"JAVA_HOME={java.parents[1]}",
                "yarn.scheduler.minimum-allocation-mb": "256",
            },
        )
        self._write(
            "capacity-scheduler.xml",
            {
                "yarn.scheduler.capacity.root.queues": "default",
                "yarn.scheduler.capacity.root.default.capacity": "100",
                "yarn.scheduler.capacity.maximum-am-resource-percent": "1.0",
            },
        )
        (self.root / "log4j2.properties").write_text(
            "rootLogger.level=warn\nrootLogger.appenderRef.file.ref=file\n"
            "appender.file.type=File\nappender.file.name=file\n"
            f"appender.file.fileName={self.root}/cluster.log\n"
            "appender.file.layout.type=PatternLayout\nappender.file.layout.pattern=%d %p %c: %m%n%ex\n"
        )

    def _write(self, name: str, values: Mapping[str, str]) -> None:
        properties = "".join(
            f"<property><name>{key}</name><value>{escape(value)}</value></property>\n" for key, value in values.items()
        )
        (self.conf_dir / name).write_text(f"<configuration>\n{properties}</configuration>\n")
