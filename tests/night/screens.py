"""What a person reads of an installation, on four screens: `floe status`, `floe top`, the page, the metrics.

In: commands and addresses. Out: lines of trouble as they stand on each screen, with the moment at which it was read. It
shares no code with what makes the screens, so that a fault in that code is no fault of the judge.
"""

from __future__ import annotations

import json
import re
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import datetime
from html.parser import HTMLParser

SCREENS = ("status", "top", "page", "metrics")
WELL = ("RUNNING", "IDLE")
_UNITS = {"d": 86_400, "h": 3_600, "m": 60, "s": 1}


@dataclass(frozen=True)
class Line:
    """What one screen says of one thing. `since_s`: seconds since 1970; None where the screen gives none. `commands`: what it
    offers to type or to copy."""

    kind: str
    name: str
    state: str
    code: str = ""
    since_s: float | None = None
    reason: str = ""
    remedy: str = ""
    commands: tuple[str, ...] = ()
    others: int = 0


@dataclass(frozen=True)
class Screen:
    """One look at one screen. `headline` is what is read first."""

    name: str
    at_s: float
    lines: tuple[Line, ...]
    text: str
    headline: str = ""

    def of(self, kind: str, name: str) -> list[Line]:
        return [line for line in self.lines if line.kind == kind and line.name == name]


Command = Callable[..., tuple[int, str]]


def status(floe: Command) -> Screen:
    """The document of `floe status --json`."""
    code, out = floe("status", "--json")
    at_s = time.time()
    document = json.loads(out[out.index("{") :]) if "{" in out else {}
    if not document.get("ok"):
        said = document.get("error", {})
        return Screen("status", at_s, (), f"exit code {code}: {json.dumps(said, ensure_ascii=False)}", str(said))
    lines = []
    for kind in ("pipeline", "table"):
        for each in document[f"{kind}s"]:
            lines.append(_of_document(kind, each[kind], each, each["state"]))
    lines += [_of_document(each["kind"], each["name"], each, "DEGRADED") for each in document["dangers"]]
    who = f"coordinated by {document['coordinator']}" if document["coordinator"] else "nobody coordinates"
    return Screen("status", at_s, tuple(lines), out, f"exit code {code}; {who}")


def _of_document(kind: str, name: str, each: dict[str, object], state: object) -> Line:
    since = each["since_ms"]
    remedy = str(each["remedy"])
    return Line(
        kind,
        name,
        str(state),
        str(each["code"]),
        float(since) / 1000 if isinstance(since, int) else None,
        str(each["reason"]),
        remedy,
        tuple(re.findall(r"`((?:floe|kafka-[a-z]+\.sh) [^`]+)`", remedy)),
    )


_TROUBLE = re.compile(
    r"^(?P<state>[A-Z]+)(?: for (?P<age>[0-9dhms ]+?))?  (?P<kind>pipeline|table|coordinator) (?P<name>\S+)"
    r"(?: \(and (?P<others>[0-9,]+) others? [a-z]+ with the same\))?(?: \[(?P<code>[A-Z0-9-]+)\])?$"
)


def top(floe: Command) -> Screen:
    """What `floe top --once` prints."""
    code, out = floe("top", "--once")
    at_s = time.time()
    lines: list[Line] = []
    now: dict[str, str] | None = None
    texts: list[str] = []

    def end() -> None:
        if now is None:
            return
        remedy = next((text.removeprefix("remedy: ") for text in texts if text.startswith("remedy: ")), "")
        reason = next((text for text in texts if not text.startswith("remedy: ")), "")
        commands = tuple(re.findall(r"`((?:floe|kafka-[a-z]+\.sh) [^`]+)`", remedy))
        since_s = at_s - _seconds(now["age"]) if now.get("age") else None
        others = int((now.get("others") or "0").replace(",", ""))
        lines.append(
            Line(
                now["kind"], now["name"], now["state"], now.get("code") or "", since_s, reason, remedy, commands, others
            )
        )

    for raw in out.splitlines():
        found = _TROUBLE.match(raw.rstrip())
        if found is not None or not raw.startswith("  "):
            end()
            now, texts = (found.groupdict() if found is not None else None), []
        else:
            texts.append(raw.strip())
    end()
    lines += _rows_of_top(out, {(line.kind, line.name) for line in lines})
    head = out.splitlines()[0] if out else ""
    return Screen("top", at_s, tuple(lines), f"exit code {code}: {out}", head)


