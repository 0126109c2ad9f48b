"""A coordinator as a process: `leadership_member.py BOOTSTRAP GROUP TOPIC` prints each update of its leadership as a JSON line.

Lines: ["assigned", low_water, log_start], ["revoked"], ["read", offset], ["end", position], ["stored", offset, bool].
Every event read is stored as the low-water mark behind it, so that a zombie's mark can be watched.
"""

import json
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from framework.adapters.kafka.control.leadership import (
    CoordinatorLeadership,
    LeadershipAssigned,
    LeadershipRead,
    LogEndReached,
)


def say(*words: object) -> None:
    print(json.dumps(words), flush=True)


bootstrap, group, topic = sys.argv[1:]
leadership = CoordinatorLeadership({"bootstrap.servers": bootstrap}, group, topic, client_id="member")
deadline = time.monotonic() + 120  # never outlives the test run, whatever happens to it
while time.monotonic() < deadline:
    for update in leadership.poll(0.2):
        if isinstance(update, LeadershipAssigned):
            say("assigned", update.low_water, update.log_start)
        elif isinstance(update, LeadershipRead):
            say("read", update.offset)
            say("stored", update.offset + 1, leadership.store_low_water(update.offset + 1))
        elif isinstance(update, LogEndReached):
            say("end", update.position)
        else:
            say("revoked")
