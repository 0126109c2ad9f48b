"""`make site`: the pages of docs/ as a site that loads nothing from elsewhere, with search, and no link that leads nowhere."""

from __future__ import annotations

import html
import os
import re
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import unquote

import pytest

pytest.importorskip("mkdocs", reason="the site is built with Python 3.11 or newer")
ROOT = Path(__file__).parents[2]
BROWSER = shutil.which("chromium") or shutil.which("google-chrome")


def build(project: Path, site: Path) -> subprocess.CompletedProcess[str]:
    """Builds the site as `make site` does, behind a proxy that nobody listens on: whatever asks the network fails."""
    nowhere = dict.fromkeys(("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"), "http://127.0.0.1:9")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(site)]
    environment = {**os.environ, **nowhere, "NO_MKDOCS_2_WARNING": "1"}
    return subprocess.run(command, cwd=project, env=environment, capture_output=True, text=True, timeout=200)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    done = build(ROOT, folder)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


def test_every_page_is_in_it(site: Path) -> None:
    """Each Markdown file of docs/ is a page, and its first heading is that page's."""
    for page in (ROOT / "docs").rglob("*.md"):
        built = site / page.relative_to(ROOT / "docs").with_suffix(".html")
        heading = re.search(r"^# (.*)$", page.read_text(), re.MULTILINE)
        shown = re.search(r"<h1[^>]*>(.*?)<a class=\"headerlink\"", built.read_text(), re.DOTALL)
        assert heading is not None, page
        assert shown is not None, page
        plain = html.unescape(re.sub(r"<[^>]+>", "", shown[1])).strip()
        assert plain == heading[1].replace("`", ""), page


def test_links_and_anchors_lead_somewhere(site: Path) -> None:
    """Every link of every built page to the site itself names a file of it, and an id in that file."""
    ids = {page: set(re.findall(r'\bid="([^"]+)"', page.read_text())) for page in site.rglob("*.html")}
    wrong = []
    for page in ids:
        if page.name == "404.html":
            continue
        for link in re.findall(r'<a\b[^>]*\bhref="([^"]+)"', page.read_text()):
            link = html.unescape(link)
            if re.match(r"[a-z]+:", link):
                continue
            path, _, anchor = link.partition("#")
            goal = (page.parent / unquote(path)).resolve() if path else page
            goal = goal / "index.html" if goal.is_dir() else goal
            if not goal.exists() or (anchor and goal in ids and unquote(anchor) not in ids[goal]):
                wrong.append(f"{page.relative_to(site)}: {link}")
    assert wrong == []


def test_links_into_the_repository_lead_to_files(site: Path) -> None:
    """A link of a page that leaves docs/ goes to a file of the repository."""
    base = "https://git.example.com/data/floe/blob/main/"
    found = {link for page in site.rglob("*.html") for link in re.findall(f'href="{base}([^"#]+)', page.read_text())}
    assert len(found) > 5
    assert [path for path in sorted(found) if not (ROOT / path).exists()] == []


def test_nothing_is_loaded_from_elsewhere(site: Path) -> None:
    """No page needs the network: scripts, styles, fonts and pictures are the site's own."""
    loads = re.compile(r'<(?:script|img|iframe|source)\b[^>]*\bsrc="(?:https?:)?//|<link\b[^>]*\bhref="(?:https?:)?//')
    wanted = [
        page.name for page in site.rglob("*.html") if loads.search(page.read_text().replace('rel="canonical"', ""))
    ]
    assert wanted == []


@pytest.mark.parametrize("planted", ["[there](nowhere.md)", "[there](concepts.md#nowhere)", "[there](../nowhere.md)"])
def test_a_link_to_nothing_ends_the_build(planted: str, tmp_path: Path) -> None:
    """The build can fail: a page, an anchor or a file of the repository that there is not ends it."""
    for name in ("mkdocs.yml", "README.md"):
        shutil.copy(ROOT / name, tmp_path)
    (tmp_path / ".ci").mkdir()
    shutil.copy(ROOT / ".ci" / "site_links.py", tmp_path / ".ci")
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "concepts.md").write_text("# Concepts\n")
    (tmp_path / "docs" / "index.md").write_text(f"# Start\n\n[README](../README.md) {planted}\n")
    settings = (tmp_path / "mkdocs.yml").read_text().partition("\nnav:")[0]
    (tmp_path / "mkdocs.yml").write_text(settings)
    assert build(tmp_path, tmp_path / "site").returncode != 0
    (tmp_path / "docs" / "index.md").write_text("# Start\n\n[README](../README.md)\n")
    done = build(tmp_path, tmp_path / "site")
    assert done.returncode == 0, done.stderr


def test_the_list_of_decisions_is_whole() -> None:
    """docs/decisions/index.md names every decision, by its title."""
    listed = re.findall(
        r"^- \[(.*)\]\((\d.*\.md)\)$", (ROOT / "docs" / "decisions" / "index.md").read_text(), re.MULTILINE
    )
    files = sorted((ROOT / "docs" / "decisions").glob("0*.md"))
    assert listed == [(file.read_text().splitlines()[0].removeprefix("# "), file.name) for file in files]


class Slow(SimpleHTTPRequestHandler):
    """Serves a folder; `/slow` answers after a while, so that a page that waits for it gives others time."""

    def do_GET(self) -> None:
        if self.path == "/slow":
            time.sleep(8)
            self.send_error(404)
        else:
            super().do_GET()

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def address(site: Path) -> Iterator[str]:
    (site / "harness.html").write_text(
        '<iframe id="site" src="index.html?q=rebase" width="1400" height="900"></iframe><img src="/slow"><script>'
        'onload = () => { const page = document.getElementById("site").contentDocument;'
        ' document.title = [...page.querySelectorAll(".md-search-result h1")].map(one => one.textContent).join("|") }'
        "</script>"
    )
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Slow, directory=str(site)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    (site / "harness.html").unlink()


@pytest.mark.skipif(BROWSER is None, reason="no Chromium on this machine")
def test_search_finds_in_a_browser(address: str, tmp_path: Path) -> None:
    """In a browser, the search of the first page finds the pages that speak of `rebase`."""
    assert BROWSER is not None
    command = [BROWSER, "--headless=new", "--no-sandbox", "--disable-gpu", f"--user-data-dir={tmp_path}"]
    done = subprocess.run(
        [*command, "--dump-dom", f"{address}/harness.html"], capture_output=True, text=True, timeout=90
    )
    title = re.search(r"<title>(.*?)</title>", done.stdout)
    assert title is not None, done.stdout[-2000:] + done.stderr[-2000:]
    assert {"Operations", "Commands"} & set(title[1].split("|")), title[1]
