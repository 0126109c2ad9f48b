"""What runs inside an application of `floe submit`: it reads the rendered submission and runs its pipelines, or maintains
their tables.

In: the arguments that `framework.plan.deploy.submit` put on the command line. Out: the exit code, as of `floe run`. Secrets
are resolved here, where the driver runs. A stop file, where one is named, drains the run as SIGTERM does: Spark's own
launcher answers SIGTERM by ending the JVM under the driver, which loses nothing but finishes nothing either.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import signal
import sys
import threading
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import asdict
from pathlib import Path
from types import FrameType

from framework.adapters.secrets import resolve
from framework.adapters.telemetry.json_lines import only_json
from framework.adapters.telemetry.run_log import RunLog, from_environment
from framework.adapters.telemetry.safe_output import guarded_streams
from framework.config.spec import LoadedPipeline, TablesSpec
from framework.diagnose.log_lines import LogFormat
from framework.errors import FloeError, SetupError
from framework.plan.compile import compile_plan
from framework.plan.deploy.submit import BEGIN_SESSION, FINAL_CODES_END_WELL, MAINTAIN, is_final, read_submission
from framework.runtime.spark.session import StartingSession

log = logging.getLogger(__name__)

STOP_POLL_S = 0.5


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the submission; prints one JSON line with what it did, or the error."""
    signal.signal(signal.SIGTERM, _end_early)  # as the first process of a container it would not be heeded by itself
    options = _parse(arguments)
    with only_json() if from_environment() is LogFormat.JSON else nullcontext(), guarded_streams():
        code = _run(options)
    if options.final_codes_end_well and code and is_final(code):
        print(f"ended with {code}, which is final: it must not be restarted", file=sys.stderr, flush=True)
        return 0
    return code


def _run(options: argparse.Namespace) -> int:
    say = RunLog(from_environment())
    watch = _Watch(Path(options.stop_file)) if options.stop_file else None
    try:
        pipelines = read_submission(_read(options.plan), options.plan)
        if options.maintain:
            return _maintain(pipelines, options.maintain, say)
        spark = StartingSession(pipelines)
        if options.begin_session:
            spark.result()
        elif not options.until_caught_up:
            spark.begin()
        from framework.runtime.job import run_job

        result = run_job(pipelines, options.until_caught_up, say, options.deployment, spark)
    except FloeError as error:
        say.error(error)
        return error.exit_code
    finally:
        if watch:
            watch.end()
    pipelines_done = [{"pipeline": r.pipeline, "state": r.state, "totals": r.totals.__dict__} for r in result.reports]
    print(json.dumps({"command": "submitted", "ok": True, "pipelines": pipelines_done}), flush=True)
    return 0


def _maintain(pipelines: Sequence[LoadedPipeline], patterns: Sequence[str], say: RunLog) -> int:
    """Maintains what the pipelines fill, in this process: no Spark session is begun. SIGTERM ends it after the group of
    files in hand.

    Raises:
        FloeError: broker, catalog or store do not answer; what was done is done.
    """
    from framework.runtime.job import open_catalog
    from framework.runtime.maintenance.tables import maintain

    ended = threading.Event()
    signal.signal(signal.SIGTERM, lambda number, frame: ended.set())
    target = pipelines[0].target
    by_topic: dict[tuple[str, str], dict[str, TablesSpec]] = {}
    for pipeline in pipelines:
        where = compile_plan(pipeline)
        key = (where.read.connection, where.announce.control_topic)
        by_topic.setdefault(key, {})[pipeline.spec.name] = pipeline.spec.tables
    catalog = open_catalog(target, target.catalogs)
    done = []
    for (connection, topic), files in sorted(by_topic.items()):
        kafka = resolve(target.kafka[connection])
        done += maintain(kafka, (topic,), catalog, patterns, False, say, files, lambda: not ended.is_set())
    document = {"command": "submitted", "ok": True, "tables": [asdict(report) for report in done]}
    print(json.dumps(document), flush=True)
    return 0


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="floe_driver")
    parser.add_argument("plan")
    parser.add_argument("--until-caught-up", action="store_true")
    parser.add_argument("--stop-file")
    parser.add_argument("--deployment", default="")
    parser.add_argument(MAINTAIN, action="append", default=[], help="a pattern of tables")
    parser.add_argument(BEGIN_SESSION, action="store_true")
    parser.add_argument(FINAL_CODES_END_WELL, action="store_true")
    return parser.parse_args(arguments)


def _read(plan: str) -> str:
    try:
        return Path(plan).read_text(encoding="utf-8")
    except OSError as error:
        raise SetupError(
            f"the submitted plan cannot be read: {error.strerror}",
            code="FLOE-E401",
            place=str(Path(plan).absolute()),
            remedy="start the driver with the command that `floe submit --print` shows",
        ) from error


def _end_early(number: int, frame: FrameType | None) -> None:
    """Nothing has begun that must be finished."""
    sys.exit(128 + number)


class _Watch:
    """Turns the appearance of a file into SIGTERM for this process, once somebody drains it when that comes."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._ended = threading.Event()
        threading.Thread(target=self._run, name="stop-file", daemon=True).start()

    def _run(self) -> None:
        while not self._ended.wait(STOP_POLL_S):
            try:
                if signal.getsignal(signal.SIGTERM) is _end_early or not self._file.exists():
                    continue
            except OSError as error:  # storage that all nodes share may be away for a while
                log.warning("cannot check for a stop request now: %s", error)
                continue
            os.kill(os.getpid(), signal.SIGTERM)
            return

    def end(self) -> None:
        self._ended.set()
