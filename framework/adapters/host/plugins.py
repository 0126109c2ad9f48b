"""What installed packages offer to floe, by entry point: template libraries (`floe.templates`), vaults
(`floe.secrets`).

In: a group's name. Out: its entry points by name, not yet loaded.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint


@cache
def offered(group: str) -> Mapping[str, EntryPoint]:
    """The entry points of a group. Looked up once a process, and only when somebody asks: reading them is slow."""
    from importlib.metadata import entry_points  # slow to import, and seldom needed

    return {point.name: point for point in entry_points(group=group)}
