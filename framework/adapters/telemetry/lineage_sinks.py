"""Where lineage events go: a file that they are appended to, or a server that takes them over HTTP.

In: one event as JSON. Out: it is there, or an exception; whoever calls decides what that means. A server is given the token
and one event a request, within a few seconds; where it sends us instead is not followed, or the token would go along.
"""

from __future__ import annotations

import os
from typing import Protocol

import requests

HTTP_TIMEOUT_S = 5.0
_OWNER_AND_GROUP = 0o640


class LineageSink(Protocol):
    """Takes events, one thread only."""

    def send(self, key: str, event: bytes) -> None:
        """Deliver one event; `key` is the same for the events of one job.

        Raises:
            Exception: it was not delivered.
        """

    def close(self) -> None:
        """Let go of what is held."""


class FileSink:
    """One event a line, appended in one write, so that several processes can share the file. It is opened for each, so that
    it can be moved away."""

    def __init__(self, path: str) -> None:
        self._path = path

    def send(self, key: str, event: bytes) -> None:
        descriptor = os.open(
            self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, _OWNER_AND_GROUP
        )
        try:
            line = event + b"\n"
            if os.write(descriptor, line) != len(line):
                raise OSError(f"{self._path} took a part of the event only")
        finally:
            os.close(descriptor)

    def close(self) -> None:
        """Nothing is held."""


class _Bearer(requests.auth.AuthBase):
    """The token, or nothing at all: with an own object no file of passwords of this machine's user is looked into."""

    def __init__(self, token: str) -> None:
        self._token = token

    def __call__(self, request: requests.PreparedRequest) -> requests.PreparedRequest:
        if self._token:
            request.headers["Authorization"] = f"Bearer {self._token}"
        return request


class HttpSink:
    """POST of one event a request, as OpenLineage's own HTTP transport sends them."""

    def __init__(self, url: str, token: str, timeout_s: float = HTTP_TIMEOUT_S) -> None:
        self._url = url
        self._timeout_s = timeout_s
        self._session = requests.Session()
        self._session.auth = _Bearer(token)

    def send(self, key: str, event: bytes) -> None:
        # The answer's content is not read: it may be without an end.
        with self._session.post(
            self._url,
            data=event,
            headers={"Content-Type": "application/json"},
            timeout=self._timeout_s,
            allow_redirects=False,
            stream=True,
        ) as answer:
            if not 200 <= answer.status_code < 300:
                raise OSError(f"the server answers {answer.status_code}")

    def close(self) -> None:
        self._session.close()
