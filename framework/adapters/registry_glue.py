"""AWS Glue's schema registry: one schema by the UUID of its version.

In: a connection's settings, which name keys or leave them to AWS's own order, and a UUID. Out: the schema, or that the
registry has none. `boto3` signs and asks; it must be where the driver and the executors run. No message holds what AWS
says, which may name keys: only its code.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from framework.config.rules.target.registries import NAMES_REGION
from framework.errors import FloeError, RetriableError, SetupError
from framework.record.formats.wire import SchemaRef, UnknownSchema, WriterSchema

DEFAULT_TIMEOUT_MS = 10_000
_PACKAGE = "boto3"
_UNKNOWN = {"EntityNotFoundException", "InvalidInputException"}
_REFUSED = {
    "AccessDeniedException", "ExpiredTokenException", "IncompleteSignature", "InvalidClientTokenId",
    "InvalidSignatureException", "MissingAuthenticationToken", "SignatureDoesNotMatch", "UnrecognizedClientException",
}  # fmt: skip
_NOBODYS = "00000000-0000-0000-0000-000000000000"


def region_of(settings: Mapping[str, str]) -> str | None:
    """The region that is said, or that the address names."""
    named = NAMES_REGION.fullmatch(settings.get("url", ""))
    return settings.get("glue.region") or (named[1] if named else None)


class GlueRegistry:
    """The registries of one account and region. Its methods may be called by several threads at once."""

    def __init__(self, settings: Mapping[str, str]) -> None:
        self._url = settings["url"]
        self._client = _client(settings)

    def schema(self, ref: SchemaRef) -> WriterSchema | UnknownSchema:
        """What Glue has under the UUID of a version.

        Raises:
            RetriableError: FLOE-R141, Glue does not answer.
            SetupError: FLOE-E112, it refuses us.
        """
        if not isinstance(ref, str):
            return UnknownSchema("AWS Glue's schemas have UUIDs, and no numbers")
        answer = self._asked(lambda: self._client.get_schema_version(SchemaVersionId=ref))
        if isinstance(answer, UnknownSchema):
            return answer
        if answer.get("Status", "AVAILABLE") != "AVAILABLE":
            return UnknownSchema(f"its version is {answer['Status']}")
        kind, text = answer.get("DataFormat"), answer.get("SchemaDefinition")
        if not isinstance(kind, str) or not isinstance(text, str):
            return UnknownSchema("its answer holds no schema", is_faulty=True)
        return WriterSchema(kind, text)

    def subjects(self) -> list[str] | None:
        """None: its schemas are not listed, which is a permission more than floe needs. It was asked for one.

        Raises:
            RetriableError, SetupError: as `schema`.
        """
        self.schema(_NOBODYS)
        return None

    def _asked(self, ask: Callable[[], Any]) -> dict[str, Any] | UnknownSchema:
        from botocore import exceptions

        try:
            answer: dict[str, Any] = ask()
        except exceptions.ClientError as error:
            code = str(error.response.get("Error", {}).get("Code", ""))
            if code in _UNKNOWN:
                return UnknownSchema("not found in AWS Glue")
            if code in _REFUSED or error.response.get("ResponseMetadata", {}).get("HTTPStatusCode") in (401, 403):
                raise self._refused(f"it answers {code}") from None
            raise self._silent(f"it answers {code or 'with an error'}") from None
        except exceptions.SSLError:
            raise self._refused("TLS fails") from None
        except (exceptions.HTTPClientError, exceptions.ConnectionError) as error:
            raise self._silent(type(error).__name__) from None
        except exceptions.BotoCoreError as error:  # such as no credentials, or half of them
            raise self._refused(type(error).__name__) from None
        return answer

    def _silent(self, said: str) -> RetriableError:
        return RetriableError(
            f"the schema registry does not answer: {said}",
            code="FLOE-R141",
            place=self._url,
            remedy="the batch waits and is tried again; check that AWS Glue can be reached from the executors",
        )

    def _refused(self, reason: str) -> FloeError:
        remedy = "check the keys of the registry connection, and that they may call glue:GetSchemaVersion"
        return SetupError(
            f"the schema registry cannot be used: {reason}", code="FLOE-E112", place=self._url, remedy=remedy
        )


def _client(settings: Mapping[str, str]) -> Any:
    try:
        import boto3
        from botocore.config import Config
    except ImportError as error:
        raise SetupError(
            f"the schema registry cannot be used: a package is missing: {_PACKAGE}",
            code="FLOE-E112",
            place=settings["url"],
            remedy=f"pip install {_PACKAGE}, where the driver and the executors run",
        ) from error
    timeout_s = int(settings.get("timeout.ms", DEFAULT_TIMEOUT_MS)) / 1000
    config = Config(
        connect_timeout=timeout_s, read_timeout=timeout_s, retries={"total_max_attempts": 2}, max_pool_connections=8
    )
    # A session of its own: boto3's shared one is made once for all settings, and by several threads at once.
    session = boto3.session.Session(
        aws_access_key_id=settings.get("glue.access-key-id"),
        aws_secret_access_key=settings.get("glue.secret-access-key"),
        aws_session_token=settings.get("glue.session-token"),
        region_name=region_of(settings),
    )
    return session.client(
        "glue", endpoint_url=settings["url"], config=config, verify=settings.get("ssl.ca.location") or None
    )
