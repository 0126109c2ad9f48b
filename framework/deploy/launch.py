"""Lays out what `spark-submit` needs in a folder, starts it, drains it when asked, and starts it again when that may
help.

In: pipelines of one target. Out: an Application (its command is fixed before anything is written) and an exit code. The
folder's name holds the hash of what runs, so that the same input gives the same command.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from importlib import resources
from pathlib import Path
from types import FrameType

from framework.adapters.host.private_files import (
    follow_no_link,
    private_dir,
    remove_private,
    touch_private,
    write_private,
)
from framework.adapters.host.process import python_environment
from framework.config.spec import LoadedPipeline, TargetSpec
from framework.deploy import log_pump
from framework.deploy.package.archive import Lock, archive_path, build_archive, this_lock, unpacked_path
from framework.deploy.package.code import code_zip
from framework.errors import SetupError
from framework.plan.canonical import plan_hash
from framework.plan.deploy.submit import (
    DRIVER,
    ENVIRONMENT,
    MAINTAIN,
    STARTER,
    Shipment,
    deploy_mode_of,
    manager_of,
    needs_environment,
    one_target,
    render_submission,
    restart_after,
    runs_in_standalone_cluster,
    shared_environment,
    spark_submit_command,
)

STOP_FILE = "stop"
HADOOP_SETTINGS = ("HADOOP_CONF_DIR", "YARN_CONF_DIR")
LOG_CONFIG = "log4j2.properties"
POLL_S = 0.2
LAST_OUTPUT_S = 2.0
SHARED = 0o644
SOUND_AFTER_S = 600.0  # an application that ran for so long has not failed "again" when it fails
Say = Callable[[str], None]

_EMPTY_JAR = b"PK\x05\x06" + bytes(18)  # a zip archive without members
_DRIVER_TEXT = """import sys

if not getattr(sys.flags, "safe_path", False):
    del sys.path[0]  # the folder of this script, where somebody else's modules may lie

from framework.deploy.driver_main import main

