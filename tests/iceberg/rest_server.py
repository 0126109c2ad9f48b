"""A REST catalog on loopback: PyIceberg's SQL catalog behind the part of Iceberg's REST interface that floe uses.

Real HTTP, so that answers can be lost on the way: `RestServer.lose_answers = n` closes the connection of the next n
commits after they were applied, and `refuse_after_commit` answers 409 to a commit that was applied. Requests without
the `token` are answered with the status `refusal`; while `silent` is set, requests wait without an answer.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, unquote, urlsplit

from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import (
    CommitFailedException,
    NamespaceAlreadyExistsError,
    NoSuchNamespaceError,
    NoSuchTableError,
    TableAlreadyExistsError,
)
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import CommitTableRequest, Table

STATUS = {
    CommitFailedException: 409,
    NamespaceAlreadyExistsError: 409,
    TableAlreadyExistsError: 409,
    NoSuchNamespaceError: 404,
    NoSuchTableError: 404,
}


class RestServer(ThreadingHTTPServer):
    """Serves one catalog until `shutdown`."""

    daemon_threads = True

    def __init__(self, catalog: SqlCatalog) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.catalog = catalog
        self.lose_answers = 0
        self.refuse_after_commit = 0
        self.commits: list[dict[str, object]] = []
        self.token = ""
        self.refusal = 401
        self.refused = 0
        self.page_size = 0  # 0: all tables in one answer
        self.same_page = False
        self.pages = 0
        self.silent = threading.Event()
        self.awake = threading.Event()
        threading.Thread(target=self.serve_forever, daemon=True).start()

    @property
    def uri(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


class Handler(BaseHTTPRequestHandler):
    server: RestServer
    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *args: object) -> None:
        """Says nothing: a test run prints no access log."""

    def do_GET(self) -> None:
        self._answer(self._get)

    def do_HEAD(self) -> None:
        self._answer(self._get)

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers.get("Content-Length") or 0)) or b"{}")
        self._answer(lambda: self._post(body))

    def _answer(self, work: Callable[[], dict[str, object] | None]) -> None:
        if self.server.silent.is_set():
            self.server.awake.wait(60)
        if self.server.token and self.headers.get("Authorization") != f"Bearer {self.server.token}":
            self.server.refused += 1
            self.send_response(self.server.refusal)
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        try:
            status, answer = 200, work()
        except tuple(STATUS) as error:
            status = STATUS[type(error)]
            answer = {"error": {"message": str(error), "type": type(error).__name__, "code": status}}
        if answer is None:
            self.close_connection = True
            self.connection.close()
            return
        body = json.dumps(answer).encode() if self.command != "HEAD" else b""
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    @property
    def _path(self) -> list[str]:
        return [unquote(part) for part in urlsplit(self.path).path.strip("/").split("/")]

    def _get(self) -> dict[str, object]:
        catalog = self.server.catalog
        match self._path:
            case ["v1", "config"]:
                return {"defaults": {}, "overrides": {}}
            case ["v1", "namespaces"]:
                query = urlsplit(self.path).query
                above = tuple(unquote(query.removeprefix("parent=")).split("\x1f")) if "parent=" in query else ()
                return {"namespaces": [list(each) for each in catalog.list_namespaces(above)]}
            case ["v1", "namespaces", namespace]:
                properties = catalog.load_namespace_properties(tuple(namespace.split("\x1f")))
                return {"namespace": namespace.split("\x1f"), "properties": properties}
            case ["v1", "namespaces", namespace, "tables"]:
                tables = catalog.list_tables(".".join(namespace.split("\x1f")))
                return self._page([{"namespace": list(each[:-1]), "name": each[-1]} for each in tables])
            case ["v1", "namespaces", namespace, "tables", name]:
                return loaded(catalog.load_table((*namespace.split("\x1f"), name)))
        raise NoSuchTableError(self.path)

    def _page(self, found: list[dict[str, object]]) -> dict[str, object]:
        server = self.server
        if not server.page_size:
            return {"identifiers": found}
        server.pages += 1
        start = int(parse_qs(urlsplit(self.path).query).get("pageToken", ["0"])[0])
        end = start + server.page_size
        more = {"next-page-token": str(0 if server.same_page else end)} if end < len(found) else {}
        return {"identifiers": found[start:end], **more}

    def _post(self, body: dict[str, object]) -> dict[str, object] | None:
        catalog = self.server.catalog
        match self._path:
            case ["v1", "namespaces"]:
                catalog.create_namespace(tuple(body["namespace"]))  # type: ignore[arg-type]
                return {"namespace": body["namespace"], "properties": {}}
            case ["v1", "namespaces", namespace, "tables"]:
                return loaded(
                    catalog.create_table(
                        (*namespace.split("\x1f"), str(body["name"])),
                        Schema.model_validate(body["schema"]),
                        partition_spec=PartitionSpec.model_validate(body["partition-spec"]),
                        properties=body["properties"],  # type: ignore[arg-type]
                    )
                )
            case ["v1", "namespaces", _, "tables", _]:
                return self._commit(body)
        raise NoSuchTableError(self.path)

    def _commit(self, body: dict[str, object]) -> dict[str, object] | None:
        server = self.server
        server.commits.append(body)
        request = CommitTableRequest.model_validate(body)
        identifier = (*request.identifier.namespace.root, request.identifier.name)
        table = server.catalog.load_table(identifier)
        answer = server.catalog.commit_table(table, request.requirements, request.updates)
        if server.lose_answers > 0:
            server.lose_answers -= 1
            return None
        if server.refuse_after_commit > 0:
            server.refuse_after_commit -= 1
            raise CommitFailedException("branch main has changed")
        return {
            "metadata-location": answer.metadata_location,
            "metadata": json.loads(answer.metadata.model_dump_json()),
        }


def loaded(table: Table) -> dict[str, object]:
    return {
        "metadata-location": table.metadata_location,
        "metadata": json.loads(table.metadata.model_dump_json()),
        "config": {},
    }
