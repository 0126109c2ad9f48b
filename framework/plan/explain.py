"""Turns a plan into text and JSON. It shows exactly the list of steps that `floe run` executes, in its order.

Pure: no colours, no terminal; `framework.cli.check.plan` prints what comes out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import cast

from framework.config.names.metadata import metadata_column
from framework.config.spec import (
    RECORD_LINES,
    WHOLE_RECORD,
    DistributionMode,
    Envelope,
    EvolveMode,
    EvolvePolicy,
    ExtraPrecision,
    FieldHint,
    FormatSpec,
    FormatType,
    InfiniteTimes,
    KeyIndexUse,
    RouteCondition,
    TablePolicy,
    ValuesPolicy,
    WritePolicy,
)
from framework.config.units import partition_text, sort_text
from framework.config.values.maintenance import MaintenancePolicy
from framework.plan.canonical import step_value
from framework.plan.maintenance_words import unusual_words
from framework.plan.model import (
    Announce,
    CommitTables,
    Decode,
    Plan,
    ReadKafka,
    Route,
    Step,
    Transform,
    WriteFiles,
)
from framework.plan.pace import pace_rules


def plan_to_json(plan: Plan) -> dict[str, object]:
    """The plan as JSON values; `steps` is the list that runs."""
    return {
        "pipeline": plan.pipeline,
        "target": plan.target,
        "file": plan.source_file,
        "steps": [{"step": type(step).__name__, **step_value(step)} for step in plan.steps],
    }


def explain_plan(plan: Plan) -> list[tuple[str, list[str]]]:
    """Each step as a title and its lines."""
    return [(type(step).__name__, _lines(step, plan)) for step in plan.steps]


def _lines(step: Step, plan: Plan) -> list[str]:
    if isinstance(step, ReadKafka):
        topics = ", ".join(step.topics) or f"every topic that matches {step.topic_pattern}"
        rules = pace_rules(plan)
        grown = f", or up to {rules.most_records:,} while there is a backlog" if plan.may_grow_batches else ""
        return [
            f"topics {topics} through connection {step.connection}",
            f"safe offsets in group {step.group_id}; a first run starts at {step.starting_offsets}",
            f"at most {rules.max_records:,} records a batch{grown}; in up to {step.slices} tasks",
        ]
    if isinstance(step, Decode):
        lines = [f"{_format(step.format)}, blocks of {step.block_records:,} records, larger ones from 250 tables on"]
        if step.key is not None:
            lines.append(f"keys: {_format(step.key.format)}, as columns {step.key.prefix}*")
        lines += [f"{hint.path}: {hint.type}{_hint_detail(hint)}" for hint in step.hints]
        lines += [f"{path}: text that is parsed as JSON" for path in step.parsed]
        if step.metadata_columns:
            lines.append("columns from Kafka: " + ", ".join(map(metadata_column, step.metadata_columns)))
        return lines
    if isinstance(step, Transform):
        return [line.strip() for line in step.sql.strip().splitlines()]
    if isinstance(step, Route):
        lines = [f"{rule.table}  when {condition_text(rule.when)}" for rule in step.rules]
        return [
            f"{step.mode.value}:",
            *lines,
            f"unrouted records: {step.unrouted.value}",
            f"only into: {', '.join(step.allow_tables) or 'the tables named above'}",
        ]
    if isinstance(step, WriteFiles):
        lines = [f"{glob}: {_policy(policy)}" for glob, policy in step.tables.overrides]
        lines.append(f"{'other tables' if lines else 'tables'}: {_policy(step.tables.defaults)}")
        lines += [f"{name}: rows are added, each dead letter is one" for name in step.tables.append_only]
        dead = f" in {step.dead_letter_table}" if step.dead_letter_table else ""
        dead += f" and topic {step.dead_letter_topic}" if step.dead_letter_topic else ""
        stages = "".join(f"; at {stage}: {policy.value}" for stage, policy in step.error_stages)
        return [*lines, f"records that cannot be written: {step.errors.value}{dead}{stages}"]
    if isinstance(step, Announce):
        return [
            f"one transaction a batch on {step.control_topic}, as {step.transactional_id}",
            f"a batch every {duration(step.trigger_every_ms)}, sooner when a full one waits",
            *(["one batch at a time: the next is read when this one is in its tables"] if plan.is_upserted else []),
            *([f"at risk after {duration(step.silent_after_ms)} without a record"] if step.silent_after_ms else []),
            *(f"measured objective {objective.value}: {text}" for objective, text in step.objectives.wanted.items()),
        ]
    return _commit_lines(step)


def _commit_lines(step: CommitTables) -> list[str]:
    lines = [
        f"{glob}: every {duration(policy.commit.interval_ms)}"
        + (f" on branch {policy.commit.branch}" if policy.commit.branch != step.tables.defaults.commit.branch else "")
        + (f", catalog {policy.catalog}" if policy.catalog != step.catalog else "")
        for glob, policy in step.tables.overrides
    ]
    default = step.tables.defaults.commit
    lines.append(
        f"{'other tables' if lines else 'tables'}: every {duration(default.interval_ms)} on branch {default.branch}"
    )
    return [f"coordinator group {step.coordinator_group}, catalog {step.catalog}", *lines]


def _format(spec: FormatSpec) -> str:
    """A format in words: `avro with schemas of registry main`."""
    parts = [spec.type.value]
    if spec.registry is not None:
        parts.append(f"with schemas of registry {spec.registry}")
    if spec.schema is not None:
        parts.append("read with the file's schema" if spec.registry else "with the file's schema")
    if spec.message is not None:
        parts.append(f"of message {spec.message}")
    if spec.envelope is Envelope.DEBEZIUM:
        parts.append("in Debezium's envelope")
    if (paths := spec.envelope_paths) is not None:
        parts.append(f"in an envelope with the operation at {paths.operation} and the row at {paths.after}")
    if spec.explode is not None:
        what = {WHOLE_RECORD: "the record", RECORD_LINES: "the record's lines"}.get(spec.explode, spec.explode)
        parts.append(f"with a row for each element of {what}")
    if spec.type is FormatType.RAW:
        parts.append(f"{spec.encoding.value} in column {spec.column}")
    return " ".join(parts)


def _hint_detail(hint: FieldHint) -> str:
    parts = [
        f"format {hint.format}" if hint.format else "",
        f"unit {hint.unit}" if hint.unit else "",
        f"zone {hint.zone}" if hint.zone else "",
        "digits beyond it are cut off" if hint.on_extra_precision is ExtraPrecision.TRUNCATE else "",
        "infinity is null" if hint.infinity is InfiniteTimes.NULL else "",
    ]
    text = ", ".join(part for part in parts if part)
    return f" ({text})" if text else ""


def condition_text(when: Mapping[str, object] | RouteCondition | None) -> str:
    """A rule's condition in words, also as a canonical plan holds it."""
    if isinstance(when, RouteCondition):
        when = asdict(when)
    if when is None:
        return "always"
    parts = [] if when.get("topic") is None else [f"the topic matches {when['topic']}"]
    if when.get("matches") is not None:
        parts.append(f"{when['field']} matches {when['matches']}")
    if when.get("equals") is not None:
        parts.append(f"{when['field']} = {when['equals']!r}")
    if one_of := when.get("one_of"):
        parts.append(f"{when['field']} is one of {', '.join(map(repr, cast('Sequence[object]', one_of)))}")
    if when.get("exists") is not None:
        parts.append(f"{when['field']} {'is there' if when['exists'] else 'is not there'}")
    inner = cast("Sequence[Mapping[str, object]]", when.get("all_of") or ())
    parts += [condition_text(each) for each in inner]
    if negated := when.get("negated"):
        parts.append(f"not ({condition_text(cast('Mapping[str, object]', negated))})")
    if parts:
        return " and ".join(parts)
    # A kind of condition that this version does not know: all that it says.
    return ", ".join(f"{key} {value}" for key, value in when.items() if value is not None)


