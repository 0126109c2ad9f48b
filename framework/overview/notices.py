"""What a person is notified of: each trouble once when it begins or becomes another one, and once when it is over.

In: overviews, and what somebody was notified of already. Out: notices, and their bodies as Slack's incoming webhooks and
PagerDuty's Events API v2 take them. Invariant: the text of a notice is data to its receiver, whatever a name or a reason holds.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from framework.commit.events.event_types import Health
from framework.overview.values import Overview

Subject = tuple[str, str]
"""A kind, such as `table`, and a name."""
SUMMARY_MOST = 1000  # PagerDuty cuts at 1,024
REASON_MOST = 3000


@dataclass(frozen=True)
class Notice:
    """One trouble of one subject, or its end. `others`: so many more have the same."""

    kind: str
    name: str
    state: str
    code: str
    reason: str = ""
    remedy: str = ""
    others: int = 0
    is_over: bool = False

    @property
    def subject(self) -> Subject:
        return self.kind, self.name

    @property
    def what(self) -> tuple[str, str]:
        """What a change is a change of: figures in a reason grow without anything being new."""
        return self.state, self.code

    @property
    def text(self) -> str:
        if self.is_over:
            return f"over: {self.kind} {self.name} was {self.state}"
        more = f" and {self.others} more" if self.others else ""
        return f"{self.state}: {self.kind} {self.name}{more}: {self.reason[:REASON_MOST]}"


Notices = Mapping[Subject, Notice]


def noticed(found: Overview) -> Notices:
    """The most urgent trouble of each subject."""
    result: dict[Subject, Notice] = {}
    if found.broker.trouble:
        result["broker", found.target] = Notice("broker", found.target, "DOWN", "", found.broker.trouble)
    for line in found.troubles:
        said = line.condition
        one = Notice(line.kind, line.name, said.state.value, said.code, said.reason, said.remedy, line.others)
        result.setdefault(one.subject, one)
    return result


def due(sent: Notices, before: Notices, now: Notices, is_blind: bool = False) -> Iterator[Notice]:
    """What is to be sent: what two looks after each other agree on, and what was sent does not say. A look that `is_blind`,
    since the broker does not answer, ends nothing."""
    for subject, one in now.items():
        known = sent.get(subject)
        is_steady = subject in before and before[subject].what == one.what
        if is_steady and (known is None or known.what != one.what):
            yield one
    for subject, one in sent.items() if not is_blind else ():
        if subject not in now and subject not in before:
            yield replace(one, is_over=True)


def remembered(sent: Notices) -> list[list[str]]:
    """What was sent, as the next process has to know it."""
    return [[one.kind, one.name, one.state, one.code] for one in sent.values()]


def recalled(found: object) -> dict[Subject, Notice]:
    """What an earlier process remembered; nothing of what is not so."""
    lines = found if isinstance(found, list) else []
    notices = [
        Notice(*line)
        for line in lines
        if isinstance(line, list) and len(line) == 4 and all(isinstance(each, str) for each in line)
    ]
    return {one.subject: one for one in notices}


def slack_body(notice: Notice, target: str) -> dict[str, object]:
    """As an incoming webhook takes it. Escaped as Slack wants it: no name there calls a channel."""
    text = f"[{target}] {notice.text}"
    if notice.remedy and not notice.is_over:
        text += f"\n{notice.remedy}"
    return {"text": text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")}


def pagerduty_body(notice: Notice, target: str, control_topic: str, routing_key: str) -> dict[str, object]:
    """As the Events API v2 takes it: one incident for each subject, which its end resolves."""
    of = "\0".join((target, control_topic, *notice.subject))
    event: dict[str, object] = {
        "routing_key": routing_key,
        "event_action": "resolve" if notice.is_over else "trigger",
        "dedup_key": f"floe-{hashlib.sha256(of.encode()).hexdigest()[:40]}",
    }
    if not notice.is_over:
        event["payload"] = {
            "summary": f"[{target}] {notice.text}"[:SUMMARY_MOST],
            "source": control_topic,
            "severity": "warning" if notice.state == Health.DEGRADED.value else "critical",
            "component": notice.name,
            "class": notice.code or notice.state,
            "custom_details": {"reason": notice.reason[:REASON_MOST], "remedy": notice.remedy},
        }
    return event
