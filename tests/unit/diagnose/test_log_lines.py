"""The lines of drivers and coordinators, as people and programs read them. The texts are golden."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator

import pytest

from framework.adapters.telemetry.run_log import RunLog
from framework.diagnose.log_lines import Level, LogFormat, LogLine, rendered, under
from framework.errors import TableBlocked

NOW_S = 1_767_225_600.5
COMMITTED = LogLine("committed shop.orders: 30 rows in 1 file, snapshot 7", table="shop.orders", commit="c-1")
FAILED = LogLine("batch failed (no answer); attempt 2 follows", Level.WARNING, batch=12)


@pytest.fixture(autouse=True)
def _logging() -> Iterator[None]:
    """Python's logging is as it was."""
    before = logging.lastResort.formatter if logging.lastResort is not None else None
    yield
    if logging.lastResort is not None:
        logging.lastResort.setFormatter(before)


@pytest.mark.parametrize(
    ("line", "text"),
    [
        ("starting Spark", "2026-01-01T00:00:00.500Z INFO    starting Spark"),
        (
            under("coordinator", COMMITTED),
            "2026-01-01T00:00:00.500Z INFO    coordinator: committed shop.orders: 30 rows in 1 file, snapshot 7 "
            "[table=shop.orders commit=c-1]",
        ),
        (
            under("orders", FAILED, pipeline="orders"),
            "2026-01-01T00:00:00.500Z WARNING orders: batch failed (no answer); attempt 2 follows "
            "[pipeline=orders batch=12]",
        ),
    ],
)
def test_a_line_of_text(line: str, text: str) -> None:
    """A line begins with the time and the level, and ends with what it is about."""
    assert rendered(line, NOW_S, LogFormat.TEXT) == text


def test_a_line_of_json() -> None:
    """The same as one JSON object; what a line is not about is not there."""
    line = under("orders", FAILED, pipeline="orders")
    assert json.loads(rendered(line, NOW_S, LogFormat.JSON)) == {
        "time": "2026-01-01T00:00:00.500Z",
        "level": "WARNING",
        "pipeline": "orders",
        "batch": 12,
        "message": "orders: batch failed (no answer); attempt 2 follows",
    }
    assert set(json.loads(rendered("said", NOW_S, LogFormat.JSON))) == {"time", "level", "message"}


@pytest.mark.parametrize("log_format", list(LogFormat))
def test_data_of_others_stays_in_its_line(log_format: LogFormat) -> None:
    """Line breaks and control characters in a sentence or a table's name are escaped: one call gives one line."""
    said: list[str] = []
    log = RunLog(log_format, write=said.append)
    log(LogLine("a\n2026-01-01T00:00:00.000Z INFO all is well\x1b[2J", table="shop.\x1b]0;x\x07"))
    log.error(TableBlocked("gone\x1b[2J", place="shop.t"))

    assert "\x1b" not in "".join(said)
    assert said[0].count("\n") == 1
    if log_format is LogFormat.JSON:
        assert [json.loads(line)["level"] for line in said] == ["INFO", "ERROR"]
        assert json.loads(said[1])["code"] == "FLOE-R110"
    else:
        assert said[1].startswith("error[FLOE-R110] gone")


@pytest.mark.parametrize("log_format", list(LogFormat))
def test_records_of_libraries_have_the_same_form(
    log_format: LogFormat, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a library logs comes with time and level, its traceback in the same object; in text it is one line that ends with
    what was raised. Of floe's own errors that nobody foresaw the traceback follows."""
    monkeypatch.setattr(logging.getLogger(), "handlers", [])
    RunLog(log_format)
    try:
        raise ValueError("x\x1b[2J")
    except ValueError:
        logging.getLogger("some.library").exception("could not")

    said = capsys.readouterr().err
    assert "\x1b" not in said
    if log_format is LogFormat.JSON:
        document = json.loads(said)
        assert (document["level"], document["message"]) == ("ERROR", "some.library: could not")
        assert "ValueError" in document["exception"]
    else:
        assert said.endswith("Z ERROR   some.library: could not (ValueError: x\\x1b[2J)\n")
        assert said.count("\n") == 1
        try:
            raise ValueError("y")
        except ValueError:
            logging.getLogger("framework.runtime").exception("could not")
        assert "Z ERROR   framework.runtime: could not\nTraceback" in capsys.readouterr().err
