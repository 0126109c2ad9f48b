"""Dangerous changes, which a person must allow: each has a code and a sentence, and is allowed with `--allow CODE`.

In: the deployed and the new canonical plan. Out: BreakingChanges. A breaking change loses or repeats something without an
error: rows that go nowhere, records that are skipped, a second reading from the start. What a run itself refuses is not a
breaking change.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

from framework.config.names.table_names import DEFAULT_CATALOG, identifier_of, reachable, template_glob
from framework.plan.explain import condition_text, duration

RAISED_BY = 10


@dataclass(frozen=True)
class BreakingChange:
    """`subject` and the values say which line of a diff it is about; `why` is one sentence for a person."""

    code: str
    subject: str
    before: str | None
    after: str | None
    why: str


Value = Mapping[str, Any]
Rule = Callable[[Value, Value, bool], Iterator[BreakingChange]]


def breaking_changes(before: Value, after: Value, has_run: bool) -> list[BreakingChange]:
    """All breaking changes of going from one plan to another, in the order of their codes."""
    found = [breaking for rule in _RULES for breaking in rule(before, after, has_run)]
    return sorted(found, key=lambda breaking: breaking.code)


def _routes(before: Value, after: Value, has_run: bool) -> Iterator[BreakingChange]:
    old, new = _rules(before), _rules(after)
    kept = {table for table, _ in new}
    # A rule with another condition is a change, and each new rule can stand for one old one only.
    spare = [table for table, when in new if (table, when) not in old]
    for table, when in old:
        if (table, when) in new:
            continue
        if table in spare:
            spare.remove(table)
        elif table in kept:
            why = f"records that this rule sent to {table} go wherever the remaining rules send them"
            yield BreakingChange("FLOE-P101", "routes.rules", f"{table} when {when}", None, why)
    for table in dict.fromkeys(table for table, _ in old if table not in kept):
        why = f"nothing more is written to {table}; what is announced for it is still committed, and it is not dropped"
        yield BreakingChange("FLOE-P102", f"table {table}", "written", "not written", why)


def _interval(before: Value, after: Value, has_run: bool) -> Iterator[BreakingChange]:
    reported: set[tuple[int, int]] = set()
    for subject, old, new in _intervals(before, after):
        if old and new >= RAISED_BY * old and (old, new) not in reported:
            reported.add((old, new))
            why = f"readers see new rows up to {duration(new)} late, {new // old} times as late as now"
            yield BreakingChange("FLOE-P103", subject, duration(old), duration(new), why)


def _intervals(before: Value, after: Value) -> Iterator[tuple[str, int, int]]:
    """The interval of the defaults, and of each table that both plans write, by the policy that applies to it."""
    old, new = before["write"]["tables"], after["write"]["tables"]
    yield (
        "tables.defaults.commit.interval",
        old["defaults"]["commit"]["interval_ms"],
        new["defaults"]["commit"]["interval_ms"],
    )
    for table in sorted({table for table, _ in _rules(before)} & {table for table, _ in _rules(after)}):
        (_, was), (glob, now) = _policy(old, table), _policy(new, table)
        place = f"tables.overrides[{glob}].commit.interval" if glob else "tables.defaults.commit.interval"
        yield place, was["commit"]["interval_ms"], now["commit"]["interval_ms"]


def _policy(tables: Value, table: str) -> tuple[str, Value]:
    for glob, policy in tables["overrides"]:
        if fnmatchcase(template_glob(table), glob):
            return glob, policy
    return "", tables["defaults"]


def _starting_offsets(before: Value, after: Value, has_run: bool) -> Iterator[BreakingChange]:
    old, new = before["read"]["starting_offsets"], after["read"]["starting_offsets"]
    if has_run and old != new:
        why = "the pipeline has run and goes on at its safe offsets, so this only misleads whoever reads the file"
        yield BreakingChange("FLOE-P104", "source.kafka.starting_offsets", old, new, why)


def _data_loss(before: Value, after: Value, has_run: bool) -> Iterator[BreakingChange]:
    old, new = before["read"]["on_data_loss"], after["read"]["on_data_loss"]
    if old == "fail" != new:
        why = "records that retention removed before they were read are skipped instead of stopping the pipeline"
        yield BreakingChange("FLOE-P105", "source.kafka.on_data_loss", old, new, why)


def _drops(before: Value, after: Value, has_run: bool) -> Iterator[BreakingChange]:
    why = "such records are only counted; their bytes are not kept"
    stages = {stage for plan in (before, after) for stage, _ in plan["write"].get("error_stages", ())}
    for place, old, new in (
        ("errors.policy", before["write"]["errors"], after["write"]["errors"]),
        *((f"errors.policy.{stage}", _at(before, stage), _at(after, stage)) for stage in sorted(stages)),
        ("routes.unrouted", before["route"]["unrouted"], after["route"]["unrouted"]),
    ):
        if old != "drop" == new:
            yield BreakingChange("FLOE-P106", place, old, new, why)


def _at(plan: Value, stage: str) -> str:
    """What becomes of a record that fails at a stage: its own policy, or that of all."""
    return str(dict(plan["write"].get("error_stages", ())).get(stage, plan["write"]["errors"]))


def _group(before: Value, after: Value, has_run: bool) -> Iterator[BreakingChange]:
    old, new = before["read"]["group_id"], after["read"]["group_id"]
    if has_run and old != new:
        yield BreakingChange("FLOE-P107", "group_id", old, new, _ANEW.format(start=after["read"]["starting_offsets"]))


def _catalogs(before: Value, after: Value, has_run: bool) -> Iterator[BreakingChange]:
    """Where the tables live that both plans write; dead letters, too."""
    old, new = before["write"], after["write"]
    names = {table for table, _ in _rules(before)} & {table for table, _ in _rules(after)}
    dead_letters = [identifier_of(plan["dead_letter_table"] or "") for plan in (old, new)]
    names |= {dead_letters[0]} if dead_letters[0] and dead_letters[0] == dead_letters[1] else set()
    for table in sorted(names):
        was, now = (_places(plan["tables"], table) for plan in (old, new))
        if was != now:
            why = "new rows go to a table there; the old table stays as it is and gets no more rows"
            if table in dead_letters:
                why += "; `floe dlq` reads the new one, so first replay what waits in the old one"
            yield BreakingChange("FLOE-P109", f"table {table}", f"in catalog {was}", f"in catalog {now}", why)


def _writes(before: Value, after: Value, has_run: bool) -> Iterator[BreakingChange]:
    """How the tables are written that both plans write: their mode, and the key of upsert tables."""
    old, new = before["write"]["tables"], after["write"]["tables"]
    reported: set[tuple[str, str]] = set()
    for table in sorted({table for table, _ in _rules(before)} & {table for table, _ in _rules(after)}):
        (_, was), (glob, now) = _policy(old, table), _policy(new, table)
        was_mode, now_mode = (policy.get("write", {}).get("mode", "append") for policy in (was, now))
        place = f"tables.overrides[{glob}].write" if glob else "tables.defaults.write"
        code = "FLOE-P110" if was_mode != now_mode else "FLOE-P111"
        if (code, place) in reported:
            continue
        if was_mode != now_mode:
            reported.add((code, place))
            # An override's line says nothing of a mode that it did not have.
            before_it = None if glob and was_mode == "append" else was_mode
            yield BreakingChange(code, f"{place}.mode", before_it, now_mode, _MODES[now_mode])
        elif now_mode == "upsert" and _key(was) != _key(now):
            reported.add((code, place))
            why = "rows that are there are unique by the old key; two that are one by the new key block the table"
            yield BreakingChange(code, f"{place}.key", _key(was), _key(now), why)
        elif now_mode == "upsert" and _order(was) != _order(now) and ("FLOE-P112", place) not in reported:
            reported.add(("FLOE-P112", place))
            yield BreakingChange(
                "FLOE-P112", f"{place}.order", _order(was), _order(now), _orders(_order(was), _order(now))
            )


def _key(policy: Value) -> str:
    return ", ".join(policy["write"]["key"])


def _order(policy: Value) -> str:
    return policy["write"]["order_field"] or _SOURCE


def _orders(was: str, now: str) -> str:
    if now == _SOURCE:
        return "from now on the later record replaces a row, also one with an older value; deleted keys are forgotten"
    if was == _SOURCE:
        return f"rows are compared by {now} from now on; keys that were deleted before are not remembered"
    return f"the deleted keys that the table remembers are ordered by {was}, and block it until it forgets them"


_SOURCE = "source"
_MODES = {
    "upsert": "records replace and delete rows that are there; two rows of one key that are there block the table",
    "append": "records no longer replace rows: each one is a further row of its key, and none is deleted",
}


def _places(tables: Value, table: str) -> str:
    """The catalog that a table lives in; several, with their patterns, where its name comes from the record."""
    catalogs = tuple((glob, policy.get("catalog", DEFAULT_CATALOG)) for glob, policy in tables["overrides"])
    catalogs += (("*", tables["defaults"].get("catalog", DEFAULT_CATALOG)),)
    fold = str if tables["defaults"].get("case") == "sensitive" else str.lower
    found = reachable(template_glob(table), catalogs, fold)
    *some, (_, rest) = found
    return ", ".join([*(f"{catalog} for {glob}" for glob, catalog in some), f"else {rest}" if some else rest])


_ANEW = (
    "a new name or prefix is a new consumer group: it starts at {start}, and rows that are already in the tables are "
    "written again; first stop the other one for good"
)
_RULES: tuple[Rule, ...] = (_routes, _interval, _starting_offsets, _data_loss, _drops, _group, _catalogs, _writes)


def renamed_from(new: Value, others: Sequence[Value], held: Collection[str] = ()) -> BreakingChange | None:
    """A pipeline that never ran and does what a deployed one of another name does: the same topics into a same table,
    or, where no file holds the other any longer, some of the same topics.

    Args:
        others: the deployed plans of other pipelines on the same control topic.
        held: the names of the pipelines that the files hold.
    """
    tables = {table for table, _ in _rules(new)}
    candidates = [
        other
        for other in others
        if other["pipeline"] != new["pipeline"] and tables & {table for table, _ in _rules(other)}
    ]
    # The one that reads just the same is meant, where there is one.
    found = [other for other in candidates if _topics(new) == _topics(other)]
    found += [other for other in candidates if other["pipeline"] not in held and _share_topics(new, other)]
    if not found:
        return None
    why = _ANEW.format(start=new["read"]["starting_offsets"])
    return BreakingChange("FLOE-P107", "metadata.name", found[0]["pipeline"], new["pipeline"], why)


def _topics(plan: Value) -> tuple[list[str], str | None, str]:
    read = plan["read"]
    return sorted(read["topics"]), read["topic_pattern"], read["connection"]


def _share_topics(one: Value, other: Value) -> bool:
    """Whether both read a topic that one of them names; of two patterns, whether they are the same."""
    (topics, pattern, connection), (topics_2, pattern_2, connection_2) = _topics(one), _topics(other)
    if connection != connection_2:
        return False
    if pattern and pattern == pattern_2:
        return True
    named = set(topics) & set(topics_2)
    return bool(named or _matched(pattern, topics_2) or _matched(pattern_2, topics))


def _matched(pattern: str | None, topics: Sequence[str]) -> bool:
    return pattern is not None and any(re.search(pattern, topic) for topic in topics)


def _rules(plan: Value) -> list[tuple[str, str]]:
    return [(rule["table"], condition_text(rule["when"])) for rule in plan["route"]["rules"]]
