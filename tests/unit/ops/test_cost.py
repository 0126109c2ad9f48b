"""What a month costs: rates from what was counted, money from the user's prices, and nothing that nobody counted."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from framework.adapters.iceberg.growth import SnapshotGrowth, TableGrowth
from framework.adapters.project.files import real_world
from framework.errors import ConfigError
from framework.metrics.store_requests import StoreRequest
from framework.ops.cost.estimate import counted, listed, table_month
from framework.ops.cost.lines import changes, cost_lines
from framework.ops.cost.look import counted_in
from framework.ops.cost.model import DAY_MS, GIB, MONTH_MS, PipelineMonth, Prices, TableMonth, TopicMonth
from framework.ops.cost.prices import read_prices
from framework.ops.cost.text import lines

NOW = 100 * DAY_MS
ROOT = Path(__file__).parents[3]
MINUTE = 60_000


def snapshot(at_ms: int, added: int = 0, removed: int = 0, files: int = 1, rewrites: bool = False) -> SnapshotGrowth:
    return SnapshotGrowth(at_ms, rewrites, True, files, 0, added, removed)


def month(*snapshots: SnapshotGrowth, interval_ms: int = MINUTE, live: int | None = GIB) -> TableMonth:
    return table_month(TableGrowth("shop.t", live, snapshots), interval_ms, NOW, 7 * DAY_MS)


def pipeline(*tables: TableMonth, prices: Prices | None = None, topics: tuple[TopicMonth, ...] = ()) -> PipelineMonth:
    return PipelineMonth("orders", "prod", NOW, tables, topics, None, prices)


def test_a_month_is_the_window_as_often_as_it_fits() -> None:
    """A day of a commit an hour is 720 commits in 30 days; what the first kept snapshot did, it did before the window."""
    found = month(*(snapshot(NOW - hours * 3_600_000, added=GIB, files=2) for hours in range(25)))
    assert (found.window_ms, found.commits_seen, found.commits) == (DAY_MS, 24, 720)
    assert found.written_bytes == 720 * GIB
    # Two files of half a GiB, in 52 parts each between two requests, and three files of the commit.
    assert found.requests == {StoreRequest.PUT: 720 * (2 * 52 + 3), StoreRequest.POST: 720 * 2 * 2}


def test_older_snapshots_than_the_window_say_nothing_of_its_rate() -> None:
    """Ten days of history, of which seven are looked at."""
    found = month(*(snapshot(NOW - days * DAY_MS, added=1) for days in range(10)))
    assert (found.window_ms, found.commits_seen) == (7 * DAY_MS, 7)


@pytest.mark.parametrize("snapshots", [(), (snapshot(NOW - 59_000), snapshot(NOW - 30_000))])
def test_a_history_of_moments_has_no_rate(snapshots: tuple[SnapshotGrowth, ...]) -> None:
    """It is said to be so, and no line shows a figure for it."""
    found = month(*snapshots)
    assert not found.is_known
    said = {line.what: line.quantity for line in cost_lines(pipeline(found))}
    assert said["catalog commits"] == said["requests: put"] == "not known"
    assert not list(changes(pipeline(found)))


def test_kept_is_what_was_removed_while_the_snapshot_before_is_there() -> None:
    """What the heir of expired snapshots removed is gone with them."""
    heir = SnapshotGrowth(NOW - 3, False, False, 1, 0, 5, 1_000)
    assert month(snapshot(NOW - 1, removed=10), snapshot(NOW - 2, removed=7), heir).stored.kept == 17


def test_a_listing_leaves_over_what_no_snapshot_reads() -> None:
    """Metadata is what is neither live, nor kept, nor an orphan; where orphans are not known, they are in it."""
    known = month(snapshot(NOW - 1, removed=10), live=100)
    assert listed(known, 150, 15).stored.other == 150 - 100 - 10 - 15
    assert listed(known, 150, None).stored.other == 40
    assert listed(month(live=None), 150, 15).stored.other is None


PRICES = Prices(
    "p.yaml", "USD", "2026-01-31", 0.02, {StoreRequest.PUT: 0.005}, 0.1, 0.5, None, 0.25, (("driver", 2, 30.0),)
)


def test_money_is_quantity_by_price_and_nothing_without_one() -> None:
    """Each line by hand; a price that the file does not say costs not 0 but nothing is said."""
    table = month(
        *(snapshot(NOW - hours * 3_600_000, added=GIB // 1024, files=1) for hours in range(25)), live=50 * GIB
    )
    topic = TopicMonth("orders", 4 * GIB, DAY_MS, 8 * GIB, 2 * GIB)
    bought = pipeline(table, prices=PRICES, topics=(topic,))
    found = {line.what: line.amount for line in cost_lines(bought)}
    assert found["stored: live"] == pytest.approx(1.0)
    assert found["stored: orphans"] is None
    assert found["requests: put"] == pytest.approx(720 * 4 / 1000 * 0.005)
    assert found["requests: get"] is None
    assert found["catalog commits"] == pytest.approx(0.072)
    assert found["Kafka: into the source topics"] == pytest.approx(2.0)
    assert found["Kafka: out to the pipeline"] is None
    assert found["Kafka: kept in the source topics"] == pytest.approx(2.0)
    [retention] = [each for each in changes(bought) if each.what.startswith("topic orders")]
    assert (retention.effect, retention.amount) == ("2.0 GiB kept in place of 8.0 GiB", pytest.approx(-1.5))
    assert found["machines: driver"] == 60
    assert any(line.startswith("  in all 65.09 USD") for line in lines(bought))


def test_what_a_process_counted_takes_the_place_of_the_least() -> None:
    """Two processes, each over its own time."""
    both = counted(
        [({StoreRequest.PUT: 10, StoreRequest.GET: 3}, MONTH_MS // 10), ({StoreRequest.PUT: 1}, MONTH_MS // 2)]
    )
    assert both is not None
    assert both.month is not None
    assert (both.month[StoreRequest.PUT], both.month[StoreRequest.GET], both.window_ms) == (102, 30, MONTH_MS // 10)
    found = PipelineMonth("orders", "prod", NOW, (), (), both, None)
    assert {line.quantity for line in cost_lines(found) if line.what == "requests: put"} == {"102"}
    short = counted([({StoreRequest.PUT: 10}, 59_999)])
    assert short is not None
    assert short.month is None
    assert counted([]) is None


@pytest.mark.parametrize(
    "page",
    [
        "",
        "floe_info 1\n",
        'floe_store_requests_total{request="put"} 3\n',
        'floe_batch_phase_seconds_total{pipeline="a",phase="writing"} 70\n',
        'floe_store_requests_total{request="copy"} 3\nfloe_batch_phase_seconds_total{pipeline="a"} 70\n',
        "<html>",
    ],
)
def test_a_page_that_is_none_of_a_run_is_refused(page: str) -> None:
    """Neither another process's page, nor one without requests or without a run."""
    with pytest.raises(ValueError):  # noqa: PT011  # that of the parser among them
        counted_in([page])


