"""Whether a request may do what it asks for. In: a request behind the gate, the role that is needed. Out: who asks."""

from __future__ import annotations

from starlette.requests import Request

from framework.web.access.access import Access, Identity, Role
from framework.web.backend import Refused


def allowed(request: Request, role: Role, access: Access) -> Identity:
    """Who asks, if they may."""
    found: Identity | None = request.scope["floe.who"]
    if found is None:
        raise Refused(401, "a token is needed: `Authorization: Bearer TOKEN`")
    if not found.may(role):
        if access.tokens is None:
            raise Refused(403, "without a token file nobody may act: start `floe ops` with --tokens FILE")
        raise Refused(403, f"the token of {found.name} may read and not act")
    return found
