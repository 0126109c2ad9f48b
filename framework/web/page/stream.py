"""Notifies all who look when something has changed, from one look a second however many they are.

In: a `Backend`. Out: server-sent events with the parts of a page that changed. The overview is asked for by one task, and
only while somebody looks; what is rendered for a version is rendered once.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Callable, Mapping

from anyio import to_thread

from framework.web.backend import Backend, Refused
from framework.web.page.html import BEAT_S, PagePart

LOOK_EVERY_S = 1.0
MOST_VIEWERS = 200


class Hub:
    """Lives in the server's event loop."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._version = -1
        self._viewers = 0
        self._changed = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    async def events(
        self, make: Callable[[], Mapping[str, PagePart]], may_read: Callable[[], bool]
    ) -> AsyncIterator[bytes]:
        """The parts that changed, each time some have, as long as the reader reads and may."""
        if self._viewers >= MOST_VIEWERS:
            raise Refused(503, f"{MOST_VIEWERS} look already")
        return self._events(make, may_read)

    async def _events(
        self, make: Callable[[], Mapping[str, PagePart]], may_read: Callable[[], bool]
    ) -> AsyncIterator[bytes]:
        self._viewers += 1
        if self._task is None:
            self._task = asyncio.create_task(self._look())
        sent: dict[str, str] = {}
        try:
            while may_read():
                version = self._version
                found = await to_thread.run_sync(make)
                if not may_read():  # no more since it was asked: what was read meanwhile is not reported
                    return
                new = {name: part for name, part in found.items() if sent.get(name) != part.digest}
                if new:
                    sent.update((name, part.digest) for name, part in new.items())
                    value = {name: {"html": part.html, "digest": part.digest} for name, part in new.items()}
                    yield b"event: parts\ndata: " + json.dumps(value).encode() + b"\n\n"
                else:
                    yield b": still here\n\n"
                await self._after(version)
        finally:
            self._viewers -= 1
            if not self._viewers and self._task is not None:
                self._task.cancel()
                self._task = None

    async def _after(self, version: int) -> None:
        """Until there is another version, or it is time to show that we are still here."""
        if self._version != version:
            return
        with contextlib.suppress(asyncio.TimeoutError):
            await asyncio.wait_for(self._changed.wait(), BEAT_S)

    async def _look(self) -> None:
        while True:
            found = (await to_thread.run_sync(self._backend.view)).version
            if found != self._version:
                self._version = found
                self._changed.set()
                self._changed = asyncio.Event()
            await asyncio.sleep(LOOK_EVERY_S)