def _policy(policy: TablePolicy) -> str:
    create = "created when missing" if policy.create.enabled else "never created"
    made = (
        (", partitioned by ", [partition_text(field) for field in policy.create.partition_by]),
        (", sorted by ", [sort_text(field) for field in policy.create.sort_by]),
        (", rows identified by ", policy.create.identifier_fields),
        (", at ", [policy.create.location] if policy.create.location else []),
    )
    create += "".join(f"{said}{', '.join(values)}" for said, values in made if values)
    evolve = policy.evolve
    limits = (("only", evolve.include), ("never", evolve.exclude))
    paths = "".join(f", {name} {' '.join(globs)}" for name, globs in limits if globs)
    paths += f", {evolve.max_columns} at most" if evolve.max_columns != EvolvePolicy.max_columns else ""
    otherwise = f", otherwise {evolve.otherwise.value}" if evolve.otherwise is not EvolveMode.FREEZE else ""
    otherwise += f", names {evolve.names.value}" if evolve.names is not EvolvePolicy.names else ""
    return (
        f"{create}; columns {evolve.columns.value}{paths}, "
        f"data_type {evolve.data_type.value}, nullability {evolve.nullability.value}{otherwise}, case {policy.case.value}"
        + _values(policy.values)
        + _write(policy.write)
        + (f", distribution {policy.distribution.value}" if policy.distribution is not DistributionMode.NONE else "")
        + _maintenance(policy.maintenance)
    )


