"""The source that tells Spark when there is a batch: what the driver offers, and what Spark took of it."""

from __future__ import annotations

import json
from pathlib import Path

from framework.adapters.spark.source import FloeStreamReader, is_taken, offer, ready_file, to_offsets

START = {("orders", 0): 5, ("orders", 10): 7, ("a", 2): 0}


def planner(offer_file: Path) -> FloeStreamReader:
    """The reader as Spark's planner process makes it."""
    return FloeStreamReader({"offer": str(offer_file), "start": json.dumps(to_offsets(START))})


def test_an_offer_is_taken_once_the_planner_was_asked(tmp_path: Path) -> None:
    """A batch is the one on offer from the moment at which Spark asked how far it goes, not before, and not one offer
    longer."""
    file, first, second = tmp_path / "offer.json", {**START, ("orders", 0): 9}, {**START, ("orders", 0): 12}
    offer(file, START)
    reader = planner(file)
    assert reader.initialOffset() == to_offsets(START)
    assert ready_file(file).exists()
    assert reader.latestOffset() == to_offsets(START)
    offer(file, first)
    assert not is_taken(file, first)
    assert reader.latestOffset() == to_offsets(first)
    assert is_taken(file, first)
    offer(file, second)
    assert is_taken(file, first)
    assert not is_taken(file, second)
    assert reader.latestOffset() == to_offsets(second)
    assert is_taken(file, second)
    assert not is_taken(file, first)


def test_nothing_is_taken_of_a_query_that_never_asked(tmp_path: Path) -> None:
    """Before its planner has answered for the first time, a query has taken nothing."""
    offer(tmp_path / "offer.json", START)
    assert not is_taken(tmp_path / "offer.json", START)


def test_an_offer_that_stands_is_given_again(tmp_path: Path) -> None:
    """An idle query asks again and again; each answer is the offer that stands."""
    offer(tmp_path / "offer.json", START)
    reader = planner(tmp_path / "offer.json")
    assert reader.latestOffset() == reader.latestOffset() == to_offsets(START)


def test_the_source_itself_has_no_rows(tmp_path: Path) -> None:
    """What a batch reads is what the driver offered: the source gives Spark neither partitions nor rows."""
    offer(tmp_path / "offer.json", START)
    assert planner(tmp_path / "offer.json").partitions(to_offsets(START), to_offsets(START)) == []
