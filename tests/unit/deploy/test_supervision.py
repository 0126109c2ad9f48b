"""The files for supervisors agree with what floe itself starts again, and its logs stay of bounded size."""

from __future__ import annotations

import configparser
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from framework.deploy import log_pump
from framework.plan.deploy.submit import is_final

SUPERVISION = Path(__file__).parents[3] / "docs" / "supervision"
# What a process that nobody asked may end with. A signal from outside ends one that a supervisor asked, or its operator.
FINAL = {code for code in range(1, 128) if is_final(code)}
BY_SIGNAL = {130, 143}


@pytest.mark.parametrize("name", ["floe@.service", "floe-coordinator.service"])
def test_a_unit_starts_no_final_end_again(name: str) -> None:
    """A systemd unit restarts what may pass and none of the final exit codes; SIGTERM goes to the driver alone, with
    time for the drain."""
    text = (SUPERVISION / name).read_text(encoding="utf-8")
    settings = dict(re.findall(r"^(\w+)=(.*)$", text, re.MULTILINE))

    assert {int(code) for code in settings["RestartPreventExitStatus"].split()} == FINAL
    assert (settings["Restart"], settings["KillMode"], settings["KillSignal"]) == ("on-failure", "mixed", "SIGTERM")
    assert int(settings["TimeoutStopSec"]) >= 60
    assert "--log-format json" in settings["ExecStart"]


def test_supervisord_starts_no_final_end_again() -> None:
    """The same for supervisord, which is told the codes that are expected."""
    parser = configparser.ConfigParser(interpolation=None)
    parser.read_string((SUPERVISION / "supervisord.conf").read_text(encoding="utf-8"))
    settings = parser["program:floe-orders"]

    assert {int(code) for code in settings["exitcodes"].split(",")} == {0, *FINAL, *BY_SIGNAL}
    assert all(map(is_final, BY_SIGNAL))
    assert (settings["autorestart"], settings["stopsignal"]) == ("unexpected", "TERM")


def test_a_log_keeps_a_bounded_number_of_files(tmp_path: Path) -> None:
    """Whoever writes without end fills one file and four older ones, none larger than the bound; the newest lines are
    kept, in order, and nobody else may read them."""
    path = tmp_path / "driver.log"
    for number in range(1_000):
        log_pump.append(str(path), f"line {number:04}\n".encode(), max_bytes=1_000)

    files = [path, *(path.with_name(f"driver.log.{number}") for number in range(1, log_pump.KEPT + 1))]
    assert sorted(tmp_path.iterdir()) == sorted(files)
    assert max(each.stat().st_size for each in files) <= 1_000
    assert {each.stat().st_mode & 0o777 for each in files} == {0o600}
    lines = "".join(each.read_text() for each in reversed(files)).splitlines()
    assert lines == [f"line {number:04}" for number in range(1_000 - len(lines), 1_000)]
    assert len(lines) == 500


def test_a_pump_writes_both_streams_into_the_file(tmp_path: Path) -> None:
    """With a file named, what comes on both streams stands in it in whole lines, escaped; nothing goes elsewhere."""
    path = tmp_path / "driver.log"
    (out_read, out_write), (err_read, err_write) = os.pipe(), os.pipe()
    command = [sys.executable, "-I", "-S", log_pump.__file__, str(out_read), str(err_read), str(path)]
    pump = subprocess.Popen(command, pass_fds=(out_read, err_read), stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    for each in (out_read, err_read):
        os.close(each)
    os.write(out_write, b"one\n")
    os.write(err_write, b"two \x1b[2J\n")
    for each in (out_write, err_write):
        os.close(each)

    assert pump.communicate(timeout=30)[0] == b""
    assert sorted(path.read_text().splitlines()) == ["one", "two \\x1b[2J"]
