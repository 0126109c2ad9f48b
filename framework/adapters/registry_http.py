"""Confluent's HTTP interface of schema registries: one schema with what it refers to, at a bounded cost.

In: a connection's settings, and an id or GUID. Out: the schema, that there is none, or that what the registry gives is
none. An answer is read up to so many bytes and so many seconds, and no address is followed to another host: whoever
answers in a registry's place gets neither credentials nor more than one request's time. A node that was silent for long
is left out for a while, so that a thousand ids do not wait for it a thousand times.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from socket import SHUT_RDWR, socket
from threading import Timer
from typing import Any
from urllib.parse import quote, urljoin, urlsplit

import requests
import urllib3
from requests.adapters import HTTPAdapter
from requests.auth import AuthBase
from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.connectionpool import HTTPConnectionPool, HTTPSConnectionPool

from framework.errors import FloeError, RetriableError, SetupError
from framework.record.formats.wire import SchemaRef, UnknownSchema, WriterSchema

_PAUSE_S = 0.5
# Spark tries a task four times and floe the batch for as long as it takes: whoever looks hears of an outage after seconds.
_ATTEMPTS = 2
DEFAULT_TIMEOUT_MS = 10_000
# A node that took so long for nothing is not asked again for a while, in this process.
_SLOW_S = 1.0
_AVOIDED_S = 30.0
# What one schema may be, with all that it refers to. Registries keep a schema in one Kafka record of a MiB.
MOST_BYTES = 4 << 20
_MOST_REFERENCES = 1_000
_MOST_LEVELS = 50
_LONGEST_S = 60.0
_PIECE_BYTES = 1 << 16
_MOST_OF_SUBJECTS = 64 << 20
_MOST_REDIRECTS = 3
_NOT_FOUND = {40401, 40402, 40403}
# Registries before GUIDs have no such path. Any producer can name one, so it is no reason to stop.
_GUIDS, _NO_GUIDS = "/schemas/guids/", "it has no GUIDs"
_TYPES = "/schemas/types"  # what each of them answers with a list
_NO_REGISTRY = "check that the url is that of a schema registry, path included"
_HEADERS = {"Accept": "application/vnd.schemaregistry.v1+json, application/json", "Accept-Encoding": "identity"}

Answer = dict[str, Any] | list[Any] | UnknownSchema


def addresses_of(settings: Mapping[str, str]) -> list[str]:
    """The addresses of a registry's nodes: what one does not answer, or has not, is asked of the next."""
    return [url.strip().rstrip("/") for url in settings.get("url", "").split(",") if url.strip()]


def faulty(reason: str) -> UnknownSchema:
    """What the registry gives is no schema that anything can be read with."""
    return UnknownSchema(reason, is_faulty=True)


@dataclass
class _GatheredReferences:
    """What a schema refers to, by name, each after what it needs itself."""

    bytes_left: int
    until_s: float
    texts: dict[str, str] = field(default_factory=dict)


