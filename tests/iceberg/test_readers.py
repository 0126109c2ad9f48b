"""What other engines read of tables that floe wrote through kills: all of it, or what they say or do instead.

The rows to be are folded from what was produced, by hand. `readers.json` keeps what was found, and the table of
docs/compatibility.md is made of it; `FLOE_READERS=update` writes both anew.
"""

from __future__ import annotations

import json
import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.schema import Schema
from pyiceberg.types import FloatType, IntegerType, LongType, NestedField, StringType

from framework.adapters.iceberg.catalog import IcebergCatalog
from framework.config.spec import PartitionFieldSpec
from testbed.servers.table_readers import ENGINES, read_with, version_of
from tests.chaos.harness import crash
from tests.conftest import Broker
from tests.iceberg.conftest import Lake
from tests.project import Project

pytestmark = [pytest.mark.spark, pytest.mark.kafka, pytest.mark.iceberg]

FOUND = Path(__file__).with_name("readers.json")
DOCUMENT = Path(__file__).parents[2] / "docs" / "compatibility.md"
BEGIN, END = "<!-- readers: made by tests/iceberg/test_readers.py -->\n", "<!-- end of readers -->\n"
SOURCE = """
    source:
      kafka: {{connection: main, topics: [{topic}]}}
      format: {{type: json}}
      {schema}
    routes: {{rules: [{{table: "shop.{{into}}"}}], allow_tables: ["shop.{kind}_*"], unrouted: fail}}
    errors: {{policy: fail}}
"""
FIELDS = (
    'schema: {id: long, region: string, amount: "decimal(9, 2)", at: timestamptz, day: date, tags: "list<string>", '
    'place: "struct<lat: double, name: string>", counts: "map<string, long>"}'
)
APPENDED = (
    SOURCE
    + """
    tables:
      defaults:
        create: {{partition_by: ["day(at)", "bucket(4, id)", "truncate(2, region)"]}}
        commit: {{interval: 1s}}
      overrides: [{{match: shop.append_v3, create: {{properties: {{format-version: "3"}}}}}}]
"""
)
EVOLVED = (
    SOURCE
    + """
    tables: {{defaults: {{commit: {{interval: 1s}}}}}}
"""
)
UPSERTED = (
    SOURCE
    + """
    tables:
      defaults:
        write: {{mode: upsert, key: [id], order: source, delete_when: {{field: op, equals: d}}}}
        create: {{partition_by: [region]}}
        commit: {{interval: 1s}}
      overrides: [{{match: shop.upsert_v3, create: {{properties: {{format-version: "3"}}}}}}]
"""
)
COLUMNS = {
    "append": ["id", "region", "amount", "at", "day", "tags", "place", "counts"],
    "evolved": ["id", "n", "f", "title", "name", "extra"],
    "upsert": ["id", "region", "n"],
}
TABLES = [f"{kind}_v{version}" for kind in ("append", "evolved") for version in (1, 2, 3)] + ["upsert_v2", "upsert_v3"]
SAID = {
    "append": "append; nested types; partitions by `day`, `bucket` and `truncate`",
    "evolved": "added and renamed columns; `int` and `float` promoted",
    "upsert": "rows replaced and deleted by key",
}


@dataclass(frozen=True)
class Written:
    """The project, and by table what its rows are to be."""

    project: Project
    rows: dict[str, list[dict[str, Any]]]


def appended(start: int) -> list[dict[str, Any]]:
    return [
        {
            "id": i, "region": ["eu-1", "us-1", "ap-2"][i % 3], "amount": f"{i}.25",
            "at": f"2026-0{1 + i % 3}-03T04:05:06.{i + 1:06}",
            "day": f"2026-02-{1 + i % 28:02}", "tags": [f"t{i}", "same"][: 1 + i % 2], "place": {"lat": i / 4, "name": f"p{i}"},
            "counts": {"a": i, "b": 2**40 + i},
        }
        for i in range(start, start + 60)
    ]  # fmt: skip


def evolved(start: int, is_later: bool) -> list[dict[str, Any]]:
    later = {"extra": "x"} if is_later else {}
    return [
        {"id": i, "n": 2**40 + i if is_later else i, "f": i * 1e300 if is_later else i / 4, "name": f"n{i}", **later}
        for i in range(start, start + 40)
    ]


def changed(is_later: bool) -> list[dict[str, Any]]:
    if not is_later:
        return [{"id": i, "region": ["eu", "us"][i % 2], "n": i, "op": "u"} for i in range(200)]
    return [{"id": i, "region": ["eu", "us"][i % 2], "n": 1000 + i, "op": "ud"[i % 3 == 0]} for i in range(0, 220, 2)]


