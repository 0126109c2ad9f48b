"""What a store and a catalog of AWS must allow, as policies of IAM: no more than a run needs, and for tasks less than that.

In: where a target's tables lie, and what its pipelines do. Out: policies as AWS takes them. Pure. A test on a store that asks its
policies proves each sufficient for what its process does, and each action in it necessary.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from enum import Enum
from typing import Any
from urllib.parse import urlsplit

SCHEMES = ("s3", "s3a", "s3n")
_WRITE = ("s3:PutObject", "s3:AbortMultipartUpload")
_LIST = "s3:ListBucket"
_GLUE = ("glue:CreateDatabase", "glue:CreateTable", "glue:GetDatabase", "glue:GetDatabases", "glue:GetTable", "glue:GetTables",
         "glue:UpdateTable")  # fmt: skip
_GLUE_LOOKS = ("glue:GetDatabases", "glue:GetTable", "glue:GetTables")
_GLUE_SCRATCH = ("glue:DeleteDatabase", "glue:DeleteTable")


LOOKS = "whoever only looks: floe plan in CI, floe compare"


class StoreUser(str, Enum):
    """Who asks the store: tasks that append write files and nothing else; who only looks reads and lists; all others do both, and
    remove files."""

    TASKS = "tasks that append"
    OTHERS = "driver, coordinator and tasks of upserts"
    LOOKS = LOOKS


_READ = "s3:GetObject"
_ACTIONS = {
    StoreUser.TASKS: _WRITE,
    StoreUser.OTHERS: (*_WRITE, _READ, "s3:DeleteObject"),
    StoreUser.LOOKS: (_READ,),
}


def is_s3(location: str) -> bool:
    return urlsplit(location).scheme in SCHEMES


def store_policy(locations: Iterable[str], user: StoreUser) -> dict[str, Any]:
    """The policy for files below these locations, of which each is in S3."""
    places = sorted({_bucket_and_prefix(each) for each in locations})
    files = [f"arn:aws:s3:::{bucket}/{prefix}*" for bucket, prefix in places]
    statements = [_allow("FloeFiles", _ACTIONS[user], files)]
    if user is not StoreUser.TASKS:
        # Without it S3 answers 403 instead of 404 for a file that is not there. It has no condition of a prefix, since
        # such a request names none.
        buckets = [f"arn:aws:s3:::{bucket}" for bucket in sorted({bucket for bucket, _ in places})]
        statements.append(_allow("FloeListings", (_LIST,), buckets))
    return _policy(statements)


class GlueUser(str, Enum):
    """Who asks Glue; tasks do not. Doctor and readiness drop the table and the namespace that they have tried."""

    COMMITS = "driver and coordinator"
    TRIES = "floe doctor and floe readiness, in addition"
    LOOKS = LOOKS


_GLUE_ACTIONS = {
    GlueUser.COMMITS: ("FloeCatalog", _GLUE),
    GlueUser.TRIES: ("FloeScratch", _GLUE_SCRATCH),
    GlueUser.LOOKS: ("FloeCatalog", _GLUE_LOOKS),
}


def glue_policy(user: GlueUser) -> dict[str, Any]:
    """What Glue must allow."""
    resources = [f"arn:aws:glue:*:*:{part}" for part in ("catalog", "database/*", "table/*/*")]
    name, actions = _GLUE_ACTIONS[user]
    return _policy([_allow(name, actions, resources)])


def _policy(statements: Sequence[dict[str, Any]]) -> dict[str, Any]:
    return {"Version": "2012-10-17", "Statement": list(statements)}


def _allow(name: str, actions: Sequence[str], resources: Sequence[str]) -> dict[str, Any]:
    return {"Sid": name, "Effect": "Allow", "Action": sorted(actions), "Resource": list(resources)}


def _bucket_and_prefix(location: str) -> tuple[str, str]:
    bucket, _, path = location.partition("://")[2].partition("/")
    # As IAM writes what would stand for more than itself, or for a variable.
    path = re.sub(r"[*?$]", r"${\g<0>}", path.strip("/"))
    return bucket, f"{path}/" if path else ""