class ConfluentRegistry:
    """One registry's nodes. Its methods may be called by several threads at once."""

    def __init__(self, settings: Mapping[str, str]) -> None:
        self._urls = addresses_of(settings)
        self._timeout_s = int(settings.get("timeout.ms", DEFAULT_TIMEOUT_MS)) / 1000
        self._settings = dict(settings)
        self._idle: list[requests.Session] = []  # a session is for one thread at a time
        self._avoided: dict[str, tuple[float, str]] = {}  # by address until when, and what it did

    def schema(self, ref: SchemaRef) -> WriterSchema | UnknownSchema:
        """What the registry has under an id or GUID.

        Raises:
            RetriableError: FLOE-R141, no node answers.
            SetupError: FLOE-E112, it refuses us.
        """
        path = f"/schemas/ids/{ref}" if isinstance(ref, int) else f"{_GUIDS}{ref}"
        answer = self._get(path)
        if isinstance(answer, UnknownSchema) and answer.reason == _NO_GUIDS and not isinstance(self._ask(_TYPES), list):
            raise _refused(self._urls[0], f"it answers 404 to {path}", _NO_REGISTRY)
        if isinstance(answer, UnknownSchema):
            return answer
        kind = answer.get("schemaType", "AVRO")
        if kind == "PROTOBUF":
            compiled = self._get(f"{path}?format=serialized")
            answer = answer if isinstance(compiled, UnknownSchema) else {**answer, "schema": compiled.get("schema", "")}
        text = answer.get("schema")
        if not isinstance(text, str) or not isinstance(kind, str):
            return faulty("its answer holds no schema")
        gathered = _GatheredReferences(MOST_BYTES - len(text), time.monotonic() + _LONGEST_S)
        missing = self._references(answer, kind, gathered, 1)
        return missing or WriterSchema(kind, text, tuple(gathered.texts.items()))

    def _references(
        self, schema: Mapping[str, Any], kind: str, gathered: _GatheredReferences, level: int
    ) -> UnknownSchema | None:
        """Gather what a schema refers to, each after what it refers to itself."""
        listed = schema.get("references") or ()
        if not isinstance(listed, list) and listed:
            return faulty("its references are no list")
        if listed and level > _MOST_LEVELS:
            return faulty(f"its references are more than {_MOST_LEVELS} deep")
        found = gathered.texts
        for reference in listed:
            match reference:
                case {"name": str(name), "subject": str(subject), "version": int(version)}:
                    pass
                case _:
                    return faulty("a reference of it has no name, subject and version")
            if name in found:
                continue
            if len(found) >= _MOST_REFERENCES:
                return faulty(f"it refers to more than {_MOST_REFERENCES} schemas")
            if time.monotonic() > gathered.until_s:
                raise self._silent(f"what a schema refers to did not come within {_LONGEST_S:.0f} s")
            path = f"/subjects/{quote(subject, safe='')}/versions/{version}?deleted=true"
            answer = self._get(path + ("&format=serialized" if kind == "PROTOBUF" else ""))
            if isinstance(answer, UnknownSchema):
                return UnknownSchema(f"it refers to {subject} version {version}: {answer.reason}", answer.is_faulty)
            text = answer.get("schema")
            if not isinstance(text, str):
                return faulty(f"it refers to {subject} version {version}, which holds no schema")
            gathered.bytes_left -= len(text)
            if gathered.bytes_left < 0:
                return faulty(f"it and what it refers to are more than {MOST_BYTES >> 20} MiB")
            found[name] = ""  # a circle ends here
            if missing := self._references(answer, kind, gathered, level + 1):
                return missing
            del found[name]
            found[name] = text
        return None

    def subjects(self) -> list[str]:
        """The subjects that these credentials may see; asked for once, since somebody waits for the answer.

        Raises:
            RetriableError, SetupError: as `schema`.
        """
        answer = self._ask("/subjects", attempts=1)
        if not isinstance(answer, list):
            raise _refused(self._urls[0], "it lists no subjects", _NO_REGISTRY)
        return sorted(map(str, answer))

    # ---- one answer ------------------------------------------------------------------------------------------------

    def _get(self, path: str) -> dict[str, Any] | UnknownSchema:
        answer = self._ask(path)
        if isinstance(answer, list):
            raise _refused(self._urls[0], f"it answers {path} with a list", _NO_REGISTRY)
        return answer

    def _ask(self, path: str, attempts: int = _ATTEMPTS) -> Answer:
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

    def _ask_by(self, session: requests.Session, path: str, attempts: int) -> Answer:
        last = ""
        for attempt in range(attempts):
            asked = self._worth_asking()
            if not asked:
                break
            if attempt:
                time.sleep(_PAUSE_S)
            unknown: UnknownSchema | None = None
            for url in asked:
                began_s = time.monotonic()
                answer = self._answer_of(session, url, path)
                if isinstance(answer, str):
                    last = f"{url}: {answer}"
                    if time.monotonic() - began_s >= min(_SLOW_S, self._timeout_s):
                        self._avoided[url] = (time.monotonic() + _AVOIDED_S, answer)
                    continue
                self._avoided.pop(url, None)
                if not isinstance(answer, UnknownSchema):
                    return answer
                unknown = answer  # this node may lag behind the others
            if unknown is not None:
                return unknown
        raise self._silent(last or "; ".join(f"{url}: {said}" for url, (_, said) in sorted(self._avoided.items())))

    def _worth_asking(self) -> list[str]:
        """The addresses without those that were silent a moment ago; none where all were."""
        now_s = time.monotonic()
        return [url for url in self._urls if self._avoided.get(url, (0.0, ""))[0] <= now_s]

    def _silent(self, said: str) -> RetriableError:
        return RetriableError(
            f"the schema registry does not answer: {said}",
            code="FLOE-R141",
            place=", ".join(self._urls),
            remedy="the batch waits and is tried again; check that the registry runs and that executors can reach it",
        )

    def _answer_of(self, session: requests.Session, url: str, path: str) -> Answer | str:
        """One node's answer as a value; text says why another attempt is worth it."""
        at, until_s = url + path, time.monotonic() + self._timeout_s
        most = _MOST_OF_SUBJECTS if path == "/subjects" else MOST_BYTES + _PIECE_BYTES
        for _ in range(_MOST_REDIRECTS):
            try:
                # `verify` is given again, or REQUESTS_CA_BUNDLE of the environment would count before the settings.
                with session.get(
                    at, timeout=self._timeout_s, stream=True, allow_redirects=False, verify=session.verify
                ) as response:
                    if not response.is_redirect:
                        return _answer(url, path, response.status_code, _body(response, until_s, most))
                    to = urljoin(at, response.headers.get("Location", ""))
            except requests.exceptions.SSLError as error:
                reason = getattr(error.args[0] if error.args else error, "reason", error)
                raise _refused(url, f"TLS fails: {reason}", "check ssl.ca.location and the certificates") from None
            except (requests.exceptions.RequestException, urllib3.exceptions.HTTPError, OSError) as error:
                return _said(error)
            if not _is_same_place(at, to):
                raise _refused(url, f"it sends us to another address: {_host(to)}", "name the registry's own address")
            at = to
        raise _refused(url, "it sends us from one address to the next", "name the registry's own address")


