"""What a registry, or whoever answers in its place, can cost: a bounded time, a bounded memory, a dead letter a record.

The server here answers as a test says, over a real socket; it shares nothing with floe's client.
"""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import pytest
from google.protobuf import descriptor_pb2

from framework.adapters.registry import Registry
from framework.adapters.registry_http import MOST_BYTES
from framework.config.spec import FormatSpec, FormatType
from framework.errors import RetriableError, SetupError
from framework.record.formats.wire import SchemaRef, Schemas, UnknownSchema, WriterSchema
from testbed.format_samples import Landed, framed, land, records, serialized

TIMEOUT_S, SLACK_S = 1.0, 2.0
Reply = Callable[[socket.socket, str], None]


class Hostile:
    """A server on loopback that answers each request with `reply`, and counts them."""

    def __init__(self, reply: Reply) -> None:
        self.reply = reply
        self.asked: list[str] = []
        self.heads: list[str] = []
        self._listening = socket.create_server(("127.0.0.1", 0), backlog=64)
        self.port = self._listening.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                connected, _ = self._listening.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(connected,), daemon=True).start()

    def _serve(self, connected: socket.socket) -> None:
        with connected, suppress(OSError):
            head = b""
            while b"\r\n\r\n" not in head:
                piece = connected.recv(4096)
                if not piece:
                    return
                head += piece
            path = head.split(b" ")[1].decode()
            self.asked.append(path)
            self.heads.append(head.decode())
            self.reply(connected, path)

    def close(self) -> None:
        self._listening.close()


def answered(body: bytes, status: str = "200 OK", head: str = "") -> bytes:
    return f"HTTP/1.1 {status}\r\n{head}Content-Length: {len(body)}\r\nConnection: close\r\n\r\n".encode() + body


def schema(text: str, references: object = ()) -> bytes:
    return answered(json.dumps({"schema": text, "references": references}).encode())


@pytest.fixture
def serve() -> Iterator[Callable[[Reply], Hostile]]:
    made: list[Hostile] = []

    def start(reply: Reply) -> Hostile:
        made.append(Hostile(reply))
        return made[-1]

    yield start
    for each in made:
        each.close()


def client(*servers: Hostile, **settings: str) -> Registry:
    urls = ",".join(server.url for server in servers)
    timeout = str(round(TIMEOUT_S * 1000))
    return Registry({"url": urls, "timeout.ms": timeout, "unknown.schema.patience.ms": "0", **settings})


def faulty(registry: Registry, ref: SchemaRef = 7) -> UnknownSchema:
    found = registry.schemas([ref])[ref]
    assert isinstance(found, UnknownSchema)
    assert found.is_faulty
    return found


def landed(schemas: Schemas, *refs: int) -> Landed:
    spec = FormatSpec(FormatType.AVRO, registry="main")
    return land(records([framed(ref, b"\x02") for ref in refs]), spec, schemas)


def never(connected: socket.socket, path: str) -> None:
    connected.recv(1)


def drips_its_head(connected: socket.socket, path: str) -> None:
    for _ in range(200):
        connected.sendall(b"H")
        time.sleep(0.1)


def drips_its_body(connected: socket.socket, path: str) -> None:
    connected.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n")
    for _ in range(200):
        connected.sendall(b"{")
        time.sleep(0.1)


@pytest.mark.parametrize("reply", [never, drips_its_head, drips_its_body])
def test_a_thousand_ids_wait_once_for_a_registry_that_hangs(reply: Reply, serve: Callable[[Reply], Hostile]) -> None:
    """Whether it says nothing or a byte now and then: a batch of a thousand unknown ids costs one timeout, its next try
    nothing, and no record is judged."""
    server = serve(reply)
    registry = client(server)
    began = time.monotonic()
    with pytest.raises(RetriableError, match=r"no answer in time|no connection") as reported:
        registry.schemas(range(1_000))
    assert reported.value.code == "FLOE-R141"
    assert TIMEOUT_S <= time.monotonic() - began < TIMEOUT_S + SLACK_S
    assert len(server.asked) <= 8, "as many as are asked at once"
    began = time.monotonic()
    with pytest.raises(RetriableError, match="does not answer: http"):
        registry.schemas(range(1_000, 2_000))
    assert time.monotonic() - began < 0.5


