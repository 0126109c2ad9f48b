"""Notices: each change of a subject's trouble once, and its end once, whatever the figures in a reason do."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from framework.overview.notices import Notice, Subject, due, pagerduty_body, slack_body

STATES = ("BLOCKED", "DEGRADED", "")
Look = dict[Subject, Notice]


def look(states: tuple[str, ...], number: int) -> Look:
    found = [
        Notice("table", f"t{n}", state, "FLOE-R110", f"waits for {number} s") for n, state in enumerate(states) if state
    ]
    return {each.subject: each for each in found}


@given(
    st.lists(st.tuples(st.sampled_from(STATES), st.sampled_from(STATES)), max_size=12),
    st.lists(st.booleans(), min_size=40, max_size=40),
)
def test_a_change_that_lasts_two_looks_is_sent_once(looks: list[tuple[str, str]], takes: list[bool]) -> None:
    """Whenever the receiver fails, and whatever changes meanwhile: what it took last is how each subject stands, no word comes
    twice in a row, and nothing ends that had not begun."""
    sent: Look = {}
    heard: dict[Subject, list[str]] = {}
    answers = iter(takes)
    before: Look = {}
    for number, states in enumerate([*looks, *[looks[-1] if looks else ("", "")] * 2]):
        now = look(states, number)
        is_last = number > len(looks)
        for notice in list(due(sent, before, now)):
            if not (is_last or next(answers)):
                break
            heard.setdefault(notice.subject, []).append("over" if notice.is_over else notice.state)
            if notice.is_over:
                del sent[notice.subject]
            else:
                sent[notice.subject] = notice
        before = now
    assert {subject: one.what for subject, one in sent.items()} == {
        subject: one.what for subject, one in before.items()
    }
    for words in heard.values():
        assert all(one != other for one, other in pairwise(words))
        assert words[0] != "over"


def test_a_name_calls_no_channel_and_ends_no_body() -> None:
    """Whatever a table or a reason is called, Slack shows it and PagerDuty gets one JSON value within its bounds."""
    notice = Notice("table", "<!channel>", "BLOCKED", "FLOE-R110", '"}& <@U1> ' * 1000, "`floe status`")
    text = str(slack_body(notice, "prod")["text"])
    assert "<" not in text
    assert "&lt;!channel&gt;" in text
    body = json.loads(json.dumps(pagerduty_body(notice, "prod", "control", "key")))
    assert len(body["payload"]["summary"]) <= 1024
    assert body["event_action"] == "trigger"
    over = pagerduty_body(replace(notice, is_over=True), "prod", "control", "key")
    assert over == {"routing_key": "key", "event_action": "resolve", "dedup_key": body["dedup_key"]}
    other = pagerduty_body(notice, "prod", "control-2", "key")
    assert other["dedup_key"] != body["dedup_key"]
