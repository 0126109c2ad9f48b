"""What the S3 server's own log says of the requests that it got, by kind.

In: a server. Out: counts, of which the code under test knows nothing: a kind is read off the method and the query alone.
"""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Iterable
from urllib.parse import parse_qs, urlsplit

from testbed.servers.s3 import BUCKET, S3Server

_LINE = re.compile(r'"(?:\x1b\[[0-9;]*m)*([A-Z]+) (\S+) HTTP/1\.1')


class S3Log:
    """Of one server; `new` gives what came since it was asked last."""

    def __init__(self, server: S3Server) -> None:
        self._server = server
        self._seen = 0
        self.new()

    def new(self) -> Counter[str]:
        lines = self._lines()
        found = _counts(lines[self._seen :])
        self._seen = len(lines)
        return found

    def so_far(self) -> Counter[str]:
        """As `new`, of a server at work; they are still new."""
        return _counts(self._server.log.read_text(errors="replace").splitlines()[self._seen :])

    def _lines(self) -> list[str]:
        """All whole lines, once none has been added for a moment: a line is written after its answer was sent."""
        before = ""
        while (now := self._server.log.read_text(errors="replace")) != before or not now.endswith("\n"):
            before = now
            time.sleep(0.3)
        return now.splitlines()


def _counts(lines: Iterable[str]) -> Counter[str]:
    return Counter(kind for line in lines if (kind := _kind(line)) is not None)


def _kind(line: str) -> str | None:
    found = _LINE.search(line)
    if found is None:
        return None
    method, target = found.groups()
    path, query = urlsplit(target).path, parse_qs(urlsplit(target).query, keep_blank_values=True)
    if not path.startswith(f"/{BUCKET}"):
        return None
    return "list" if method == "GET" and "list-type" in query else method.lower()
