"""What `floe doctor` checks of this machine: Java, Python, packages, disk, and whether Spark starts and runs a task.

In: this process and a target. Out: Findings. Changes nothing; the Spark session that it starts, it stops.
"""

from __future__ import annotations

import os
import re
import shutil
import socket
import sys
import tempfile
from collections.abc import Callable, Iterator
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path

from packaging.requirements import Requirement

import framework
from framework.adapters.host.installed import PACKAGE, again
from framework.config.spec import TargetSpec
from framework.ops.doctor.model import DoctorFinding, error, ok, warning
from framework.plan.deploy.submit import manager_of

OLDEST_PYTHON = (3, 10)
LEAST_DISK_BYTES = 2 * 1024**3
CONNECT_TIMEOUT_S = 3.0
_PIN = re.compile(r"^([A-Za-z0-9_.-]+)==([^\s;]+)\s*(?:;\s*(.+))?$")


def python() -> Iterator[DoctorFinding]:
    found = ".".join(map(str, sys.version_info[:3]))
    if sys.version_info[:2] < OLDEST_PYTHON:
        yield error("python", f"Python {found} is too old", "install Python 3.10 or newer")
    else:
        yield ok("python", f"Python {found} at {sys.executable}")


def java(find_java: Callable[[], str]) -> Iterator[DoctorFinding]:
    """`find_java` is `framework.adapters.host.java.find_java`; it raises SetupError with the command that repairs it."""
    yield ok("java", f"a Java that Spark runs on: {find_java()}")


def packages() -> Iterator[DoctorFinding]:
    """Installed versions against what floe declares and, in a checkout, against its lock."""
    dist = distribution(PACKAGE)
    wrong = 0
    for requirement in _required(dist):
        version = _version_of(requirement.name)
        if version is None:
            wrong += 1
            yield error("packages", f"{requirement.name} is not installed", _install(requirement))
        elif not requirement.specifier.contains(version, prereleases=True):
            wrong += 1
            yield error(
                "packages",
                f"{requirement.name} is {version}, but {requirement.specifier} is needed",
                _install(requirement),
            )
    lock = Path(framework.__file__).parent.parent / "constraints.txt"
    differing = []
    for name, pinned in read_lock(lock.read_text(encoding="utf-8")).items() if lock.is_file() else ():
        version = _version_of(name)
        if version is not None and version != pinned:
            differing.append(f"{name} {version} (lock: {pinned})")
    if differing:
        yield warning("packages", "not as in the lock: " + ", ".join(differing), again())
    elif not wrong:
        yield ok("packages", "every package is installed" + (", as in the lock" if lock.is_file() else ""))


def _install(requirement: Requirement) -> str:
    """For this Python, which need not be that of the `pip` in the path."""
    return f"{sys.executable} -m pip install '{requirement}'"


def fetch() -> Iterator[DoctorFinding]:
    """Which of the two readers fetches records on this machine."""
    from framework.adapters.kafka.reader import FETCH_VARIABLE, compiled, fetch_described

    text = f"records are fetched by {fetch_described()}"
    if compiled() or os.environ.get(FETCH_VARIABLE):
        yield ok("fetch", text)
    else:
        yield warning("fetch", f"{text}, at about twice the CPU", f"install a C compiler, then: {again()}")


def parser() -> Iterator[DoctorFinding]:
    """Which parsers read JSON on this machine."""
    from framework.record.json import compiled as compiled_json

    if compiled_json.available():
        yield ok("json", "plain JSON is parsed by the compiled parser, the rest by Arrow's")
    else:
        remedy = f"install a C compiler, then: {again()}"
        yield warning("json", "JSON is parsed by Arrow alone, at about four times the CPU", remedy)


def scatter() -> Iterator[DoctorFinding]:
    """How rows of many tables are put apart on this machine."""
    from framework.record.rows.scatter import available

    if available():
        yield ok("scatter", "rows of many tables are split by compiled code")
    else:
        remedy = f"install a C compiler, then: {again()}"
        yield warning("scatter", "rows of many tables are split by sorting them, at a tenth more CPU", remedy)


def read_lock(text: str) -> dict[str, str]:
    """Name -> version of a constraints file, for this Python."""
    pins: dict[str, str] = {}
    for line in text.splitlines():
        match = _PIN.match(line.strip())
        if match and (not match.group(3) or Requirement(line.strip()).marker.evaluate()):  # type: ignore[union-attr]
            pins[match.group(1)] = match.group(2)
    return pins


