"""Proxies on loopback that misbehave on demand, to stand in front of a broker or of a REST catalog.

In: the address of a real server. Out: an address to give to floe, and switches: let pass, delay, refuse, cut, and
"deliver, then lose the answer", the fault from which duplicates are made. Bytes are never changed.
"""

from __future__ import annotations

import contextlib
import http.client
import socket
import ssl
import struct
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

CHUNK = 65_536
END_TXN = 26  # Kafka's api key of the request that commits or aborts a transaction
TXN_OFFSET_COMMIT = 28
LIST_OFFSETS = 2


class TcpProxy:
    """Forwards connections to 127.0.0.1:`target_port`. One thread each way; all are ended by `close`.

    Switches: `delay_s` holds every chunk back; `refuse()` closes live connections and accepts none until `accept()`;
    `cut()` closes live connections only; `lose_answer_to(api_key)` forwards the next Kafka request of that kind, waits
    for the broker's answer, drops it and cuts the connection.
    """

    def __init__(self, target_port: int, port: int = 0) -> None:
        self.target_port = target_port
        self.delay_s = 0.0
        self.lost_answers = 0
        self._refusing = False
        self._lose: int | None = None
        self._closed = threading.Event()
        self._lock = threading.Lock()
        self._pairs: set[tuple[socket.socket, socket.socket]] = set()
        self._listener = socket.socket()
        self._listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._listener.bind(("127.0.0.1", port))
        self._listener.listen(64)
        self.port: int = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    def refuse(self) -> None:
        self._refusing = True
        self.cut()

    def accept(self) -> None:
        self._refusing = False

    def cut(self) -> None:
        with self._lock:
            pairs, self._pairs = self._pairs, set()
        for pair in pairs:
            for end in pair:
                _shut(end)

    def lose_answer_to(self, api_key: int) -> None:
        self._lose = api_key

    def close(self) -> None:
        self._closed.set()
        _shut(self._listener)
        self.cut()

    def _accept(self) -> None:
        while not self._closed.is_set():
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            if self._refusing:
                _shut(client)
                continue
            try:
                server = socket.create_connection(("127.0.0.1", self.target_port), timeout=5)
            except OSError:
                _shut(client)
                continue
            server.settimeout(None)
            pair = (client, server)
            with self._lock:
                self._pairs.add(pair)
            losing = threading.Event()
            threading.Thread(target=self._requests, args=(pair, losing), daemon=True).start()
            threading.Thread(target=self._answers, args=(pair, losing), daemon=True).start()

    def _requests(self, pair: tuple[socket.socket, socket.socket], losing: threading.Event) -> None:
        """Client to server, request by request where one is to be picked out: Kafka frames have a length in front."""
        client, server = pair
        with contextlib.suppress(OSError):
            while True:
                head = _read(client, 6)
                length, api_key = struct.unpack(">ih", head)
                body = _read(client, length - 2)
                if self.delay_s:
                    time.sleep(self.delay_s)
                if api_key == self._lose:
                    self._lose = None
                    losing.set()
                server.sendall(head + body)
        self._drop(pair)

    def _answers(self, pair: tuple[socket.socket, socket.socket], losing: threading.Event) -> None:
        client, server = pair
        with contextlib.suppress(OSError):
            while data := server.recv(CHUNK):
                if self.delay_s:
                    time.sleep(self.delay_s)
                if losing.is_set():
                    self.lost_answers += 1
                    break
                client.sendall(data)
        self._drop(pair)

    def _drop(self, pair: tuple[socket.socket, socket.socket]) -> None:
        with self._lock:
            self._pairs.discard(pair)
        for end in pair:
            _shut(end)


def _read(source: socket.socket, count: int) -> bytes:
    parts: list[bytes] = []
    while count:
        data = source.recv(min(count, CHUNK))
        if not data:
            raise ConnectionResetError
        parts.append(data)
        count -= len(data)
    return b"".join(parts)


def _shut(end: socket.socket) -> None:
    with contextlib.suppress(OSError):
        end.shutdown(socket.SHUT_RDWR)
    end.close()


@dataclass(frozen=True)
class Answer:
    """An answer that the proxy makes up."""

    status: int
    body: bytes = b""


