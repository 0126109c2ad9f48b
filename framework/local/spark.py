"""A real Spark standalone cluster on loopback: one master and one worker from the installed PySpark, as processes.

Paths, cores and memory come in; the master's address goes out once the worker has registered. The processes get an
environment without this virtual environment, as the nodes of a cluster are, so that what runs there was shipped to
them.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
import urllib.request
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from framework.adapters.host.java import find_java
from framework.adapters.host.private_files import private_dir, write_private
from framework.adapters.host.process import running_pid, spawn, stop
from framework.errors import SetupError
from framework.local.broker import HOST, free_port, port_is_free
from framework.local.state import LocalPaths

MASTER_PORT = 7077
START_TIMEOUT_S = 90.0
MASTER_CLASS, WORKER_CLASS = (f"org.apache.spark.deploy.{name}" for name in ("master.Master", "worker.Worker"))
# Two daemons that mostly wait: little memory, a quick start.
_DAEMON_OPTIONS = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"


def start_cluster(paths: LocalPaths, cores: int, memory: str, progress: Callable[[str], None]) -> str:
    """Makes sure that master and worker run; returns `spark://host:port`.

    Raises:
        SetupError: PySpark or Java is missing, or the cluster does not come up; the log's place is in the message.
    """
    root = paths.spark
    private_dir(root)
    if running_pid(_pid(root, "master"), mark(root)) and running_pid(_pid(root, "worker"), mark(root)):
        return (root / "master.url").read_text(encoding="utf-8").strip()
    stop_cluster(paths)
    port = MASTER_PORT if port_is_free(MASTER_PORT) else free_port()
    web_port, url = free_port(), f"spark://{HOST}:{port}"
    progress(f"Spark: starting a master on {HOST}:{port} and a worker of {cores} cores and {memory}")
    try:
        _spawn(root, "master", master_words(port, web_port))
        _wait(root, "master", lambda: cluster_state(web_port)["status"] == "ALIVE")
        _spawn(root, "worker", worker_words(url, cores, memory, root / "work"))
        _wait(root, "worker", lambda: bool(live_workers(web_port)))
    except BaseException:
        stop_cluster(paths)
        raise
    write_private(root / "master.url", f"{url}\n")
    return url


def stop_cluster(paths: LocalPaths) -> bool:
    """Ends worker and master; True: there was one to end."""
    root = paths.spark
    ended = [stop(_pid(root, name), mark(root)) for name in ("worker", "master")]
    return any(ended)


def cluster_runs(paths: LocalPaths) -> bool:
    """Whether both processes are there."""
    return all(running_pid(_pid(paths.spark, name), mark(paths.spark)) for name in ("master", "worker"))


def spark_class(words: tuple[str, ...]) -> list[str]:
    """The command of one daemon, from the PySpark that is installed.

    Raises:
        SetupError: there is none.
    """
    return [str(spark_home() / "bin" / "spark-class"), *words]


def spark_home() -> Path:
    """The folder of the installed PySpark, which holds a whole Spark."""
    spec = find_spec("pyspark")
    if spec is None or spec.origin is None:
        raise SetupError(
            "PySpark is not installed", code="FLOE-E411", place="pyspark", remedy="install floe again with its lock"
        )
    return Path(spec.origin).parent


def daemon_environment(root: Path, options: str = "") -> dict[str, str]:
    """What a daemon and its executors see: Java and the system, nothing of this virtual environment."""
    environment = {
        "PATH": f"{Path(find_java()).parent}:/usr/local/bin:/usr/bin:/bin",
        "HOME": str(root),
        "SPARK_HOME": str(spark_home()),
        "SPARK_LOCAL_IP": HOST,
        "SPARK_DAEMON_MEMORY": "256m",
        "SPARK_DAEMON_JAVA_OPTS": f"{options} {_DAEMON_OPTIONS}".strip(),
    }
    if "JAVA_HOME" in os.environ:
        environment["JAVA_HOME"] = os.environ["JAVA_HOME"]
    return environment


def master_words(port: int, web_port: int) -> tuple[str, ...]:
    return (MASTER_CLASS, "--host", HOST, "--port", str(port), "--webui-port", str(web_port))


def worker_words(master: str, cores: int, memory: str, work: Path) -> tuple[str, ...]:
    words = (WORKER_CLASS, "--host", HOST, "--webui-port", str(free_port()), "--cores", str(cores))
    return (*words, "--memory", memory, "--work-dir", str(work), master)


def cluster_state(web_port: int) -> dict[str, Any]:
    """What the master says of itself. Raises OSError while it does not listen yet."""
    with urllib.request.urlopen(f"http://{HOST}:{web_port}/json/", timeout=5) as answer:
        return json.loads(answer.read())  # type: ignore[no-any-return]


def live_workers(web_port: int) -> list[dict[str, Any]]:
    """The workers that have registered."""
    return [worker for worker in cluster_state(web_port)["workers"] if worker["state"] == "ALIVE"]


def mark(root: Path) -> str:
    """The word on the daemons' command lines by which they are known again."""
    return f"-Dfloe.local.spark={hashlib.sha256(str(root).encode()).hexdigest()[:16]}"


def _pid(root: Path, name: str) -> Path:
    return root / f"{name}.pid"


def _spawn(root: Path, name: str, words: tuple[str, ...]) -> None:
    # spark-class replaces itself by Java, so the pid stays.
    spawn(spark_class(words), _pid(root, name), root / f"{name}.log", root, daemon_environment(root, mark(root)))


def _wait(root: Path, name: str, condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + START_TIMEOUT_S
    while time.monotonic() < deadline:
        try:
            if condition():
                return
        except OSError:
            pass  # it does not listen yet
        time.sleep(0.2)
    raise SetupError(
        f"Spark's {name} did not come up within {START_TIMEOUT_S:.0f} s",
        code="FLOE-E031",
        place=str(root / f"{name}.log"),
        remedy="the log says why; `floe local down` and try again",
    )