def _is_same_place(at: str, to: str) -> bool:
    """Whether a registry may send us there, with its credentials: to another path, or to TLS on the same host."""
    left, right = urlsplit(at), urlsplit(to)
    is_same = (left.scheme, left.netloc) == (right.scheme, right.netloc)
    return is_same or (left.hostname == right.hostname and left.scheme == "http" and right.scheme == "https")


def _host(url: str) -> str:
    found = urlsplit(url)
    return f"{found.scheme}://{found.hostname}"


def _body(response: requests.Response, until_s: float, most: int) -> bytes | None:
    """An answer's bytes; None for more than so many.

    Raises:
        urllib3.exceptions.HTTPError, requests.exceptions.ReadTimeout: it does not come in time.
    """
    parts, size = [], 0
    # One read of the socket each: a server that sends a byte now and then would hold a larger read forever.
    while piece := response.raw.read1(_PIECE_BYTES, decode_content=True):
        size += len(piece)
        if size > most:
            return None
        if time.monotonic() > until_s:
            raise requests.exceptions.ReadTimeout
        parts.append(piece)
    return b"".join(parts)


def _answer(url: str, path: str, status: int, body: bytes | None) -> Answer | str:
    if status in (401, 403):
        remedy = "check basic.auth.user.info or bearer.auth.token of the registry connection, and its permissions"
        raise _refused(url, f"it answers {status} to {path}", remedy)
    found = None
    try:
        found = json.loads(body) if body else None
    except RecursionError:
        if status == 200:
            return faulty("its answer is nested too deep")
    except ValueError:
        pass
    if status == 404 and isinstance(found, dict) and found.get("error_code") in _NOT_FOUND:
        return UnknownSchema(str(found.get("message", "not found"))[:200])
    if status == 404 and path.startswith(_GUIDS):
        return UnknownSchema(_NO_GUIDS)
    if status == 200 and body is None:
        return faulty(f"its answer is more than {MOST_BYTES >> 20} MiB")
    if status == 200 and isinstance(found, (dict, list)):
        return found
    if status >= 500 or status == 429:
        return f"it answers {status}"
    raise _refused(url, f"it answers {status} to {path}", _NO_REGISTRY)


