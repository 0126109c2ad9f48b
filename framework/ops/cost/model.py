"""What a pipeline uses in a month: values alone.

In: nothing. Out: values. A figure that is not known is None, and never 0.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from framework.metrics.store_requests import Requests, StoreRequest

MONTH_MS = 30 * 86_400_000
DAY_MS = 86_400_000
GIB = 1024**3
# A manifest, the list of manifests, and the metadata file.
FILES_OF_A_COMMIT = 3


@dataclass(frozen=True)
class Prices:
    """As a file says them; a price that it does not say is None. `machines`: a name, how many, and one of them for a month."""

    file: str
    currency: str
    date: str
    gib_month: float | None = None
    thousand_requests: dict[StoreRequest, float] = field(default_factory=dict)
    thousand_commits: float | None = None
    gib_in: float | None = None
    gib_out: float | None = None
    gib_kept_month: float | None = None
    machines: tuple[tuple[str, int, float], ...] = ()


@dataclass(frozen=True)
class StoredBytes:
    """Of one table. `live`: what the newest snapshot reads. `kept`: what older snapshots alone need. `other`: metadata, key
    indexes and manifests that are in use; `orphans`: what nothing names. Those two need a listing."""

    live: int | None
    kept: int
    other: int | None = None
    orphans: int | None = None


@dataclass(frozen=True)
class TableMonth:
    """One table: what is stored now, and what a month would have of what was seen within `window_ms`, which ended now.

    `commits` made a snapshot. `requests` are the least that its writers make: a request for each part of a data file, and for
    manifest, list and metadata of each commit. `interval_ms`: how often it may be committed.
    """

    table: str
    stored: StoredBytes
    window_ms: int
    interval_ms: int
    commits: float
    written_bytes: float
    rewritten_bytes: float
    rewritten_files: float
    removed_bytes: float
    requests: dict[StoreRequest, float]
    commits_seen: int

    @property
    def is_known(self) -> bool:
        return self.window_ms > 0


@dataclass(frozen=True)
class TopicMonth:
    """Bytes of records as they are read: `bytes` come in a month, `kept` are there now, `needed` come in the longest outage and a
    commit interval. None where its records say nothing of a rate, or of their size."""

    topic: str
    bytes: int | None
    window_ms: int
    kept: int | None = None
    needed: int | None = None


@dataclass(frozen=True)
class CountedRequests:
    """What processes say of their requests, by their metrics: of all that they ran, over so long. `month` is None where that was
    too short for a rate."""

    window_ms: int
    seen: Requests
    month: dict[StoreRequest, float] | None


@dataclass(frozen=True)
class PipelineMonth:
    """All of it. `counted` is None where no metrics were given."""

    pipeline: str
    target: str
    at_ms: int
    tables: tuple[TableMonth, ...]
    topics: tuple[TopicMonth, ...]
    counted: CountedRequests | None
    prices: Prices | None

    @property
    def are_counted(self) -> bool:
        return self.counted is not None and self.counted.month is not None

    def requests(self) -> dict[StoreRequest, float]:
        """Of a month: counted where they were, else the least that tables say."""
        if self.counted is not None and self.counted.month is not None:
            return self.counted.month
        kinds = {kind for table in self.tables for kind in table.requests}
        return {
            kind: sum(table.requests.get(kind, 0.0) for table in self.tables) for kind in StoreRequest if kind in kinds
        }


@dataclass(frozen=True)
class CostLine:
    """`amount` in the currency of the prices; None where no price is said, or the quantity is not known."""

    what: str
    quantity: str
    amount: float | None


@dataclass(frozen=True)
class SettingEffect:
    """What another setting would change in a month, as far as counts say it."""

    what: str
    effect: str
    amount: float | None
