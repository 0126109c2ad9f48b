"""The page that people look at, part by part: what is in trouble first, then pipelines, tables and acts.

In: an `Overview`, and which page is looked at. Out: HTML by the part's id, the same text as long as nothing has changed:
ages are reported as moments, and the browser counts them. Invariant: whatever comes from others is made visible by `shown`
and escaped by the template's engine; nothing else is marked as safe but the plots.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, quote, unquote, urlsplit

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape

from framework.commit.events.event_types import Health
from framework.commit.machine.reporting.condition import Condition
from framework.commit.maintenance.health import SIZES, gain_words, maintain_command
from framework.diagnose.codes.catalogue import CODES
from framework.diagnose.counted import counted, moment_text, share_of, stamp_text
from framework.diagnose.shown import argument, is_command, shown
from framework.overview.values import IN_TROUBLE, NO_CONTROL_TOPIC, URGENCY, Minute, Overview, TableView
from framework.web.page import plots

HERE = Path(__file__).parent.parent
BEAT_S = 5.0  # so often at least does the server show that it is there; silent for 2.5 times as long, it is not
LINES = 100
MOST_TEXT = 200
_CODE = re.compile(r"`([^`]+)`")


@dataclass(frozen=True)
class PageView:
    """Which page: the first one, or that of a pipeline or a table; and which tables the first one lists."""

    kind: str = "first"
    name: str = ""
    text: str = ""
    state: str = ""
    number: int = 1


@dataclass(frozen=True)
class PagePart:
    html: str
    digest: str


def looked_at(url: str) -> PageView | None:
    """The page of a path with its query; None where there is none."""
    try:
        parts = urlsplit(url)
        query = parse_qs(parts.query, max_num_fields=20)
    except ValueError:
        return None
    path = unquote(parts.path)
    for kind, start in (("pipeline", "/pipelines/"), ("table", "/tables/")):
        if path.startswith(start) and len(path) > len(start):
            return PageView(kind, path[len(start) :])
    if path != "/":
        return None
    number = query.get("page", ["1"])[0]
    state = query.get("state", [""])[0]
    return PageView(
        text=query.get("q", [""])[0][:MOST_TEXT],
        state=state if state in Health.__members__ else "",
        number=int(number) if re.fullmatch(r"[1-9][0-9]{0,4}", number) else 1,
    )


def parts(found: Overview, looked: PageView) -> dict[str, PagePart]:
    """The parts of a page."""
    if looked.kind == "first":
        texts = _first(found, looked)
    elif looked.kind == "pipeline":
        texts = _pipeline(found, looked.name)
    else:
        texts = _table(found, looked.name)
    whole = {"head": _render("head.html", found=found), **texts}
    return {
        name: PagePart(text, hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:16])
        for name, text in whole.items()
    }


def shell(
    looked: PageView,
    made: Mapping[str, PagePart],
    title: str,
    needs_token: bool,
    assets: Mapping[str, str],
    has_dead_letters: bool = False,
) -> str:
    """The whole document; without parts it holds nothing of anybody's data. `has_letters`: a pipeline's page offers its
    dead letters, which are asked for with a token of their own."""
    names = ("head", "troubles", "pipelines", "tables", "acts") if looked.kind == "first" else ("head", "detail")
    ready = [
        (name, Markup(made[name].html) if name in made else None, made[name].digest if name in made else "")
        for name in names
    ]
    dead_letters = looked.name if has_dead_letters and looked.kind == "pipeline" else ""
    return _render(
        "page.html",
        parts=ready,
        looked=looked,
        title=title,
        needs_token=needs_token,
        assets=assets,
        letters=dead_letters,
        silent_ms=int(BEAT_S * 2_500),
    )


def _first(found: Overview, looked: PageView) -> dict[str, str]:
    chosen = [
        each
        for each in _urgent(found.tables)
        if looked.text in each.table and (not looked.state or each.condition.state.value == looked.state)
    ]
    pages = max(1, -(-len(chosen) // LINES))
    number = min(looked.number, pages)
    return {
        "troubles": _render("troubles.html", found=found, headline=_headline(found), decayed=_decayed(found)),
        "pipelines": _render(
            "pipelines.html",
            pipelines=_urgent(found.pipelines)[:LINES],
            count=len(found.pipelines),
            minute=found.at_ms // 60_000,
            broker=found.broker,
        ),
        "tables": _render(
            "tables.html",
            broker=found.broker,
            tables=chosen[(number - 1) * LINES : number * LINES],
            count=len(chosen),
            all=len(found.tables),
            counts=Counter(each.condition.state.value for each in found.tables),
            looked=looked,
            number=number,
            pages=pages,
        ),
        "acts": _render("acts.html", acts=found.acts[:20]),
    }


def _decayed(found: Overview) -> list[TableView]:
    """The tables that a person should maintain, the worst first."""
    return sorted(
        (each for each in found.tables if each.needs and each.health is not None),
        key=lambda each: (-each.health.gain_files if each.health is not None else 0, each.table),
    )


def _headline(found: Overview) -> str:
    if found.broker.trouble:
        is_gone = found.broker.trouble_code == NO_CONTROL_TOPIC
        return "There is no control topic" if is_gone else "The broker cannot be asked"
    pipelines = sum(each.condition.state in IN_TROUBLE or each.at_risk is not None for each in found.pipelines)
    tables = sum(each.condition.state in IN_TROUBLE for each in found.tables)
    coordinators = sum(each.kind == "coordinator" for each in found.troubles)
    reported = [counted(count, word) for count, word in ((pipelines, "pipeline"), (tables, "table")) if count]
    reported += ["the coordinator"] * coordinators
    if not reported:
        return _calm(found)
    return f"{' and '.join(reported)} {'is' if pipelines + tables + coordinators == 1 else 'are'} in trouble"


def _calm(found: Overview) -> str:
    """Nothing is in trouble, and what stands still is named: who stopped it may have forgotten it."""
    views = (*((each.condition.state, "pipeline") for each in found.pipelines), *_states_of_tables(found))
    resting = [
        f"{counted(count, kind)} {'is' if count == 1 else 'are'} {state.value.lower()}"
        for state in (Health.STOPPED, Health.PAUSED)
        for kind in ("pipeline", "table")
        if (count := sum(each == (state, kind) for each in views))
    ]
    return f"Nothing is in trouble; {', '.join(resting)}" if resting else "Nothing is in trouble"


def _states_of_tables(found: Overview) -> Iterable[tuple[Health, str]]:
    return ((each.condition.state, "table") for each in found.tables)


def _pipeline(found: Overview, name: str) -> dict[str, str]:
    each = next((each for each in found.pipelines if each.pipeline == name), None)
    if each is None:
        return {"detail": _render("nothing.html", kind="pipeline", name=name)}
    tables = [table for table in _urgent(found.tables) if name in table.pipelines]
    return {
        "detail": _render(
            "pipeline.html",
            each=each,
            target=found.target,
            minute=found.at_ms // 60_000,
            **_VALUES,
            tables=tables[:LINES],
            count=len(tables),
        )
    }


def _table(found: Overview, name: str) -> dict[str, str]:
    each = next((each for each in found.tables if each.table == name), None)
    if each is None:
        return {"detail": _render("nothing.html", kind="table", name=name)}
    return {"detail": _render("table.html", each=each, target=found.target, minute=found.at_ms // 60_000, **_VALUES)}


# What plots show of a minute.
_VALUES: Mapping[str, Callable[[Minute], int]] = {
    "records": lambda minute: minute.records,
    "batches": lambda minute: minute.batches,
    "dead": lambda minute: minute.dead_letters,
    "rows": lambda minute: minute.rows,
    "commits": lambda minute: minute.commits,
    "bytes": lambda minute: minute.bytes,
}


def _urgent(lines: Iterable[Any]) -> list[Any]:
    return sorted(lines, key=lambda each: URGENCY.index(each.condition.state))


# ---- how values are written ------------------------------------------------------------------------------------------


def _plain(value: object) -> object:
    """Every text that a template prints goes through here, before it is escaped."""
    if isinstance(value, Markup) or not isinstance(value, str):
        return value
    return shown(value)


def _lasting(at_ms: int) -> Markup:
    """A beginning as a time that the browser turns into how long it has lasted."""
    return _moment(at_ms, "since ")


def _moment(at_ms: int | None, word: str = "") -> Markup:
    """A moment as a time that the browser turns into an age; with a word before it, into how long it has lasted."""
    if at_ms is None:
        return Markup('<span class="quiet">never</span>')
    text, stamp = moment_text(at_ms), stamp_text(at_ms)
    if not stamp.endswith("Z"):  # no calendar has it
        return escape(text)
    lasts = Markup(" data-lasts") if word else ""
    return Markup('<time datetime="{}"{} title="{}">{}{}</time>').format(stamp, lasts, text, word, text)


def _coded(text: str, is_ours: bool = True) -> Markup:
    """A sentence with its commands as such; of others' text nothing looks like one."""
    if not is_ours:
        return escape(shown(text))
    pieces = Markup("")
    for number, piece in enumerate(_CODE.split(text)):
        pieces += Markup("<code>{}</code>").format(shown(piece)) if number % 2 else escape(shown(piece))
    return pieces


