"""The page and its REST surface as an ASGI application, made from values: whom to ask, and who may.

In: a `Backend`, tokens, the names of the server. Out: an application. Everything passes one gate first: the name of the
host, then the token; each answer carries the headers that let a browser load nothing else and keep nothing.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from anyio import CapacityLimiter, fail_after, to_thread
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from framework.adapters.host.listener import is_ours
from framework.errors import FloeError
from framework.web.access.access import Access, Role
from framework.web.access.guard import allowed
from framework.web.answers import MOST_BODY, Kept, as_refused, read_body, read_query, refusal, written
from framework.web.backend import Backend, Refused
from framework.web.openapi import OPENAPI, describe
from framework.web.operations import OPERATIONS, Operation, OperationRequest
from framework.web.page.views import page_routes

# Requests that wait for a broker must leave threads to those that only look.
ACTS_AT_ONCE = 4
# Those that are checked take a processor's time, and acts wait behind none of them.
CHECKS_AT_ONCE = 2
# All others: threads that want the processor at once keep the work from it that the page stands beside.
LOOKS_AT_ONCE = 4
# The whole body of a request, however slowly it is sent.
BODY_S = 10.0
HEADERS = (
    (
        b"content-security-policy",
        b"default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
        b"base-uri 'none'; form-action 'self'; frame-ancestors 'none'",
    ),
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cache-control", b"no-store"),
)
JSON = "application/json"


def create_app(backend: Backend, access: Access) -> ASGIApp:
    """The application: the page, and the REST surface."""
    kept = Kept()
    acts, checks = CapacityLimiter(ACTS_AT_ONCE), CapacityLimiter(CHECKS_AT_ONCE)
    description = describe(OPERATIONS)

    async def openapi(request: Request) -> Response:
        allowed(request, Role.READ, access)
        return _answer(200, _json(description))

    routes = [Route(OPENAPI, openapi, methods=["GET"]), *page_routes(backend, access)]
    # One route for each path: the router refuses a wrong method only where no other route has the path.
    by_path: dict[str, list[Operation]] = {}
    for operation in OPERATIONS:
        by_path.setdefault(operation.path, []).append(operation)
    for path, operations in by_path.items():
        [operation] = operations
        endpoint = _endpoint(operation, backend, access, kept, acts if operation.role is Role.ACT else checks)
        routes.append(Route(path.replace("{table}", "{table:path}"), endpoint, methods=[operation.method]))
    app = Starlette(
        routes=routes,
        exception_handlers={HTTPException: _no_route, Refused: _refuse, Exception: _fail},  # type: ignore[dict-item]
    )
    app.router.redirect_slashes = False
    return Gate(app, access)


def _endpoint(
    operation: Operation, backend: Backend, access: Access, kept: Kept, limiter: CapacityLimiter
) -> Callable[[Request], Awaitable[Response]]:
    is_quick = operation.cached

    async def endpoint(request: Request) -> Response:
        identity = allowed(request, operation.role, access)
        given: dict[str, list[str]] = {}
        for key, value in request.query_params.multi_items():
            given.setdefault(key, []).append(value)
        query = read_query(operation.query, given)
        body = read_body(request.headers.get("content-type", ""), await _body(request)) if operation.has_body else {}
        asked = OperationRequest(backend, identity, dict(request.path_params), query, body)

        def make() -> bytes:
            try:
                return written(operation, operation.handle(asked))
            except FloeError as error:
                raise as_refused(error) from error

        def answer() -> bytes:
            if not is_quick:
                return make()
            found: bytes = kept.get((operation.name, tuple(query.items())), backend.view().version, make)
            return found

        is_slow = operation.role is Role.ACT or operation.has_body
        return _answer(operation.status, await to_thread.run_sync(answer, limiter=limiter if is_slow else None))

    return endpoint


async def _body(request: Request) -> bytes:
    found = bytearray()
    try:
        with fail_after(BODY_S):
            async for chunk in request.stream():
                found += chunk
                if len(found) > MOST_BODY:
                    raise Refused(413, f"the body is larger than {MOST_BODY} bytes")
    except TimeoutError:
        raise Refused(408, f"the body was not there within {BODY_S:.0f} s") from None
    return bytes(found)


def _answer(status: int, body: bytes) -> Response:
    return Response(body, status, media_type=JSON if body else None)


def _json(value: object) -> bytes:
    import json

    return json.dumps(value).encode()


async def _refuse(request: Request, error: Refused) -> Response:
    answer = _answer(error.status, refusal(error.status, error.message))
    if error.status == 401:
        answer.headers["www-authenticate"] = 'Bearer realm="floe"'
    return answer


async def _no_route(request: Request, error: HTTPException) -> Response:
    words = {404: f"HTTP 404 Not Found; {OPENAPI} lists what is here", 405: "HTTP 405 Method Not Allowed"}
    answer = _answer(error.status_code, refusal(error.status_code, words.get(error.status_code, error.detail)))
    answer.headers.update(error.headers or {})
    return answer


async def _fail(request: Request, error: Exception) -> Response:
    """The server logs the error, which goes on to it after this answer."""
    return _answer(500, refusal(500, "floe has a bug: its log says more"))


class Gate:
    """In front of everything: the host's name, the identity, the headers."""

    def __init__(self, app: ASGIApp, access: Access) -> None:
        self._app = app
        self._access = access
        self._is_bounded = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        if not self._is_bounded:
            self._is_bounded = True
            to_thread.current_default_thread_limiter().total_tokens = LOOKS_AT_ONCE

        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                given = list(message.get("headers", ()))
                has = {name for name, _ in given}
                message = {**message, "headers": [*given, *(pair for pair in HEADERS if pair[0] not in has)]}
            await send(message)

        headers = [(name, value.decode("latin-1")) for name, value in scope["headers"]]
        hosts = [value for name, value in headers if name == b"host"]
        if len(hosts) != 1 or not is_ours(hosts[0], self._access.names):
            message = "the Host header does not name this server: allow a name with --allow-host"
            await _answer(421, refusal(421, message))(scope, receive, with_headers)
            return
        authorization = next((value for name, value in headers if name == b"authorization"), "")
        path = scope["path"]
        if len(path) > 1 and path.endswith("/"):
            path = path.rstrip("/") or "/"
        state = {"floe.who": self._access.identity(authorization), "path": path}
        await self._app({**scope, **state}, receive, with_headers)
