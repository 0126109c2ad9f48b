"""The file of tokens, read again when it changes: a token that is taken out of it counts no more.

In: a path. Out: tokens. Invariant: a file that others may read or write is not used, at the start and later.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Sequence
from pathlib import Path

from framework.adapters.host.private_files import why_not_private
from framework.errors import SetupError
from framework.web.access.access import Token, parse_tokens, refused

log = logging.getLogger(__name__)


class TokenFile:
    """`tokens` from any thread."""

    def __init__(self, path: Path) -> None:
        """Read it.

        Raises:
            SetupError: FLOE-E037, it cannot be read, is not private, or holds something else.
        """
        self._path = path
        self._seen: object = None
        self._found: Sequence[Token] = ()
        self._read(self._stat())

    def tokens(self) -> Sequence[Token]:
        """Those that count now; none while the file is wrong, which is logged once."""
        try:
            found = self._stat()
            if _version(found) != self._seen:
                self._read(found)
        except SetupError as error:
            if self._found:
                log.error("no token counts any more: %s", error)
            self._found, self._seen = (), None
        return self._found

    def _stat(self) -> os.stat_result:
        try:
            return self._path.stat()
        except OSError as error:
            raise refused(f"the token file cannot be read: {error.strerror}", str(self._path)) from None

    def _read(self, found: os.stat_result) -> None:
        place = str(self._path)
        if (why := why_not_private(found, self._path)) is not None:
            raise refused(f"the token file {why[0]}", place, why[1])
        try:
            text = self._path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            reason = getattr(error, "strerror", None) or "it is not text"
            raise refused(f"the token file cannot be read: {reason}", place) from None
        self._found, self._seen = parse_tokens(text, place), _version(found)


def _version(found: os.stat_result) -> object:
    return found.st_ino, found.st_size, found.st_mtime_ns, found.st_mode, found.st_uid
