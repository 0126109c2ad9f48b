"""Records of a pipeline's topics as they come: read as a run reads them, by position, and by nobody's group.

In: which partitions there are, asked again each round, and where to begin. Out: blocks of committed records until the time
is over. No group is joined and no offset is committed: nothing on the broker says that anybody looked.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from framework.adapters.kafka.fetch import RangeFetcher
from framework.commit.offsets import PartitionFacts, PartitionKey
from framework.record.model import RecordBlock, TaskRange

# So many records of a partition are looked at together, as a batch of a run.
ROUND_RECORDS = 500
_PAUSE_S = 0.3


@dataclass(frozen=True)
class Begin:
    """Where to begin: `newest` records that are there already (0: none), or one place, and then nothing else is read."""

    newest: int = 0
    place: tuple[str, int, int] | None = None


def live_blocks(
    settings: Mapping[str, str],
    facts: Callable[[], Mapping[PartitionKey, PartitionFacts]],
    begin: Begin,
    deadline: float,
    round_records: int = ROUND_RECORDS,
) -> Iterator[list[RecordBlock]]:
    """What is read in each round; ends at `deadline`, by the monotonic clock. A round may be empty.

    Raises:
        FloeError: as `SliceFetcher.fetch`, or what `facts` raises.
    """
    fetcher = RangeFetcher(settings)
    positions: dict[PartitionKey, int] = {}
    shares: dict[PartitionKey, int] | None = None
    while True:
        known = facts()
        if shares is None:
            shares = newest_shares({key: now.log_end - now.log_start for key, now in known.items()}, begin.newest)
        found: list[RecordBlock] = []
        for key, now in sorted(known.items()):
            if begin.place is not None and key != begin.place[:2]:
                continue
            at = max(positions.get(key, _begin(begin, key, now, shares)), now.log_start)
            end = min(now.log_end, at + round_records)
            if at < end:
                found += fetcher.fetch(TaskRange(key[0], now.topic_id, key[1], at, end), round_records)
            positions[key] = max(at, end)
        yield found
        left = deadline - time.monotonic()
        if left <= 0:
            return
        if not found:
            time.sleep(min(_PAUSE_S, left))


def _begin(begin: Begin, key: PartitionKey, now: PartitionFacts, shares: Mapping[PartitionKey, int]) -> int:
    if begin.place is not None:
        return begin.place[2]
    # A partition that came meanwhile has no share: all of it is new.
    return now.log_end - shares[key] if key in shares else now.log_start


def newest_shares(offsets: Mapping[PartitionKey, int], wanted: int) -> dict[PartitionKey, int]:
    """How many of the newest offsets of each partition are wanted: as evenly as they have them, `wanted` together or all."""
    shares: dict[PartitionKey, int] = {}
    left = wanted
    for number, (key, held) in enumerate(sorted(offsets.items(), key=lambda item: item[1])):
        shares[key] = min(held, -(-left // (len(offsets) - number)))
        left -= shares[key]
    return shares
