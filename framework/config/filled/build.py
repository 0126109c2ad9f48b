"""Builds the frozen spec from a checked tree. In: the plain values of a tree without findings. Out: a `PipelineSpec`.

Every default is that of the dataclasses in `framework.config.spec`; a test keeps the schema's `default`s equal to them.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from typing import Any

from framework.config.names.table_names import is_name, matches_glob, template_glob
from framework.config.spec import (
    CommitPolicy,
    CreatePolicy,
    Deletes,
    DeleteWhen,
    DistributionMode,
    EmptyValues,
    Encoding,
    Envelope,
    ErrorPolicy,
    ErrorsSpec,
    EvolvePolicy,
    ExtraPrecision,
    FieldHint,
    FormatSpec,
    FormatType,
    HistoryTable,
    InfiniteTimes,
    KafkaSourceSpec,
    KeyIndexUse,
    KeySpec,
    NameCase,
    PipelineSpec,
    RouteCondition,
    RouteMode,
    RouteRule,
    RoutesSpec,
    SourceSpec,
    TablePolicy,
    TablesSpec,
    TestSpec,
    TextAsNumber,
    Truncates,
    UnavailableValues,
    Updates,
    ValuesPolicy,
    WholeNumbers,
    WriteMode,
    WritePolicy,
)
from framework.config.units import (
    duration_ms,
    partition_field,
    plain_partition,
    setting_text,
    size_bytes,
    sort_field,
    unquoted,
)
from framework.config.values.envelopes import ENVELOPES, envelope_paths
from framework.config.values.evolution import EVOLVE_SHORTHANDS, evolve_mode
from framework.config.values.maintenance import (
    CompactionPolicy,
    ExpirePolicy,
    MaintenanceMode,
    MaintenancePolicy,
    ManifestsPolicy,
    OrphansPolicy,
)
from framework.config.values.objectives import Objectives
from framework.config.values.owners import owners_in
from framework.config.values.type_text import structure, text_of

_POLICIES: dict[str, TablePolicy] = {}  # by what is written
_MOST_POLICIES = 256
# What most tables have: values are frozen, so one does for all.
_AS_IT_COMES, _APPENDED, _NOT_MAINTAINED = ValuesPolicy(), WritePolicy(), MaintenancePolicy()

Values = dict[str, Any]  # a checked document: the one place where untyped values are taken apart


def build_pipeline(document: Values) -> PipelineSpec:
    """The spec of a document that has passed the schema and the rules."""
    metadata = document["metadata"]
    every = document.get("trigger", {}).get("every", "auto")
    commit = document.get("commit", {})
    routes = _routes(document["routes"])
    return PipelineSpec(
        name=metadata["name"],
        owners=owners_in(document.get("owners")),
        objectives=_objectives(document.get("objectives", {})),
        description=metadata.get("description"),
        source=_source(document["source"]),
        transform_sql=document.get("transform", {}).get("sql"),
        routes=routes,
        tables=_with_histories(
            _appended(_tables(document.get("tables", {})), document.get("errors", {}).get("dead_letter_table")),
            routes.rules,
        ),
        errors=_errors(document.get("errors", {})),
        control_topic=commit.get("control_topic", PipelineSpec.control_topic),
        max_waiting_batches=int(commit.get("max_waiting_batches", PipelineSpec.max_waiting_batches)),
        max_waiting_bytes=size_bytes(commit.get("max_waiting_bytes", "")) or PipelineSpec.max_waiting_bytes,
        trigger_every_ms=None if every == "auto" else _duration(every),
        tests=tuple(TestSpec(test["name"], tuple(test["input"]), test["expect"]) for test in document.get("tests", [])),
    )


def _objectives(values: Values) -> Objectives:
    freshness_ms = _duration(values["freshness"]) if "freshness" in values else None
    return Objectives(freshness_ms, values.get("complete"), values.get("dead_letters"))


def _source(source: Values) -> SourceSpec:
    kafka, declared = _own(source["kafka"]), source.get("schema", {})
    return SourceSpec(
        kafka=KafkaSourceSpec(
            **{
                "connection": "main",
                **kafka,
                "topics": tuple(kafka.get("topics", ())),
                "max_record_bytes": size_bytes(kafka.get("max_record_bytes", "")) or KafkaSourceSpec.max_record_bytes,
            }
        ),
        format=_format(source.get("format", {})),
        key=_key(source["key"]) if "key" in source else None,
        hints=tuple(
            _hint(unquoted(path), hint) for path, hint in declared.items() if isinstance(hint, str) or "type" in hint
        ),
        metadata_columns=tuple(source.get("metadata_columns", ())),
        parsed=tuple(
            unquoted(path) for path, hint in declared.items() if not isinstance(hint, str) and "parse" in hint
        ),
        silent_after_ms=_duration(source["silent_after"]) if "silent_after" in source else None,
        outage_ms=_duration(source["longest_outage"]) if "longest_outage" in source else None,
        rebuild_topic=source.get("rebuild_from", {}).get("topic", ""),
        rebuild_table=source.get("rebuild_from", {}).get("table", ""),
    )


def _format(values: Values) -> FormatSpec:
    own = _own(values)
    if "explode" in own:
        own["explode"] = unquoted(own["explode"])
    own.pop("schema_file", None)  # the loader has put its text under `schema`
    said = own.get("envelope")
    paths = envelope_paths(_own(said)) if isinstance(said, dict) else ENVELOPES.get(said or "")
    if paths is not None:
        own |= {"envelope": Envelope.FIELDS, "envelope_paths": paths}
    for key, kind in (("type", FormatType), ("envelope", Envelope), ("encoding", Encoding), ("on_truncate", Truncates)):
        if key in own:
            own[key] = kind(own[key])
    own["envelope_fields"] = tuple(own.get("envelope_fields", ()))
    return FormatSpec(**own)


def _key(values: Values) -> KeySpec:
    own = _own(values)
    prefix = own.pop("prefix", KeySpec.prefix)
    return KeySpec(_format(own), prefix)


def _hint(path: str, hint: str | Values) -> FieldHint:
    values = {"type": hint} if isinstance(hint, str) else _own(hint)
    values.pop("parse", None)  # how its text is read, and not what it is
    if "on_extra_precision" in values:
        values["on_extra_precision"] = ExtraPrecision(values["on_extra_precision"])
    if "infinity" in values:
        values["infinity"] = InfiniteTimes(values["infinity"] or "null")
    return FieldHint(path=path, **{**values, "type": canonical_type(values["type"])})


@lru_cache(maxsize=256)
def canonical_type(text: str) -> str:
    """An Iceberg type as Iceberg's own JSON writes it: `decimal(10,2)` as `decimal(10, 2)`."""
    try:
        return text_of(structure(text))
    except ValueError:
        return text  # the rules refuse it, with its place