def test_a_node_that_hangs_costs_its_neighbour_one_timeout(serve: Callable[[Reply], Hostile]) -> None:
    """What one node does not answer, another does; the silent one is not asked for each id again."""
    silent = serve(never)
    other = serve(lambda connected, path: connected.sendall(schema('"int"')))
    registry = client(silent, other)
    began = time.monotonic()
    assert all(isinstance(each, WriterSchema) for each in registry.schemas(range(200)).values())
    assert time.monotonic() - began < TIMEOUT_S + 2 * SLACK_S
    assert len(silent.asked) <= 8


def test_known_ids_need_no_registry(serve: Callable[[Reply], Hostile]) -> None:
    """While it hangs, ids that were asked for before cost nothing; what was answered before it fell silent is kept."""
    limit = 3

    def some(connected: socket.socket, path: str) -> None:
        if int(path.rsplit("/", 1)[1]) < limit:
            connected.sendall(schema('"int"'))
        else:
            never(connected, path)

    registry = client(serve(some))
    with pytest.raises(RetriableError):
        registry.schemas(range(10))
    began = time.monotonic()
    assert len(registry.schemas(range(limit))) == limit
    assert time.monotonic() - began < 0.1


def test_an_answer_beyond_all_bounds_is_one_dead_letter(serve: Callable[[Reply], Hostile]) -> None:
    """An endless answer is not read to its end, and nested ones do not end the task; each record is one dead letter that
    says why."""
    sent = 0

    def endless(connected: socket.socket, path: str) -> None:
        nonlocal sent
        connected.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000000\r\n\r\n")
        while True:
            sent += connected.send(b" " * 65536)

    def nested(connected: socket.socket, path: str) -> None:
        connected.sendall(answered(b"[" * 1_000_000))

    for reply, reason in ((endless, "more than 4 MiB"), (nested, "nested too deep")):
        found = {7: faulty(client(serve(reply)))}
        assert reason in found[7].reason
        result = landed(found, 7, 7)
        assert result.codes == [(0, "FLOE-D116"), (1, "FLOE-D116")]
        assert reason in result.letters[0].message
    assert sent < 4 * MOST_BYTES


def test_schemas_that_are_none_are_dead_letters_in_time(serve: Callable[[Reply], Hostile]) -> None:
    """Text nested a hundred thousand times, a circle of types, fields without end, and no text at all."""
    deep = '{"type":"array","items":' * 100_000 + '"int"' + "}" * 100_000
    many = {"type": "record", "name": "r", "fields": [{"name": f"f{i}", "type": "int"} for i in range(60_000)]}
    levels = '{"type":"array","items":' * 400 + '"int"' + "}" * 400
    gone = '{"type":"record","name":"r","fields":[{"name":"a","type":"gone"}]}'
    for text in (deep, levels, gone, json.dumps(many), 5, None):
        server = serve(lambda connected, path, text=text: connected.sendall(schema(text)))  # type: ignore[misc]
        began = time.monotonic()
        result = landed(client(server).schemas([7]), 7)
        assert [code for _, code in result.codes] in (["FLOE-D116"], ["FLOE-D115"]), (str(text)[:50], result.codes)
        assert time.monotonic() - began < 20, str(text)[:50]


def test_a_schema_that_doubles_with_each_step_is_a_dead_letter() -> None:
    """Forty types that each have two fields of the next stand for more columns than can be counted, in Avro and in
    protobuf; so do defaults that are left to the types inside. The time is bounded."""
    avro: Any = {"type": "record", "name": "R40", "fields": [{"name": "x", "type": "int"}]}
    file = descriptor_pb2.FileDescriptorProto(name="bomb.proto", syntax="proto3")
    file.message_type.add(name="R40").field.add(name="x", number=1, type=3, label=1)
    for i in reversed(range(40)):
        again = {"name": "b", "type": f"R{i + 1}", "default": {}}
        avro = {"type": "record", "name": f"R{i}", "fields": [{"name": "a", "type": avro, "default": {}}, again]}
        message = file.message_type.add(name=f"R{i}")
        for number, name in enumerate("ab", 1):
            message.field.add(name=name, number=number, type=11, label=1, type_name=f".R{i + 1}")
    began = time.monotonic()
    result = landed({7: WriterSchema("AVRO", json.dumps(avro))}, 7, 7)
    assert result.codes == [(0, "FLOE-D116"), (1, "FLOE-D116")]
    assert "more columns than any table has" in result.letters[0].message
    found: Schemas = {7: WriterSchema("PROTOBUF", serialized(file))}
    index = bytes([2, 80])  # one place, the fortieth message, in zigzag
    block = records([framed(7, index)])
    result = land(block, FormatSpec(FormatType.PROTOBUF, registry="main"), found)
    assert result.codes == [(0, "FLOE-D116")]
    assert "more columns than any table has" in result.letters[0].message
    assert time.monotonic() - began < 10


