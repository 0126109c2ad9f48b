"""Schema registries over Confluent's HTTP interface: schemas by id or GUID, kept for the life of the process.

In: a connection's settings and the ids that a block names. Out: for each id its schema, or that the registry has none.
A schema never changes under its id, so found schemas are kept. Missing ones are asked for again for a while, all
together; after a wait without success, the client does not wait again for a minute. A registry that does not answer is
an error that may be tried again: without an answer no record becomes a dead letter.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any
from urllib.parse import quote

import requests

from framework.errors import FloeError, RetriableError, SetupError
from framework.record.formats.wire import SchemaRef, UnknownSchema, WriterSchema

_PAUSE_S = 0.5
_LONGEST_PAUSE_S = 5.0
# Spark tries a task four times and floe the batch for an hour: whoever looks hears of an outage after seconds.
_ATTEMPTS = 2
DEFAULT_RETRY_MS = 2_000
_RETRY_SETTING = "unknown.schema.patience.ms"
_ASK_AGAIN_S = 60.0
# Of the schemas that are waited for so many are asked for again at once, and so many that are unknown are remembered.
_MOST_ASKED_AGAIN = 100
_MOST_UNKNOWN = 10_000
_MOST_REFERENCES = 1_000
_AT_ONCE = 8  # requests of one process; garbage may name a new id in each record
_NOT_FOUND = {40401, 40402, 40403}
_NO_REGISTRY = "check that the url is that of a schema registry, path included"
_HEADERS = {"Accept": "application/vnd.schemaregistry.v1+json, application/json"}


def addresses_of(settings: Mapping[str, str]) -> list[str]:
    """The addresses of a registry's nodes: what one does not answer, or has not, is asked of the next."""
    return [url.strip().rstrip("/") for url in settings.get("url", "").split(",") if url.strip()]


def retry_for_s_of(settings: Mapping[str, str]) -> float:
    """How long a schema that the registry does not have is waited for, in seconds."""
    return int(settings.get(_RETRY_SETTING, DEFAULT_RETRY_MS)) / 1000


def with_less_time(settings: Mapping[str, str], waited_s: float) -> dict[str, str]:
    """Settings for a batch's next try: what it has waited so far counts, whichever process waited."""
    return (
        {**settings, _RETRY_SETTING: str(max(0, round((retry_for_s_of(settings) - waited_s) * 1000)))}
        if settings
        else {}
    )