def written(root: Path, broker: Broker) -> Written:
    """Three pipelines, two batches each, killed once with manifests written and once behind a commit."""
    project = Project(root, broker.bootstrap_servers)
    first = Schema(
        NestedField(1, "id", LongType()), NestedField(2, "n", IntegerType()), NestedField(3, "f", FloatType()),
        NestedField(4, "name", StringType()),
    )  # fmt: skip
    lake = Lake(project.catalog_settings)
    writer, _ = IcebergCatalog(project.catalog_settings, "default").open()  # PyIceberg alone writes no version 3
    for version in (1, 2, 3):
        lake.create(
            f"shop.evolved_v{version}", first, [PartitionFieldSpec("id", "bucket", 2)], format_version=str(version)
        )
    lake.create("shop.append_v1", Schema(NestedField(1, "id", LongType())), format_version="1")
    topics = {kind: broker.new_topic(kind, partitions=1) for kind in COLUMNS}
    texts = {
        "append": (APPENDED, FIELDS),
        "evolved": (EVOLVED, ""),
        "upsert": (UPSERTED, "schema: {id: long, n: long}"),
    }
    files = [
        project.pipeline(kind, text.format(topic=topics[kind], schema=schema, kind=kind))
        for kind, (text, schema) in texts.items()
    ]
    rows: dict[str, list[dict[str, Any]]] = {name: [] for name in TABLES}
    for is_later, point in ((False, "manifests-written"), (True, "committed")):
        made = {
            "append": [each | {"at": each["at"] + "Z"} for each in appended(60 * is_later)],
            "evolved": evolved(40 * is_later, is_later),
            "upsert": changed(is_later),
        }
        for kind, records in made.items():
            for name in (each for each in TABLES if each.startswith(kind)):
                broker.produce(topics[kind], [record | {"into": name} for record in records])
        crash(project, point, "run", *files, "--until-caught-up")
        project.run("run", *files, "--until-caught-up", timeout_s=400)
        if not is_later:
            for version in (1, 2, 3):
                with writer.load_table(f"shop.evolved_v{version}").update_schema() as update:
                    update.rename_column("name", "title")
    for name in TABLES:
        if name.startswith("append"):
            rows[name] = appended(0) + appended(60)
        elif name.startswith("evolved"):
            old = [
                {"id": e["id"], "n": e["n"], "f": e["f"], "title": e["name"], "name": None, "extra": None}
                for e in evolved(0, False)
            ]
            rows[name] = old + [each | {"title": None} for each in evolved(40, True)]
        else:
            kept = {each["id"]: each for each in [*changed(False), *changed(True)]}
            rows[name] = [{key: e[key] for key in COLUMNS["upsert"]} for e in kept.values() if e["op"] != "d"]
    return Written(project, rows)


def ordered(rows: list[dict[str, Any]]) -> list[str]:
    return sorted(json.dumps(row, sort_keys=True) for row in rows)


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_every_engine_reads_what_was_written_or_says_why_not(tmp_path: Path, broker: Broker) -> None:
    """Each engine gives exactly the rows of each table, or is on record with what it does instead. No engine that was right
    becomes wrong, and none becomes right unnoticed; those that a record calls wrong have an issue of theirs beside it."""
    made = written(tmp_path, broker)
    catalog = made.project.catalog()
    wanted = {
        f"shop.{name}": (catalog.load_table(f"shop.{name}").metadata_location, COLUMNS[name.partition("_")[0]])
        for name in TABLES
    }
    formats = {name: catalog.load_table(f"shop.{name}").format_version for name in TABLES}
    assert formats == {name: int(name[-1]) for name in TABLES}
    contents = {
        name: {str(each) for each in catalog.load_table(f"shop.{name}").inspect.files()["content"].to_pylist()}
        for name in TABLES
    }
    assert len(contents["upsert_v2"]) > 1
    assert len(contents["upsert_v3"]) > 1
    found: dict[str, dict[str, str]] = {}
    versions = {engine: version_of(engine) for engine in ENGINES}
    for engine in ENGINES:
        for name, read in read_with(engine, made.project.catalog_settings, wanted).items():
            table = name.removeprefix("shop.")
            verdict = "equal" if ordered(read.rows) == ordered(made.rows[table]) else "WRONG"
            if verdict == "WRONG" and not read.refused:
                print(engine, table, len(read.rows), read.rows[:2], made.rows[table][:2])
            found.setdefault(table, {})[engine] = f"refuses: {_short(read.refused)}" if read.refused else verdict
    record = {"versions": versions, "found": found}
    print(json.dumps(record, indent=1))
    if os.environ.get("FLOE_READERS") == "update":
        FOUND.write_text(json.dumps(record, indent=1) + "\n")
        DOCUMENT.write_text(_with_table(DOCUMENT.read_text(), record))
    kept = json.loads(FOUND.read_text())
    assert _verdicts(found) == _verdicts(kept["found"])
    assert versions == kept["versions"]


def test_the_page_shows_what_was_found() -> None:
    """The table of docs/compatibility.md is the one of the last run that was kept."""
    text = DOCUMENT.read_text()
    assert _with_table(text, json.loads(FOUND.read_text())) == text


def _short(words: str) -> str:
    """Without places of one run, and as long as one cell may be."""
    return re.sub(r"[a-z]*:?/\S*/\S+", "FILE", words).replace("|", "/")[:140].strip()


def _verdicts(found: dict[str, dict[str, str]]) -> dict[str, dict[str, str]]:
    return {
        table: {engine: verdict.partition(":")[0] for engine, verdict in row.items()} for table, row in found.items()
    }


def _with_table(text: str, record: dict[str, Any]) -> str:
    head = [f"{engine} {record['versions'][engine]}" for engine in ENGINES]
    lines = [f"| table | version | {' | '.join(head)} |", "|---|---|" + "---|" * len(ENGINES)]
    for table in TABLES:
        kind, _, version = table.partition("_v")
        cells = " | ".join(record["found"][table][engine] for engine in ENGINES)
        lines.append(f"| {SAID[kind]} | {version} | {cells} |")
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    return before + BEGIN + "\n" + "\n".join(lines) + "\n\n" + END + after
