"""OpenLineage's run events, built from values: a run begins, tables are committed, the run ends.

In: the values of `framework.lineage.values`, names, and what is known of a table. Out: JSON values that are valid under
OpenLineage 2-0-2 and its facets. A pipeline is a streaming job; each commit is a RUNNING event of its run, so that whoever
follows the run sees what it read and wrote. Pure, and the same values give the same ids.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any
from uuid import NAMESPACE_URL, uuid5

from framework import __version__
from framework.config.names.table_names import catalog_of, identifier_of
from framework.diagnose.codes.catalogue import CODES
from framework.diagnose.counted import moment_text
from framework.diagnose.secrets import redacted
from framework.lineage.values import (
    Names,
    OffsetsRead,
    RunBegan,
    RunEnded,
    TableCommitted,
    TableRecovered,
    TableSchema,
    column_sources,
)

PRODUCER = f"urn:floe:{__version__}"
_SPEC = "https://openlineage.io/spec"
_EVENT = f"{_SPEC}/2-0-2/OpenLineage.json#/$defs/RunEvent"
_OWN = "urn:floe:schemas:lineage-facets.v1#/$defs"
_FACETS = {
    "schema": f"{_SPEC}/facets/1-2-0/SchemaDatasetFacet.json#/$defs/SchemaDatasetFacet",
    "version": f"{_SPEC}/facets/1-0-1/DatasetVersionDatasetFacet.json#/$defs/DatasetVersionDatasetFacet",
    "columnLineage": f"{_SPEC}/facets/1-2-0/ColumnLineageDatasetFacet.json#/$defs/ColumnLineageDatasetFacet",
    "symlinks": f"{_SPEC}/facets/1-0-1/SymlinksDatasetFacet.json#/$defs/SymlinksDatasetFacet",
    "outputStatistics": f"{_SPEC}/facets/1-0-2/OutputStatisticsOutputDatasetFacet.json#/$defs/OutputStatisticsOutputDatasetFacet",
    "errorMessage": f"{_SPEC}/facets/1-0-1/ErrorMessageRunFacet.json#/$defs/ErrorMessageRunFacet",
    "processing_engine": f"{_SPEC}/facets/1-1-1/ProcessingEngineRunFacet.json#/$defs/ProcessingEngineRunFacet",
    "jobType": f"{_SPEC}/facets/2-0-4/JobTypeJobFacet.json#/$defs/JobTypeJobFacet",
    "ownership": f"{_SPEC}/facets/1-0-0/OwnershipJobFacet.json#/$defs/OwnershipJobFacet",
    "floe_offsets": f"{_OWN}/FloeOffsets",
    "floe_commit": f"{_OWN}/FloeCommit",
    "floe_run": f"{_OWN}/FloeRun",
}
Event = dict[str, Any]


def run_began(began: RunBegan, names: Names) -> Event:
    """START, with the topics, the tables that the routes name, and who owns the pipeline."""
    event = _event("START", began.at_ms, began.pipeline, began.run, names)
    if began.owners.named:
        owners = [{"name": f"team:{team.team}", "type": duty.value} for duty, team in began.owners.named]
        event["job"]["facets"]["ownership"] = _facet("ownership", owners=owners)
    event["inputs"] = [{"namespace": names.kafka, "name": topic} for topic in began.topics]
    event["outputs"] = [_table(table, names) for table in began.tables]
    return event


def run_ended(ended: RunEnded, names: Names) -> Event:
    """COMPLETE, ABORT or FAIL, with what became of the run's records; of an error the code and what it stands for."""
    event = _event(ended.end.value, ended.at_ms, ended.pipeline, ended.run, names)
    facets = event["run"]["facets"]
    count = ended.accounting
    facets["floe_run"] = _facet(
        "floe_run",
        batches=ended.batches,
        records={
            "offsets": count.offsets,
            "written": count.written,
            "filtered": count.filtered,
            "dead_lettered": count.dead_lettered,
            "dropped": count.dropped,
            "holes": count.holes,
            "lost": count.lost,
        },
        rows=count.rows,
    )
    if ended.code:
        title = CODES[ended.code].title if ended.code in CODES else "an error"
        facets["errorMessage"] = _facet("errorMessage", message=f"{ended.code}: {title}", programmingLanguage="PYTHON")
    return event


def table_committed(
    commit: TableCommitted,
    runs: Mapping[str, str],
    plans: Mapping[str, Mapping[str, Any]],
    schema: TableSchema | None,
    names: Names,
) -> list[Event]:
    """RUNNING, one event for each pipeline that the commit moved.

    Args:
        runs: the newest run of each pipeline; of one that is not known, the commit stands for a run.
        plans: what runs published that they run, by pipeline.
        schema: the table as it was found, if it has the schema of the commit.
    """
    found = []
    for pipeline, reads in sorted(commit.reads.items()):
        event = _event("RUNNING", commit.at_ms, pipeline, runs.get(pipeline, commit.commit_id), names)
        event["inputs"] = _inputs(reads, names)
        plan = plans.get(pipeline)
        topics = tuple(dict.fromkeys(read.topic for read in reads))
        event["outputs"] = [_output(commit, schema, plan, topics, names)]
        found.append(event)
    return found


def table_recovered(reported: TableRecovered, schema: TableSchema | None, names: Names) -> Event:
    """COMPLETE of a job that bears the verb's name: the table has another state, and no records came."""
    commit = reported.commit
    event = _event("COMPLETE", commit.at_ms, f"floe.{reported.verb}", commit.commit_id, names)
    event["job"]["facets"]["jobType"] = _facet(
        "jobType", processingType="BATCH", integration="FLOE", jobType="RECOVERY"
    )
    event["outputs"] = [_output(commit, schema, None, (), names)]
    return event


