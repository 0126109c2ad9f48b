"""Reads the settings of a connector and keeps account: what was used, and what is to be reported.

In: settings as text. Out: values by key. Invariant: whatever is asked for counts as used, so that in the end every other
key can be recognized by name.
"""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Note:
    """A key that has no home; `lost` when leaving it out changes what the pipeline does."""

    key: str
    reason: str
    lost: bool


@dataclass
class SettingsReader:
    """Settings, those that were used, and the notes on them."""

    settings: dict[str, str]
    taken: set[str] = field(default_factory=set)
    notes: list[Note] = field(default_factory=list)

    def take(self, key: str) -> str | None:
        self.taken.add(key)
        return self.settings.get(key)

    def flag(self, key: str, default: bool = False) -> bool:
        value = self.take(key)
        return default if value is None else value.strip().lower() == "true"

    def note(self, key: str, reason: str, lost: bool = False) -> None:
        self.notes.append(Note(key, reason, lost))
