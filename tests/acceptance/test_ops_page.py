"""The page of `floe ops` in a real browser: what is seen, by mouse, by keyboard, in the dark, on a phone; its pictures.

In: planted events. Out: pictures in build/pages; those of docs/images are copies of them.
"""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from framework.commit.events.event_types import (
    Accounting,
    Acted,
    CommitComplete,
    ControlEvent,
    Health,
    Holds,
    PauseChanged,
    StateChanged,
    Subject,
)
from framework.overview.values import Overview
from testbed.servers.browser import Browser, browser
from tests.unit.web.backend import ACTOR, LETTERS, READER, PlainDesk, at_now, committed, complete, seen, served, written

ROOT = Path(__file__).parents[2]
PICTURES = ROOT / "build" / "pages"
TABLES = ("shop.orders", "shop.items", "shop.customers")
ENTER, ESCAPE = "\ue007", "\ue00c"
MINUTE_MS = 60_000


@pytest.fixture(scope="module")
def chrome() -> Iterator[Browser]:
    with browser() as found:
        yield found


def an_hour(now_ms: int, version: int = 1, *more: ControlEvent) -> Overview:
    """Two pipelines for an hour: a table was dropped, one commit has no answer, and one pipeline is paused."""
    events: list[tuple[ControlEvent, int]] = []
    batch = low_water = 0
    for ago in range(60, 0, -1):
        at_ms = now_ms - ago * MINUTE_MS
        if ago == 9:
            low_water = len(events)
        for pipeline, tables in (("orders", TABLES), ("clicks", ("cold:archive.clicks",))):
            batch += 1
            rows = 900 + batch * 37 % 4_000
            for table in tables:
                schema_id = 3 if ago > 20 else 4
                size = 400_000 + batch * 7_919 % 9_000_000
                events.append((written(table, batch, rows, schema_id, pipeline, size), at_ms))
            dead = (batch * 13 % 29) if batch % 7 == 0 else 0
            totals = Accounting(batch * 2_000, batch * 1_990, dead_lettered=batch * 2, rows=batch * 1_990)
            done = replace(complete(batch, pipeline, dead), totals=totals)
            events.append(
                (replace(done, accounting=Accounting(rows, rows - dead, dead_lettered=dead, rows=rows)), at_ms)
            )
        for table in (*TABLES, "cold:archive.clicks"):
            if not (table == "shop.items" and ago < 10) and not (table == "shop.customers" and ago < 4):
                events.append(
                    (committed(table, len(events), 7_000 + len(events), at_ms + 20_000, 3_000), at_ms + 20_000)
                )
    gone = "table shop.items was dropped, and 9 announcements wait for it"
    no_answer = "outcome unknown (timed out) and the table cannot be read: the catalog does not answer"
    since, lately = now_ms - 9 * MINUTE_MS, now_ms - 3 * MINUTE_MS
    remedy = "it is tried again by itself; `floe log` shows each try"
    report = StateChanged(
        Subject.TABLE, "shop.customers", Health.DEGRADED, no_answer, remedy, "FLOE-R136", 3, lately, lately, "c"
    )
    cycle = CommitComplete(
        "c", low_water, now_ms, blocked={"shop.items": gone}, position=len(events), valid_through_ms={"orders": since}
    )
    events += [
        (report, lately),
        (
            replace(report, name="shop.items", state=Health.BLOCKED, reason=gone, since_ms=since, timestamp_ms=since),
            since,
        ),
        (cycle, now_ms),
        (Acted("rollback", "shop.orders", "ann@ops-1", "a bad deploy, INC-1233", now_ms - 50 * MINUTE_MS), now_ms),
        (
            PauseChanged(Holds.READING, "clicks", True, "compaction, INC-1234", "bea@ops-1", now_ms - 2 * MINUTE_MS),
            now_ms,
        ),
        *((event, now_ms) for event in more),
    ]
    return seen(events, version, now_ms=now_ms)


@pytest.fixture
def backend() -> PlainDesk:
    return PlainDesk(found=an_hour(int(time.time() * 1000)))


@pytest.fixture
def url(backend: PlainDesk) -> Iterator[str]:
    with served(backend, tokens=None) as found:
        yield found


def open_live(chrome: Browser, url: str, width: int = 1280, height: int = 900) -> None:
    chrome.open("about:blank")  # the server of the test before is gone, and its page would say so
    chrome.complaints()
    chrome.open(url, width, height)
    chrome.wait_for(lambda: chrome.text("#link") == "live", "the page is live")