def _routes(routes: Values) -> RoutesSpec:
    values = _own(routes)
    if "mode" in values:
        values["mode"] = RouteMode(values["mode"])
    if "unrouted" in values:
        values["unrouted"] = ErrorPolicy(values["unrouted"])
    values["rules"] = tuple(
        RouteRule(unquoted(rule["table"]), _condition(rule["when"]) if "when" in rule else None)
        for rule in routes["rules"]
    )
    values["allow_tables"] = tuple(routes.get("allow_tables", ()))
    return RoutesSpec(**values)


def _with_field(values: Values) -> Values:
    return {**values, "field": unquoted(values["field"])} if "field" in values else values


def _condition(values: Values) -> RouteCondition:
    own = _with_field(_own(values))
    if "in" in own:
        own["one_of"] = tuple(own.pop("in"))
    if "not" in own:
        own["negated"] = _condition(own.pop("not"))
    if "and" in own:
        own["all_of"] = tuple(_condition(each) for each in own.pop("and"))
    return RouteCondition(**own)


def _tables(tables: Values) -> TablesSpec:
    defaults = _spelled_out(tables.get("defaults", {}))
    overrides = tuple(
        (override["match"], table_policy(merge_policy(defaults, _spelled_out(override))))
        for override in tables.get("overrides", [])
    )
    return TablesSpec(table_policy(defaults), overrides)


