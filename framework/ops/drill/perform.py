"""Runs drills one after another, cleans up behind each, and keeps their results where the whole team finds them.

In: a world and the drills that are asked for. Out: a dated result of each, also as a record of the topic of results. What fails
or raises is a result, too; only a result that cannot be kept ends the command.
"""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from framework import __version__
from framework.adapters.kafka import small_topics
from framework.errors import FloeError
from framework.ops.drill.model import Drill, DrillNames, DrillResult, again, result_of, results_topic
from framework.ops.drill.scratch_world import DrillWorld
from framework.ops.drill.steps import STEPS, DrillFailed, Scene

_FOR_EVER = {"retention.ms": "-1", "retention.bytes": "-1", "cleanup.policy": "delete"}
_WRONG = "FLOE-R191"


def perform(world: DrillWorld, drills: Sequence[Drill], by: str, say: Callable[[str], None]) -> Iterator[DrillResult]:
    """Each drill's result as soon as it is kept.

    Raises:
        FloeError: the broker does not answer, or keeps no result.
    """
    world.admin.check()
    if left := world.remove_left():
        say(f"cannot be removed, and is of a drill that was killed: {', '.join(left)}")
    topic = results_topic(world.target.prefix)
    small_topics.ensure_topic(world.admin, topic, 1, _FOR_EVER)
    for drill in drills:
        say(drill.value)
        result = _one(world, drill, by, say)
        small_topics.write(world.kafka, topic, [(0, json.dumps(result.to_json()).encode())])
        yield result


def kept_results(world: DrillWorld) -> list[DrillResult]:
    """All results of the target's prefix, oldest first."""
    values = small_topics.read_all(world.kafka, results_topic(world.target.prefix))
    return [result for value in values if (result := result_of(value)) is not None]


def _one(world: DrillWorld, drill: Drill, by: str, say: Callable[[str], None]) -> DrillResult:
    began, names = time.time(), world.new_names()
    seen: list[str] = []
    rows, trouble = 0, ("", "", "")
    with tempfile.TemporaryDirectory(prefix="floe-drill-") as folder:
        scene = Scene(world, names, Path(folder), lambda text: say(f"  {text}"), seen)
        try:
            world.make(names)
            with scene.stack:
                STEPS[drill](scene)
            judged = scene.judged()
            rows = judged.rows
            scene.note(str(judged))
            if not judged.is_exact:
                trouble = _failed(str(judged), drill)
        except DrillFailed as failed:
            trouble = _failed(str(failed), drill)
        except FloeError as error:
            trouble = (error.message, error.code, error.remedy)
        except Exception as error:  # a catalog's own exceptions: the drill has a result, and is cleaned up behind
            trouble = _failed(f"{type(error).__name__}: {error}", drill)
        finally:
            stays = _removed(world, names)
    if stays:  # what was tried has passed or failed all the same: some clusters let nobody delete topics
        scene.note(f"could not be removed: {', '.join(stays)}; `floe drill --clean` tries again")
    seconds, now_ms = round(time.time() - began, 1), int(time.time() * 1000)
    place = (world.target.name, world.catalog)
    return DrillResult(drill, *place, now_ms, seconds, rows, tuple(seen), by, __version__, *trouble)


def _failed(problem: str, drill: Drill) -> tuple[str, str, str]:
    return problem, _WRONG, again(drill)


def _removed(world: DrillWorld, names: DrillNames) -> list[str]:
    try:
        return world.remove(names)
    except FloeError as error:
        return [f"{names.topic} ({error.message})"]