def test_the_first_screen_says_what_is_wrong_since_when_and_what_to_type(chrome: Browser, url: str) -> None:
    """Without scrolling: how much is in trouble, the most urgent first with its age, reason and command; who coordinates."""
    open_live(chrome, url)
    assert chrome.text("h2.headline") == "2 tables are in trouble"
    first = chrome.text("article.trouble")
    assert "BLOCKED" in first
    assert "shop.items" in first
    assert "for 9m" in first
    assert "was dropped" in first
    assert "coordinator-1" in chrome.text("header")
    bottom = chrome.run(
        "return Math.max(...[...document.querySelectorAll('article')].map(e => e.getBoundingClientRect().bottom))"
    )
    assert bottom < 900
    assert "floe resume --reading clicks -t prod" in chrome.text("#troubles")
    chrome.picture(PICTURES / "first.png")
    assert chrome.complaints() == []


SERVER = """
import sys, time
from tests.acceptance.test_ops_page import an_hour
from tests.unit.web.backend import PlainDesk, served
with served(PlainDesk(found=an_hour(int(time.time() * 1000))), tokens=None) as url:
    print(url, flush=True)
    sys.stdin.read()
"""


def test_a_server_that_hangs_is_not_live(chrome: Browser) -> None:
    """A process that stands still keeps its connections and says nothing: within 15 s the page says that it is not live and
    since when, and shows what it has as old; once the process goes on, the page is live."""
    command = [sys.executable, "-c", SERVER]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT)
    try:
        assert process.stdout is not None
        open_live(chrome, process.stdout.readline().strip())
        process.send_signal(signal.SIGSTOP)
        chrome.wait_for(lambda: chrome.text("#link").startswith("not live since "), "the page sees it", 15)
        assert chrome.run("return getComputedStyle(document.querySelector('main')).opacity") != "1"
        chrome.picture(PICTURES / "not-live.png")
        process.send_signal(signal.SIGCONT)
        chrome.wait_for(lambda: chrome.text("#link") == "live", "the page is live again")
        assert chrome.run("return getComputedStyle(document.querySelector('main')).opacity") == "1"
    finally:
        process.send_signal(signal.SIGCONT)
        process.kill()
        process.wait(20)


def test_pipelines_and_tables_have_pages_with_plots(chrome: Browser, url: str) -> None:
    """A click leads from the first screen to a table with its timeline, from there to its pipeline with its plots."""
    open_live(chrome, url)
    chrome.click('a[href="/tables/shop.customers"]')
    chrome.wait_for(lambda: "Announced and committed" in chrome.text("#detail"), "the table's page")
    assert chrome.run("return document.querySelectorAll('svg.lanes .unknown').length") == 3
    assert chrome.run("return document.querySelectorAll('svg.lanes .committed').length") > 10
    assert "schema 3 became 4" in chrome.text("#detail")
    chrome.picture(PICTURES / "table.png")
    chrome.click('dd a[href="/pipelines/orders"]')
    chrome.wait_for(lambda: "Where every record went" in chrome.text("#detail"), "the pipeline's page")
    bars = "return [...document.querySelectorAll('svg.plot')].map(p => p.querySelectorAll('rect').length > 5)"
    assert chrome.run(bars) == [True] * 3
    assert "waiting for a commit" in chrome.text("#detail")
    chrome.picture(PICTURES / "pipeline.png")
    assert chrome.complaints() == []


def test_what_changes_is_shown_without_a_reload_and_focus_stays(chrome: Browser, url: str, backend: PlainDesk) -> None:
    """A new trouble appears within seconds, with the focus where it was; what is typed is not taken away."""
    open_live(chrome, url)
    chrome.run("window.kept = 1; document.querySelector('#tables a[href=\"/tables/shop.orders\"]').focus()")
    now_ms = int(time.time() * 1000)
    trouble = StateChanged(
        Subject.TABLE, "shop.orders", Health.DEGRADED, "the store is full", "", "", 1, now_ms, now_ms, "c"
    )
    backend.found = an_hour(now_ms, 2, written("shop.orders", 999), trouble)
    chrome.wait_for(lambda: "the store is full" in chrome.text("#troubles"), "the new trouble")
    assert chrome.text("h2.headline") == "3 tables are in trouble"
    assert chrome.run("return [window.kept, document.activeElement.getAttribute('href')]") == [1, "/tables/shop.orders"]
    chrome.keys("/", "i", "t")
    backend.found = an_hour(
        now_ms, 3, written("shop.orders", 999), trouble, Acted("stop", "orders", "eve@ops-1", "", now_ms)
    )
    chrome.wait_for(lambda: "eve@ops-1" in chrome.text("#acts"), "the act")
    assert chrome.run("return document.getElementById('q').value") == "it"


