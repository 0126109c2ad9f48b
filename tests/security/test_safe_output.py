"""A producer, by keys, values, headers and names: he wants to write to a terminal or a log. He gets escapes.

What was tried: ANSI and C1 sequences that move, hide, link or ask; bidi overrides; line breaks of every kind that begin
a false line; lone surrogates; carriage returns; the markup of the library that draws tables.
"""

from __future__ import annotations

import io
import json
import logging
import os
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from unicodedata import category

import click
import pytest
from hypothesis import given
from hypothesis import strategies as st

from framework.adapters.telemetry.safe_output import GuardedStream, OneLine, error_text, guarded_streams, log_line
from framework.cli.main import run_main
from framework.cli.repair.dlq_text import show_table
from framework.cli.shared.status_text import pipelines_table, print_status
from framework.commit.events.event_types import StateChanged
from framework.deploy import launch as submitted_launch
from framework.deploy import log_pump
from framework.deploy.launch import Application, Launcher
from framework.diagnose.shown import all_shown, shown, shown_lines
from framework.errors import FloeError
from framework.record.dead_letters.view import bytes_text, value_lines

UNSEEN = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}
HOSTILE = [
    "\x1b[2J", "\x1b]8;;http://evil\x1b\\x", "\x1b]0;title\x07", "\x1b[8mhidden", "\x1b[5mblink", "\x1b[1A\x1b[2K", "\x1bc",
    "\x9b2J",    "\x9d0;t\x9c", "\r0.0 s  all is well", "\n    0.0 s  all is well", "a\x0bb\x0cc", "\u2028x", "\u2029x", "\x85x",
    "\u202egpj.exe",    "\u2066x\u2069", "\u200e", "\u200bx", "\ufeff", "\ud800",
    "\udcff", "\x00", "\x7f", "\x08\x08", "\U000e0041", "\ue000",
    "\x1b[>c",    "\x1b[6n", "\x1bP+q544e\x1b\\", "[bold]x[/bold]", "[/nothing]", "[link=http://evil]x[/link]", ":smile:",
]  # fmt: skip


def is_harmless(text: str) -> bool:
    return not [c for c in text if category(c) in UNSEEN and c != "\n"]


@given(st.text() | st.sampled_from(HOSTILE))
def test_a_line_is_one_line_of_what_is_seen(text: str) -> None:
    """Whatever a text holds, what is shown of it moves nothing, hides nothing and begins no line."""
    for found in (shown(text), log_line(text)):
        assert is_harmless(found)
        assert "\n" not in found


@given(st.recursive(st.text(), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=5))
def test_json_says_the_same_behind_the_guard(value: object) -> None:
    """JSON that a verb prints, escaped or not, is the same JSON on the terminal."""
    for ascii_only in (True, False):
        text = json.dumps(value, ensure_ascii=ascii_only)
        assert json.loads(shown_lines(text)) == json.loads(text)
        assert is_harmless(shown_lines(text))


@pytest.mark.parametrize("text", HOSTILE)
def test_a_stream_lets_only_colours_through(text: str) -> None:
    """Wanted: a verb that forgot to escape. Got: the stream itself escapes all but floe's own colours and line
    breaks."""
    raw = io.StringIO()
    stream = GuardedStream(raw)
    stream.write(click.style("ok", fg="green", bold=True) + f" {text}\n")
    assert is_harmless(raw.getvalue().removeprefix(click.style("ok", fg="green", bold=True)))
    assert raw.getvalue().startswith(click.style("ok", fg="green", bold=True))