def _required(dist: Distribution) -> Iterator[Requirement]:
    for text in dist.requires or []:
        requirement = Requirement(text)
        if requirement.marker is None or requirement.marker.evaluate({"extra": ""}):
            yield requirement


def _version_of(name: str) -> str | None:
    try:
        return distribution(name).version
    except PackageNotFoundError:
        return None


def disk(target: TargetSpec) -> Iterator[DoctorFinding]:
    """Room for Spark's scratch data and for what is written before it is shipped."""
    for name in dict.fromkeys((tempfile.gettempdir(), str(_existing(Path(target.state_dir).absolute())))):
        free = shutil.disk_usage(name).free
        text = f"{free / 1e9:.1f} GB free in {name}"
        if free < LEAST_DISK_BYTES:
            yield warning("disk", text, "free some space, or set TMPDIR and the target's state_dir elsewhere")
        else:
            yield ok("disk", text)


def _existing(path: Path) -> Path:
    return next(parent for parent in (path, *path.parents) if parent.exists())


def spark(target: TargetSpec) -> Iterator[DoctorFinding]:
    """A local master is started and runs one Python task; of a cluster it is asked whether it can be reached from
    here."""
    manager = manager_of(target.spark_master)
    if manager == "local":
        yield _start_spark(target)
    elif manager == "yarn":
        yield _yarn()
    else:
        yield from (_reach(address) for address in addresses(target.spark_master))
    if manager != "local":
        yield _transport(target)


def _start_spark(target: TargetSpec) -> DoctorFinding:
    from framework.runtime.spark.query import start_session

    with tempfile.TemporaryDirectory(prefix="floe-doctor-") as logs:
        session = start_session("floe doctor", target.spark_master, target.spark_conf, Path(logs))
        try:
            versions = session.sparkContext.parallelize([0], 1).map(lambda _: tuple(sys.version_info[:2])).collect()
        finally:
            session.stop()
    text = (
        f"Spark {session.version} starts with {target.spark_master} and runs Python {'.'.join(map(str, versions[0]))}"
    )
    return ok("spark", text)


def _yarn() -> DoctorFinding:
    names = [name for name in ("HADOOP_CONF_DIR", "YARN_CONF_DIR") if os.environ.get(name)]
    if not names:
        return error(
            "spark",
            "neither HADOOP_CONF_DIR nor YARN_CONF_DIR is set, and Spark needs one to find YARN",
            "export HADOOP_CONF_DIR=/etc/hadoop/conf",
        )
    return ok("spark", f"YARN's configuration is in {os.environ[names[0]]}; it was not contacted")


def addresses(master: str) -> list[tuple[str, int]]:
    """Host and port of every master in `spark://a:7077,b:7077`, or of `k8s://https://host:6443`."""
    found = []
    secure = "https://" in master or master.startswith("k8s://")
    for part in re.sub(r"^(spark|k8s)://", "", master).split(","):
        host, _, port = re.sub(r"^https?://", "", part).rstrip("/").rpartition(":")
        found.append((host, int(port)) if host and port.isdigit() else (port, 443 if secure else 7077))
    return found


def _reach(address: tuple[str, int]) -> DoctorFinding:
    host, port = address
    try:
        socket.create_connection((host, port), CONNECT_TIMEOUT_S).close()
    except OSError as raised:
        return error(
            "spark",
            f"the master at {host}:{port} does not answer: {raised.strerror or raised}",
            "start it, or correct spark.master of the target",
        )
    return ok("spark", f"the master at {host}:{port} answers")


def _transport(target: TargetSpec) -> DoctorFinding:
    """Tasks carry the connection's settings, so what Spark sends should be read by nobody else."""
    conf = target.spark_conf
    if conf.get("spark.authenticate") == "true" and conf.get("spark.network.crypto.enabled") == "true":
        return ok("spark transport", "authenticated and encrypted")
    return warning(
        "spark transport",
        "tasks carry the Kafka and storage settings, secrets included, and Spark's own traffic is not encrypted",
        "set spark.authenticate and spark.network.crypto.enabled to true on the cluster and in the target's spark.conf",
    )