def _appended(tables: TablesSpec, dead_letter_table: str | None) -> TablesSpec:
    """The policies with the dead-letter table apart where it would be upserted: each dead letter is a row."""
    if dead_letter_table is None or not tables.policy_for(dead_letter_table).write.is_upsert:
        return tables
    return replace(tables, append_only=(dead_letter_table,))


def _with_histories(tables: TablesSpec, rules: tuple[RouteRule, ...]) -> TablesSpec:
    """The policies with the histories of the tables whose names are known: from a rule, or from an override for one table
    to which a rule with a field leads."""
    named = {tables.fold(rule.table): rule.table for rule in rules if "{" not in rule.table}
    globs = [tables.fold(template_glob(rule.table)) for rule in rules if "{" in rule.table]
    for match, _ in tables.overrides:
        if is_name(match) and any(matches_glob(tables.fold(match), glob) for glob in globs):
            named.setdefault(tables.fold(match), match)
    histories = ((tables.policy_for(table).write.history, table) for table in named.values())
    return replace(tables, histories=tuple(HistoryTable(history, table) for history, table in histories if history))


def _spelled_out(policy: Values) -> Values:
    """The policy with a one-word `evolve` written out, so that an override replaces all of it."""
    word = policy.get("evolve")
    return {**policy, "evolve": EVOLVE_SHORTHANDS[word]} if isinstance(word, str) else policy


def merge_policy(defaults: Values, override: Values) -> Values:
    """An override over the defaults, key by key; properties are joined too, lists replace lists."""
    merged = dict(defaults)
    for key, value in override.items():
        below = merged.get(key)
        merged[key] = merge_policy(below, value) if isinstance(below, dict) and isinstance(value, dict) else value
    return merged


def table_policy(values: Values) -> TablePolicy:
    """A complete policy from what is written. The tables of many files are alike, and a policy is frozen."""
    written = repr({key: value for key, value in values.items() if key != "match"})
    found = _POLICIES.get(written)
    if found is None:
        if len(_POLICIES) >= _MOST_POLICIES:
            _POLICIES.clear()
        found = _POLICIES[written] = _made_policy(values)
    return found


def _made_policy(values: Values) -> TablePolicy:
    create, commit = _own(values.get("create", {})), _own(values.get("commit", {}))
    if "partition_by" in create:
        fields = [partition_field(text) for text in create["partition_by"]]
        create["partition_by"] = tuple(plain_partition(field) for field in fields if field is not None)
    if "sort_by" in create:
        orders = [sort_field(text) for text in create["sort_by"]]
        create["sort_by"] = tuple(replace(each, by=plain_partition(each.by)) for each in orders if each is not None)
    if "identifier_fields" in create:
        create["identifier_fields"] = tuple(map(unquoted, create["identifier_fields"]))
    if "properties" in create:
        create["properties"] = tuple((key, setting_text(value)) for key, value in create["properties"].items())
    if "interval" in commit:
        commit["interval_ms"] = _duration(commit.pop("interval"))
    if "max_bytes" in commit:
        commit["max_bytes"] = size_bytes(commit["max_bytes"])
    if "max_rows" in commit:
        commit["max_rows"] = int(commit["max_rows"])
    evolve: Values = {
        key: tuple(value)
        if key in ("include", "exclude")
        else value
        if key == "max_columns"
        else evolve_mode(key, value)
        for key, value in _own(values.get("evolve", {})).items()
    }
    write = _write_policy(_own(values.get("write", {})))
    if write.deletes is Deletes.DELETION_VECTORS:
        create["properties"] = _with_deletion_vectors(create.get("properties", ()))
    case = NameCase(values["case"]) if "case" in values else TablePolicy.case
    catalog = values.get("catalog", TablePolicy.catalog)
    distribution = DistributionMode(values["distribution"]) if "distribution" in values else TablePolicy.distribution
    return TablePolicy(
        CreatePolicy(**create),
        EvolvePolicy(**evolve),
        CommitPolicy(**commit),
        case,
        catalog,
        distribution,
        _values_policy(_own(values["values"])) if "values" in values else _AS_IT_COMES,
        write,
        _maintenance_policy(_own(values["maintenance"])) if "maintenance" in values else _NOT_MAINTAINED,
    )


