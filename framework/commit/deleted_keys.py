"""The deleted keys that a table remembers, as its property names them: which files, and what becomes of them.

In: the text of the property `floe.tombstones`, and what a batch says. Out: the text after its commit, why a commit
cannot be made, and which files are to become one. Pure. The rule: the property changes in the commit that
deletes, and a file that it no longer names without a word of floe's is noticed.
"""

from __future__ import annotations

import hashlib
import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from framework.commit.events.event_types import DeletedKeysFile, UpsertChanges
from framework.errors import StateDisagreement

DELETED_KEYS_PROPERTY = "floe.tombstones"
# In the summary of each snapshot whose table remembers deleted keys: `mark_of` what its property says.
SUMMARY_DELETED_KEYS = "floe.tombstones"
# What a person sets the property to, so that the table forgets its deleted keys and begins anew.
FORGET = "forget"
FOLDER = "_floe_tombstones"
VERSION = 1
# So many files of one size become one, of at most so many keys: about 150 MB, sorted in memory.
FAN_OUT = 8
LEAST_KEYS = 1_000
MOST_KEYS = 4_000_000


@dataclass(frozen=True)
class Remembered:
    """`order_id` is the field id of the column whose values order the deletes, `key_ids` those of the key."""

    order_id: int
    key_ids: tuple[int, ...]
    files: tuple[DeletedKeysFile, ...] = ()

    @property
    def paths(self) -> tuple[str, ...]:
        return tuple(file.path for file in self.files)


def root_of(location: str) -> str:
    """The folder of a table's deleted keys; the removal of orphans by Iceberg's own procedures passes over it."""
    return f"{location.rstrip('/')}/{FOLDER}"


def parse(text: str | None) -> Remembered | None:
    """What the property says; None where it is not there, or a person gave up what it said.

    Raises:
        StateDisagreement: the text is not floe's.
    """
    if text is None or text.strip() == FORGET:
        return None
    try:
        held = json.loads(text)
        if held["version"] != VERSION:
            raise ValueError(f"its version is {held['version']!r}")
        files = tuple(
            DeletedKeysFile(
                str(each["path"]), int(each["record_count"]), int(each["file_size_bytes"]), int(each["newest_ms"])
            )
            for each in held["files"]
        )
        return Remembered(int(held["order_id"]), tuple(map(int, held["key_ids"])), files)
    except (KeyError, TypeError, ValueError) as error:
        raise StateDisagreement(
            f"property {DELETED_KEYS_PROPERTY} cannot be read: {error}",
            place=DELETED_KEYS_PROPERTY,
            remedy=f"set it to what it was, or to '{FORGET}': older records then may bring deleted keys back",
        ) from error


def mark_of(remembered: Remembered) -> str:
    """How many files there are, and a digest of their names: by it a property is found out that somebody removed, or set
    to what it was once."""
    names = "\n".join(remembered.paths).encode("utf-8", "surrogatepass")
    return f"{len(remembered.files)} {hashlib.sha256(names).hexdigest()[:16]}"


def text_of(remembered: Remembered) -> str:
    held = {
        "version": VERSION,
        "order_id": remembered.order_id,
        "key_ids": list(remembered.key_ids),
        "files": [
            {
                "path": file.path,
                "record_count": file.record_count,
                "file_size_bytes": file.file_size_bytes,
                "newest_ms": file.newest_ms,
            }
            for file in remembered.files
        ],
    }
    return json.dumps(held, ensure_ascii=False, separators=(",", ":"))


def after_commit(text: str | None, changes: Iterable[UpsertChanges]) -> Remembered | None:
    """What the table remembers once a batch is in it; None where the source's own order holds.

    Raises:
        StateDisagreement: the changes were compared with other files than the table names now, or it remembers by other
            columns.
    """
    asked = [(each.key_ids, each.tombstones) for each in changes if each.tombstones is not None]
    if not asked:
        return None
    found = parse(text)
    is_given_up = text is not None and found is None
    named = set(found.paths) if found is not None else set()
    result = found
    for key_ids, batch in asked:
        held = result or Remembered(batch.order_id, key_ids)
        if (held.order_id, held.key_ids) != (batch.order_id, key_ids):
            raise _changed("it remembers deleted keys by other columns than those that this batch was compared by")
        if not is_given_up and (missing := sorted(set(batch.known) - named)):
            raise _changed(f"it no longer names {missing[0]}, with which this batch was compared")
        if more := sorted(named - set(batch.known)):
            raise _changed(f"it names {more[0]}, with which this batch was not compared")
        gone = set(batch.removed)
        kept = tuple(file for file in held.files if file.path not in gone)
        known = {file.path for file in kept}
        result = replace(held, files=(*kept, *(file for file in batch.added if file.path not in known)))
    return result


def deleted_keys_summary(text: str | None, changes: Iterable[UpsertChanges], mark: str = "") -> dict[str, str]:
    """What the snapshot of a commit says of the deleted keys that its table remembers: also of one that has none. A commit
    by which nothing of them is decided hands `mark` on, that of the snapshot before it, where they are lost.

    Raises:
        StateDisagreement: as `after_commit`.
    """
    remembered = after_commit(text, changes)
    if remembered is None:
        try:
            remembered = parse(text)
            mark = "" if text is not None else mark
        except StateDisagreement:
            remembered = None
    mark = mark if remembered is None else mark_of(remembered)
    return {SUMMARY_DELETED_KEYS: mark} if mark else {}


def _changed(what: str) -> StateDisagreement:
    return StateDisagreement(
        f"property {DELETED_KEYS_PROPERTY} of the table was changed: {what}",
        place=DELETED_KEYS_PROPERTY,
        remedy=f"set it to what it was, or to '{FORGET}': older records then may bring deleted keys back",
    )


def expired(files: Iterable[DeletedKeysFile], before_ms: int) -> tuple[DeletedKeysFile, ...]:
    """Those that only hold keys which were deleted before a moment, and so are remembered no longer."""
    return tuple(file for file in files if file.newest_ms < before_ms)


def groups_to_merge(files: Iterable[DeletedKeysFile]) -> list[tuple[DeletedKeysFile, ...]]:
    """Files that are to become one: of `FAN_OUT` or more of about one size all, as far as one file may be large."""
    by_size: dict[int, list[DeletedKeysFile]] = defaultdict(list)
    for file in files:
        if file.record_count < MOST_KEYS // 2:
            by_size[_size_class(file.record_count)].append(file)
    full = (group for group in by_size.values() if len(group) >= FAN_OUT)
    return [part for group in full for part in _parts(group) if len(part) > 1]


def _parts(files: Sequence[DeletedKeysFile]) -> Iterator[tuple[DeletedKeysFile, ...]]:
    part: list[DeletedKeysFile] = []
    for file in files:
        if part and sum(each.record_count for each in part) + file.record_count > MOST_KEYS:
            yield tuple(part)
            part = []
        part.append(file)
    yield tuple(part)


def _size_class(keys: int) -> int:
    size, rest = 0, keys // LEAST_KEYS
    while rest:
        rest //= FAN_OUT
        size += 1
    return size
