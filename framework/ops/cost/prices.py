"""Prices from a file of the user's.

In: a path. Out: prices, or every mistake of the file with its place. Keys are those of `schemas/prices.v1.schema.json` and no
others, so that a mistyped price is not one that costs nothing.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from framework.adapters.project.files import raise_findings
from framework.config.document import Files, not_a_mapping, read_source
from framework.config.schema.document_schema import check
from framework.config.tree import Mapping, parse, plain
from framework.config.world import World
from framework.metrics.store_requests import StoreRequest
from framework.ops.cost.model import Prices


def read_prices(path: Path, world: World) -> Prices:
    """
    Raises:
        ConfigError: there is no such file, or it is wrong.
    """
    source, unreadable = read_source(path, world)
    if source is None:
        raise_findings("the prices cannot be read", (unreadable.diagnostic,) if unreadable else ())
    files = Files()
    files.add(source)
    tree, findings = parse(source)
    if tree is not None and not isinstance(tree, Mapping):
        findings.append(not_a_mapping(tree))
    elif tree is not None:
        tree, found = check(tree, "prices")
        findings += found
    if findings or tree is None:
        raise_findings("the prices are wrong", files.finish(findings))
    return _prices(str(path), plain(tree))


def _prices(file: str, said: dict[str, Any]) -> Prices:
    store, kafka = said.get("store", {}), said.get("kafka", {})
    return Prices(
        file,
        said["currency"],
        said["date"],
        store.get("gib_month"),
        {StoreRequest(kind): price for kind, price in store.get("thousand_requests", {}).items()},
        said.get("catalog", {}).get("thousand_commits"),
        kafka.get("gib_in"),
        kafka.get("gib_out"),
        kafka.get("gib_month"),
        tuple((each["name"], each.get("count", 1), each["month"]) for each in said.get("machines", ())),
    )