def _commands(condition: Condition) -> list[str]:
    """The commands of a remedy, to be copied. What is reported in the control log becomes none, whoever wrote it: its code says
    what to ask."""
    if condition.is_reported:
        return [f"floe explain {condition.code}"] if condition.code in CODES else []
    return [each for each in _CODE.findall(condition.remedy) if is_command(each)]


def _size(size: int) -> str:
    number, units = float(size), iter(("B", "KiB", "MiB", "GiB"))
    unit = next(units)
    while number >= 1024 and (larger := next(units, None)) is not None:
        number, unit = number / 1024, larger
    return f"{number:.0f} {unit}" if unit == "B" else f"{number:.1f} {unit}"


def _took(ms: int) -> str:
    return f"{ms / 1000:,.1f} s" if ms >= 100 else f"{ms} ms"


def _number(value: int | None) -> str:
    return "–" if value is None else f"{value:,}"


def _url(name: str) -> str:
    return quote(name.encode("utf-8", "replace"), safe="")


_ENGINE = Environment(
    loader=FileSystemLoader(HERE / "templates"),
    autoescape=True,
    undefined=StrictUndefined,
    finalize=_plain,
    trim_blocks=True,
    lstrip_blocks=True,
)
_ENGINE.filters.update(
    moment=_moment,
    lasting=_lasting,
    coded=_coded,
    commands=_commands,
    word=argument,
    size=_size,
    took=_took,
    number=_number,
    url=_url,
    kind=plots.kind_of,
    gain=gain_words,
)
_ENGINE.globals.update(
    bars=plots.bars,
    lanes=plots.lanes,
    spark=plots.spark,
    share=share_of,
    sizes=SIZES,
    maintain=maintain_command,
    states=tuple(each.value for each in URGENCY),
)


def _render(template: str, /, **values: object) -> str:
    return _ENGINE.get_template(template).render(**values)
