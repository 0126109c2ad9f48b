"""The properties of Iceberg's Java catalogs, and what each is in PyIceberg.

In: a property behind `iceberg.catalog.`, and its value. Out: the property of the target's catalog, a reason why it is
needless, or what is lost without it. This is the list of all that are known; any other is refused by name.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum


class PropertyOutcome(Enum):
    """What becomes of a property: it stands in the target, it is needless, a person must act, or nothing can be done."""

    KEPT = "kept"
    NEEDLESS = "needless"
    LOST = "lost"
    REFUSED = "refused"


@dataclass(frozen=True)
class Property:
    """`name` and `value` where it is kept, else why not."""

    fate: PropertyOutcome
    name: str = ""
    value: str = ""
    reason: str = ""


_SAME = re.compile(
    r"uri|warehouse|credential|token|oauth2-server-uri|scope|audience|resource|prefix|header\..+"
    r"|rest\.(sigv4-enabled|signing-region|signing-name)"
    r"|s3\.(endpoint|region|access-key-id|secret-access-key|session-token|role-arn|proxy-uri|connect-timeout)"
    r"|client\.(region|access-key-id|secret-access-key|session-token|role-arn|role-session-name)"
    r"|gcs\.(project-id|oauth2\.token|oauth2\.token-expires-at|service\.host|user-project)"
    r"|gcp\.bigquery\.(project-id|location)|adls\.(account-name|account-key|connection-string|sas-token)"
    r"|glue\.(id|skip-archive|endpoint|max-retries|skip-name-validation)|dynamodb\.table-name"
)
_RENAMED = {"client.assume-role.arn": "client.role-arn"}
_NEEDLESS = re.compile(
    r"(cache-enabled|cache\..+|cache-.+|clients|client\.pool\..+|client-pool-.+)"
    r"|http-client\..+|io\.manifest\.cache.+|metrics-reporter-impl|rest-metrics-reporting-enabled"
    r"|s3\.(staging-dir|multipart\..+|checksum-enabled|delete\..+|preload-client-enabled|retry\..+"
    r"|remote-signing-enabled|analytics-accelerator\..+|crt\..+|connection\..+)"
)
_LOST = (
    (r"jdbc\..+", "PyIceberg has the user and the password in `uri`: `postgresql+psycopg2://user:password@host/db`"),
    (r"table-(default|override)\..+", "put it under `tables.defaults.create.properties`"),
    (r"client\.assume-role\..+|client\.factory", "give `client.role-arn`, or credentials of the environment"),
    (r"(gcs|gcp)\..+|adls\..+", "PyIceberg names this otherwise; see its list of `gcs.*` and `adls.*` settings"),
    (r"rest\..+|oauth2\..+|token-.+|auth\..+|polaris\..+|nessie\..+", "see PyIceberg's settings of REST catalogs"),
    (r"(hive|lock)\..+|lock-impl|lock-table", "PyIceberg locks a Hive table itself"),
)  # fmt: skip
_CHANGES_FILES = re.compile(
    r"s3\.(sse\..+|acl|access-points\..+|write\.(tags|storage-class|table-tag-enabled|namespace-tag-enabled).*)"
)
_JAVA_IO = ("S3FileIO", "GCSFileIO", "ADLSFileIO", "ResolvingFileIO", "HadoopFileIO")


def property_of(name: str, value: str) -> Property:
    """What becomes of a property of a Java catalog."""
    if found := _special(name, value.strip()):
        return found
    if name in _RENAMED or _SAME.fullmatch(name):
        return Property(PropertyOutcome.KEPT, _RENAMED.get(name, name), value)
    if _NEEDLESS.fullmatch(name):
        return Property(
            PropertyOutcome.NEEDLESS, reason="it tunes Iceberg's Java client; PyIceberg has no such setting"
        )
    for pattern, reason in _LOST:
        if re.fullmatch(pattern, name):
            return Property(PropertyOutcome.LOST, reason=reason)
    return Property(PropertyOutcome.REFUSED, reason="floe does not know this property of a catalog")


def _special(name: str, value: str) -> Property | None:
    if name == "io-impl":
        if value.rpartition(".")[2] in _JAVA_IO and value.startswith("org.apache.iceberg."):
            return Property(
                PropertyOutcome.NEEDLESS,
                reason="PyIceberg chooses by the address: `s3://`, `gs://`, `abfss://`, `hdfs://`",
            )
        return Property(PropertyOutcome.REFUSED, reason=f"PyIceberg cannot write through `{value}`")
    if name == "s3.path-style-access":
        is_path = value.lower() == "true"
        return Property(PropertyOutcome.KEPT, "s3.force-virtual-addressing", "false" if is_path else "true")
    if name == "include-credentials":
        return Property(
            PropertyOutcome.NEEDLESS, reason="PyIceberg always asks a REST catalog for credentials of the store"
        )
    if name == "ref":
        if value == "main":
            return Property(
                PropertyOutcome.LOST, reason="Nessie's REST address names the branch: `uri: https://HOST/iceberg/main`"
            )
        return Property(
            PropertyOutcome.REFUSED,
            reason=f"it is Nessie's branch `{value}`, which no target can name",
        )
    if _CHANGES_FILES.fullmatch(name):
        return Property(
            PropertyOutcome.REFUSED, reason="it changes the files that are written, and PyIceberg has no such setting"
        )
    return None
