"""What each view shows of one pipeline and its tables, as figures under the same names, and what is true of them.

In: documents, pages and texts, as a person or a program gets them. Out: `Figures` by name, such as `lag` or `rows of
shop.orders`. A view has only the figures that it shows; those that two of them have must be the same.
Where nothing of a partition was ever announced its safe offset counts as the beginning.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from html.parser import HTMLParser
from typing import Any
from urllib.parse import quote

import requests
from prometheus_client.parser import text_string_to_metric_families

from tests.spark.frozen_checker import Truth

Figures = dict[str, object]
OUTCOMES = ("written", "filtered", "dead_lettered", "dropped", "holes", "lost")
WAITS = ("announcements", "rows", "files", "bytes")
# What the page calls them.
LABELS = {
    "written": "written",
    "filtered": "filtered",
    "dead_lettered": "dead letters",
    "dropped": "dropped by rule",
    "holes": "offsets without a record",
    "lost": "lost before they were read",
}


def differences(views: Mapping[str, Figures]) -> list[str]:
    """What two views say otherwise of the same figure."""
    names = sorted({name for view in views.values() for name in view})
    reported = {name: {view: found[name] for view, found in views.items() if name in found} for name in names}
    return [f"{name}: {values}" for name, values in reported.items() if len(set(map(str, values.values()))) > 1]


def of_truth(found: Truth) -> Figures:
    figures: Figures = {"lag": found.lag, "batch": found.batch, "log_end": found.log_end}
    for partition, end in found.ends.items():
        figures |= {f"end {partition}": end, f"safe {partition}": found.safe.get(partition, 0)}
    figures |= {outcome: found.totals[outcome] for outcome in OUTCOMES}
    figures["waiting rows"] = sum(each.rows for each in found.waits.values())
    for table, waits in found.waits.items():
        figures |= {f"{name} of {table}": getattr(waits, name) for name in WAITS}
        figures[f"snapshot of {table}"] = found.snapshots.get(table)
    figures["tables"] = sorted(found.waits)
    return figures


def of_status(document: Mapping[str, Any], name: str) -> Figures:
    """`floe status --json`."""
    [pipeline] = [each for each in document["pipelines"] if each["pipeline"] == name]
    figures: Figures = {
        "lag": pipeline["lag"],
        "batch": pipeline["batch"],
        "state": pipeline["state"],
        "log_end": document["control"]["log_end"],
        "waiting rows": sum(table["pending"]["rows"] for table in document["tables"]),
        "tables": [table["table"] for table in document["tables"]],
    }
    figures |= {outcome: pipeline["totals"][outcome] for outcome in OUTCOMES}
    for each in pipeline["partitions"]:
        figures |= {f"end {each['partition']}": each["log_end"], f"safe {each['partition']}": each["safe_offset"] or 0}
    for table in document["tables"]:
        figures |= {f"{each} of {table['table']}": table["pending"][each] for each in WAITS}
        figures[f"state of {table['table']}"] = table["state"]
        figures[f"snapshot of {table['table']}"] = (table["last_commit"] or {}).get("snapshot_id")
    return figures


def of_metrics(text: str, name: str) -> Figures:
    """`/metrics` of the driver; of tables only while it coordinates."""
    samples = [s for family in text_string_to_metric_families(text) for s in family.samples]

    def values(metric: str, label: str) -> dict[str, float]:
        return {s.labels[label]: s.value for s in samples if s.name == metric}

    def state_of(metric: str, **labels: str) -> str:
        [found] = [s for s in samples if s.name == metric and s.value == 1 and labels.items() <= s.labels.items()]
        return found.labels["state"]

    figures: Figures = {
        "lag": int(values("floe_pipeline_lag_records", "pipeline")[name]),
        "batch": int(values("floe_batch_number", "pipeline")[name]),
        "state": state_of("floe_pipeline_state", pipeline=name),
    }
    counts = values("floe_records_total", "outcome")
    figures |= {outcome: int(counts[outcome]) for outcome in OUTCOMES}
    ends, safe = values("floe_source_log_end_offset", "partition"), values("floe_source_safe_offset", "partition")
    figures |= {f"end {partition}": int(value) for partition, value in ends.items()}
    figures |= {f"safe {partition}": int(value) for partition, value in safe.items()}
    return figures | of_coordinator(text)


def of_coordinator(text: str) -> Figures:
    """What `/metrics` of whoever coordinates says of tables; nothing of one that stands by."""
    samples = [s for family in text_string_to_metric_families(text) for s in family.samples]

    def values(metric: str, label: str) -> dict[str, float]:
        return {s.labels[label]: s.value for s in samples if s.name == metric}

    def state_of(table: str) -> str:
        [found] = [s for s in samples if s.name == "floe_table_state" and s.value == 1 and s.labels["table"] == table]
        return found.labels["state"]

    figures: Figures = {}
    rows = values("floe_table_announced_records", "table")
    if "1.0" in [str(value) for value in values("floe_coordinator_owner", "control_topic").values()]:
        figures["waiting rows"] = sum(map(int, rows.values()))
    for table in rows:
        for each, metric in (("announcements",) * 2, ("rows", "records"), ("files",) * 2, ("bytes",) * 2):
            figures[f"{each} of {table}"] = int(values(f"floe_table_announced_{metric}", "table")[table])
        figures[f"state of {table}"] = state_of(table)
    return figures


def of_top(text: str, name: str) -> Figures:
    """`floe top --once`."""
    figures: Figures = {}
    kind = ""
    tables: list[str] = []
    for line in text.splitlines():
        cells = re.split(r"\s{2,}", line.strip())
        if cells[0] in ("pipeline", "table") and cells[1:2] == ["state"]:
            kind = cells[0]
        elif kind == "pipeline" and cells[0] == name:
            _, state, batch, _, lag, _, dead, waiting, _ = cells
            figures |= {"state": state, "batch": number(batch), "lag": leading(lag)}
            figures |= {"dead_lettered": number(dead.partition(" (")[0]), "waiting rows": number(waiting)}
        elif kind == "table" and len(cells) > 5:
            tables.append(cells[0])
            figures |= {f"state of {cells[0]}": cells[1], f"rows of {cells[0]}": number(cells[-2])}
        if (below := re.search(r"committed up to offset \d+ of (\d+)", line)) is not None:
            figures["log_end"] = int(below[1])
    return {**figures, "tables": sorted(tables)}


class _Cells(HTMLParser):
    """The text of a document, and the rows of its tables: cells by what their columns are called."""

    def __init__(self) -> None:
        super().__init__()
        self.rows: list[dict[str, str]] = []
        self.texts: list[str] = []
        self._cell: str | None = None

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        if tag == "tr":
            self.rows.append({})
        elif tag == "td":
            self._cell = given.get("data-label")
        elif tag == "th" and given.get("scope") == "row":
            self._cell = "name"

    def handle_endtag(self, tag: str) -> None:
        if tag in ("td", "th"):
            self._cell = None

    def handle_data(self, data: str) -> None:
        if data.strip():
            self.texts.append(data.strip())
        if self._cell is not None and self.rows:
            self.rows[-1][self._cell] = self.rows[-1].get(self._cell, "") + data.strip()

    def behind(self, label: str) -> str:
        """The text that follows a label."""
        return self.texts[self.texts.index(label) + 1]


def page(url: str, path: str) -> _Cells:
    found = _Cells()
    answer = requests.get(url + path, timeout=60)
    assert answer.status_code == 200, answer.text
    found.feed(answer.text)
    return found


def of_page(url: str, name: str) -> Figures:
    """The first page, and those of the pipeline and of each table, as they are drawn."""
    figures: Figures = {}
    tables: list[str] = []
    first = page(url, "/")
    for row in first.rows:
        if row.get("name") == name and "Lag" in row:
            figures |= {"state": row["State"], "lag": leading(row["Lag"])}
            dead = row["Dead letters/h"].partition(" (")[0]
            figures |= {"waiting rows": number(row["Waiting rows"]), "dead_lettered": number(dead)}
        elif "Snapshots/h" in row:
            tables.append(row["name"])
            figures |= {f"state of {row['name']}": row["State"], f"rows of {row['name']}": number(row["Waiting rows"])}
    figures["log_end"] = number(first.behind("committed").rpartition(" of ")[2].split()[0])
    detail = page(url, f"/pipelines/{quote(name, safe='')}")
    figures["to be read"] = number(detail.behind("to be read"))
    figures |= {outcome: number(detail.behind(label)) for outcome, label in LABELS.items()}
    for row in detail.rows:
        if "Safe offset" in row:
            partition = row["name"].rpartition(":")[2]
            figures |= {f"end {partition}": number(row["End"]), f"safe {partition}": number(row["Safe offset"]) or 0}
    if figures.pop("to be read") != figures["lag"]:
        figures["lag"] = "two pages say two things"
    for table in tables:
        found = page(url, f"/tables/{quote(table, safe='')}")
        waiting = found.behind("waiting")
        match = re.match(r"([\d,]+) rows in ([\d,]+) files", waiting)
        assert match is not None or waiting == "nothing", waiting
        rows, files = (number(match[1]), number(match[2])) if match is not None else (0, 0)
        if rows != figures[f"rows of {table}"]:
            figures[f"rows of {table}"] = "two pages say two things"
        figures[f"files of {table}"] = files
        snapshot = found.behind("snapshot")
        figures[f"snapshot of {table}"] = None if snapshot == "–" else int(snapshot)
    return {**figures, "tables": sorted(tables)}


def of_rest(url: str, name: str) -> Figures:
    """`/v1`, and Connect's `status` and `offsets`."""

    def ask(path: str) -> Any:
        answer = requests.get(url + path, timeout=60)
        assert answer.status_code == 200, answer.text
        return json.loads(answer.text)

    pipeline = ask(f"/v1/pipelines/{name}")
    connector = ask(f"/connectors/{name}/status")["floe"]
    figures: Figures = {
        "lag": pipeline["lag"],
        "batch": pipeline["batch"],
        "state": pipeline["condition"]["state"],
        "log_end": ask("/v1/overview")["log_end"],
        "waiting rows": pipeline["waiting"]["rows"],
    }
    for key in ("lag", "batch", "state"):
        if connector[key] != figures[key]:
            figures[key] = "Connect's status says another"
    figures |= {outcome: pipeline["totals"][outcome] for outcome in OUTCOMES}
    figures |= {f"end {each['partition']}": each["log_end"] for each in pipeline["partitions"]}
    for each in ask(f"/connectors/{name}/offsets")["offsets"]:
        partition = each["partition"]["kafka_partition"]
        figures[f"safe {partition}"] = each["offset"]["kafka_offset"] if each["offset"] else 0
    tables = [each["table"] for each in ask("/v1/tables")["tables"]]
    for table in tables:
        whole = ask(f"/v1/tables/{quote(table, safe='')}")
        figures |= {f"{each} of {table}": whole["waiting"][each] for each in WAITS}
        figures |= {f"state of {table}": whole["condition"]["state"], f"snapshot of {table}": whole["snapshot_id"]}
    return {**figures, "tables": tables}


def number(text: str) -> int | None:
    """`1,234` as 1234; a dash is no number."""
    return None if text == "–" else int(text.replace(",", ""))


def leading(text: str) -> int | None:
    """The number that a cell begins with: `1,234 for 5m` as 1234."""
    found = re.match(r"[\d,]+", text)
    return number(found[0] if found else text)
