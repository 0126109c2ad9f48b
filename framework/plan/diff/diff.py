"""What differs between the deployed plan and the one that the files give now, with the keys of the file.

In: two canonical plans (`framework.plan.canonical`), the older one perhaps written by another version. Out:
PlanChanges, each with a breaking change's code if it takes something away that a person may miss
(`framework.plan.diff.breaking_changes`). Pure; what is in neither plan, such as a table's contents, is not compared.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from enum import Enum
from typing import Any

from framework.config.spec import PartitionFieldSpec, SortFieldSpec, TablePolicy, WriteMode, WritePolicy
from framework.config.units import partition_text, sort_text
from framework.plan.canonical import plain
from framework.plan.diff.breaking_changes import BreakingChange, breaking_changes, renamed_from
from framework.plan.explain import condition_text, delete_text, duration
from framework.plan.maintenance_words import unusual_words

# Where a part of the plan is found in the pipeline file, the longest prefix first.
_IN_THE_FILE = (
    ("announce.control_topic", "commit.control_topic"),
    ("announce.trigger_every_ms", "trigger.every_ms"),
    ("announce.silent_after_ms", "source.silent_after_ms"),
    ("announce.objectives.", "objectives."),
    ("announce.", ""),
    ("commit.tables.", "tables."),
    ("commit.", ""),
    ("decode.hints", "source.schema"),
    ("decode.parsed", "source.schema"),
    ("decode.format.", "source.format."),
    ("decode.", "source."),
    ("read.group_id", "group_id"),
    ("read.max_records_per_batch", "max_records_per_batch"),
    ("read.slices", "slices"),
    ("read.", "source.kafka."),
    ("route.", "routes."),
    ("write.tables.", "tables."),
    ("write.errors", "errors.policy"),
    ("write.max_error_", "errors.max_"),
    ("write.dead_letter_table", "errors.dead_letter_table"),
    ("write.", ""),
)
# Said once elsewhere, or of no meaning beyond one run.
_LEFT_OUT = (
    "pipeline",
    "target",
    "route.refused_tables",
    "route.rules",
    "route.catalogs",
    "commit.catalog",
    "commit.tables.append_only",
    "write.tables.append_only",
    "announce.transactional_id",
)
# What an older floe did before a policy had the key, so that a newer one changes nothing by having it.
_POLICY = {key: plain(value) for key, value in asdict(TablePolicy()).items()}
_HASH_SHOWN = len("sha256:") + 12
_SETTINGS = {"kafka": "connections.kafka", "catalogs": "connections.catalog"}


class ChangeKind(str, Enum):
    ADD = "add"
    CHANGE = "change"
    REMOVE = "remove"


@dataclass(frozen=True)
class PlanChange:
    """One difference: `subject` is its place in the pipeline file (or `table NAME`), values are text for people.

    `breaking` is the code that `--allow` must name, "" where none is needed; `why` is its sentence.
    """

    kind: ChangeKind
    subject: str
    before: str | None
    after: str | None
    breaking: str = ""
    why: str = ""

    def to_json(self) -> dict[str, object]:
        return {
            "kind": self.kind.value,
            "subject": self.subject,
            "before": self.before,
            "after": self.after,
            "danger": self.breaking,
            "why": self.why,
        }


def diff(before: Mapping[str, Any], after: Mapping[str, Any], has_run: bool = True) -> tuple[PlanChange, ...]:
    """What changes from one canonical value to another, in the order of the file; breaking changes last where they have no line.

    Args:
        has_run: whether the pipeline has positions; some changes break nothing before that.
    """
    changes = [*_plan_changes(before["plan"], after["plan"]), *_settings(before["settings"], after["settings"])]
    changes = [*_template(before.get("template"), after.get("template"), bool(changes)), *changes]
    for breaking in breaking_changes(before["plan"], after["plan"], has_run):
        changes = _marked(changes, breaking)
    return tuple(changes)


def _template(before: Any, after: Any, has_effect: bool) -> Iterator[PlanChange]:
    """Another template, or another version or text of it, named before what it changes. One that changes nothing is
    not worth a word, and what an older floe deployed says of none."""
    if before is None or before == after or not has_effect:
        return
    names = [f"{value['name']} {value['version']}".strip() if value else None for value in (before, after)]
    if names[0] == names[1]:
        names = [f"{name} ({value['hash'][:_HASH_SHOWN]})" for name, value in zip(names, (before, after), strict=True)]
    yield _change("template", names[0], names[1])


def _marked(changes: list[PlanChange], breaking: BreakingChange) -> list[PlanChange]:
    """The changes with the breaking change on the line that it is about, or on a line of its own."""
    for index, change in enumerate(changes):
        if (change.subject, change.before) == (breaking.subject, breaking.before) and not change.breaking:
            changes[index] = replace(change, breaking=breaking.code, why=breaking.why)
            return changes
    kind = ChangeKind.REMOVE if breaking.after is None else ChangeKind.CHANGE
    return [*changes, PlanChange(kind, breaking.subject, breaking.before, breaking.after, breaking.code, breaking.why)]


def _plan_changes(before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[PlanChange]:
    old, new = dict(_facts(before, "")), dict(_facts(after, ""))
    for key in [*new, *(key for key in old if key not in new)]:
        if old.get(key) != new.get(key):
            yield _change(key[0], old.get(key), new.get(key))
    yield from _rules(before["route"]["rules"], after["route"]["rules"])


def _change(subject: str, before: str | None, after: str | None) -> PlanChange:
    kind = ChangeKind.ADD if before is None else ChangeKind.REMOVE if after is None else ChangeKind.CHANGE
    return PlanChange(kind, subject, before, after)


def _facts(value: Any, path: str) -> Iterator[tuple[tuple[str, str], str]]:
    """Every value of the plan as ((place in the file, item), text); an item of a set is a fact of its own."""
    if path in _LEFT_OUT:
        return
    if path == "decode.hints":
        for hint in value:
            rest = ", ".join(f"{key} {item}" for key, item in hint.items() if key not in ("path", "type") and item)
            yield (f"{_place(path)}.{hint['path']}", ""), hint["type"] + (f" ({rest})" if rest else "")
    elif path == "decode.parsed":
        for parsed in value:
            yield (f"{_place(path)}.{parsed}.parse", ""), "json"
    elif path.endswith(".overrides"):
        for glob, policy in value:
            yield from _facts({**_POLICY, **policy}, f"{path}[{glob}]")
    elif path.endswith(".write") and isinstance(value, Mapping):
        yield from _write_facts(value, _place(path), path.endswith(".defaults.write"))
    elif path.endswith(".maintenance") and isinstance(value, Mapping):
        for place, text in unusual_words(value):
            yield (f"{_place(path)}.{place}", ""), text
    elif path.endswith(".partition_by"):
        yield (_place(path), ""), ", ".join(partition_text(PartitionFieldSpec(**field)) for field in value) or "none"
    elif path == "write.error_stages":
        for stage, policy in value:
            yield (f"errors.policy.{stage}", ""), policy
    elif path.endswith(".sort_by"):
        yield (_place(path), ""), ", ".join(_sorted_by(field) for field in value) or "none"
    elif path.endswith(".properties"):
        for key, text in value:
            yield (f"{_place(path)}.{key}", ""), str(text)
    elif isinstance(value, Mapping):
        for key, item in ({**_POLICY, **value} if path.endswith(".tables.defaults") else value).items():
            yield from _facts(item, f"{path}.{key}" if path else str(key))
    elif isinstance(value, list):
        for item in value:
            text = item if isinstance(item, str) else str(item)
            yield (_place(path), text), text
    elif value is not None:
        yield (_place(path).removesuffix("_ms"), ""), duration(value) if path.endswith("_ms") else _shown_value(value)


def _write_facts(write: Mapping[str, Any], place: str, is_default: bool) -> Iterator[tuple[tuple[str, str], str]]:
    """How a table is written, in the words of the file. Of append tables only the defaults' mode: no other word is in
    use."""
    if is_default or write["mode"] != WriteMode.APPEND.value:
        yield (f"{place}.mode", ""), str(write["mode"])
    if write["mode"] == WriteMode.APPEND.value:
        return
    yield (f"{place}.key", ""), ", ".join(write["key"])
    yield (f"{place}.order", ""), write["order_field"] or "source"
    if write["order_field"] is not None:
        yield (f"{place}.order.remember_deletes", ""), duration(write["remember_deletes_ms"])
    if write["delete_when"] is not None:
        yield (f"{place}.delete_when", ""), delete_text(write["delete_when"])
    yield (f"{place}.deletes", ""), str(write["deletes"])
    yield (f"{place}.key_index", ""), str(write["key_index"])
    yield (f"{place}.unavailable", ""), str(write.get("unavailable", WritePolicy.unavailable.value))
    yield (f"{place}.updates", ""), str(write.get("updates", WritePolicy.updates.value))
    if write["history"] is not None:
        yield (f"{place}.history", ""), str(write["history"])


def _sorted_by(field: Mapping[str, Any]) -> str:
    return sort_text(SortFieldSpec(**{**field, "by": PartitionFieldSpec(**field["by"])}))


def _place(path: str) -> str:
    for inside, outside in _IN_THE_FILE:
        if path.startswith(inside):
            return outside + path[len(inside) :]
    return path


def _shown_value(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return f"{value:,}" if isinstance(value, int) else " ".join(str(value).split())


def _rules(before: list[dict[str, Any]], after: list[dict[str, Any]]) -> Iterator[PlanChange]:
    """Rules by their table: one that has another condition now is changed, not removed and added."""
    old, new = [rule_text(rule) for rule in before], [rule_text(rule) for rule in after]
    gone = [rule for rule in before if rule_text(rule) not in new]
    come = [rule for rule in after if rule_text(rule) not in old]
    for rule in gone:
        twin = next((other for other in come if other["table"] == rule["table"]), None)
        if twin is not None:
            come.remove(twin)
        yield _change("routes.rules", rule_text(rule), rule_text(twin) if twin else None)
    for rule in come:
        yield _change("routes.rules", None, rule_text(rule))
    if not gone and not come and old != new:
        yield PlanChange(ChangeKind.CHANGE, "routes.rules (order)", "; ".join(old), "; ".join(new))


def rule_text(rule: Mapping[str, Any]) -> str:
    """A rule of a canonical plan in one line."""
    return f"{rule['table']} when {condition_text(rule['when'])}"


def _settings(before: Mapping[str, str], after: Mapping[str, str]) -> Iterator[PlanChange]:
    for key in sorted({*before, *after}):
        if before.get(key) != after.get(key):
            place = _SETTINGS.get(key, key.replace("spark_", "spark."))
            yield PlanChange(ChangeKind.CHANGE, f"target {place}", None, None)


def changes_of_new(
    after: Mapping[str, Any], deployed: Sequence[Mapping[str, Any]], held: Collection[str] = ()
) -> tuple[PlanChange, ...]:
    """The one change that a pipeline without a history can bring: that it is a deployed one under another name.

    Args:
        deployed: the canonical values of the pipelines that were deployed on the same control topic.
        held: the names of the pipelines that the files hold.
    """
    breaking = renamed_from(after["plan"], [value["plan"] for value in deployed], held)
    return tuple(_marked([], breaking)) if breaking else ()
