"""Which dead letters the page may show, and that the newest are found in bounded memory."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from framework.config.load import load_pipelines
from framework.config.spec import LoadedPipeline
from framework.ops.shown_dead_letters import ShownDeadLetters, _newest
from framework.plan.canonical import canonical, settings_digests
from framework.plan.deployed_policies import dead_letters_of
from framework.web.backend import Refused
from tests.unit.config.in_memory import example_files, world

PLACES = st.tuples(st.sampled_from(["a", "b"]), st.integers(0, 3), st.integers(0, 50))


def nothing() -> None:
    raise AssertionError("what is not allowed is not read")


def loaded(fragment: str, about: str = "pipeline") -> LoadedPipeline:
    [result] = load_pipelines(["base.yaml"], None, world(example_files(fragment, about)))
    assert result.pipeline is not None, result.diagnostics
    return result.pipeline


def test_the_target_says_whose_dead_letters_are_shown_and_nothing_runs_otherwise() -> None:
    """Without the key there are none; with it a run has the same settings as before."""
    silent, open_ = loaded("", "target"), loaded("allow: {dead_letters_on_page: [orders, 'clicks-*']}\n", "target")
    assert silent.target.allow_dead_letters_on_page == ()
    assert open_.target.allow_dead_letters_on_page == ("orders", "clicks-*")
    assert settings_digests(silent.target) == settings_digests(open_.target)


def test_the_table_is_the_one_that_the_run_published() -> None:
    """Its name with its catalog, and its branch; of a pipeline that keeps none, and of what cannot be read, nothing."""
    keeps = canonical(loaded("errors: {dead_letter_table: shop.dead_letters}\n"))
    assert dead_letters_of(keeps) == ("shop.dead_letters", "main")
    branch = "tables: {overrides: [{match: 'shop.dead*', commit: {branch: audit}}]}\n"
    assert dead_letters_of(canonical(loaded(f"errors: {{dead_letter_table: shop.dead_letters}}\n{branch}"))) == (
        "shop.dead_letters", "audit",
    )  # fmt: skip
    assert (
        dead_letters_of(
            canonical(loaded("errors: {policy: fail}\nroutes: {rules: [{table: shop.orders}], unrouted: fail}\n"))
        )
        is None
    )
    for broken in ({}, {"plan": 7}, {"plan": {"write": {"dead_letter_table": 3}}}, {"plan": {"write": {}}}):
        assert dead_letters_of(broken) is None
    with pytest.raises(Refused, match="no run of orders"):
        ShownDeadLetters(("*",), nothing, print).read("orders", {}, "", 5, "ann")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("patterns", "pipeline", "is_shown"),
    [
        ((), "orders", False),
        (("orders",), "orders", True),
        (("orders",), "orders2", False),
        (("or*", "x"), "orders", True),
        (("*",), "orders.replay", False),
        (("ORDERS",), "orders", False),
    ],
)
def test_only_what_the_target_names_is_shown(patterns: tuple[str, ...], pipeline: str, is_shown: bool) -> None:
    """A pipeline's name meets one of the patterns, and a replay is none."""
    assert ShownDeadLetters(patterns, nothing, print).allows(pipeline) is is_shown  # type: ignore[arg-type]


@given(st.lists(st.lists(st.tuples(st.integers(0, 10**6), PLACES), max_size=20), max_size=5), st.integers(1, 10))
def test_the_newest_are_kept_whatever_the_parts(
    parts: list[list[tuple[int, tuple[str, int, int]]]], limit: int
) -> None:
    """Of all parts together the newest, newest first, and all are counted."""

    def batches() -> Iterator[pa.RecordBatch]:
        for part in parts:
            rows = [
                {"topic": topic, "partition": partition, "offset": offset, "timestamp": at_ms * 1000}
                for at_ms, (topic, partition, offset) in part
            ]
            fields = [("topic", pa.string()), ("partition", pa.int32()), ("offset", pa.int64())]
            schema = pa.schema([*fields, ("timestamp", pa.timestamp("us", "UTC"))])
            yield pa.RecordBatch.from_pylist(rows, schema=schema)

    everything = {entry for part in parts for entry in part}
    newest, found = _newest(batches(), limit)
    assert newest == sorted(everything, reverse=True)[:limit]
    assert found == sum(map(len, parts))