def _rows_of_top(out: str, seen: set[tuple[str, str]]) -> Iterable[Line]:
    """Pipelines and tables in the columns below, of which nothing stands above."""
    kind = ""
    for line in out.splitlines():
        words = line.split()
        if words[:2] in (["pipeline", "state"], ["table", "state"]):
            kind = words[0]
        elif kind and len(words) > 2 and words[1].isupper() and (kind, words[0]) not in seen:
            yield Line(kind, words[0], words[1])
        elif not words:
            kind = ""


def _seconds(age: str) -> int:
    return sum(int(count) * _UNITS[unit] for count, unit in re.findall(r"(\d+)([dhms])", age))


class _Articles(HTMLParser):
    """Each `article` with the texts of its elements by their class, and the rows of tables."""

    def __init__(self) -> None:
        super().__init__()
        self.articles: list[dict[str, list[str]]] = []
        self.rows: list[tuple[str, str, str]] = []  # kind, name, state
        self.headline = ""
        self.text: list[str] = []
        self._open: list[tuple[str, str, list[str]]] = []
        self._article: dict[str, list[str]] | None = None
        self._row: list[str] = []
        self._kind = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in ("meta", "link", "input", "br", "rect", "path", "line"):
            return
        found = dict(attrs)
        kind = found.get("class") or ""
        if tag == "article":
            self._article = {}
        if self._article is not None:
            if tag == "time":
                self._article.setdefault("time", []).append(found.get("datetime") or "")
            if tag == "button":
                self._article.setdefault("to copy", []).append(found.get("data-copy") or "")
            if tag == "a":
                self._article.setdefault("href", []).append(found.get("href") or "")
        if tag == "tr":
            self._row = []
        if tag == "a" and (found.get("href") or "").startswith(("/pipelines/", "/tables/")):
            self._kind = (found.get("href") or "").split("/")[1].rstrip("s")
        self._open.append((tag, kind, []))

    def handle_data(self, data: str) -> None:
        self.text.append(data)
        for _, _, texts in self._open:
            texts.append(data)

    def handle_endtag(self, tag: str) -> None:
        while self._open:
            opened, kind, texts = self._open.pop()
            said = " ".join("".join(texts).split())
            if opened == "h2" and "headline" in kind:
                self.headline = said
            if self._article is not None:
                self._article.setdefault(kind.split(" ")[0] or opened, []).append(said)
            if opened in ("td", "th"):
                self._row.append(said)
            if opened == "tr" and len(self._row) > 2 and self._row[1].isupper():
                self.rows.append((self._kind, self._row[0], self._row[1]))
            if opened == "article" and self._article is not None:
                self.articles.append(self._article)
                self._article = None
            if opened == tag:
                break


def page(url: str) -> Screen:
    """The first screen, as the server gives it to a browser."""
    try:
        with urllib.request.urlopen(url, timeout=10) as answer:
            body = answer.read().decode()
    except OSError as error:
        return Screen("page", time.time(), (), f"no page: {error}")
    at_s = time.time()
    parser = _Articles()
    parser.feed(body)
    lines = []
    for article in parser.articles:
        chip = (article.get("chip") or [""])[0]
        subject = (article.get("quiet") or [""])[0]
        name = (article.get("a") or [""])[0]
        if not name and subject == "coordinator":
            name = article["h3"][0].removeprefix(chip).split(" coordinator")[0].strip()
        if subject not in ("pipeline", "table", "coordinator"):
            continue
        moment = (article.get("time") or [""])[0]
        others = re.search(r"and ([0-9,]+) more", (article.get("others") or [""])[0])
        commands = tuple(article.get("to copy", ()))
        remedy = (article.get("remedy") or [""])[0].removeprefix("Do ")
        lines.append(
            Line(
                subject,
                name,
                chip,
                next((text for text in article.get("code", ()) if text.startswith("FLOE-")), ""),
                datetime.fromisoformat(moment.replace("Z", "+00:00")).timestamp() if moment else None,
                (article.get("reason") or [""])[0],
                remedy,
                commands,
                int(others[1].replace(",", "")) if others else 0,
            )
        )
    seen = {(line.kind, line.name) for line in lines}
    lines += [Line(kind, name, state) for kind, name, state in parser.rows if (kind, name) not in seen]
    return Screen("page", at_s, tuple(lines), " ".join("".join(parser.text).split()), parser.headline)


