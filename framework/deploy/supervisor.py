"""The supervisor of one deployed application: `python -m framework.deploy.supervisor FOLDER`.

In: the record in the folder. Out: the driver's process, started again after failures that may pass; its state in the
folder after every change; the driver's log there, in files of bounded size and number. SIGTERM drains the driver and
ends both; the exit code is the driver's.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from framework.adapters.telemetry.run_log import RunLog, from_environment
from framework.deploy.applications import LOG, read_record, write_state
from framework.deploy.launch import Application, Launcher
from framework.deploy.log_pump import append
from framework.diagnose.log_lines import under


def main(arguments: Sequence[str]) -> int:
    """Runs the application of the folder that is named, to its end."""
    home = Path(arguments[0])
    record = read_record(home)
    application = Application(record.name, record.hash, Path(record.folder), record.command, True, None, {})

    path = home / LOG
    log = RunLog(from_environment(), write=lambda text: append(str(path), text.encode("utf-8", "backslashreplace")))

    def say(text: str) -> None:
        log(under("supervisor", text))

    return Launcher([application], record.most_restarts, say, lambda state: write_state(home, state), path).run()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