def test_everything_is_reached_by_the_keyboard(chrome: Browser, url: str) -> None:
    """`j` and Enter open what is first, Escape leads back, `/` finds a table; the focus is seen."""
    open_live(chrome, url)
    chrome.keys("j")
    outline = "return getComputedStyle(document.activeElement).outlineStyle"
    assert chrome.run("return document.activeElement.getAttribute('href')") == "/tables/shop.items"
    assert chrome.run(outline) == "solid"
    chrome.keys(ENTER)
    chrome.wait_for(lambda: "shop.items" in chrome.text("h2.headline"), "the table")
    chrome.keys(ESCAPE)
    chrome.wait_for(lambda: "in trouble" in chrome.text("h2.headline"), "the first screen")
    chrome.keys("/", *"cold", ENTER)
    chrome.wait_for(lambda: "1 of 4" in chrome.text("#tables h2"), "the found table")
    assert chrome.text("#tables tbody th") == "cold:archive.clicks"


LUMINANCE = """
const colour = (text) => {
  const c = document.createElement('canvas').getContext('2d');
  c.fillStyle = text; c.fillRect(0, 0, 1, 1);
  const parts = [...c.getImageData(0, 0, 1, 1).data].slice(0, 3).map(v => v / 255);
  return parts.map(v => v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
};
const light = (text) => { const [r, g, b] = colour(text); return 0.2126 * r + 0.7152 * g + 0.0722 * b; };
const ground = (e) => {
  for (; e; e = e.parentElement) {
    const c = getComputedStyle(e).backgroundColor;
    if (!/, 0\\)$/.test(c)) return c;
  }
  return 'white';
};
const found = [];
const texts = '.chip, .headline, .reason, .remedy, .since, .code, th, td, dt, dd, a, time, .acts li, code, button';
for (const e of document.querySelectorAll(texts)) {
  if (!e.innerText || !e.innerText.trim()) continue;
  const a = light(getComputedStyle(e).color), b = light(ground(e));
  const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
  if (ratio < 4.5) found.push(e.className + ' ' + e.innerText.slice(0, 30) + ' ' + ratio.toFixed(2));
}
return found;
"""


