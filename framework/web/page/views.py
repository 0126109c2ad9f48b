"""Routes of what people look at: the document, its events, its two assets.

In: a `Backend` and who may. Out: routes. With tokens the document holds no data: a browser cannot bring a token when it is
led to an address, so that the page's own script asks for the events with it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

from anyio import to_thread
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from framework import __version__
from framework.adapters.host.installed import commit
from framework.web.access.access import Access, Role
from framework.web.access.guard import allowed
from framework.web.answers import Kept
from framework.web.backend import Backend, Refused
from framework.web.page.html import HERE, PagePart, PageView, looked_at, parts, shell
from framework.web.page.stream import Hub

KINDS = {"page.css": "text/css", "page.js": "text/javascript", "icon.svg": "image/svg+xml"}
_FOR_EVER = "public, max-age=31536000, immutable"


def page_routes(backend: Backend, access: Access) -> list[Route]:
    """The first page, those of pipelines and tables, their events and assets."""
    hub, kept = Hub(backend), Kept()
    files = {name: (HERE / "static" / name).read_bytes() for name in KINDS}
    assets = {name: f"/static/{name}?v={hashlib.sha256(text).hexdigest()[:12]}" for name, text in files.items()}

    def made(looked: PageView) -> Mapping[str, PagePart]:
        view = backend.view()
        found: Mapping[str, PagePart] = kept.get(looked, view.version, lambda: parts(view, looked))
        return found

    def document(looked: PageView, has_data: bool) -> Response:
        found = made(looked) if has_data else {}
        title = looked.name or (backend.view().target if has_data else "")
        has_tokens = access.tokens is not None
        text = shell(looked, found, title, has_tokens, assets, has_tokens and backend.has_dead_letters)
        return Response(text.encode("utf-8", "replace"), media_type="text/html")

    async def page(request: Request) -> Response:
        wanted = request.headers.get("accept", "")
        if request.url.path == "/" and "application/json" in wanted and "text/html" not in wanted:
            # As Kafka Connect says at its root what it is.
            allowed(request, Role.READ, access)
            return JSONResponse({"version": __version__, "commit": commit() or "unknown"})
        looked = looked_at(_at(request))
        if looked is None:
            raise Refused(404, "there is no such page")
        return await to_thread.run_sync(document, looked, access.tokens is None)

    async def events(request: Request) -> Response:
        allowed(request, Role.READ, access)
        looked = looked_at(request.query_params.get("at", "/"))
        if looked is None:
            raise Refused(404, "there is no such page")
        if request.method == "HEAD":
            return Response(media_type="text/event-stream")
        token = request.headers.get("authorization", "")
        stream = await hub.events(lambda: made(looked), lambda: access.identity(token) is not None)
        return StreamingResponse(stream, media_type="text/event-stream")

    async def asset(request: Request) -> Response:
        name = request.path_params["name"]
        if name not in files:
            raise Refused(404, "there is no such file")
        return Response(files[name], media_type=KINDS[name], headers={"Cache-Control": _FOR_EVER})

    async def healthz(request: Request) -> Response:
        """Whether this process answers. It asks no broker: there may be no run yet."""
        return Response("ok\n", media_type="text/plain")

    return [
        Route("/healthz", healthz, methods=["GET"]),
        Route("/", page, methods=["GET"]),
        Route("/pipelines/{name:path}", page, methods=["GET"]),
        Route("/tables/{name:path}", page, methods=["GET"]),
        Route("/events", events, methods=["GET"]),
        Route("/static/{name}", asset, methods=["GET"]),
    ]


def _at(request: Request) -> str:
    """The page's path with its query, as a browser would say it."""
    path = request.scope.get("raw_path", b"").decode("latin-1") or request.url.path
    return f"{path}?{request.url.query}" if request.url.query else path