def _event(kind: str, at_ms: int, pipeline: str, run: str, names: Names) -> Event:
    return {
        "eventType": kind,
        "eventTime": moment_text(at_ms, f"%Y-%m-%dT%H:%M:%S.{at_ms % 1000:03d}+00:00"),
        "producer": PRODUCER,
        "schemaURL": _EVENT,
        "run": {
            # The same for everybody who reports the run: its driver, and whichever coordinator commits for it.
            "runId": str(uuid5(NAMESPACE_URL, f"{names.jobs}/{pipeline}/{run}")),
            "facets": {"processing_engine": _facet("processing_engine", name="floe", version=__version__)},
        },
        "job": {
            "namespace": names.jobs,
            "name": pipeline,
            "facets": {
                "jobType": _facet("jobType", processingType="STREAMING", integration="FLOE", jobType="PIPELINE")
            },
        },
        "inputs": [],
        "outputs": [],
    }


def _facet(facet: str, /, **values: Any) -> dict[str, Any]:
    return {"_producer": PRODUCER, "_schemaURL": _FACETS[facet], **values}


def _table(table: str, names: Names) -> dict[str, Any]:
    catalog = catalog_of(table)
    return {"namespace": names.catalogs.get(catalog, f"catalog://{catalog}"), "name": identifier_of(table)}


def _inputs(reads: tuple[OffsetsRead, ...], names: Names) -> list[dict[str, Any]]:
    by_topic: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for read in reads:
        parts = by_topic.setdefault((read.topic, read.topic_id), [])
        parts.append({"partition": read.partition, "start": read.start, "end": read.end})
    return [
        {
            "namespace": names.kafka,
            "name": topic,
            "inputFacets": {"floe_offsets": _facet("floe_offsets", topicId=topic_id, ranges=ranges)},
        }
        for (topic, topic_id), ranges in by_topic.items()
    ]


def _output(
    commit: TableCommitted,
    schema: TableSchema | None,
    plan: Mapping[str, Any] | None,
    topics: tuple[str, ...],
    names: Names,
) -> dict[str, Any]:
    facets = {"version": _facet("version", datasetVersion=str(commit.snapshot_id))}
    if schema is not None and schema.location:
        facets["symlinks"] = _symlinks(schema.location)
    if schema is not None and schema.schema_id == commit.schema_id:
        fields = json.loads(schema.schema_json)["fields"]
        facets["schema"] = _facet("schema", fields=[_field(field) for field in fields])
        dead_letters = plan is not None and _dead_letter_table(plan) == commit.table
        columns = tuple(str(field["name"]) for field in fields)
        sources = None if plan is None or dead_letters else column_sources(plan, columns)
        if sources is not None:
            facets["columnLineage"] = _facet("columnLineage", fields=_column_lineage(sources, topics, names))
    output_facets = {"floe_commit": _commit_facet(commit, plan)}
    if len(commit.reads) == 1:  # whose rows they are is not reported for a commit of several pipelines
        output_facets["outputStatistics"] = _facet(
            "outputStatistics", rowCount=commit.rows, size=commit.bytes, fileCount=commit.files
        )
    return {**_table(commit.table, names), "facets": facets, "outputFacets": output_facets}


def _commit_facet(commit: TableCommitted, plan: Mapping[str, Any] | None) -> dict[str, Any]:
    return _facet(
        "floe_commit",
        branch=commit.branch,
        commitId=commit.commit_id,
        snapshotId=str(commit.snapshot_id),
        schemaId=commit.schema_id,
        rows=commit.rows,
        files=commit.files,
        bytes=commit.bytes,
        replacedRows=commit.replaced,
        pipelines=sorted(commit.reads),
        deadLetters=plan is not None and _dead_letter_table(plan) == commit.table,
    )


def _dead_letter_table(plan: Mapping[str, Any]) -> str | None:
    write = plan.get("write")
    return write.get("dead_letter_table") if isinstance(write, Mapping) else None


def _symlinks(location: str) -> dict[str, Any]:
    """Where the table lies, by which engines that read files name it."""
    scheme, separator, rest = redacted(location).partition("://")
    if not separator:
        scheme, rest = "file", location.removeprefix("file:")
    host, _, path = rest.partition("/")
    place = {
        "namespace": f"{scheme}://{host}" if host else scheme,
        "name": f"/{path}" if not host else path,
        "type": "LOCATION",
    }
    return _facet("symlinks", identifiers=[place])


def _field(field: Mapping[str, Any]) -> dict[str, Any]:
    kind = field["type"]
    found = {"name": field["name"], "type": _type_text(kind)}
    if field.get("doc"):
        found["description"] = field["doc"]
    if isinstance(kind, Mapping) and kind.get("type") == "struct":
        found["fields"] = [_field(inner) for inner in kind["fields"]]
    return found


def _type_text(kind: Any) -> str:
    if not isinstance(kind, Mapping):
        return str(kind)
    if kind["type"] == "list":
        return f"list<{_type_text(kind['element'])}>"
    if kind["type"] == "map":
        return f"map<{_type_text(kind['key'])}, {_type_text(kind['value'])}>"
    return "struct"


def _column_lineage(sources: Mapping[str, tuple[str, bool]], topics: tuple[str, ...], names: Names) -> dict[str, Any]:
    return {
        column: {
            "inputFields": [
                {
                    "namespace": names.kafka,
                    "name": topic,
                    "field": field,
                    "transformations": [{"type": "DIRECT", "subtype": "TRANSFORMATION" if declared else "IDENTITY"}],
                }
                for topic in topics
            ]
        }
        for column, (field, declared) in sources.items()
    }