_SAMPLE = re.compile(r"^(?P<name>[a-z_]+)(?:\{(?P<labels>[^}]*)\})? (?P<value>\S+)$")


@dataclass(frozen=True)
class Sample:
    name: str
    labels: dict[str, str]
    value: float


def samples(text: str) -> list[Sample]:
    found = (_SAMPLE.match(line) for line in text.splitlines() if not line.startswith("#"))
    return [
        Sample(one["name"], dict(re.findall(r'([a-z_]+)="([^"]*)"', one["labels"] or "")), float(one["value"]))
        for one in found
        if one is not None
    ]


def metrics(urls: Sequence[str]) -> Screen:
    """What a scrape of all processes gives: the states that are 1, and the services that do not answer."""
    found: list[Sample] = []
    silent = []
    at_s = time.time()
    for url in urls:
        try:
            with urllib.request.urlopen(url, timeout=10) as answer:
                found += samples(answer.read().decode())
        except (OSError, urllib.error.HTTPError):
            silent.append(url)
    since = {
        one.labels["pipeline"]: one.value for one in found if one.name == "floe_pipeline_state_since_timestamp_seconds"
    }
    lines = []
    for kind in ("pipeline", "table"):
        for one in found:
            if one.name == f"floe_{kind}_state" and one.value == 1:
                since_s = since.get(one.labels[kind]) if kind == "pipeline" else None
                lines.append(Line(kind, one.labels[kind], one.labels["state"], since_s=since_s))
    lines += [
        Line("service", one.labels["service"], "DOWN")
        for one in found
        if one.name == "floe_service_up" and not one.value
    ]
    owners = [one for one in found if one.name == "floe_coordinator_owner"]
    lines += [Line("process", url, "DOWN") for url in silent]
    if owners and not any(one.value for one in owners):
        lines.append(Line("coordinator", owners[0].labels["control_topic"], "NOBODY"))
    text = "\n".join(f"{one.name} {one.labels} {one.value}" for one in found if one.name in _TOLD)
    return Screen("metrics", at_s, tuple(lines), text + "".join(f"\nno metrics: {url}" for url in silent))


_TOLD = (
    *(
        "floe_service_up",
        "floe_retries_total",
        "floe_pipeline_lag_seconds",
        "floe_records_total",
        "floe_coordinator_owner",
    ),
    *(
        "floe_pipeline_retention_used_ratio",
        "floe_pipeline_silent_seconds",
        "floe_catalog_request_started_timestamp_seconds",
    ),
)


@dataclass
class Watched:
    """Looks at all screens again and again, each in a thread of its own, and keeps what each showed."""

    readers: dict[str, Callable[[], Screen]]
    shown: dict[str, list[Screen]] = field(default_factory=dict)

    def until(
        self, told: Callable[[Screen], bool], within_s: float, names: Sequence[str] = SCREENS
    ) -> dict[str, Screen]:
        """The first look at each screen that tells it; a screen that did not tell within the time is not there."""
        end = time.monotonic() + within_s

        def look(name: str) -> Screen | None:
            while True:
                begun = time.monotonic()
                screen = self.readers[name]()
                self.shown.setdefault(name, []).append(screen)
                if told(screen):
                    return screen
                if time.monotonic() > end:
                    return None
                time.sleep(max(0.0, 0.5 - (time.monotonic() - begun)))

        with ThreadPoolExecutor(len(names)) as pool:
            found = dict(zip(names, pool.map(look, names), strict=True))
        return {name: screen for name, screen in found.items() if screen is not None}