def test_a_page_of_a_run_is_read() -> None:
    """The requests of the process and of its tasks, over the time of its pipelines' phases."""
    page = """
    floe_store_requests_total{request="put"} 3
    floe_task_store_requests_total{pipeline="a",request="put"} 4
    floe_batch_phase_seconds_total{pipeline="a",phase="writing"} 70
    floe_batch_phase_seconds_total{pipeline="a",phase="waiting"} 20
    floe_batch_phase_seconds_total{pipeline="b",phase="waiting"} 80
    """
    found = counted_in(["\n".join(line.strip() for line in page.strip().splitlines()) + "\n"])
    assert found is not None
    assert (found.seen, found.window_ms) == ({StoreRequest.PUT: 7}, 90_000)


def test_changes_are_said_as_far_as_counts_say_them() -> None:
    """Commits at the interval's pace halve with it. Compaction and a day of snapshots cost what they wrote and removed. What
    would change nothing is no line: a longer interval where commits are further apart, snapshots that removed nothing."""
    quick = month(*(snapshot(NOW - minutes * MINUTE, added=1) for minutes in range(61)))
    [interval] = changes(pipeline(quick, prices=PRICES))
    assert interval.effect == "21,600 fewer commits, and 64,800 fewer requests to write them"
    assert interval.amount == pytest.approx(-(21.6 * 0.1 + 64.8 * 0.005))
    slow = month(
        snapshot(NOW - 1, added=GIB, removed=GIB, rewrites=True),
        *(snapshot(NOW - hours * 3_600_000) for hours in range(1, 25)),
    )
    found = {change.what: change for change in changes(pipeline(slow, prices=PRICES))}
    assert found.keys() == {"shop.t: without compaction", "shop.t: snapshots kept for a day longer"}
    assert found["shop.t: without compaction"].effect.startswith("30.0 GiB and 30 files fewer")
    assert found["shop.t: snapshots kept for a day longer"].amount == pytest.approx(0.02)