@pytest.mark.parametrize("width", [390, 720, 1440])
@pytest.mark.parametrize("count", [3, 300])
def test_names_have_room_at_every_width(chrome: Browser, width: int, count: int) -> None:
    """On a phone, half a screen and a whole one, with few and many tables, long and non-Latin names: nothing is wider than
    the screen, and each name of a table has at least a third of it, or is whole."""
    names = [f"lager.bestellungen_{number:03}_überführung_nach_größe" for number in range(count - 2)]
    names += ["shop.заказы_за_прошлый_год", "shop.注文明細"]
    events = [
        event
        for n, name in enumerate(names)
        for event in (written(name, n + 1), complete(n + 1), committed(name, n + 1))
    ]
    with served(PlainDesk(found=seen(at_now(*events))), tokens=None) as url:
        open_live(chrome, url, width)
        assert chrome.run("return document.documentElement.scrollWidth") <= width
        least = chrome.run(
            "return Math.min(...[...document.querySelectorAll('#tables tbody th')].map(e => e.clientWidth >= e.scrollWidth && "
            "e.querySelector('a').getClientRects().length === 1 ? innerWidth : e.clientWidth))"
        )
        assert least >= width / 3
        chrome.picture(PICTURES / f"tables-{count}-{width}.png")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_light_and_dark_can_be_read(chrome: Browser, url: str, scheme: str) -> None:
    """The page follows the system's scheme, and `t` changes it, also for the next page; each text has a contrast of 4.5."""
    chrome.command("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
    try:
        open_live(chrome, url)
        chrome.run("localStorage.clear()")
        open_live(chrome, url)
        ground = "return getComputedStyle(document.body).backgroundColor"
        first = chrome.run(ground)
        assert chrome.run(LUMINANCE) == []
        chrome.picture(PICTURES / f"first-{scheme}.png")
        open_live(chrome, url, 360, 740)
        assert chrome.run(LUMINANCE) == []
        chrome.picture(PICTURES / f"phone-{scheme}.png")
        chrome.size(1280, 900)
        chrome.keys("t")
        assert chrome.run(ground) != first
        assert chrome.run(LUMINANCE) == []
        open_live(chrome, f"{url}/tables/shop.customers")
        assert chrome.run(ground) != first
        assert chrome.run(LUMINANCE) == []
        chrome.run("localStorage.clear()")
    finally:
        chrome.command("Emulation.setEmulatedMedia", features=[])


@pytest.mark.parametrize("path", ["/", "/pipelines/orders", "/tables/shop.customers"])
def test_a_phone_shows_it_without_scrolling_sideways(chrome: Browser, url: str, backend: PlainDesk, path: str) -> None:
    """At 360 pixels nothing is wider than the screen, also a name of 200 characters, and buttons are large enough."""
    now_ms = int(time.time() * 1000)
    backend.found = an_hour(now_ms, 2, written("shop." + "x" * 200, 1, pipeline="orders"), complete(200, "p" * 200))
    open_live(chrome, url + path, 360, 740)
    assert chrome.run("return document.documentElement.scrollWidth") <= 360
    small = "return [...document.querySelectorAll('button')].filter(e => e.offsetHeight && e.offsetHeight < 40).length"
    assert chrome.run(small) == 0
    chrome.picture(PICTURES / f"phone{path.replace('/', '-').rstrip('-')}.png")


EVIL = 'shop.<img src=x onerror="window.owned=1"><script>window.owned=1</script>\'&`floe x`'


@pytest.mark.parametrize("path", ["/", "/pipelines/{}", "/tables/{}"])
def test_hostile_names_run_nothing(chrome: Browser, url: str, backend: PlainDesk, path: str) -> None:
    """Names, reasons and authors with markup are text: nothing of them runs, at the start and when they come later."""
    from urllib.parse import quote

    now_ms = int(time.time() * 1000)
    reported = StateChanged(Subject.TABLE, EVIL, Health.DEGRADED, EVIL, EVIL, EVIL, 1, now_ms, now_ms, EVIL)
    more = (written(EVIL, 1, pipeline=EVIL), complete(1, EVIL), reported, Acted(EVIL, EVIL, EVIL, EVIL, now_ms))
    backend.found = an_hour(now_ms, 2, *more)
    open_live(chrome, url + path.format(quote(EVIL, safe="")))
    assert "<script>window.owned=1</script>" in chrome.text()
    backend.found = an_hour(
        now_ms, 3, *more, Acted("again", EVIL, EVIL, EVIL, now_ms), complete(2, EVIL), written(EVIL, 2, 77)
    )
    chrome.wait_for(
        lambda: "again" in chrome.text("#acts") or "77" in chrome.text("#detail") or path != "/", "the change"
    )
    assert chrome.run("return window.owned || document.querySelectorAll('main img, main script').length") == 0
    assert chrome.complaints() == []


def test_a_script_that_got_in_would_not_run(chrome: Browser, url: str) -> None:
    """The second wall: the browser refuses an inline script, a handler, and a request to anywhere else."""
    open_live(chrome, url)
    chrome.run(
        "const s = document.createElement('script'); s.textContent = 'window.owned = 1'; document.body.append(s);"
        "const d = document.createElement('div'); d.innerHTML = '<b onclick=\"window.owned=1\">x</b>'; document.body.append(d);"
        "d.firstChild.click(); fetch('http://127.0.0.1:9/').catch(() => { window.refused = 1 })"
    )
    chrome.wait_for(lambda: chrome.run("return window.refused"), "the refusal")
    assert chrome.run("return window.owned || 0") == 0
    assert len([each for each in chrome.complaints() if "Content Security Policy" in each]) >= 3


def test_a_token_is_asked_for_and_kept_in_the_tab_alone(chrome: Browser, backend: PlainDesk) -> None:
    """With tokens the page shows nothing until one is given; a wrong one is told; no cookie is set."""
    with served(backend) as url:
        chrome.open(url)
        chrome.wait_for(lambda: chrome.run("return !document.getElementById('enter').hidden"), "the form")
        assert "shop" not in chrome.text()
        for token, said in (("a-wrong-token", "this token does not count"), (READER, "live")):
            chrome.run("document.getElementById('token').focus()")
            chrome.keys(*token, ENTER)
            chrome.wait_for(lambda said=said: chrome.text("#link") == said, said)
        chrome.wait_for(lambda: "2 tables are in trouble" in chrome.text(), "the page")
        assert chrome.run("return [document.cookie, localStorage.getItem('floe-token')]") == ["", None]
        assert READER not in chrome.run("return document.documentElement.outerHTML")
        chrome.run("sessionStorage.clear()")


def test_a_late_refusal_does_not_forget_a_newer_token(chrome: Browser, backend: PlainDesk) -> None:
    """Whoever corrects a wrong token before its refusal arrives is let in with the right one, by one listener."""
    with served(backend) as url:
        chrome.open("about:blank")
        chrome.open(url)
        chrome.wait_for(lambda: chrome.run("return !document.getElementById('enter').hidden"), "the form")
        chrome.run(
            "const real = window.fetch; window.asked = 0; const gate = new Promise((open) => { window.release = open; });"
            "window.fetch = async (...all) => { window.asked += 1; const found = await real(...all); await gate; return found; };"
        )
        for token in ("a-wrong-token", READER):
            chrome.run("document.getElementById('token').focus()")
            chrome.keys(*token, ENTER)
        chrome.run("window.release()")
        chrome.wait_for(lambda: chrome.text("#link") == "live", "the page is live")
        assert chrome.run("return [sessionStorage.getItem('floe-token'), window.asked]") == [READER, 2]
        chrome.run("sessionStorage.clear()")


def test_dead_letters_are_shown_to_who_may_act_with_a_mark_at_what_is_wrong(
    chrome: Browser, backend: PlainDesk
) -> None:
    """Who may act presses the button and sees the record with the mark under the value, as text: nothing in it is an element.
    Who may read is told that they may not. What comes by events leaves the letters where they are."""
    backend.shown = {"orders": LETTERS}
    with served(backend) as url:
        for token, said in ((READER, "may read and not act"), (ACTOR, "1 of 7 of the last day, in shop.dead_letters")):
            chrome.open(f"{url}/")
            chrome.run(f"sessionStorage.setItem('floe-token', '{token}')")
            open_live(chrome, f"{url}/pipelines/orders")
            assert chrome.text("#letters-shown") == ""
            chrome.click("#show-letters")
            chrome.wait_for(lambda said=said: said in chrome.text("#letters-said"), said)
        line, mark = chrome.run("return document.querySelector('#letters pre').textContent").split("\n")
        assert (line, mark) == LETTERS.letters[0].lines
        assert line[mark.index("^") : mark.rindex("^") + 1] == "many".join('""')
        assert chrome.run("return document.querySelectorAll('#letters b').length") == 0
        assert chrome.run("return document.querySelector('#letters time').dateTime") == "2027-01-15T07:59:00.000Z"
        chrome.picture(PICTURES / "letters.png")
        now_ms = int(time.time() * 1000)
        backend.found = an_hour(now_ms, 2, written("shop.orders", 999), complete(999))
        chrome.wait_for(lambda: "999" in chrome.text("#detail"), "the new batch")
        assert LETTERS.letters[0].lines[0] in chrome.text("#letters")
        chrome.size(360, 740)
        assert chrome.run("return document.documentElement.scrollWidth") <= 360
        assert chrome.complaints() == []
        chrome.run("sessionStorage.clear()")
        chrome.size(1280, 900)


def test_a_server_that_ends_is_reported_and_found_again(chrome: Browser, backend: PlainDesk) -> None:
    """Who looks sees that the page is not live any more, and that it is again, without a reload."""
    from framework.web.access.access import Access
    from framework.web.app import create_app
    from framework.web.serve import bind, server

    with served(backend, tokens=None) as url:
        open_live(chrome, url)
        port = int(url.rsplit(":", 1)[1])
    chrome.wait_for(lambda: chrome.text("#link").startswith("not live"), "the end")
    import threading

    bound = bind("127.0.0.1", port)
    running = server(create_app(backend, Access(None)))
    thread = threading.Thread(target=running.run, kwargs={"sockets": [bound]}, daemon=True)
    thread.start()
    try:
        chrome.wait_for(lambda: chrome.text("#link") == "live", "the new server")
    finally:
        running.should_exit = True
        thread.join(10)
        bound.close()
