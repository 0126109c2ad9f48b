"""A broker that answers nothing for a while, or is started again, again and again: no run ends over it.

FLOE_CHAOS_FREEZES=50 .venv/bin/python -m pytest -s -m chaos tests/chaos/test_frozen_broker.py
"""

from __future__ import annotations

import os
import random
import signal
import time
from pathlib import Path

import pytest

from framework.local import stack
from tests.chaos.checker import assert_exact
from tests.chaos.conftest import FragileBroker
from tests.chaos.harness import Running, fan_out, kill, lands, records
from tests.project import Project

pytestmark = [pytest.mark.spark, pytest.mark.kafka, pytest.mark.iceberg, pytest.mark.timeout(7200)]

FREEZES = int(os.environ.get("FLOE_CHAOS_FREEZES", "4"))
SEED = int(os.environ.get("FLOE_CHAOS_SEED", "0")) or random.randrange(1 << 20)
# From less than a session's time-out to more than that of every request.
FROZEN_S = (5.0, 12.0, 25.0, 40.0, 60.0)


@pytest.mark.chaos
@pytest.mark.failure("F13")
def test_a_frozen_or_restarted_broker_never_ends_a_run(tmp_path: Path, fragile_broker: FragileBroker) -> None:
    """The broker stops for 5 to 60 s, or is killed and started again, while records come: the same process goes on, and
    each record is in its table once."""
    print(f"seed {SEED}, {FREEZES} times")
    pick = random.Random(SEED)
    project = Project(tmp_path, fragile_broker.bootstrap_servers)
    topic = fragile_broker.new_topic("frozen", partitions=2)
    fragile_broker.produce(topic, records(50))
    rows = 50
    with Running(project, "run", project.pipeline("frozen", fan_out(topic))) as run:
        lands(project, rows, run)
        for number in range(FREEZES):
            fragile_broker.produce(topic, records(50, start=rows))
            rows += 50
            time.sleep(pick.random() * 2)  # in any part of a batch or a commit
            if number % 4 == 3:
                fragile_broker.kill()
                time.sleep(pick.random() * 5)
                fragile_broker.restart()
            else:
                seconds = FROZEN_S[number % len(FROZEN_S)] if FREEZES > 4 else FROZEN_S[number]
                print(f"{number + 1}: frozen for {seconds:.0f} s", flush=True)
                pid = stack.status(fragile_broker.state_dir).pid
                assert pid is not None
                kill([pid], signal.SIGSTOP)
                time.sleep(seconds)
                kill([pid], signal.SIGCONT)
            fragile_broker.produce(topic, records(50, start=rows))
            rows += 50
            lands(project, rows, run)
        assert run.terminate() == 0, run.output
    assert_exact(project.catalog(), fragile_broker.bootstrap_servers, [topic])