class Registry:
    """One registry; used by one thread of one process."""

    def __init__(self, settings: Mapping[str, str]) -> None:
        self._urls = addresses_of(settings)
        self._timeout_s = int(settings.get("timeout.ms", 10_000)) / 1000
        self.retry_for_s = retry_for_s_of(settings)
        self._settings = dict(settings)
        self._idle: list[requests.Session] = []  # a session is for one thread at a time
        self._known: dict[SchemaRef, WriterSchema] = {}
        self._unknown: dict[SchemaRef, tuple[float, UnknownSchema]] = {}
        self._in_vain_until = (
            0.0  # after a wait for nothing there is none for a while: garbage names a new id each time
        )

    def schemas(self, wanted: Iterable[SchemaRef]) -> dict[SchemaRef, WriterSchema | UnknownSchema]:
        """What the registry says of each.

        Raises:
            RetriableError: FLOE-R141, no registry answers.
            SetupError: FLOE-E112, it refuses us.
        """
        now, refs = time.monotonic(), sorted(wanted, key=str)
        reported = {
            ref: missed[1] for ref in refs if (missed := self._unknown.get(ref)) is not None and missed[0] > now
        }
        asked_before = {ref for ref in refs if ref in self._unknown}
        lacking = self._look([ref for ref in refs if ref not in self._known and ref not in reported])
        waits = lacking.keys() - asked_before if now >= self._in_vain_until else set()
        give_up = now + self.retry_for_s
        while waits and time.monotonic() < give_up:
            # A producer registers and writes at once; the registry's other nodes may learn of it a moment later.
            time.sleep(_PAUSE_S)
            again = sorted(waits, key=str)[:_MOST_ASKED_AGAIN]
            still = self._look(again)
            waits -= set(again) - still.keys()
            lacking = {ref: still.get(ref, answer) for ref, answer in lacking.items() if ref not in self._known}
            if time.monotonic() >= give_up:
                self._in_vain_until = time.monotonic() + _ASK_AGAIN_S
        self._keep(lacking)
        return {ref: self._known.get(ref) or reported.get(ref) or lacking[ref] for ref in refs}

    def _look(self, refs: Iterable[SchemaRef]) -> dict[SchemaRef, UnknownSchema]:
        """Ask once for each; what the registry has is kept, and what it has not is returned."""
        wanted = list(refs)
        if len(wanted) < 2:
            answers = [self._schema(ref) for ref in wanted]
        else:
            with ThreadPoolExecutor(min(_AT_ONCE, len(wanted)), "floe-registry") as pool:
                answers = list(pool.map(self._schema, wanted))
        lacking: dict[SchemaRef, UnknownSchema] = {}
        for ref, found in zip(wanted, answers, strict=True):
            if isinstance(found, WriterSchema):
                self._known[ref] = found
                self._unknown.pop(ref, None)
            else:
                lacking[ref] = found
        return lacking

    def _keep(self, lacking: Mapping[SchemaRef, UnknownSchema]) -> None:
        now = time.monotonic()
        if len(self._unknown) > _MOST_UNKNOWN:
            self._unknown = {ref: missed for ref, missed in self._unknown.items() if missed[0] > now}
        if len(self._unknown) > _MOST_UNKNOWN:  # garbage: to ask again costs less than to keep it all
            self._unknown.clear()
        self._unknown.update({ref: (now + _ASK_AGAIN_S, answer) for ref, answer in lacking.items()})

    def _schema(self, ref: SchemaRef) -> WriterSchema | UnknownSchema:
        path = f"/schemas/ids/{ref}" if isinstance(ref, int) else f"/schemas/guids/{ref}"
        answer = self._get(path)
        if isinstance(answer, UnknownSchema):
            return answer
        kind = str(answer.get("schemaType", "AVRO"))
        if kind == "PROTOBUF":
            compiled = self._get(f"{path}?format=serialized")
            answer = answer if isinstance(compiled, UnknownSchema) else {**answer, "schema": compiled.get("schema", "")}
        references: dict[str, str] = {}
        missing = self._references(answer, kind, references)
        return missing or WriterSchema(kind, str(answer.get("schema", "")), tuple(references.items()))

    def _references(self, schema: Mapping[str, Any], kind: str, found: dict[str, str]) -> UnknownSchema | None:
        """Gather what a schema refers to, each after what it refers to itself."""
        for reference in schema.get("references") or ():
            name, subject, version = reference["name"], reference["subject"], reference["version"]
            if name in found:
                continue
            if len(found) >= _MOST_REFERENCES:
                return UnknownSchema(f"it refers to more than {_MOST_REFERENCES} schemas")
            path = f"/subjects/{quote(subject, safe='')}/versions/{version}"
            answer = self._get(path + ("?format=serialized" if kind == "PROTOBUF" else ""))
            if isinstance(answer, UnknownSchema):
                return UnknownSchema(f"it refers to {subject} version {version}: {answer.reason}")
            found[name] = ""  # a circle ends here
            if missing := self._references(answer, kind, found):
                return missing
            del found[name]
            found[name] = str(answer.get("schema", ""))
        return None

    def subjects(self) -> list[str]:
        """The subjects that these credentials may see; asked for once, since somebody waits for the answer.

        Raises:
            RetriableError, SetupError: as `schemas`.
        """
        answer = self._ask("/subjects", attempts=1)
        if not isinstance(answer, list):
            raise _refused(self._urls[0], "it lists no subjects", _NO_REGISTRY)
        return sorted(map(str, answer))

    def _get(self, path: str) -> dict[str, Any] | UnknownSchema:
        answer = self._ask(path)
        if isinstance(answer, list):
            raise _refused(self._urls[0], f"it answers {path} with a list", _NO_REGISTRY)
        return answer

    def _ask(self, path: str, attempts: int = _ATTEMPTS) -> dict[str, Any] | list[Any] | UnknownSchema:
        """One answer of one of the addresses, tried for a while."""
        with self._session() as session:
            return self._ask_by(session, path, attempts)

    @contextmanager
    def _session(self) -> Iterator[requests.Session]:
        try:
            session = self._idle.pop()
        except IndexError:
            session = _new_session(self._settings)
        yield session
        self._idle.append(session)

    def _ask_by(
        self, session: requests.Session, path: str, attempts: int
    ) -> dict[str, Any] | list[Any] | UnknownSchema:
        pause_s, last = _PAUSE_S, ""
        for attempt in range(attempts):
            if attempt:
                time.sleep(pause_s)
                pause_s = min(_LONGEST_PAUSE_S, pause_s * 2)
            unknown: UnknownSchema | None = None
            for url in self._urls:
                try:
                    response = session.get(url + path, timeout=self._timeout_s)
                except requests.exceptions.SSLError as error:
                    raise _refused(url, f"TLS fails: {error}", "check ssl.ca.location and the certificates") from None
                except requests.exceptions.RequestException as error:
                    last = f"{url}: {_said(error)}"
                    continue
                answer = _answer(url, path, response)
                if isinstance(answer, str):
                    last = f"{url}: {answer}"
                    continue
                if not isinstance(answer, UnknownSchema):
                    return answer
                unknown = answer  # this node may lag behind the others
            if unknown is not None:
                return unknown
        raise RetriableError(
            f"the schema registry does not answer: {last}",
            code="FLOE-R141",
            place=", ".join(self._urls),
            remedy="the batch waits and is tried again; check that the registry runs and that executors can reach it",
        )


