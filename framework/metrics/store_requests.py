"""How many requests an object store answers for what is done with a file, by kind.

In: an operation and sizes. Out: requests. Pure. The figures are of PyArrow's client for S3; a test compares them with what a
store says of the requests that it got. What a store answers with an error that the client retries is not in them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from enum import Enum

# From so many bytes a file is sent in parts of this size, each with a request, between two that open and close the upload.
PART_BYTES = 10 * 1024 * 1024
# One answer lists so many objects.
PAGE_OBJECTS = 1_000
# A Parquet file is opened with one request for so many bytes at its end.
FOOTER_BYTES = 64 * 1024
# Ranges of a file are read with one request where no more than this lies between them, up to so many bytes.
HOLE_BYTES = 8 * 1024
RANGE_BYTES = 32 * 1024 * 1024


class StoreRequest(str, Enum):
    """As stores bill them: GET and HEAD are cheap, PUT, POST and LIST cost ten times as much, DELETE nothing."""

    GET = "get"
    HEAD = "head"
    LIST = "list"
    PUT = "put"
    POST = "post"
    DELETE = "delete"


Requests = Mapping[StoreRequest, int]


def opening() -> Requests:
    """A file is opened to be read; the reads come in addition."""
    return {StoreRequest.HEAD: 1}


def reading(size: int) -> Requests:
    """One read, of which so many bytes are in the file."""
    return {StoreRequest.GET: 1} if size else {}


def opening_parquet(footer_bytes: int) -> Requests:
    """What is known of a Parquet file's columns is read. `footer_bytes`: of the footer, with its length and its mark."""
    return {StoreRequest.GET: 1 if footer_bytes <= FOOTER_BYTES else 2}


def reading_ranges(ranges: Iterable[tuple[int, int]]) -> Requests:
    """Ranges of one file, by offset and length, are read at once."""
    count, start, end = 0, 0, 0
    for offset, length in sorted(each for each in ranges if each[1]):
        if not count or offset - end > HOLE_BYTES or offset + length - start > RANGE_BYTES:
            count, start = count + 1, offset
        end = offset + length
    return {StoreRequest.GET: count}


def writing(size: int) -> Requests:
    """A file of so many bytes is written."""
    if size < PART_BYTES:
        return {StoreRequest.PUT: 1}
    return {StoreRequest.POST: 2, StoreRequest.PUT: -(-size // PART_BYTES)}


def looking(is_there: bool) -> Requests:
    """Somebody asks whether a file is there, and how large it is; for one that is not, also whether it is a folder."""
    return {StoreRequest.HEAD: 1} if is_there else {StoreRequest.HEAD: 1, StoreRequest.LIST: 1}


def listing(objects: int) -> Requests:
    """All files below a location are listed."""
    return {StoreRequest.LIST: max(1, -(-objects // PAGE_OBJECTS))}


def removing(is_there: bool, in_bucket: bool = False) -> Requests:
    """A file is removed. PyArrow looks for it first, and afterwards writes an empty object that stands for its folder.

    Args:
        in_bucket: it lies in no folder.
    """
    if not is_there:
        return {StoreRequest.HEAD: 1}
    folder = {} if in_bucket else {StoreRequest.PUT: 1}
    return {StoreRequest.HEAD: 1, StoreRequest.DELETE: 1, **folder}


def total(counts: Iterable[Requests]) -> Counter[StoreRequest]:
    """Their sum."""
    return sum(map(Counter[StoreRequest], counts), Counter[StoreRequest]())