def _maintenance(policy: MaintenancePolicy) -> str:
    """What of the policy is not as it is without being said."""
    return "".join(f", maintenance {place} {text}" for place, text in unusual_words(asdict(policy)))


def _values(values: ValuesPolicy) -> str:
    """What of the policy is not as it is without being said."""
    said = (
        f", {name} {word.value}"
        for name, word, usual in (
            ("whole numbers", values.whole_numbers, ValuesPolicy.whole_numbers),
            ("text as number", values.text_as_number, ValuesPolicy.text_as_number),
            ("empty values", values.empty, ValuesPolicy.empty),
        )
        if word is not usual
    )
    return "".join(said)


def _write(write: WritePolicy) -> str:
    """Nothing of a table whose rows are just added."""
    if not write.is_upsert:
        return ""
    parts = [f"upserted by {', '.join(write.key)}"]
    if write.order_field:
        remembered = duration(write.remember_deletes_ms)
        parts += [f"the larger {write.order_field} is newer", f"deleted keys are remembered for {remembered}"]
    else:
        parts.append("the later record is newer")
    if write.delete_when is not None:
        parts.append(f"deleted when {delete_text(asdict(write.delete_when))}")
    parts.append(f"deletes {write.deletes.value}")
    if write.key_index is not KeyIndexUse.AUTO:
        parts.append(f"key index {write.key_index.value}")
    if write.unavailable is not WritePolicy.unavailable:
        parts.append(f"unavailable values {write.unavailable.value}")
    if write.updates is not WritePolicy.updates:
        parts.append(f"{write.updates.value} updates")
    if write.history:
        parts.append(f"every change in {write.history}")
    return f"; {', '.join(parts)}"


def delete_text(delete_when: Mapping[str, object]) -> str:
    """What deletes a row, in words: `op = 'd'`, or a tombstone."""
    field = delete_when["field"]
    return "the record is a tombstone" if field is None else f"{field} = {delete_when['equals']!r}"


def duration(milliseconds: int) -> str:
    """`180000` as `3m`: the largest unit that divides it."""
    for unit, size in (("h", 3_600_000), ("m", 60_000), ("s", 1_000)):
        if milliseconds and milliseconds % size == 0:
            return f"{milliseconds // size}{unit}"
    return f"{milliseconds}ms"
