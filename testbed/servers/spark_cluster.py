"""A real Spark standalone cluster for tests: a master and workers from the installed PySpark, on loopback.

In: a folder and a number of workers. Out: the master's address, and doors to kill a worker as a crash does. The
processes get an environment without this virtual environment, so that what runs on them was shipped to them.
"""

from __future__ import annotations

import os
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

from framework.local.broker import HOST, free_port
from framework.local.spark import (
    cluster_state,
    daemon_environment,
    live_workers,
    master_words,
    spark_class,
    worker_words,
)


class SparkCluster:
    """One master and `workers` workers of 1 GB each."""

    def __init__(self, root: Path, workers: int = 2, cores: int = 1) -> None:
        self.root = root
        self._cores = cores
        self._web_port = free_port()
        port = free_port()
        self.master = f"spark://{HOST}:{port}"
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        try:
            self._start(
                "master",
                *master_words(port, self._web_port),
            )
            self._wait(lambda: self.state()["status"] == "ALIVE", "the master")
            for number in range(workers):
                self.start_worker(f"worker-{number}")
            self._wait(lambda: len(self.live_workers()) == workers, f"{workers} workers")
        except BaseException:
            self.stop()
            raise

    def start_worker(self, name: str) -> None:
        work = self.root / name
        work.mkdir(parents=True, exist_ok=True)
        self._start(
            name,
            *worker_words(self.master, self._cores, "1g", work),
        )

    def signal_worker(self, name: str, number: signal.Signals) -> None:
        """Sends a signal to a worker and its executors."""
        os.killpg(self._processes[name].pid, number)

    def kill_worker(self, name: str) -> None:
        """Ends a worker and its executors at once, as the loss of a machine does."""
        self.signal_worker(name, signal.SIGKILL)
        self._processes.pop(name).wait()

    @property
    def page(self) -> str:
        """Where the master shows itself, its workers and its applications."""
        return f"http://{HOST}:{self._web_port}/"

    def state(self) -> dict[str, Any]:
        """What the master says of itself."""
        return cluster_state(self._web_port)

    def live_workers(self) -> list[dict[str, Any]]:
        return live_workers(self._web_port)

    def executors(self, name: str) -> list[Path]:
        """The folders of the executors that a worker has started, of all applications."""
        return sorted((self.root / name).glob("app-*/*"))

    def drivers(self, name: str) -> list[Path]:
        """The folders of the drivers that a worker has started."""
        return sorted((self.root / name).glob("driver-*"))

    def stop(self) -> None:
        for process in self._processes.values():
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        self._processes.clear()

    def _start(self, name: str, *words: str) -> None:
        self.root.mkdir(parents=True, exist_ok=True)
        with (self.root / f"{name}.log").open("wb") as log:
            self._processes[name] = subprocess.Popen(
                spark_class(words),
                env=daemon_environment(self.root),
                cwd=self.root,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def _wait(self, condition: Any, what: str) -> None:
        limit = time.monotonic() + 60
        while time.monotonic() < limit:
            try:
                if condition():
                    return
            except OSError:
                pass  # the master does not listen yet
            time.sleep(0.2)
        logs = "\n".join(path.read_text(errors="replace")[-1500:] for path in self.root.glob("*.log"))
        raise AssertionError(f"{what} did not come up\n{logs}")
