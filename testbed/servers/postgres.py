"""A real PostgreSQL server for tests, from the system's package, on loopback, in a folder of its own.

In: nothing. Out: the URI of an empty database, password in it. The server refuses to run as root, so that under root it
runs as `nobody`, in a folder that belongs to that user.
"""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path

import pytest

from framework.local.broker import HOST, free_port

USER, PASSWORD, UNPRIVILEGED = "floe", "not-in-any-log", "nobody"


def find_binaries() -> Path:
    """The folder with `initdb` and `postgres`; skips the test where the system has none."""
    on_path = shutil.which("initdb")
    folders = [Path(on_path).resolve().parent] if on_path else sorted(Path("/usr/lib/postgresql").glob("*/bin"))
    usable = [folder for folder in folders if (folder / "postgres").exists()]
    if not usable:
        pytest.skip("PostgreSQL is not installed: sudo apt-get install -y postgresql")
    return usable[-1]


class Postgres:
    """One server with one empty database."""

    def __init__(self) -> None:
        binaries = find_binaries()
        self._as_user: dict[str, str] = {"user": UNPRIVILEGED} if os.geteuid() == 0 else {}
        self.folder = Path(tempfile.mkdtemp(prefix="floe-postgres-"))
        self.port = free_port()
        password = self.folder / "password"
        password.write_text(PASSWORD)
        if self._as_user:
            owner = pwd.getpwnam(UNPRIVILEGED)
            for path in (self.folder, password):
                os.chown(path, owner.pw_uid, owner.pw_gid)
        self._process: subprocess.Popen[bytes] | None = None
        try:
            self._initialise(binaries, password)
            self._start(binaries)
        except BaseException:
            self.stop()
            raise

    @property
    def uri(self) -> str:
        return f"postgresql+psycopg2://{USER}:{PASSWORD}@{HOST}:{self.port}/postgres"

    def _initialise(self, binaries: Path, password: Path) -> None:
        command = [str(binaries / "initdb"), "-D", str(self.folder / "data"), "-U", USER, "--no-sync"]
        command += ["--auth=scram-sha-256", f"--pwfile={password}", "--encoding=UTF8", "--locale=C"]
        answer = subprocess.run(command, capture_output=True, text=True, cwd=self.folder, check=False, **self._as_user)
        assert answer.returncode == 0, answer.stderr

    def _start(self, binaries: Path) -> None:
        command = [str(binaries / "postgres"), "-D", str(self.folder / "data"), "-p", str(self.port), "-h", HOST]
        command += ["-k", str(self.folder), "-c", "fsync=off"]
        with (self.folder / "log").open("wb") as log:
            self._process = subprocess.Popen(
                command, cwd=self.folder, stdout=log, stderr=subprocess.STDOUT, start_new_session=True, **self._as_user
            )
        limit = time.monotonic() + 60
        ask = [str(binaries / "pg_isready"), "-h", HOST, "-p", str(self.port)]
        while subprocess.run(ask, capture_output=True, check=False).returncode != 0:
            assert self._process.poll() is None, (self.folder / "log").read_text(errors="replace")
            assert time.monotonic() < limit, (self.folder / "log").read_text(errors="replace")
            time.sleep(0.2)

    def stop(self) -> None:
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(signal.SIGINT)  # "fast shutdown" in PostgreSQL's words
            self._process.wait(60)
        shutil.rmtree(self.folder, ignore_errors=True)