@given(st.lists(st.tuples(st.integers(0, 10 * DAY_MS), st.integers(0, 10**12), st.integers(0, 10**12)), max_size=20))
def test_a_month_never_has_less_than_nothing(found: list[tuple[int, int, int]]) -> None:
    """Whatever history there is, text and lines are made of it."""
    table = month(*(snapshot(NOW - ago, added, removed) for ago, added, removed in sorted(found)))
    assert min(table.commits, table.written_bytes, table.removed_bytes, *table.requests.values()) >= 0
    assert list(lines(pipeline(table, prices=PRICES)))


# ---- the file of prices ----------------------------------------------------------------------------------------------

HEAD = "apiVersion: floe/v1\nkind: Prices\ncurrency: USD\ndate: 2026-01-31\n"


def refused(tmp_path: Path, text: str) -> list[str]:
    path = tmp_path / "prices.yaml"
    path.write_text(text)
    with pytest.raises(ConfigError) as caught:
        read_prices(path, real_world())
    assert caught.value.exit_code == 2
    assert all(each.span is not None and each.remedy for each in caught.value.diagnostics)
    return [f"{each.span.line}: {each.message}" for each in caught.value.diagnostics if each.span is not None]


@pytest.mark.parametrize(
    "wrong",
    [
        "store: {gib_mnth: 0.02}",
        "store: {gib_month: cheap}",
        "store: {gib_month: -1}",
        "store: {gib_month: .nan}",
        "store: {gib_month: .inf}",
        "store: {thousand_requests: {copy: 1}}",
        "kafka: {gib_in: }",
        "machines: [{name: driver}]",
        "machines: [{name: driver, month: 1, count: 0}]",
        "network: {gib: 0.01}",
    ],
)
def test_a_wrong_price_is_refused_with_its_place(tmp_path: Path, wrong: str) -> None:
    """One error each, on its line: a mistyped price is none that costs nothing."""
    [found] = refused(tmp_path, f"{HEAD}{wrong}\n")
    assert found.startswith("5: ")


@pytest.mark.parametrize(
    "text", ["", "- 1\n", "kind: Prices\n", HEAD.replace("USD", "dollars"), HEAD.replace("floe/v1", "floe/v2")]
)
def test_what_is_no_file_of_prices_is_refused(tmp_path: Path, text: str) -> None:
    """Neither an empty file nor another one is taken for prices of nothing."""
    assert refused(tmp_path, text)


def test_no_file_of_prices_is_an_error(tmp_path: Path) -> None:
    """The path is checked first."""
    with pytest.raises(ConfigError) as caught:
        read_prices(tmp_path / "none.yaml", real_world())
    assert caught.value.diagnostics[0].code == "FLOE-C101"


def test_the_sample_is_right() -> None:
    """The file that is shipped says every kind of request, and when its prices were listed."""
    found = read_prices(ROOT / "docs" / "prices.yaml", real_world())
    assert set(found.thousand_requests) == set(StoreRequest)
    assert found.date


ASKED, PHASE = (
    'floe_store_requests_total{request="get"}',
    'floe_batch_phase_seconds_total{pipeline="a",phase="writing"}',
)


@pytest.mark.parametrize("value", ["1e999", "NaN", "-1", "+Inf"])
@pytest.mark.parametrize("name", [ASKED, PHASE])
def test_a_page_with_figures_that_are_none_is_refused(name: str, value: str) -> None:
    """Whoever wrote the file, it is an error of the option and no crash."""
    assert counted_in([f"{ASKED} 5\n{PHASE} 90\n"]) is not None
    with pytest.raises(ValueError, match=r"floe_.* is "):
        counted_in([f"{ASKED} 5\n{PHASE} 90\n{name} {value}\n"])