# What becomes of one HTTP request: passed on, or answered with this status.
Fault = Callable[[str, str], int | Answer | None]
# As well, where its path, headers and body say it.
Door = Callable[[str, Mapping[str, str], bytes], Answer | None]


class HttpProxy:
    """Forwards HTTP requests to 127.0.0.1:`target_port`, except as two functions of (method, path) say.

    `before` answers with its status without asking the server; `after` asks the server, drops the answer and answers
    with its status instead. `door` is asked first, and reads headers and body. None lets the request pass. `answered`
    counts the statuses that were made up. `change` is given the path and the body of an answer with status 200, and gives
    another body. With `tls` clients speak TLS to it.
    """

    def __init__(self, target_port: int, tls: ssl.SSLContext | None = None) -> None:
        self.before: Fault = lambda method, path: None
        self.after: Fault = lambda method, path: None
        self.door: Door = lambda path, headers, body: None
        self.change: Callable[[str, bytes], bytes] = lambda path, body: body
        self.answered: Counter[int] = Counter()
        proxy = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def _forward(self) -> None:
                body = self._body()
                headers = {name: value for name, value in self.headers.items() if name.lower() != "transfer-encoding"}
                made_up = proxy.door(self.path, headers, body) or proxy.before(self.command, self.path)
                if made_up is not None:
                    self._answer(made_up)
                    return
                try:
                    upstream = http.client.HTTPConnection("127.0.0.1", target_port, timeout=30)
                    upstream.request(self.command, self.path, body or None, headers)
                    response = upstream.getresponse()
                    data = response.read()
                    upstream.close()
                except OSError:
                    self._answer(502)
                    return
                made_up = proxy.after(self.command, self.path)
                if made_up is not None:
                    self._answer(made_up)
                    return
                if response.status == 200 and self.command != "HEAD":
                    data = proxy.change(self.path, data)
                self.send_response(response.status)
                for name, value in response.getheaders():
                    if name.lower() not in ("transfer-encoding", "content-length", "connection"):
                        self.send_header(name, value)
                # The answer to HEAD has no body, but says how long it would be.
                length = response.getheader("Content-Length") if self.command == "HEAD" else None
                self.send_header("Content-Length", length or str(len(data)))
                self.end_headers()
                if self.command != "HEAD":
                    self.wfile.write(data)

            def _body(self) -> bytes:
                """The whole body; a store's client sends it in chunks, without saying how long it is."""
                if "chunked" not in (self.headers.get("Transfer-Encoding") or ""):
                    return self.rfile.read(int(self.headers.get("Content-Length") or 0))
                parts: list[bytes] = []
                while size := int(self.rfile.readline().split(b";")[0], 16):
                    parts.append(self.rfile.read(size))
                    self.rfile.readline()
                while self.rfile.readline().strip():  # trailers
                    pass
                return b"".join(parts)

            do_GET = do_POST = do_PUT = do_DELETE = do_HEAD = _forward

            def _answer(self, made_up: int | Answer) -> None:
                answer = made_up if isinstance(made_up, Answer) else Answer(made_up)
                proxy.answered[answer.status] += 1
                self.send_response(answer.status)
                self.send_header("Content-Length", str(len(answer.body)))
                self.end_headers()
                if self.command != "HEAD":
                    self.wfile.write(answer.body)

            def log_message(self, format: str, *args: object) -> None:
                """Nothing: a test's output is its own."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.port = int(self._server.server_address[1])
        self._scheme = "http" if tls is None else "https"
        if tls is not None:
            self._server.socket = tls.wrap_socket(self._server.socket, True, do_handshake_on_connect=False)
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()

    @property
    def uri(self) -> str:
        return f"{self._scheme}://127.0.0.1:{self.port}"

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


def s3_error(status: int, code: str) -> Answer:
    """A refusal as an S3 store words it."""
    head = '<?xml version="1.0" encoding="UTF-8"?>'
    return Answer(status, f"{head}<Error><Code>{code}</Code><Message>made up: {code}</Message></Error>".encode())


def is_commit(method: str, path: str) -> bool:
    """Whether a request to a REST catalog commits to an existing table."""
    return method == "POST" and "/tables/" in path
