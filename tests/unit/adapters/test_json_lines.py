"""With `--log-format json` each line of standard error is JSON, whoever wrote it, and one fault is one line and a count."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from framework.adapters.telemetry.json_lines import AGAIN_S, JsonLines

_OURS = '{"time": "2026-11-27T21:00:00.000Z", "level": "INFO", "message": "starting Spark"}'
_RDKAFKA = "%3|1732741200.123|FAIL|rdkafka#producer-{}| [thrd:localhost:9092/1]: Connect to localhost:9092 failed"
_SPARK = "26/11/27 21:05:54 WARN NativeCodeLoader: Unable to load native-hadoop library"


def said(lines: list[tuple[float, str]], end: bool = True) -> list[dict[str, Any]]:
    out: list[str] = []
    json_lines = JsonLines(out.append)
    for at, text in lines:
        json_lines.line(text, at)
    json_lines.settle(lines[-1][0] if lines else 0.0, end=end)
    return [json.loads(line) for line in out]


def test_lines_of_others_have_the_fields_of_ours() -> None:
    """Each line says when, how bad, what, and who; floe's own pass as they are."""
    ours, kafka, spark, plain, error = said(
        [(0.0, _OURS), (1.0, _RDKAFKA.format(1)), (2.0, _SPARK), (3.0, "+ exec java"), (4.0, "ValueError: no")]
    )

    assert ours == json.loads(_OURS)
    assert (kafka["level"], kafka["from"], kafka["time"]) == ("ERROR", "librdkafka", "1970-01-01T00:00:01.000Z")
    assert (spark["level"], spark["from"]) == ("WARNING", "spark")
    assert (plain["level"], plain["from"], plain["message"]) == ("INFO", "stderr", "+ exec java")
    assert error["level"] == "ERROR"


def test_one_fault_is_one_line_and_a_count() -> None:
    """What 390 lines of a minute say is said once at once, and once more with how often it came again."""
    first, again = said([(number / 10, _RDKAFKA.format(number)) for number in range(390)])
    assert "times" not in first
    assert (again["times"], again["message"]) == (389, _RDKAFKA.format(389))

    later = said([(0.0, "a 1"), (1.0, "a 2"), (AGAIN_S + 1, "a 3")], end=False)
    assert [(one["message"], one.get("times")) for one in later] == [("a 1", None), ("a 2", 1), ("a 3", None)]


@given(st.lists(st.text(max_size=20).filter(lambda text: "\n" not in text), max_size=8))
def test_any_text_becomes_json(texts: list[str]) -> None:
    """Whatever is printed, each line that comes out is one JSON object."""
    assert all(isinstance(one, dict) for one in said([(0.0, text) for text in texts]))


_DYING = """
import os, subprocess, sys, threading
from framework.adapters.telemetry.json_lines import only_json
with only_json():
    print("mine", file=sys.stderr)
    os.write(2, b"from a library\\n")
    subprocess.run(["sh", "-c", "echo from a child >&2"], check=True)
    thread = threading.Thread(target=lambda: 1 / 0, name="t")
    thread.start()
    thread.join()
    {}
"""


def _stderr_of(end: str, code: int) -> list[dict[str, Any]]:
    done = subprocess.run(
        [sys.executable, "-c", _DYING.format(end)], capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == code, done.stderr
    return [json.loads(line) for line in done.stderr.splitlines()]


def test_a_traceback_is_one_line() -> None:
    """What nobody caught, in a thread or not, is one line with the traceback as a field, and the exit code stays Python's."""
    lines = _stderr_of("raise ValueError('no such thing')", 1)

    assert [line["message"] for line in lines] == [
        *("mine", "from a library", "from a child"),
        *("thread t: ZeroDivisionError: division by zero", "ValueError: no such thing"),
    ]
    assert "Traceback" in lines[-1]["exception"]
    assert "Traceback" in lines[-2]["exception"]


def test_what_a_crash_leaves_is_written() -> None:
    """A process that is killed loses none of the lines that it had printed."""
    lines = _stderr_of("os.write(2, b'the last'); os.kill(os.getpid(), 9)", -9)

    assert lines[-1]["message"] == "the last"
