"""Judges what the screens say of one planted fault: all the same, within a time, with the right beginning.

In: what each screen showed first, and what is expected. Out: a list of complaints, empty where all is as it should be.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from tests.night.screens import SCREENS, Line, Screen

WITHIN_S = 15.0
# `floe top` gives ages of whole seconds, and a look takes a moment.
SINCE_S = 5.0


@dataclass(frozen=True)
class Expected:
    """What a person should read of one thing. `states`: any of them. `words`: a pattern that the reason has. `remedy`: a pattern
    of the remedy. `within_s`: more than 15 s only where something outside needs it, as `why` says."""

    kind: str
    name: str
    states: tuple[str, ...]
    code: str = ""
    words: str = ""
    remedy: str = ""
    within_s: float = WITHIN_S
    why: str = ""
    screens: tuple[str, ...] = SCREENS

    def found_on(self, screen: Screen) -> Line | None:
        """The line that tells it. Metrics have states alone."""
        for line in screen.of(self.kind, self.name):
            if line.state not in self.states:
                continue
            if screen.name == "metrics" or (line.code == self.code and re.search(self.words, line.reason)):
                return line
        return None


@dataclass(frozen=True)
class ExpectedText:
    """What a person should read where nothing of one thing can be told: a pattern for each screen."""

    patterns: Mapping[str, str]
    within_s: float = WITHIN_S
    why: str = ""

    @property
    def screens(self) -> tuple[str, ...]:
        return tuple(self.patterns)

    def found_on(self, screen: Screen) -> Line | None:
        if re.search(self.patterns[screen.name], f"{screen.headline}\n{screen.text}") is None:
            return None
        return Line("text", "", screen.headline)


@dataclass
class Verdict:
    """`told_s`: by screen after how long it was told."""

    told_s: dict[str, float] = field(default_factory=dict)
    complaints: list[str] = field(default_factory=list)
    lines: dict[str, Line] = field(default_factory=dict)


def judged(expected: Expected | ExpectedText, seen: Mapping[str, Screen], begun_s: float, planted_s: float) -> Verdict:
    """Of one thing that was planted between two moments."""
    verdict = Verdict()
    for name in expected.screens:
        if name not in seen:
            verdict.complaints.append(f"{name} does not tell it within {expected.within_s:.0f} s")
            continue
        screen = seen[name]
        verdict.told_s[name] = screen.at_s - begun_s
        line = expected.found_on(screen)
        assert line is not None
        verdict.lines[name] = line
    if isinstance(expected, ExpectedText):
        return verdict
    told = [line for name, line in verdict.lines.items() if name != "metrics"]
    for what, texts in (
        ("states", {line.state for line in verdict.lines.values()}),
        ("reasons", {_plain(line.reason) for line in told}),
        ("remedies", {_plain(line.remedy) for line in told}),
    ):
        if len(texts) > 1:
            verdict.complaints.append(f"the {what} differ: {sorted(texts)}")
    for name, line in verdict.lines.items():
        if line.since_s is None:
            if name != "metrics" or expected.kind == "pipeline":
                verdict.complaints.append(f"{name} does not say since when")
        elif not begun_s - SINCE_S <= line.since_s <= planted_s + SINCE_S:
            off_s = line.since_s - (begun_s if line.since_s < begun_s else planted_s)
            verdict.complaints.append(f"{name}: since is {off_s:+.1f} s off")
    for name, line in verdict.lines.items():
        if name != "metrics" and not line.remedy:
            verdict.complaints.append(f"{name} says nothing that one could do")
        if name != "metrics" and expected.remedy and not re.search(expected.remedy, line.remedy):
            verdict.complaints.append(f"{name}: another remedy: {line.remedy}")
    return verdict


def _plain(text: str) -> str:
    """Without marks, and without what is another one at each look: figures that grow, names of files."""
    text = re.sub(r"[0-9a-f]{8,}(?:-[0-9a-f-]+)?", "ID", " ".join(text.replace("`", "").split()))
    return re.sub(r"\d[\d,.]*", "N", text)


def calm(headline: str) -> bool:
    """Whether a page's headline says that all is well."""
    return headline == "Nothing is in trouble"


Check = Callable[[], Sequence[str]]
