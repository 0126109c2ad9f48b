"""What a pipeline file may set for a table: listed properties, and locations below those of the target.

In: keys and locations as written, and a target's `allow` with its warehouse. Out: why one is refused, or None.
Invariant: a property that imports code or names a host, an account or a path is never taken from a file or from a
table.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable
from fnmatch import fnmatchcase

# Judged one by one: each says how files and metadata are laid out below the table's own location, and nothing else.
PROPERTIES = frozenset(
    {
        "bq_connection",  # BigQuery's own; the catalog's grants say which may be used
        "comment",
        "commit.manifest-merge.enabled",
        "commit.manifest.min-count-to-merge",
        "commit.manifest.target-size-bytes",
        "commit.retry.max-wait-ms",
        "commit.retry.min-wait-ms",
        "commit.retry.num-retries",
        "commit.retry.total-timeout-ms",
        "compatibility.snapshot-id-inheritance.enabled",
        "format-version",
        "gc.enabled",
        "history.expire.max-ref-age-ms",
        "history.expire.max-snapshot-age-ms",
        "history.expire.min-snapshots-to-keep",
        "owner",
        "read.parquet.vectorization.enabled",
        "read.split.metadata-target-size",
        "read.split.open-file-cost",
        "read.split.planning-lookback",
        "read.split.target-size",
        "schema.name-mapping.default",
        "write.avro.compression-codec",
        "write.delete.distribution-mode",
        "write.delete.granularity",
        "write.delete.isolation-level",
        "write.delete.mode",
        "write.delete.target-file-size-bytes",
        "write.distribution-mode",
        "write.format.default",
        "write.isolation-level",
        "write.merge.distribution-mode",
        "write.merge.isolation-level",
        "write.merge.mode",
        "write.metadata.compression-codec",
        "write.metadata.delete-after-commit.enabled",
        "write.metadata.metrics.default",
        "write.metadata.metrics.max-inferred-column-defaults",
        "write.metadata.previous-versions-max",
        "write.object-storage.enabled",
        "write.object-storage.partitioned-paths",
        "write.parquet.bloom-filter-max-bytes",
        "write.parquet.compression-codec",
        "write.parquet.compression-level",
        "write.parquet.dict-size-bytes",
        "write.parquet.page-row-limit",
        "write.parquet.page-size-bytes",
        "write.parquet.row-group-limit",
        "write.parquet.row-group-size-bytes",
        "write.summary.partition-limit",
        "write.target-file-size-bytes",
        "write.update.distribution-mode",
        "write.update.isolation-level",
        "write.update.mode",
    }
)
PROPERTY_PREFIXES = ("write.metadata.metrics.column.", "write.parquet.bloom-filter-enabled.column.")
# No list of a target may let these through: code is imported, or data goes to another host, account or path.
NEVER_PREFIXES = (
    "adls.", "auth", "client.", "credential", "dynamodb.", "floe.", "gcp.", "gcs.", "glue.", "hdfs.", "header.", "hf.",
    "hive.", "io-", "io.", "oauth2", "oss.", "py-", "rest.", "s3.", "scope", "ssl", "token", "uri", "warehouse", "encryption.",
)  # fmt: skip
NEVER = frozenset(
    {"write.data.path", "write.folder-storage.path", "write.metadata.path", "write.object-storage.path", "location"}
)
_IMPORTS = re.compile(r"(^|[.-])impl$", re.IGNORECASE)

# Other names of one store.
_SCHEMES = {"s3a": "s3", "s3n": "s3", "abfs": "abfss", "wasb": "wasbs", "": "file"}
_LOCATION = re.compile(r"(?:([A-Za-z][A-Za-z0-9+.-]*):)?(?://([^/]*))?(/.*)?")
_UNSURE = re.compile(r"[%\\?#\x00-\x20\x7f]")


def never_a_property(key: str) -> bool:
    """Whether a table property imports code or leads elsewhere, whoever set it and whatever a target allows."""
    folded = key.strip().lower()
    return folded in NEVER or folded.startswith(NEVER_PREFIXES) or _IMPORTS.search(folded) is not None


def is_property_allowed(key: str, more: Iterable[str] = ()) -> bool:
    """Whether a pipeline file may set a table property.

    Args:
        more: globs of further keys, which the target names.
    """
    if never_a_property(key):
        return False
    return key in PROPERTIES or key.startswith(PROPERTY_PREFIXES) or any(fnmatchcase(key, glob) for glob in more)


def is_location(place: str) -> bool:
    """Whether a warehouse is a place, and not the name that a REST server has for one."""
    return "://" in place or place.startswith(("/", "file:"))


def is_below(location: str, roots: Iterable[str]) -> bool:
    """Whether a location lies below one of the roots, by whole path parts; False wherever that is not certain: an
    encoded or empty part, `..`, another account, another store. A root that the location begins with letter by letter
    is the same root, whatever is in it."""
    return any(_is_below(location, root) for root in roots)


def _is_below(location: str, root: str) -> bool:
    rest = location.rstrip("/").removeprefix(root.rstrip("/") + "/")
    if rest != location.rstrip("/") and root.strip("/"):
        return _UNSURE.search(rest) is None and not {"", ".", ".."} & set(rest.split("/"))
    place, above = _parts(location), _parts(root)
    if place is None or above is None:
        return False
    return len(place[1]) > len(above[1]) and (place[0], place[1][: len(above[1])]) == above


def _parts(location: str) -> tuple[tuple[str, str], tuple[str, ...]] | None:
    """Store and path parts; None for a location whose meaning is not certain."""
    match = _LOCATION.fullmatch(location)
    if match is None or _UNSURE.search(location):
        return None
    scheme, authority, path = (match[1] or "").lower(), match[2] or "", (match[3] or "").rstrip("/")
    store = _SCHEMES.get(scheme, scheme)
    if (store != "file" and not authority) or (store == "file" and not path) or "{" in authority:
        return None
    parts = tuple(path.split("/")[1:])
    if any(part in ("", ".", "..") for part in parts):
        return None
    return (store, authority), parts


def inside(folder: str, path: str) -> bool:
    """Whether a path, both normal, lies in a folder or below it."""
    folder, path = posixpath.normpath(folder), posixpath.normpath(path)
    if folder == ".":
        return not path.startswith(("../", "/")) and path != ".."
    return path.startswith(folder.rstrip("/") + "/")
