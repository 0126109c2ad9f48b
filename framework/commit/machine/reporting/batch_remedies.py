"""What to do about a batch that fails and is tried again, by the words of its failure.

In: code and text of the failure, as a run reported it. Out: a remedy of floe's own, with commands. A task's failure crosses the
JVM without its remedy, and an exception of Python or of the JVM has none.
"""

from __future__ import annotations

# What the last line of a task's traceback begins with, where a file could not be written or read.
_OF_STORES = ("OSError", "FileNotFoundError", "PermissionError", "TimeoutError", "NotADirectoryError", "IsADirectoryError",
              "BlockingIOError")  # fmt: skip
BATCH_FAILED = "FLOE-R324"
KEYS_ENDED = "FLOE-R157"
STORE_REMEDY = (
    "check that the store takes files: it may be full, away, or refuse these credentials (`floe doctor FILE` writes a table); "
    "floe tries again by itself"
)
BATCH_REMEDY = (
    "`floe doctor FILE` asks broker, catalog and store; `spark.log` has the whole failure; floe tries again by itself"
)
ENDED_REMEDY = (
    "have the catalog lend keys for longer than a batch takes; "
    "floe tries again by itself, with new keys and half of the records"
)
_BY_CODE = {
    KEYS_ENDED: ENDED_REMEDY,
    "FLOE-R141": "check that the registry runs and that executors reach it (`floe doctor FILE`); floe tries again by itself",
    "FLOE-E102": "check security.protocol, sasl.* and ssl.* of the connection (`floe doctor FILE`); floe tries again by itself",
    "FLOE-E115": "check who gives tokens for Kafka, and what the broker wants (`floe doctor FILE`); floe tries again by itself",
    "FLOE-E103": "allow this operation for this principal: `floe doctor FILE` lists what it needs; floe tries again by itself",
}


def is_of_store(text: str) -> bool:
    """Whether a failure is that of a file which could not be written or read."""
    return any(name in text for name in _OF_STORES)


def batch_remedy(code: str, reason: str) -> str | None:
    """Of a batch that is tried again; None where its code says more than is known here."""
    if code == BATCH_FAILED:
        return STORE_REMEDY if is_of_store(reason) else BATCH_REMEDY
    return _BY_CODE.get(code)
