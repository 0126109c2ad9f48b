"""The scorecard: what counts as passed, how long until data is lost, and text that is no markup."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from framework.diagnose.counted import in_two_units
from framework.errors import SetupError
from framework.ops.readiness.commit_times import judged
from framework.ops.readiness.model import (
    HOUR_MS,
    NO_GO,
    Check,
    CheckVerdict,
    Evidence,
    PartitionBacklog,
    Scorecard,
    failed,
    judge_retention,
    look,
    not_checked,
    passed,
    warned,
)
from framework.ops.readiness.text import rendered

SCHEMA = Draft202012Validator(
    json.loads((Path(__file__).parents[3] / "schemas" / "readiness.v1.schema.json").read_text(encoding="utf-8"))
)
NOW = 1_700_000_000_000


def card(*checks: Check, **more: tuple[str, ...]) -> Scorecard:
    return Scorecard("shop", "prod", "shop.yaml", "0.1", NOW, checks, **more)


def test_a_check_that_did_not_run_is_never_passed() -> None:
    """What finds nothing is not checked; what raises fails, also behind evidence that was good; and a fail is no go."""

    def breaks() -> Iterator[Evidence]:
        yield passed("so far")
        raise SetupError("the broker is gone", code="FLOE-E101", place="b:9092", remedy="start it")

    def bug() -> Iterator[Evidence]:
        raise KeyError("x")
        yield  # a generator

    assert look("a", "?", lambda: ()).verdict is CheckVerdict.NOT_CHECKED
    broken = look("b", "?", breaks)
    assert broken.verdict is CheckVerdict.FAIL
    assert broken.seen[1] == Evidence(
        CheckVerdict.FAIL, "could not be found out: the broker is gone (b:9092) [FLOE-E101]", "start it"
    )
    assert look("c", "?", bug).verdict is CheckVerdict.FAIL
    assert card(broken).exit_code == NO_GO
    assert "nothing was looked at" in rendered(card(Check("a", "?", ())), "md")


@pytest.mark.parametrize(
    ("seen", "verdict", "code"),
    [
        ([passed("x")], CheckVerdict.PASS, 0),
        ([passed("x"), not_checked("y")], CheckVerdict.NOT_CHECKED, 0),
        ([not_checked("y"), warned("w", "r"), passed("x")], CheckVerdict.WARN, 0),
        ([failed("f", "r"), warned("w", "r"), passed("x")], CheckVerdict.FAIL, NO_GO),
    ],
)
def test_the_worst_evidence_is_the_verdict(seen: list[Evidence], verdict: CheckVerdict, code: int) -> None:
    """One good sign does not hide a bad one."""
    found = card(Check("a", "?", tuple(seen)))
    assert found.checks[0].verdict is verdict
    assert found.exit_code == code
    assert found.is_go == (code == 0)


@pytest.mark.parametrize(
    ("unseen", "headline"),
    [
        (0, "go: 4 pass"),
        (1, "go, but 1 of 4 checks was not checked: 3 pass, 1 not checked"),
        (2, "go, but half of it or more was not checked: 2 pass, 2 not checked"),
        (4, "go, but half of it or more was not checked: 4 not checked"),
    ],
)
def test_the_headline_says_how_much_was_not_checked(unseen: int, headline: str) -> None:
    """A go of which much was not checked says so in the first line, which may be all that is read."""
    checks = [Check(str(n), "?", (not_checked("x") if n < unseen else passed("x"),)) for n in range(4)]

    assert rendered(card(*checks), "md").splitlines()[0] == f"# shop: {headline}"


def waiting(**more: object) -> PartitionBacklog:
    given_: dict[str, object] = {
        "place": "orders-0", "position": 10, "log_start": 0, "log_end": 20, "oldest_ms": NOW - 10 * HOUR_MS,
        "retention_ms": 168 * HOUR_MS, "retention_bytes": -1,
    }  # fmt: skip
    return PartitionBacklog(**{**given_, **more})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("more", "verdict", "said"),
    [
        ({}, CheckVerdict.PASS, "6 d 14 h until data is lost"),
        ({"retention_ms": -1}, CheckVerdict.PASS, "kept for ever"),
        ({"position": 20, "oldest_ms": None}, CheckVerdict.PASS, "0 offsets not read"),
        ({"position": 20, "oldest_ms": None, "retention_ms": 2 * HOUR_MS}, CheckVerdict.WARN, "kept 2 h"),
        ({"position": 20, "oldest_ms": None, "retention_ms": HOUR_MS // 2}, CheckVerdict.FAIL, "kept 30 min"),
        ({"retention_ms": 20 * HOUR_MS}, CheckVerdict.WARN, "10 h until data is lost"),
        ({"retention_ms": 10 * HOUR_MS + 60_000}, CheckVerdict.FAIL, "1 min until data is lost"),
        ({"retention_ms": HOUR_MS}, CheckVerdict.FAIL, "0 s until data is lost"),
        ({"log_start": 15}, CheckVerdict.FAIL, "5 offsets from 10 on are gone already"),
        ({"oldest_ms": None}, CheckVerdict.NOT_CHECKED, "could not be read"),
        ({"retention_bytes": 1_000_000}, CheckVerdict.WARN, "goes by size (retention.bytes=1,000,000)"),
        ({"retention_ms": -1, "retention_bytes": 1_000}, CheckVerdict.WARN, "which has no time"),
        ({"is_compacted": True}, CheckVerdict.WARN, "the topic is compacted"),
    ],
)
def test_time_to_data_loss(more: dict[str, object], verdict: CheckVerdict, said: str) -> None:
    """Retention against what waits: lost already, within the hour, within the day, by size, or never."""
    seen = judge_retention(waiting(**more), NOW, "orders", "read", "b:9092")
    assert (seen.verdict, said in seen.text) == (verdict, True), seen
    assert bool(seen.remedy) == (verdict is not CheckVerdict.PASS)


@given(st.integers(0, 10**12))
def test_durations_are_reported_in_two_units(milliseconds: int) -> None:
    """Never more than was left: nobody is told of an hour that is not there."""
    units = {"d": 86_400, "h": 3_600, "min": 60, "s": 1}
    parts = re.findall(r"([\d,]+) (d|h|min|s)", in_two_units(milliseconds))
    assert 1 <= len(parts) <= 2
    reported = sum(int(number.replace(",", "")) * units[unit] for number, unit in parts)
    assert reported <= milliseconds // 1000 < reported + units[parts[0][1]]


class Links(HTMLParser):
    """What a page has of tags and attributes."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.targets: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.targets |= {value or "" for name, value in attrs if name in ("href", "src")}