sys.exit(main())
"""


@dataclass(frozen=True)
class Application:
    """One `spark-submit`: its words, the folder to start it in, and the files that belong there."""

    name: str
    hash: str
    folder: Path
    command: tuple[str, ...]
    client_mode: bool
    lock: Lock | None
    files: dict[str, bytes] = field(repr=False)
    shared_folder: bool = False  # every node sees the folder: the packages lie in it, too

    @property
    def stop_file(self) -> Path:
        return self.folder / STOP_FILE


def plan_application(
    pipelines: Sequence[LoadedPipeline],
    deploy_mode: str | None,
    until_caught_up: bool,
    lock: Lock | None = None,
    deployment: str = "",
    name: str = "",
    maintained: Sequence[str] = (),
) -> Application:
    """What would be submitted. Writes nothing.

    Args:
        deployment: the name that the run publishes with its plan.
        name: the application's name; the pipelines' names without it.
        lock: the packages to ship; None: those installed here.
        maintained: patterns of tables that are maintained, in place of a run of the pipelines.

    Raises:
        SetupError: the target cannot be submitted to; Spark is not installed.
    """
    target = one_target(pipelines)
    client_mode = deploy_mode_of(target, deploy_mode) == "client"
    if client_mode:
        # The driver runs in a folder of its own; its logs stay where those of `floe run` are.
        target = replace(target, state_dir=str(Path(target.state_dir).absolute()))
    pipelines = [replace(p, target=target) for p in pipelines]
    key = plan_hash(pipelines)
    short = key.removeprefix("sha256:")[:12]
    # A folder of its own: the file that stops it must not stop the run of the same pipelines.
    name = name or "-".join([*(["maintenance"] if maintained else []), *(p.spec.name for p in pipelines)])[:80]
    folder = Path(target.state_dir).absolute() / "submit" / f"{name}-{short}"
    code = code_zip()
    files = {
        DRIVER: _DRIVER_TEXT.encode(),
        f"floe-{hashlib.sha256(code).hexdigest()[:12]}.zip": code,
        f"plan-{short}.json": render_submission(pipelines).encode(),
        LOG_CONFIG: resources.files("framework.adapters.spark").joinpath(LOG_CONFIG).read_bytes(),
    }
    driver, code_file, plan_file, log_config = (str(folder / file) for file in files)
    in_standalone = runs_in_standalone_cluster(target, deploy_mode)
    if in_standalone:
        files[STARTER] = _EMPTY_JAR
    lock = (lock or this_lock()) if needs_environment(target) else None
    shipment = Shipment(
        spark_submit=find_spark_submit(),
        driver=driver,
        code=code_file,
        plan=plan_file,
        environment=str(archive_path(lock)) if lock else None,
        python=sys.executable,
        log_config=log_config,
        log_file=str(Path(target.state_dir).absolute() / "logs" / "spark.log"),
    )
    arguments = ["--until-caught-up"] if until_caught_up else []
    arguments += ["--stop-file", STOP_FILE] if client_mode else []
    arguments += ["--deployment", deployment] if deployment else []
    arguments += [word for pattern in maintained for word in (MAINTAIN, pattern)]
    command = spark_submit_command(pipelines, shipment, deploy_mode, arguments)
    return Application(name, key, folder, command, client_mode, lock, files, in_standalone)


def find_spark_submit() -> str:
    """`$SPARK_HOME/bin/spark-submit`, else the one of the installed PySpark.

    Raises:
        SetupError: there is neither.
    """
    spec = importlib.util.find_spec("pyspark")
    home = os.environ.get("SPARK_HOME") or (str(Path(spec.origin).parent) if spec and spec.origin else "")
    program = Path(home) / "bin" / "spark-submit"
    if not home or not program.is_file():
        raise SetupError(
            "spark-submit is not found",
            code="FLOE-E410",
            place=str(program),
            remedy="install pyspark, or set SPARK_HOME",
        )
    return str(program)


def check_yarn_is_named(target: TargetSpec, environment: Mapping[str, str]) -> None:
    """Whether Spark finds YARN from here; asks nobody.

    Raises:
        SetupError: neither variable for it is set, and no `spark-env.sh` is there that may set them.
    """
    named = [name for name in HADOOP_SETTINGS if environment.get(name)]
    if manager_of(target.spark_master) != "yarn" or named:
        return
    home = Path(environment.get("SPARK_CONF_DIR") or Path(find_spark_submit()).parents[1] / "conf")
    if not (home / "spark-env.sh").is_file():
        raise SetupError(
            "neither HADOOP_CONF_DIR nor YARN_CONF_DIR is set, and Spark needs one to find YARN",
            code="FLOE-E414",
            place=target.name,
            remedy="export HADOOP_CONF_DIR=/etc/hadoop/conf",
        )


def stage(application: Application, say: Say) -> None:
    """Write the application's folder, and build the archive of packages if this lock has none yet."""
    if application.shared_folder:  # the workers' user reads it, who may be another than ours
        follow_no_link(application.folder)
        application.folder.mkdir(parents=True, exist_ok=True)
        for name, content in application.files.items():
            write_private(application.folder / name, content, SHARED)
    else:
        private_dir(application.folder)
        for name, content in application.files.items():
            write_private(application.folder / name, content)
    remove_private(application.stop_file)
    if application.lock is not None:
        build_archive(application.lock, say)
        if application.shared_folder:
            name = shared_environment(str(archive_path(application.lock)))
            _copy_once(unpacked_path(application.lock), application.folder / name)
            return
        environment = application.folder / ENVIRONMENT
        # The driver's own helpers run `./environment/bin/python` too, so it is beside a driver that runs here.
        remove_private(environment)
        environment.symlink_to(unpacked_path(application.lock), target_is_directory=True)


def _copy_once(source: Path, target: Path) -> None:
    """Complete or absent, and never changed: an application that runs reads from it."""
    if target.exists():
        return
    draft = target.with_suffix(".new")
    shutil.rmtree(draft, ignore_errors=True)
    shutil.copytree(source, draft)
    draft.replace(target)


@dataclass(frozen=True)
class LaunchState:
    """An application as its launcher sees it: `running`, `waiting` to be started again, or `ended` with its exit
    code."""

    name: str
    state: str
    pid: int | None
    exit_code: int | None
    restarts: int


@dataclass
class _ApplicationRun:
    application: Application
    process: subprocess.Popen[bytes] | None = None
    pump: subprocess.Popen[bytes] | None = None
    exit_code: int | None = None
    restarts: int = 0
    start_at: float = 0.0
    started_at: float = 0.0
    passed_on: int = 0  # so many wishes to stop have reached this process