def _refused(url: str, reason: str, remedy: str) -> FloeError:
    return SetupError(f"the schema registry cannot be used: {reason}", code="FLOE-E112", place=url, remedy=remedy)


_NO_TIME, _NO_CONNECTION = "no answer in time", "no connection"
_KINDS = {
    "ConnectTimeout": "no connection in time",
    "ReadTimeout": _NO_TIME,
    "ReadTimeoutError": _NO_TIME,
    "ProtocolError": _NO_CONNECTION,
    "ConnectionError": _NO_CONNECTION,
}


def _said(error: Exception) -> str:
    """The kind of failure alone: the library's own text repeats the address, and perhaps what stands in it."""
    return _KINDS.get(type(error).__name__, type(error).__name__)


# ---- connections ---------------------------------------------------------------------------------------------------


class _LimitedConnection(HTTPConnection):
    """The head of an answer comes within the timeout as a whole; a socket's own is one of each read."""

    def getresponse(self) -> urllib3.response.HTTPResponse:  # type: ignore[override]  # as urllib3 has it
        with _limited(self.sock):
            return super().getresponse()


class _LimitedTlsConnection(HTTPSConnection):
    """The same behind TLS."""

    def getresponse(self) -> urllib3.response.HTTPResponse:  # type: ignore[override]  # as urllib3 has it
        with _limited(self.sock):
            return super().getresponse()


@contextmanager
def _limited(connected: socket | None) -> Iterator[None]:
    limit_s = None if connected is None else connected.gettimeout()
    if connected is None or limit_s is None:
        yield
        return
    timer = Timer(limit_s, _hang_up, (connected,))
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def _hang_up(connected: socket) -> None:
    with suppress(OSError):
        connected.shutdown(SHUT_RDWR)


class _LimitedPool(HTTPConnectionPool):
    ConnectionCls = _LimitedConnection


class _LimitedTlsPool(HTTPSConnectionPool):
    ConnectionCls = _LimitedTlsConnection


class _LimitedAdapter(HTTPAdapter):
    def init_poolmanager(self, *args: Any, **kwargs: Any) -> None:
        super().init_poolmanager(*args, **kwargs)
        self.poolmanager.pool_classes_by_scheme = {"http": _LimitedPool, "https": _LimitedTlsPool}


class _RegistryToken(AuthBase):
    """A token that no `.netrc` takes the place of, as it does of a header."""

    def __init__(self, token: str) -> None:
        self._token = token

    def __call__(self, request: requests.PreparedRequest) -> requests.PreparedRequest:
        request.headers["Authorization"] = f"Bearer {self._token}"
        return request


def _new_session(settings: Mapping[str, str]) -> requests.Session:
    session = requests.Session()
    for scheme in ("http://", "https://"):
        session.mount(scheme, _LimitedAdapter())
    session.headers.update(_HEADERS)
    session.trust_env = True
    if user := settings.get("basic.auth.user.info"):
        name, _, password = user.partition(":")
        session.auth = (name, password)
    elif token := settings.get("bearer.auth.token"):
        session.auth = _RegistryToken(token)
    if ca := settings.get("ssl.ca.location"):
        session.verify = ca
    if certificate := settings.get("ssl.certificate.location"):
        key = settings.get("ssl.key.location")
        session.cert = (certificate, key) if key else certificate
    return session