HOSTILE = "<script>alert(1)</script> | `x` [a](http://evil) \x1b[2J\u202e\n# head"


@pytest.mark.parametrize("text", [HOSTILE, '"><img src=x onerror=y>', "a|b\n|---|", "``"])
def test_what_others_wrote_is_no_markup(text: str) -> None:
    """Names and messages stand in each form as they are: no tag, no link, no row, no control character."""
    found = card(
        Check("plan", "?", (failed(text, text), warned("w", text))),
        cut_over=(text, f"Do: floe run {text}"),
        back=(text,),
    )
    page, lines, document = (rendered(found, form) for form in ("html", "md", "json"))
    parser = Links()
    parser.feed(page)
    assert parser.tags <= {
        "html", "head", "meta", "title", "style", "body", "h1", "h2", "p", "table", "tr", "th", "td", "a", "span", "ul", "ol",
        "li", "br", "code",
    }  # fmt: skip
    assert parser.targets == {"#plan"}
    for form in (page, lines):
        assert not set("\x1b\u202e") & set(form)
    assert sum(line.startswith("#") for line in lines.splitlines()) == 4
    assert sum(line.startswith("|") for line in lines.splitlines()) == 3
    assert "](" not in lines.replace("\\](", "").replace("\\]\\(", "") or "`" in text
    SCHEMA.validate(json.loads(document))
    assert json.loads(document)["checks"][0]["seen"][0]["text"] == text


@pytest.mark.parametrize(
    ("more", "outage_h", "verdict"),
    [
        ({}, 72, CheckVerdict.PASS),
        ({}, 159, CheckVerdict.FAIL),
        ({"position": 20, "oldest_ms": None}, 167, CheckVerdict.PASS),
        ({"position": 20, "oldest_ms": None}, 169, CheckVerdict.FAIL),
        ({"retention_ms": -1}, 10_000, CheckVerdict.PASS),
    ],
)
def test_an_outage_that_somebody_names_must_lose_nothing(
    more: dict[str, object], outage_h: int, verdict: CheckVerdict
) -> None:
    """From now on, with what waits already; the remedy keeps twice as long."""
    seen = judge_retention(waiting(**more), NOW, "orders", "read", "b:9092", outage_h * HOUR_MS)
    assert seen.verdict is verdict
    if verdict is CheckVerdict.FAIL:
        assert "would lose data" in seen.text
        assert seen.remedy.endswith(f"retention.ms={max(168, 2 * outage_h) * HOUR_MS}")


@pytest.mark.parametrize(
    ("each_ms", "tables", "verdict", "said"),
    [
        (320, 100, CheckVerdict.PASS, "allows 187 tables one by one and up to 750 at once; this pipeline has 100"),
        (5_200, 30, CheckVerdict.WARN, "allows 11 tables one by one and up to 46 at once; this pipeline has 30"),
        (9_700, 100, CheckVerdict.FAIL, "this pipeline has 100, whose commits take longer than the interval"),
        (0.001, 100_000, CheckVerdict.PASS, "20 commits took 0 ms each"),
    ],
)
def test_the_interval_is_judged_by_how_long_commits_take(
    each_ms: float, tables: int, verdict: CheckVerdict, said: str
) -> None:
    """As many tables as can be committed one by one are no question; those that need all committers at once are warned
    of; more fail, and the remedy is an interval that all fit in."""
    found = judged("default", [each_ms] * 20, [60_000] * tables, "orders.yaml -t prod")
    assert (found.verdict, said in found.text) == (verdict, True), found.text
    longer = {CheckVerdict.WARN: "3m", CheckVerdict.FAIL: "17m"}.get(verdict)
    assert found.remedy == (
        f"set `commit: {{interval: {longer}}}` in the pipeline file, then: floe plan orders.yaml -t prod"
        if longer
        else ""
    )


@pytest.mark.parametrize(
    ("intervals_ms", "verdict"),
    [
        ([10_000] * 30 + [600_000] * 100, CheckVerdict.WARN),
        ([10_000] * 20 + [600_000] * 100, CheckVerdict.PASS),
        ([10_000] * 125, CheckVerdict.WARN),
        ([10_000] * 126, CheckVerdict.FAIL),
    ],
)
def test_each_table_counts_by_its_own_interval(intervals_ms: list[int], verdict: CheckVerdict) -> None:
    """A commit every 10 s costs a catalog what sixty every 10 min do."""
    found = judged("default", [320] * 20, intervals_ms, "orders.yaml -t prod")
    assert found.verdict is verdict, found.text
    assert "a commit interval of 10s allows 31 tables one by one and up to 125 at once" in found.text
    assert ("with intervals up to 10m" in found.text) == (600_000 in intervals_ms)
