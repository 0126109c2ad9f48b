"""What will run, as one canonical JSON value and its hash: this is what people review, and what a run announces when it
starts.

In: loaded pipelines. Out: plain values with the plan's steps and a digest of each section of the target's settings, and
one `sha256:` over them. It contains no secrets, addresses, times or file locations: moving files does not change the
hash, and everything that changes what runs does.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from enum import Enum

from pydantic import TypeAdapter

from framework.config.spec import (
    MAX_RECORD_BYTES,
    FieldHint,
    FormatSpec,
    LoadedPipeline,
    MonitoringSpec,
    TargetSpec,
    WritePolicy,
)
from framework.config.values.maintenance import MaintenancePolicy
from framework.config.values.objectives import NO_OBJECTIVES
from framework.config.values.owners import NOBODY
from framework.plan.compile import compile_plan
from framework.plan.model import Plan, Step

Canonical = dict[str, object]

_TARGET = TypeAdapter(TargetSpec)
# The name and the prefix are in the plan; where this machine keeps its state, and what a file might have said, changes
# nothing of what runs. Nor does who is notified, what readiness asks of drills, or where the control log is kept. Limits of
# maintenance hold for coordinators, whichever pipelines they serve.
_NOT_SETTINGS = (
    "name",
    "prefix",
    "state_dir",
    "allow_locations",
    "allow_properties",
    "allow_environment",
    "allow_dead_letters_on_page",
    "maintenance",
    "lineage",
    "drills_max_age_ms",
    "log_archive",
)
_DIGEST_LENGTH = 16
_NOT_HASHED = ("template", "owners")


def canonical(pipeline: LoadedPipeline) -> Canonical:
    """One pipeline under one target: its plan, digests of the target's settings, its owners, and the template that it
    is made with. Owners and template are no part of the hash: the plan holds all that it does."""
    value: Canonical = {"plan": plan_value(compile_plan(pipeline)), "settings": settings_digests(pipeline.target)}
    if pipeline.spec.owners != NOBODY:
        value["owners"] = pipeline.spec.owners.to_json()
    return value if pipeline.template is None else {**value, "template": asdict(pipeline.template)}


def plan_value(plan: Plan) -> dict[str, object]:
    """The plan as JSON values, without the path that is shown to people only."""
    value = step_value(plan)
    del value["source_file"], value["coordinator_group"]
    return {**value, "commit": step_value(plan.commit)}


def step_value(step: Plan | Step) -> dict[str, object]:
    """A step as JSON values. What is said of upsert tables and of maintenance is left out where nothing is said, so that
    such a file has the value and the hash that it had before these words existed."""
    said = {key: item for key, item in asdict(step).items() if key not in _SAID_ELSEWHERE}
    return {key: _without_unused(plain(item)) for key, item in said.items()}


def _without_unused(value: object) -> object:
    if isinstance(value, list):
        return [_without_unused(item) for item in value]
    if not isinstance(value, dict):
        return value
    used = {key: item for key, item in value.items() if _UNUSED.get(key, _USED) != item and key not in _SAID_ELSEWHERE}
    if used.get("order_field", _USED) is None:  # of a table by the order of its source, which remembers no deletes
        used.pop("remember_deletes_ms", None)
    return {key: _without_unused(item) for key, item in used.items()}


def settings_digests(target: TargetSpec) -> dict[str, str]:
    """A digest of each section of the target's settings, with secrets as references: shows which one changed, not
    how."""
    dumped = _TARGET.dump_python(target, mode="json")
    if target.monitoring == MonitoringSpec():  # so that a target without it has the digests that it had before
        del dumped["monitoring"]
    elif not target.monitoring.names:
        del dumped["monitoring"]["names"]
    return {
        key: hashlib.sha256(_compact(value).encode()).hexdigest()[:_DIGEST_LENGTH]
        for key, value in sorted(dumped.items())
        if key not in _NOT_SETTINGS
    }


def plan_hash(pipelines: Sequence[LoadedPipeline]) -> str:
    """`sha256:` and the hash of what will run."""
    return hash_of([canonical(pipeline) for pipeline in pipelines])


def hash_of(value: Sequence[Mapping[str, object]]) -> str:
    """The hash of canonical values that were made before."""
    values = [{key: item for key, item in each.items() if key not in _NOT_HASHED} for each in value]
    return f"sha256:{hashlib.sha256(_compact(values).encode()).hexdigest()}"


def plain(value: object) -> object:
    """Frozen values as JSON values: enums as their text, tuples as lists."""
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    return value


_USED = object()
# What `write` says of the dead-letter table, as routing needs it, and what is known while running alone.
_SAID_ELSEWHERE = ("not_for_records", "owned_by_others", "owners")
_UNUSED: dict[str, object] = {
    "write": plain(asdict(WritePolicy())),
    "append_only": [],
    "max_record_bytes": MAX_RECORD_BYTES,
    "histories": [],
    "maintenance": plain(asdict(MaintenancePolicy())),
    "unavailable": WritePolicy.unavailable.value,
    "updates": WritePolicy.updates.value,
    "on_extra_precision": FieldHint.on_extra_precision.value,
    "infinity": FieldHint.infinity.value,
    "silent_after_ms": None,
    "objectives": plain(asdict(NO_OBJECTIVES)),
    "one_of": [],
    "envelope_fields": [],
    "explode": None,
    "envelope_paths": None,
    "parsed": [],
    "on_truncate": FormatSpec.on_truncate.value,
    "exists": None,
    "negated": None,
    "all_of": [],
}


def first_difference(one: object, other: object) -> str:
    """Where two JSON values differ first, with both values in one line; empty when they are the same."""
    return next(_differences(one, other, ""), "")


def _differences(one: object, other: object, path: str) -> Iterator[str]:
    if isinstance(one, dict) and isinstance(other, dict):
        for key in [*one, *(key for key in other if key not in one)]:
            yield from _differences(one.get(key), other.get(key), f"{path}.{key}" if path else str(key))
    elif isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        for index, (before, after) in enumerate(zip(one, other, strict=True)):
            yield from _differences(before, after, f"{path}[{index}]")
    elif _compact(one) != _compact(other):  # 1, 1.0 and true are equal to Python, and not the same here
        yield f"{path}: {_shown(one)} -> {_shown(other)}"


def _shown(value: object) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 120 else f"{text[:117]}..."


def _compact(value: object) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"))