def test_references_end(serve: Callable[[Reply], Hostile]) -> None:
    """References that go on for ever, in a chain or side by side, in a circle, or in no form are bounded, and the records
    are dead letters."""

    def chain(connected: socket.socket, path: str) -> None:
        at = int("".join(filter(str.isdigit, path.split("?")[0].split("/versions")[0])) or 0)
        connected.sendall(schema('"int"', [{"name": f"n{at + 1}", "subject": f"s{at + 1}", "version": 1}]))

    def circle(connected: socket.socket, path: str) -> None:
        connected.sendall(
            schema('{"type":"enum","name":"e","symbols":["A","B"]}', [{"name": "e", "subject": "e", "version": 1}])
        )

    def beside(connected: socket.socket, path: str) -> None:
        wide = [{"name": f"n{i}", "subject": f"s{i}", "version": 1} for i in range(5_000)]
        connected.sendall(schema('"int"', wide if "/schemas/" in path else []))

    def bulky(connected: socket.socket, path: str) -> None:
        wide = [{"name": f"n{i}", "subject": f"s{i}", "version": 1} for i in range(50)]
        connected.sendall(schema('"' + "x" * 500_000 + '"', wide if "/schemas/" in path else []))

    for reply, most, reason in (
        (chain, 60, "more than 50 deep"),
        (beside, 1_001, "more than 1000 schemas"),
        (bulky, 12, "more than 4 MiB"),
        (lambda c, p: c.sendall(schema('"int"', 5)), 1, "no list"),
        (lambda c, p: c.sendall(schema('"int"', [5])), 1, "no name, subject and version"),
        (lambda c, p: c.sendall(schema('"int"', [{"name": "a", "subject": "b", "version": "../x"}])), 1, "no name"),
    ):
        server = serve(reply)
        found = faulty(client(server))
        assert reason in found.reason
        assert len(server.asked) <= most
        assert landed({7: found}, 7).codes == [(0, "FLOE-D116")]
    server = serve(circle)
    round_ = client(server).schemas([7])
    assert len(server.asked) == 2
    assert landed(round_, 7).rows == [{"value": "B"}], "what is sound in itself is read, whatever it says it refers to"


def test_no_redirect_takes_credentials_to_another_host(serve: Callable[[Reply], Hostile]) -> None:
    """Another path of the same server is followed; another server hears nothing of us, and the error names it."""
    elsewhere = serve(lambda connected, path: connected.sendall(schema('"int"')))

    def sends_away(connected: socket.socket, path: str) -> None:
        connected.sendall(answered(b"", "302 Found", f"Location: {elsewhere.url}/login?secret=of-theirs\r\n"))

    def moves(connected: socket.socket, path: str) -> None:
        if path.startswith("/v2"):
            connected.sendall(schema('"int"'))
        else:
            connected.sendall(answered(b"", "307 Moved", f"Location: /v2{path}\r\n"))

    def turns(connected: socket.socket, path: str) -> None:
        connected.sendall(answered(b"", "302 Found", f"Location: {path}\r\n"))

    with pytest.raises(SetupError, match=r"another address: http://127\.0\.0\.1") as reported:
        client(serve(sends_away), **{"basic.auth.user.info": "floe:swordfish"}).schemas([7])
    assert "of-theirs" not in str(reported.value)
    assert "swordfish" not in str(reported.value)
    assert elsewhere.asked == []
    assert isinstance(client(serve(moves)).schemas([7])[7], WriterSchema)
    with pytest.raises(SetupError, match="from one address to the next"):
        client(serve(turns)).schemas([7])
