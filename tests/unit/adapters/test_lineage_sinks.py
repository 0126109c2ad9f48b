"""Where lineage events go: files that several processes share, and servers that may be anybody's."""

from __future__ import annotations

import stat
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from framework.adapters.telemetry.lineage_sinks import FileSink, HttpSink


class Server(ThreadingHTTPServer):
    """Remembers what it was sent, and answers with `status`."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.seen: list[tuple[str, str | None, bytes]] = []
        self.status = 201
        self.location = ""

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_POST(self) -> None:  # its name in the standard library
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.seen.append((self.path, self.headers.get("Authorization"), body))
        self.send_response(self.server.status)
        if self.server.location:
            self.send_header("Location", self.server.location)
        self.send_header("Content-Length", "1000000")
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def server() -> Iterator[Server]:
    made = Server()
    thread = threading.Thread(target=made.serve_forever, daemon=True)
    thread.start()
    yield made
    made.shutdown()
    made.server_close()


def test_events_are_posted_with_the_token(server: Server, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """One event a request; the token is the target's, whatever this machine's user has for the server."""
    netrc = tmp_path / "netrc"
    netrc.write_text("machine 127.0.0.1 login me password mine\n")
    monkeypatch.setenv("NETRC", str(netrc))
    sink = HttpSink(f"{server.url}/api/v1/lineage", "t0ken")
    sink.send("job", b'{"a": 1}')
    HttpSink(f"{server.url}/other", "").send("job", b"{}")
    sink.close()
    assert server.seen == [("/api/v1/lineage", "Bearer t0ken", b'{"a": 1}'), ("/other", None, b"{}")]


@pytest.mark.parametrize("status", [301, 307, 400, 401, 500])
def test_what_is_not_taken_is_an_error_and_no_other_server_gets_the_token(server: Server, status: int) -> None:
    """An answer that is no success is an error, and where the server points to is not followed."""
    other = Server()
    server.status, server.location = status, f"{other.url}/stolen" if status < 400 else ""
    sink = HttpSink(server.url, "t0ken")
    with pytest.raises(OSError, match=str(status)):
        sink.send("job", b"{}")
    other.server_close()
    assert other.seen == []


def test_lines_of_several_writers_stay_whole(tmp_path: Path) -> None:
    """Two processes' sinks may append to one file, and it may be moved away between two events."""
    path = tmp_path / "lineage.jsonl"
    sinks = [FileSink(str(path)) for _ in range(4)]
    event = b"x" * 20_000

    def write(sink: FileSink) -> None:
        for _ in range(50):
            sink.send("job", event)

    threads = [threading.Thread(target=write, args=(sink,)) for sink in sinks]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    lines = path.read_bytes().splitlines()
    assert len(lines) == 200
    assert set(lines) == {event}
    assert not path.stat().st_mode & stat.S_IRWXO
    path.rename(tmp_path / "older")
    sinks[0].send("job", b"{}")
    assert path.read_bytes() == b"{}\n"
    with pytest.raises(OSError, match="No such file"):
        FileSink(str(tmp_path / "no" / "folder")).send("job", b"{}")
