"""A door in front of a REST catalog: it lets in who has a good token of a real server of tokens, or the password.

In: the port of a catalog. Out: an address and the settings of each way in, and the server of tokens with its switches. The door
gives tokens itself, too, as Iceberg's older servers do.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping

from testbed.servers.tokens import TokenServer
from tests.chaos.proxy import Answer, HttpProxy

SECRET = "hunter2-very-secret"


class Door:
    """Stands in front of a catalog until `close`. While it is `open`, everybody is let in."""

    def __init__(self, port: int) -> None:
        self.tokens = TokenServer({"floe": SECRET})
        self.proxy = HttpProxy(port)
        self.proxy.door = self._judge
        self.open = False
        self.seen: set[str] = set()

    def settings(self, way: str) -> dict[str, str]:
        return {"type": "rest", "uri": self.proxy.uri, "rest.client.socket-timeout-ms": "3000"} | {
            "noop": {"auth.type": "noop"},
            "basic": {"auth.type": "basic", "auth.basic.username": "floe", "auth.basic.password": SECRET},
            "oauth2": {
                "auth.type": "oauth2",
                "auth.oauth2.client_id": "floe",
                "auth.oauth2.client_secret": SECRET,
                "auth.oauth2.token_url": self.tokens.uri,
                "auth.oauth2.scope": "catalog lake",
            },
            "credential": {"credential": f"floe:{SECRET}", "oauth2-server-uri": self.tokens.uri},
            "credential-at-the-catalog": {"credential": f"floe:{SECRET}"},
        }[way]

    def close(self) -> None:
        self.proxy.close()
        self.tokens.close()

    def _judge(self, path: str, headers: Mapping[str, str], body: bytes) -> Answer | None:
        authorization = next((value for name, value in headers.items() if name.lower() == "authorization"), None)
        self.seen.add((authorization or "nobody").partition(" ")[0])
        if path == "/v1/oauth/tokens":
            return Answer(*self.tokens.answer(None, body.decode()))
        password = "Basic " + base64.b64encode(f"floe:{SECRET}".encode()).decode()
        if self.open or authorization == password or self.tokens.admits(authorization):
            return None
        said = {"error": {"message": "not authorized", "type": "NotAuthorizedException", "code": 401}}
        return Answer(401, json.dumps(said).encode())