def test_every_verb_writes_through_the_guard(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """Wanted: a file's name or content on the terminal, as it is. Got: escapes, in findings as well."""
    file = tmp_path / "a\x1b[2Jb.yaml"
    file.write_text('apiVersion: floe/v1\nkind: "P\\e[2J\\u202e\\n::error::x"\nmetadata: {name: a}\n')
    assert run_main(["validate", str(file)]) == 2
    captured = capsys.readouterr()
    assert is_harmless(captured.out + captured.err)
    assert not [line for line in captured.out.splitlines() if line.startswith("::")]
    assert run_main(["validate", str(tmp_path / "no\x1b[2J\nsuch.yaml")]) == 2
    captured = capsys.readouterr()
    assert is_harmless(captured.out + captured.err)


@pytest.mark.parametrize("text", HOSTILE)
def test_an_error_is_reported_in_its_own_lines(text: str) -> None:
    """Wanted: a table's or topic's name that forges an error or its remedy. Got: a line for each part, and no more."""
    reported = error_text(FloeError(f"no {text}", place=text, remedy="do", quoted=(text, "the end")))
    assert is_harmless(reported)
    assert reported.count("\n") == 3


def test_a_log_line_of_python_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    """Wanted: a record's key in a warning begins a line of its own. Got: one line; an exception's lines are escaped
    each."""
    root = logging.getLogger()
    handlers, root.handlers = root.handlers, []  # pytest's own, in whose place there are none in a run
    try:
        with guarded_streams():
            logging.getLogger("some.library").warning("key %s", "a\n2026 INFO all is well\x1b[2J")
            try:
                raise ValueError("x\x1b[2J password=hunter2-secret")
            except ValueError:
                logging.getLogger("some.library").exception("\u202eoops")
    finally:
        root.handlers = handlers
    said = capsys.readouterr().err
    assert is_harmless(said)
    assert "key a\\n2026 INFO" in said
    assert "hunter2" not in said
    assert isinstance(logging.lastResort and logging.lastResort.formatter, OneLine)


@pytest.mark.parametrize("text", HOSTILE)
def test_names_in_tables_are_no_markup(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Wanted: a pipeline named `[/x]` ends `floe status`, one named `[link=...]` draws a link. Got: the name as it
    is."""
    from framework.observe.status.read import PipelineStatus, TableStatus

    show_table({"a": "left"}, [[text]])
    pipeline = replace(_status(), pipelines=(_of(PipelineStatus, pipeline=text, reason=text, remedy=text),))
    tables = replace(pipeline, tables=(_of(TableStatus, table=text, reason=text, remedy=text),))
    print_status(all_shown(tables))
    said = capsys.readouterr().out
    assert is_harmless(said)
    if text.startswith(("[", ":")):
        assert said.count(text) >= 3
    assert len(pipelines_table(all_shown(pipeline.pipelines), 0)) == 3


def _status():  # type: ignore[no-untyped-def]
    from framework.observe.status.read import Status

    return _of(Status)


def _of(kind, **given):  # type: ignore[no-untyped-def]
    """A value of a dataclass whose fields nobody asks for are the plainest of their types."""
    from dataclasses import MISSING, fields
    from typing import get_type_hints

    # Named in annotations alone, so that `floe status` imports neither.
    from framework.commit.maintenance.health import TableHealth
    from framework.config.spec import TemplateUse

    hints = get_type_hints(kind, localns={"TableHealth": TableHealth, "TemplateUse": TemplateUse})
    made = {}
    for each in fields(kind):
        if each.name in given:
            made[each.name] = given[each.name]
        elif each.default is MISSING and each.default_factory is MISSING:
            made[each.name] = _plainest(hints[each.name])
    return kind(**made)


def _plainest(hint):  # type: ignore[no-untyped-def]
    import types
    from enum import Enum
    from typing import get_args, get_origin

    origin = get_origin(hint)
    if origin is types.UnionType:
        return None if type(None) in get_args(hint) else _plainest(get_args(hint)[0])
    if origin is not None:
        return origin()
    if issubclass(hint, Enum):
        return next(iter(hint))
    return hint() if hint in (int, str, float, bool) else _of(hint)


@pytest.mark.parametrize("text", HOSTILE)
def test_a_dead_letter_is_shown_harmless(text: str) -> None:
    """Wanted: a record that writes to the terminal of whoever looks at it. Got: escapes, key, value and headers
    alike."""
    data = text.encode("utf-8", "surrogatepass")
    for line in (bytes_text(data), *value_lines(data, None), *value_lines(b'{"a":"' + data + b'"', "a")):
        assert is_harmless(line)
        assert "\n" not in line


def test_events_are_shown_harmless() -> None:
    """Names in control events are others' data; the state of a pipeline is told in one line."""
    from framework.cli.watch.log import describe
    from framework.commit.events.event_types import Subject

    for text in HOSTILE:
        event = _of(StateChanged, name=text, reason=text, subject=next(iter(Subject)))
        assert is_harmless(shown(describe(event)))


# ---- the raw output of a driver -------------------------------------------------------------------------------------

DRIVER = r"""
import os, sys
os.write(1, b"out \x1b[2J \xc2\x9b2J \xe2\x80\xae \xff\n{\"json\": true}\n")
os.write(2, b"err \x1b]0;t\x07\r\n" + b"x" * 200_000 + b"\n" + b"no end \x1b[2J")
sys.exit(7)
"""


def _application(folder: Path, code: str) -> Application:
    return Application("a", "h", folder, (sys.executable, "-c", code), True, None, {})


def test_what_a_driver_prints_is_copied_harmless(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Wanted: the JVM or librdkafka prints a record's key into `driver.log` or a terminal. Got: escapes; every line is
    there, and the exit code is the driver's."""
    assert Launcher([_application(tmp_path, DRIVER)], 0, lambda _: None).run() == 7
    captured = capfd.readouterr()
    assert is_harmless(captured.out + captured.err)
    assert '{"json": true}' in captured.out.splitlines()
    assert captured.err.count("x") >= 200_000
    assert "no end \\x1b[2J" in captured.err


def test_a_driver_outlives_whoever_started_it(tmp_path: Path) -> None:
    """Its output has somewhere to go when its supervisor is killed: no driver ever writes into a closed pipe."""
    driver = (
        "import time, pathlib\nfor n in range(30):\n    print(n, flush=True); time.sleep(0.1)\n"
        "pathlib.Path('done').touch()\n"
    )
    code = (
        "from pathlib import Path; from tests.security.test_safe_output import _application\n"
        "from framework.deploy.launch import Launcher\n"
        f"Launcher([_application(Path({str(tmp_path)!r}), {driver!r})], 0, lambda _: None).run()\n"
    )
    root = str(Path(__file__).parent.parent.parent)
    with (tmp_path / "log").open("wb") as log:
        starter = subprocess.Popen([sys.executable, "-c", code], stdout=log, stderr=log, cwd=root)
    limit = time.monotonic() + 60
    while b"1\n" not in (tmp_path / "log").read_bytes() and time.monotonic() < limit:
        time.sleep(0.05)
    starter.kill()
    starter.wait()
    while not (tmp_path / "done").exists() and time.monotonic() < limit:
        time.sleep(0.05)
    assert (tmp_path / "done").exists()
    while b"29\n" not in (tmp_path / "log").read_bytes() and time.monotonic() < limit:
        time.sleep(0.05)
    assert b"29\n" in (tmp_path / "log").read_bytes()


def test_the_pump_needs_nothing_but_python() -> None:
    """It is started by its file alone, for every driver, and escapes as the rest of floe does."""
    assert "framework" not in Path(log_pump.__file__).read_text().replace("framework/", "")
    for text in HOSTILE:
        line = text.replace("\n", "").encode("utf-8", "surrogatepass")
        assert is_harmless(log_pump.harmless(line).decode())
    assert submitted_launch.log_pump is log_pump


@pytest.mark.spark
def test_sparks_log_holds_no_control_characters(tmp_path: Path) -> None:
    """Wanted: a message of the JVM with a record in it forges a line of `spark.log`, or writes to whoever prints it.
    Got: neither, and an exception is there once. What Java needs in its environment stays out of the session's process."""
    code = (
        "import os, sys; from pathlib import Path; from framework.runtime.spark import query as spark_query\n"
        "spark = spark_query.start_session('t', 'local[1]', {}, Path(sys.argv[1]))\n"
        "assert 'PYTHONSAFEPATH' not in os.environ\n"
        "jvm = spark.sparkContext._jvm\n"
        "log = jvm.org.apache.logging.log4j.LogManager.getLogger('floe.test')\n"
        "log.error('key \\x1b[2J \\u202e \\x9b \\u2028 a\\nforged line', jvm.java.lang.RuntimeException('inner \\x1b[2J'))\n"
        "spark.stop()\n"
    )
    subprocess.run([sys.executable, "-c", code, str(tmp_path)], check=True, capture_output=True, env={**os.environ})
    text = (tmp_path / "spark.log").read_text()
    assert is_harmless(text.replace("\t", ""))
    assert "key ?[2J" in text
    assert "\nforged" not in text
    assert text.count("RuntimeException: inner ?[2J") == 1
