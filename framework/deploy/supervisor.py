"""The supervisor of one deployed application: `python -m framework.deploy.supervisor FOLDER`.

In: the record in the folder. Out: the driver's process, started again after failures that may pass, and its state in
the folder after every change. SIGTERM drains the driver and ends both; the exit code is the driver's.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from pathlib import Path

from framework.adapters.sinks import log_line
from framework.deploy.applications import read_record, write_state
from framework.deploy.launch import Application, Launcher


def main(arguments: Sequence[str]) -> int:
    """Runs the application of the folder that is named, to its end."""
    home = Path(arguments[0])
    record = read_record(home)
    application = Application(record.name, record.hash, Path(record.folder), record.command, True, None, {})

    def say(text: str) -> None:
        print(f"{time.strftime('%Y-%m-%dT%H:%M:%S%z')} supervisor: {log_line(text)}", flush=True)

    return Launcher([application], record.most_restarts, say, lambda state: write_state(home, state)).run()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
