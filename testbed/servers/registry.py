"""A schema registry for tests: a server on loopback that speaks Confluent's HTTP interface.

In: schemas, registered over HTTP as a producer's serializer does. Out: ids, GUIDs and the schemas by them, subjects
with versions and references, protobuf compiled (`format=serialized`), basic authentication. It starts in no time where
a real one takes seconds; tests/registry shows that what a client relies on is the same on both. It has no compatibility
rules.
"""

from __future__ import annotations

import base64
import json
import ssl
import sys
import threading
import time
import urllib.request
import uuid
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from framework.local.broker import HOST

CONTENT_TYPE = "application/vnd.schemaregistry.v1+json"


@dataclass
class State:
    schemas: dict[int, dict[str, Any]] = field(default_factory=dict)
    subjects: dict[str, list[int]] = field(default_factory=dict)
    deleted: set[str] = field(default_factory=set)  # subjects whose schemas stay under their ids
    user_info: str = ""
    status: int = 0  # answer every request with it, when set
    hangs: bool = False  # take each request, and answer none until it is false again
    requests: list[str] = field(default_factory=list)


class Handler(BaseHTTPRequestHandler):
    state: State

    def do_GET(self) -> None:
        if not self._admitted():
            return
        url = urlsplit(self.path)
        parts = [unquote(part) for part in url.path.strip("/").split("/")]
        if parts == ["subjects"]:
            self._answer(200, sorted(self.state.subjects.keys() - self.state.deleted))
            return
        if parts == ["schemas", "types"]:
            self._answer(200, ["JSON", "PROTOBUF", "AVRO"])
            return
        found: int | None = None
        missing = (40403, "Schema not found")
        if parts[:2] == ["schemas", "ids"]:
            found = int(parts[2])
        elif parts[:2] == ["schemas", "guids"]:
            found = next((i for i, one in self.state.schemas.items() if one["guid"] == parts[2]), None)
        elif parts[0] == "subjects" and len(parts) == 4 and parts[2] == "versions":
            versions = self.state.subjects.get(parts[1], [])
            if parts[1] in self.state.deleted and parse_qs(url.query).get("deleted") != ["true"]:
                versions = []
            missing = (40402, "Version not found") if versions else (40401, f"Subject '{parts[1]}' not found.")
            at = len(versions) if parts[3] == "latest" else int(parts[3])
            found = versions[at - 1] if 0 < at <= len(versions) else None
        else:
            missing = (404, "HTTP 404 Not Found")
        if found not in self.state.schemas:
            self._answer(404, {"error_code": missing[0], "message": missing[1]})
            return
        schema = dict(self.state.schemas[found])
        compiled = schema.pop("serialized", None)
        if compiled and parse_qs(url.query).get("format") == ["serialized"]:
            schema["schema"] = compiled
        if schema["schemaType"] == "AVRO":
            del schema["schemaType"]  # as the real one leaves it out
        self._answer(200, schema)

    def do_DELETE(self) -> None:
        subject = unquote(self.path.strip("/").split("/")[1])
        self.state.deleted.add(subject)
        self._answer(200, [])

    def do_POST(self) -> None:
        if not self._admitted():
            return
        parts = [unquote(part) for part in self.path.strip("/").split("/")]
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        schema = {"schemaType": "AVRO", **body}
        if schema["schemaType"] == "PROTOBUF":
            schema |= {"serialized": schema["schema"], "schema": 'syntax = "proto3";'}
        known = next(
            (i for i, s in self.state.schemas.items() if {**s, "guid": None} == {**schema, "guid": None}), None
        )
        found = known or len(self.state.schemas) + 1
        if known is None:
            self.state.schemas[found] = {**schema, "guid": str(uuid.uuid5(uuid.NAMESPACE_URL, json.dumps(schema)))}
        self.state.deleted.discard(parts[1])
        versions = self.state.subjects.setdefault(parts[1], [])
        if found not in versions:
            versions.append(found)
        self._answer(200, {"id": found, "guid": self.state.schemas[found]["guid"]})

    def _admitted(self) -> bool:
        self.state.requests.append(self.path)
        while self.state.hangs:
            time.sleep(0.05)
        if self.state.status:
            self._answer(self.state.status, {"error_code": self.state.status, "message": "as the test wants it"})
            return False
        wanted = "Basic " + base64.b64encode(self.state.user_info.encode()).decode()
        if self.state.user_info and self.headers.get("Authorization") != wanted:
            self._answer(401, {"error_code": 401, "message": "Unauthorized"})
            return False
        return True

    def _answer(self, status: int, body: dict[str, Any] | list[str]) -> None:
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", CONTENT_TYPE)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing: `requests` holds what was asked."""


class _Server(ThreadingHTTPServer):
    def handle_error(self, request: Any, client_address: Any) -> None:
        """Nothing: clients go away while they wait, and some are not let in."""


class RegistryServer:
    """One registry on a port of its own; `stop` and `start` again keep what was registered."""

    def __init__(self, user_info: str = "", tls: ssl.SSLContext | None = None) -> None:
        self.state = State(user_info=user_info)
        self._tls = tls
        self._port = 0
        self.start()

    @property
    def url(self) -> str:
        return f"{'http' if self._tls is None else 'https'}://{HOST}:{self._port}"

    def start(self) -> None:
        handler = type("Bound", (Handler,), {"state": self.state})
        self._server = _Server((HOST, self._port), handler)
        self._port = self._server.server_address[1]
        if self._tls is not None:
            self._server.socket = self._tls.wrap_socket(
                self._server.socket, server_side=True, do_handshake_on_connect=False
            )
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def stop(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def register(self, subject: str, schema: str, kind: str = "AVRO", references: Any = ()) -> tuple[int, str]:
        """The id and GUID of a schema; protobuf as a serialized file in Base64. Not behind TLS: there `state` is given."""
        body = {"schema": schema, "schemaType": kind, "references": list(references)}
        request = urllib.request.Request(
            f"{self.url}/subjects/{subject}/versions", json.dumps(body).encode(), {"Content-Type": CONTENT_TYPE}
        )
        if self.state.user_info:
            request.add_header("Authorization", "Basic " + base64.b64encode(self.state.user_info.encode()).decode())
        with urllib.request.urlopen(request, timeout=10) as answer:
            found = json.loads(answer.read())
        return found["id"], found["guid"]

    def delete(self, subject: str) -> None:
        """Delete a subject; its schemas stay under their ids."""
        request = urllib.request.Request(f"{self.url}/subjects/{subject}", method="DELETE")
        urllib.request.urlopen(request, timeout=10).close()


if __name__ == "__main__":
    print(RegistryServer(*sys.argv[1:]).url, flush=True)
    threading.Event().wait()
