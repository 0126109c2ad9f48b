"""Events cut so that none is above the size limit of the control topic.

In: one event. Out: the same event, or several that say the same together: an announcement is cut by its files (its
parts belong to one transaction and are committed together). What cannot be cut and is too large is a FloeError that
says how large it is, before anything is sent. What is only information is cut and shortened instead, and never an
error.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from framework.commit.events.codec import MAX_EVENT_BYTES, encode, encode_file
from framework.commit.events.event_types import CommitComplete, ControlEvent, DataFile, DataWritten, StateChanged
from framework.errors import FloeError

# Room for the digits of `part` and `parts`, which are not known before the cut is made.
_PART_DIGITS = 16
# Of one reason so many characters are reported where an event would be too large.
MAX_REASON = 300


def split(event: ControlEvent, max_bytes: int = MAX_EVENT_BYTES) -> tuple[ControlEvent, ...]:
    """The event as events of at most `max_bytes` each. Raises FloeError when that cannot be."""
    if isinstance(event, DataWritten):
        return split_data_written(event, max_bytes)
    size = len(encode(event))
    if size <= max_bytes:
        return (event,)
    raise _too_large(event, size, max_bytes, "name fewer topics or partitions in one pipeline")


def split_data_written(event: DataWritten, max_bytes: int = MAX_EVENT_BYTES) -> tuple[DataWritten, ...]:
    """The announcement in parts, files in their order, `part` counted from 0 in each; the first has what else it says.
    Raises FloeError for one file whose metrics alone are above the limit."""
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
        replace(event, files=tuple(files), part=number, parts=len(groups), keyed=None if number else event.keyed)
        for number, files in enumerate(groups)
    )


def number_parts(pieces: Iterable[DataWritten]) -> list[DataWritten]:
    """The announcements of one batch, numbered for each physical table as one set: under whatever names it goes, and
    with whatever schemas its files were written. So whoever reads one of them knows whether others stand in front of
    it."""
    pieces = list(pieces)
    total = Counter(piece.table_uuid for piece in pieces)
    seen: Counter[str] = Counter()
    numbered = []
    for piece in pieces:
        numbered.append(replace(piece, part=seen[piece.table_uuid], parts=total[piece.table_uuid]))
        seen[piece.table_uuid] += 1
    return numbered


def split_information(event: ControlEvent, max_bytes: int = MAX_EVENT_BYTES) -> tuple[ControlEvent, ...]:
    """What a coordinator publishes, as events of at most `max_bytes` each, whatever it is: texts are shortened, and what is
    too much even so is left out and counted. No decision rests on it, so nothing of it may end whoever publishes it."""
    event = _in_plain_words(event)
    if len(encode(event)) <= max_bytes:
        return (event,)
    if isinstance(event, CommitComplete):
        return _split_commit_complete(event, max_bytes)
    if isinstance(event, StateChanged):
        return (replace(event, reason=_short(event.reason), remedy=_short(event.remedy)),)
    return ()


def _split_commit_complete(event: CommitComplete, max_bytes: int) -> tuple[CommitComplete, ...]:
    """The first event answers, and keeps of the reasons what fits. Those after it carry what readers add up: the
    chain's links, valid-through times and pauses, each in pieces. A single piece that is too large even alone is left
    out: a chain's link and a pause are then seen where they stand themselves, which `chain_from` allows for."""
    bare = replace(event, chain={}, valid_through_ms={}, blocked={}, blocked_pipelines={}, paused=(), request_id="")
    head = replace(event, chain={}, valid_through_ms={}, paused=())
    pieces = [_with_some_reasons(head, max_bytes)]
    for part in (
        [replace(bare, chain={name: link}) for name, link in sorted(event.chain.items())],
        [replace(bare, valid_through_ms={name: at}) for name, at in sorted(event.valid_through_ms.items())],
        [replace(bare, paused=(pause,)) for pause in event.paused],
    ):
        pieces += _packed(bare, part, max_bytes)
    return tuple(pieces)


def _packed(bare: CommitComplete, parts: Sequence[CommitComplete], max_bytes: int) -> Iterator[CommitComplete]:
    """Parts joined again as far as they fit; halved until they do."""
    if not parts:
        return
    joined = replace(
        bare,
        chain={name: link for part in parts for name, link in part.chain.items()},
        valid_through_ms={name: at for part in parts for name, at in part.valid_through_ms.items()},
        paused=tuple(pause for part in parts for pause in part.paused),
    )
    if len(encode(joined)) <= max_bytes:
        yield joined
    elif len(parts) > 1:
        middle = len(parts) // 2
        yield from _packed(bare, parts[:middle], max_bytes)
        yield from _packed(bare, parts[middle:], max_bytes)


def _with_some_reasons(head: CommitComplete, max_bytes: int) -> CommitComplete:
    """The event with its reasons shortened, and so many of them as fit; how many tables are blocked is said all the
    same."""
    keep = max(len(head.blocked), len(head.blocked_pipelines))
    while True:
        blocked = {name: _short(reason) for name, reason in sorted(head.blocked.items())[:keep]}
        pipelines = {name: _short(reason) for name, reason in sorted(head.blocked_pipelines.items())[:keep]}
        left = len(head.blocked) - len(blocked)
        found = replace(head, blocked=blocked, blocked_pipelines=pipelines, more_blocked=head.more_blocked + left)
        if len(encode(found)) <= max_bytes or keep == 0:
            return found
        keep //= 2


def _in_plain_words(event: ControlEvent) -> ControlEvent:
    """The event with what JSON in UTF-8 cannot hold replaced: half a surrogate pair, as a file's name may leave one in
    the words of an error."""
    if isinstance(event, StateChanged):
        return replace(event, name=_plain(event.name), reason=_plain(event.reason), remedy=_plain(event.remedy))
    if isinstance(event, CommitComplete):
        blocked = {_plain(name): _plain(reason) for name, reason in event.blocked.items()}
        pipelines = {_plain(name): _plain(reason) for name, reason in event.blocked_pipelines.items()}
        return replace(event, blocked=blocked, blocked_pipelines=pipelines)
    return event


def _plain(text: str) -> str:
    return text.encode("utf-8", "replace").decode()


def _short(text: str) -> str:
    return text if len(text) <= MAX_REASON else f"{text[: MAX_REASON - 1]}\N{HORIZONTAL ELLIPSIS}"


def _too_large(event: ControlEvent, size: int, max_bytes: int, remedy: str) -> FloeError:
    about = getattr(event, "table", "") or getattr(event, "pipeline", "")
    return FloeError(
        f"a {type(event).__name__} event needs {size} bytes and the limit is {max_bytes}",
        code="FLOE-R203",
        place=about,
        remedy=remedy,
    )
