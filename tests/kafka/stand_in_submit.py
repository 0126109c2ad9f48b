"""Stands for spark-submit where a test is about what is started and ended, not about what Spark does.

It does what a driver does before it starts Spark: it reads the submission, takes the pipelines over, tells what they
run and announces that they are alive; then it waits for the stop file.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

from framework.adapters.secrets import resolve
from framework.plan.catalogs import used_catalogs
from framework.plan.compile import compile_plan
from framework.plan.deploy.submit import read_submission
from framework.runtime.job import open_catalog, reported
from framework.runtime.pipeline.worker import PipelineWorker


def main() -> None:
    words = sys.argv[1:]
    plan = next(word for word in reversed(words) if word.startswith("plan-"))
    stop, deployment = (words[words.index(option) + 1] for option in ("--stop-file", "--deployment"))
    workers = []
    for pipeline in read_submission(Path(plan).read_text(encoding="utf-8"), plan):
        made = compile_plan(pipeline)
        catalog = open_catalog(pipeline.target, used_catalogs(made))
        kafka = resolve(pipeline.target.kafka[made.read.connection])
        worker = PipelineWorker(made, kafka, catalog, Path("scratch"), print)
        worker.prepare()
        worker.publish_plan(reported(pipeline, deployment))
        worker.heartbeat()
        workers.append(worker)
    while not Path(stop).exists():
        time.sleep(0.05)
    for worker in workers:
        worker.close()


if __name__ == "__main__":
    main()