def _start(application: Application, log: Path | None) -> tuple[subprocess.Popen[bytes], subprocess.Popen[bytes]]:
    """The driver, and who copies its output to ours, or into a log, without what a record may have put into it."""
    pipes = [os.pipe(), os.pipe()]
    reads, writes = [pipe[0] for pipe in pipes], [pipe[1] for pipe in pipes]
    try:
        pump = subprocess.Popen(
            [sys.executable, "-I", "-S", log_pump.__file__, *map(str, reads), *([str(log)] if log else [])],
            stdin=subprocess.DEVNULL,
            pass_fds=reads,
            start_new_session=True,
        )
        driver = subprocess.Popen(
            application.command,
            cwd=application.folder,
            env=python_environment(),
            start_new_session=True,
            stdout=writes[0],
            stderr=writes[1],
        )
    finally:
        for each in (*reads, *writes):
            os.close(each)
    return driver, pump


class Launcher:
    """Runs applications side by side until all have ended. SIGTERM and SIGINT drain those whose driver runs here."""

    def __init__(
        self,
        applications: Sequence[Application],
        most_restarts: int,
        say: Say,
        notice: Callable[[LaunchState], None] = lambda state: None,
        log: Path | None = None,
    ) -> None:
        """`most_restarts`: after so many failures in a row an application stays ended; `notice` hears of every
        change. `log`: the file for the drivers' output, which is kept small; None: it goes where ours goes."""
        self._log = log
        self._notice = notice
        self._runs = [_ApplicationRun(application) for application in applications]
        self._most_restarts = most_restarts
        self._say = say
        self._asked = 0

    def run(self) -> int:
        """Returns the first exit code that is not 0, in the order of the applications, else 0."""
        restore = [(number, signal.signal(number, self._on_signal)) for number in (signal.SIGTERM, signal.SIGINT)]
        try:
            while any(run.exit_code is None for run in self._runs):
                for run in self._runs:
                    self._advance(run)
                time.sleep(POLL_S)
        finally:
            for number, handler in restore:
                signal.signal(number, handler)
            for run in self._runs:
                if run.process is not None and run.process.poll() is None:
                    os.killpg(run.process.pid, signal.SIGTERM)
                    run.process.wait()
        return next((run.exit_code for run in self._runs if run.exit_code), 0)

    def _advance(self, run: _ApplicationRun) -> None:
        if run.exit_code is not None:
            return
        if run.process is None:
            if self._asked:
                run.exit_code = 0
                self._report(run, "ended")
            elif time.monotonic() >= run.start_at:
                remove_private(run.application.stop_file)
                # A session of its own: Ctrl-C must reach the driver as a wish to drain, not end the JVM under it.
                run.process, run.pump = _start(run.application, self._log)
                run.started_at, run.passed_on = time.monotonic(), 0
                self._report(run, "running")
            return
        ended = run.process.poll()
        if ended is None:
            self._pass_on(run, run.process)
            return
        if run.pump is not None:
            with suppress(subprocess.TimeoutExpired):  # something that the driver started may hold its output open
                run.pump.wait(LAST_OUTPUT_S)
        code = 128 - ended if ended < 0 else ended
        if time.monotonic() - run.started_at >= SOUND_AFTER_S:
            run.restarts = 0
        wait_s = None if self._asked else restart_after(code, run.restarts, self._most_restarts)
        if wait_s is None:
            run.exit_code = code
            self._report(run, "ended")
            return
        run.restarts += 1
        run.process, run.start_at = None, time.monotonic() + wait_s
        self._say(
            f"{run.application.name}: ended with {code}; restarts in {wait_s:.0f} s "
            f"({run.restarts} of {self._most_restarts})"
        )
        self._report(run, "waiting", code)

    def _report(self, run: _ApplicationRun, state: str, exit_code: int | None = None) -> None:
        pid = run.process.pid if run.process is not None and state == "running" else None
        code = run.exit_code if exit_code is None else exit_code
        self._notice(LaunchState(run.application.name, state, pid, code, run.restarts))

    def _pass_on(self, run: _ApplicationRun, process: subprocess.Popen[bytes]) -> None:
        """Tell a driver what was asked for: the wish is kept, and each turn looks at it, since a signal comes at any moment,
        also while a driver is being started."""
        if run.passed_on == self._asked:
            return
        if run.application.client_mode and self._asked == 1:
            touch_private(run.application.stop_file)
        else:  # asked twice, or a driver elsewhere, of which only the local watcher is ended
            os.killpg(process.pid, signal.SIGTERM)
        run.passed_on = self._asked

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        self._asked += 1
        self._say("draining; ask again to exit at once" if self._asked == 1 else "exiting")