def _values_policy(values: Values) -> ValuesPolicy:
    words = {"whole_numbers": WholeNumbers, "text_as_number": TextAsNumber, "empty": EmptyValues}
    return ValuesPolicy(**{key: words[key](value) for key, value in values.items()})


def _with_deletion_vectors(properties: tuple[tuple[str, str], ...]) -> tuple[tuple[str, str], ...]:
    """The properties of new tables with the format version that knows deletion vectors, where they say none."""
    return properties if "format-version" in dict(properties) else (*properties, ("format-version", "3"))


def _write_policy(values: Values) -> WritePolicy:
    """The words of an append table say nothing: they may come from the defaults of a file with upsert tables."""
    if values.get("mode") != WriteMode.UPSERT.value:
        return _APPENDED
    order, delete_when = values.get("order"), values.get("delete_when")
    return WritePolicy(
        mode=WriteMode.UPSERT,
        key=tuple(map(unquoted, values.get("key", ()))),
        order_field=unquoted(order["field"]) if isinstance(order, dict) else None,
        remember_deletes_ms=_duration_of(order, "remember_deletes", WritePolicy.remember_deletes_ms),
        delete_when=DeleteWhen(**_with_field(_own(delete_when)))
        if isinstance(delete_when, dict)
        else DeleteWhen()
        if delete_when is not None
        else None,
        deletes=Deletes(values["deletes"]) if "deletes" in values else WritePolicy.deletes,
        key_index=KeyIndexUse(values["key_index"]) if "key_index" in values else WritePolicy.key_index,
        history=values.get("history"),
        unavailable=UnavailableValues(values["unavailable"] or "null")
        if "unavailable" in values
        else WritePolicy.unavailable,
        updates=Updates(values["updates"]) if "updates" in values else WritePolicy.updates,
    )


def _duration_of(values: object, key: str, default: int) -> int:
    return duration_ms(values[key]) or default if isinstance(values, dict) and key in values else default


def _maintenance_policy(values: Values) -> MaintenancePolicy:
    compaction, expire, orphans, manifests = (
        _own(values.get(part, {})) for part in ("compaction", "expire", "orphans", "manifests")
    )
    if "target_file_size" in compaction:
        compaction["target_file_bytes"] = size_bytes(compaction.pop("target_file_size"))
    if "delete_ratio_threshold" in compaction:
        compaction["delete_ratio"] = float(compaction.pop("delete_ratio_threshold"))
    for part, word in (
        (expire, "max_snapshot_age"),
        (expire, "rollback_window"),
        (expire, "reader_lease"),
        (orphans, "older_than"),
    ):
        if word in part:
            part[f"{word}_ms"] = _duration(part.pop(word))
    for part, word in ((compaction, "min_input_files"), (expire, "max_snapshots"), (manifests, "min_count")):
        if word in part:
            part[word] = int(part[word])
    return MaintenancePolicy(
        mode=MaintenanceMode(values["mode"]) if "mode" in values else MaintenancePolicy.mode,
        compaction=CompactionPolicy(**compaction),
        expire=ExpirePolicy(**expire),
        orphans=OrphansPolicy(**orphans),
        manifests=ManifestsPolicy(**manifests),
    )


def _errors(errors: Values) -> ErrorsSpec:
    values = _own(errors)
    if "policy" in values:
        values["policy"] = ErrorPolicy(values["policy"])
    values["stages"] = tuple((stage, ErrorPolicy(policy)) for stage, policy in _own(errors.get("stages", {})).items())
    return ErrorsSpec(**values)


def _own(values: Values) -> Values:
    """The keys that are floe's: without those that begin with `x-`."""
    return {key: value for key, value in values.items() if not key.startswith("x-")}


def _duration(text: str) -> int:
    milliseconds = duration_ms(text)
    assert milliseconds is not None  # the schema has checked its form
    return milliseconds
