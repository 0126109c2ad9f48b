"""A live run as a process of its own, to be killed: joins a pipeline's group and says so. Arguments: broker, group,
topic."""

from __future__ import annotations

import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from framework.adapters.kafka.control.presence import Presence

if __name__ == "__main__":
    presence = Presence({"bootstrap.servers": sys.argv[1]}, sys.argv[2], [sys.argv[3]], "run-1")
    time.sleep(120)
    presence.close()
