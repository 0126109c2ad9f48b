"""Events cut so that none is above the size limit of the control topic.

In: one event. Out: the same event, or several that say the same together: an announcement is cut by its files (its
parts belong to one transaction and are committed together), a `CommitComplete` by the pipelines of its chain. What
cannot be cut and is too large is a FloeError that says how large it is, before anything is sent.
"""

from __future__ import annotations

from dataclasses import replace

from framework.commit.codec import MAX_EVENT_BYTES, encode, encode_file
from framework.commit.events import CommitComplete, ControlEvent, DataFile, DataWritten
from framework.errors import FloeError

# Room for the digits of `part` and `parts`, which are not known before the cut is made.
_PART_DIGITS = 16


def split(event: ControlEvent, max_bytes: int = MAX_EVENT_BYTES) -> tuple[ControlEvent, ...]:
    """The event as events of at most `max_bytes` each. Raises FloeError when that cannot be."""
    if isinstance(event, DataWritten):
        return split_data_written(event, max_bytes)
    size = len(encode(event))
    if size <= max_bytes:
        return (event,)
    if isinstance(event, CommitComplete):
        return _split_commit_complete(event, max_bytes)
    raise _too_large(event, size, max_bytes, "name fewer topics or partitions in one pipeline")


def split_data_written(event: DataWritten, max_bytes: int = MAX_EVENT_BYTES) -> tuple[DataWritten, ...]:
    """The announcement in parts, files in their order, `part` counted from 0 in each. Raises FloeError for one file
    whose metrics alone are above the limit."""
    envelope = len(encode(replace(event, files=()))) + _PART_DIGITS
    groups: list[list[DataFile]] = [[]]
    used = envelope
    for file in event.files:
        size = len(encode_file(file)) + 1  # and its comma
        if envelope + size > max_bytes:
            raise _too_large(event, envelope + size, max_bytes, "keep metrics for fewer columns of this table")
        if used + size > max_bytes and groups[-1]:
            groups.append([])
            used = envelope
        groups[-1].append(file)
        used += size
    if envelope > max_bytes:
        raise _too_large(event, envelope, max_bytes, "name fewer topics or partitions in one pipeline")
    return tuple(
        replace(event, files=tuple(files), part=number, parts=len(groups)) for number, files in enumerate(groups)
    )


def _split_commit_complete(event: CommitComplete, max_bytes: int) -> tuple[CommitComplete, ...]:
    """The first event keeps everything but the chain; those after it carry one half of the chain each, or less."""
    links = sorted(event.chain.items())
    bare = replace(event, chain={}, valid_through_ms={}, blocked={}, blocked_pipelines={}, paused=(), request_id="")
    head = replace(event, chain={})
    size = len(encode(head))
    if size > max_bytes:
        raise _too_large(event, size, max_bytes, "use a control topic for fewer pipelines and tables")
    pieces: list[CommitComplete] = [head]
    stack = [links]
    while stack:
        group = stack.pop()
        piece = replace(bare, chain=dict(group))
        size = len(encode(piece))
        if size <= max_bytes:
            pieces.append(piece)
        elif len(group) == 1:
            raise _too_large(event, size, max_bytes, "name fewer topics or partitions in one pipeline")
        else:
            middle = len(group) // 2
            stack += [group[middle:], group[:middle]]
    return tuple(pieces)


def _too_large(event: ControlEvent, size: int, max_bytes: int, remedy: str) -> FloeError:
    about = getattr(event, "table", "") or getattr(event, "pipeline", "")
    return FloeError(
        f"a {type(event).__name__} event needs {size} bytes and the limit is {max_bytes}",
        code="FLOE-R203",
        place=about,
        remedy=remedy,
    )