def _answer(url: str, path: str, response: requests.Response) -> dict[str, Any] | list[Any] | UnknownSchema | str:
    """An answer as a value; text says why another attempt is worth it."""
    if response.status_code in (401, 403):
        remedy = "check basic.auth.user.info or bearer.auth.token of the registry connection, and its permissions"
        raise _refused(url, f"it answers {response.status_code} to {path}", remedy)
    try:
        body = response.json()
    except ValueError:
        body = None
    if response.status_code == 404 and isinstance(body, dict) and body.get("error_code") in _NOT_FOUND:
        return UnknownSchema(str(body.get("message", "not found")))
    if response.status_code == 200 and isinstance(body, (dict, list)):
        return body
    if response.status_code >= 500 or response.status_code == 429:
        return f"it answers {response.status_code}"
    raise _refused(url, f"it answers {response.status_code} to {path}", _NO_REGISTRY)


def _refused(url: str, reason: str, remedy: str) -> FloeError:
    return SetupError(f"the schema registry cannot be used: {reason}", code="FLOE-E112", place=url, remedy=remedy)


def _said(error: requests.exceptions.RequestException) -> str:
    """The kind of failure alone: the library's own text repeats the address, and perhaps what stands in it."""
    kinds = {
        "ConnectTimeout": "no connection in time",
        "ReadTimeout": "no answer in time",
        "ConnectionError": "no connection",
    }
    return kinds.get(type(error).__name__, type(error).__name__)


def _new_session(settings: Mapping[str, str]) -> requests.Session:
    session = requests.Session()
    session.headers.update(_HEADERS)
    session.trust_env = True
    if user := settings.get("basic.auth.user.info"):
        name, _, password = user.partition(":")
        session.auth = (name, password)
    elif token := settings.get("bearer.auth.token"):
        session.headers["Authorization"] = f"Bearer {token}"
    if ca := settings.get("ssl.ca.location"):
        session.verify = ca
    if certificate := settings.get("ssl.certificate.location"):
        key = settings.get("ssl.key.location")
        session.cert = (certificate, key) if key else certificate
    return session


_registries: dict[tuple[int, frozenset[tuple[str, str]]], Registry] = {}


def registry_of(settings: Mapping[str, str]) -> Registry:
    """The process's one registry of these settings, which retries as long as they say; without settings one that is never
    asked."""
    key = (os.getpid(), frozenset(item for item in settings.items() if item[0] != _RETRY_SETTING))
    if key not in _registries:
        _registries[key] = Registry(settings)
    _registries[key].retry_for_s = retry_for_s_of(settings)
    return _registries[key]
