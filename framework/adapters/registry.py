"""Schema registries: schemas by id or GUID, kept for the life of the process.

In: a connection's settings and the ids that a block names. Out: for each id its schema, or that the registry has none.
A schema never changes under its id, so found schemas are kept. Missing ones are asked for again for a while, all
together; after a wait without success, the client does not wait again for a minute. A registry that does not answer is
an error that may be tried again: without an answer no record becomes a dead letter.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor

from framework.adapters.registry_glue import GlueRegistry
from framework.adapters.registry_http import ConfluentRegistry
from framework.adapters.secrets import resolve
from framework.config.spec import TargetSpec
from framework.errors import FloeError
from framework.plan.model import Decode
from framework.record.formats.wire import OfKeys, SchemaRef, Schemas, UnknownSchema, WriterSchema, schemas_named
from framework.record.model import RecordBlock

_PAUSE_S = 0.5
Settings = Mapping[str, Mapping[str, str]]  # of registries, by the target's names
DEFAULT_RETRY_MS = 2_000
_RETRY_SETTING = "unknown.schema.patience.ms"
_ASK_AGAIN_S = 60.0
# Of the schemas that are waited for so many are asked for again at once, and so many that are unknown are remembered.
_MOST_ASKED_AGAIN = 100
_MOST_UNKNOWN = 10_000
_MOST_KNOWN_BYTES = 1 << 18
NONE_KNOWN: Mapping[SchemaRef, WriterSchema] = {}
_AT_ONCE = 8  # requests of one process; garbage may name a new id in each record


def retry_for_s_of(settings: Mapping[str, str]) -> float:
    """How long a schema that the registry does not have is waited for, in seconds."""
    return int(settings.get(_RETRY_SETTING, DEFAULT_RETRY_MS)) / 1000


def with_less_time(registries: Settings, waited_s: float) -> dict[str, dict[str, str]]:
    """Settings for a batch's next try: what it has waited so far counts, whichever process waited."""
    return {
        name: {**settings, _RETRY_SETTING: str(max(0, round((retry_for_s_of(settings) - waited_s) * 1000)))}
        for name, settings in registries.items()
    }


class Registry:
    """One registry; used by one thread of one process."""

    def __init__(self, settings: Mapping[str, str]) -> None:
        self._nodes = GlueRegistry(settings) if settings.get("type") == "glue" else ConfluentRegistry(settings)
        self.retry_for_s = retry_for_s_of(settings)
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
        waits = (
            {ref for ref in lacking if not lacking[ref].is_faulty} - asked_before
            if now >= self._in_vain_until
            else set()
        )
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
        """Ask once for each; what the registry has is kept, and what it has not is returned. Nobody is asked any more once
        it does not answer, and what it answered until then is kept."""
        wanted = list(refs)
        lacking: dict[SchemaRef, UnknownSchema] = {}
        with ThreadPoolExecutor(min(_AT_ONCE, len(wanted)) or 1, "floe-registry") as pool:
            asked = {ref: pool.submit(self._nodes.schema, ref) for ref in wanted}
            failed: FloeError | None = None
            for ref, answer in asked.items():
                if failed is not None and answer.cancel():
                    continue
                try:
                    found = answer.result()
                except FloeError as error:
                    failed = failed or error
                    continue
                if isinstance(found, WriterSchema):
                    self._known[ref] = found
                    self._unknown.pop(ref, None)
                else:
                    lacking[ref] = found
        if failed is not None:
            self._keep(lacking)
            raise failed
        return lacking

    def _keep(self, lacking: Mapping[SchemaRef, UnknownSchema]) -> None:
        now = time.monotonic()
        if len(self._unknown) > _MOST_UNKNOWN:
            self._unknown = {ref: missed for ref, missed in self._unknown.items() if missed[0] > now}
        if len(self._unknown) > _MOST_UNKNOWN:  # garbage: to ask again costs less than to keep it all
            self._unknown.clear()
        self._unknown.update({ref: (now + _ASK_AGAIN_S, answer) for ref, answer in lacking.items()})

    def subjects(self) -> list[str] | None:
        """The subjects that these credentials may see; None where they are not listed, and the registry answers.

        Raises:
            RetriableError, SetupError: as `schemas`.
        """
        return self._nodes.subjects()


_registries: dict[tuple[int, frozenset[tuple[str, str]]], Registry] = {}


def registry_of(settings: Mapping[str, str]) -> Registry:
    """The process's one registry of these settings, which retries as long as they say."""
    key = (os.getpid(), frozenset(item for item in settings.items() if item[0] != _RETRY_SETTING))
    if key not in _registries:
        _registries[key] = Registry(settings)
    _registries[key].retry_for_s = retry_for_s_of(settings)
    return _registries[key]


def resolved_registries(target: TargetSpec, decode: Decode) -> dict[str, dict[str, str]]:
    """The settings of the registries that a plan needs, with their secrets.

    Raises:
        SetupError: FLOE-E002, a secret cannot be read.
    """
    return {name: resolve(target.registries[name]) for name in decode.registries}


class PlanRegistries:
    """The registries of one plan: that of its values and that of its keys. What is `known` they are not asked for; what
    they say of others, and was used, is in `learned`."""

    def __init__(
        self, registries: Settings, decode: Decode, known: Mapping[SchemaRef, WriterSchema] = NONE_KNOWN
    ) -> None:
        self._decode = decode
        self._known = known
        self._by_name = {name: registry_of(registries[name]) for name in decode.registries}
        self.learned: dict[SchemaRef, WriterSchema] = {}

    def schemas(self, block: RecordBlock) -> Schemas:
        """What they say of the schemas that a block's records name.

        Raises:
            RetriableError, SetupError: as `Registry.schemas`.
        """
        wanted = schemas_named(block, self._decode) if self._by_name else set()
        found: dict[SchemaRef, WriterSchema | UnknownSchema] = {r: self._known[r] for r in wanted if r in self._known}
        asked = self._asked(wanted - found.keys())
        self.learned |= {ref: each for ref, each in asked.items() if isinstance(each, WriterSchema)}
        return found | asked

    def _asked(self, wanted: set[SchemaRef]) -> dict[SchemaRef, WriterSchema | UnknownSchema]:
        if not self._decode.has_keys_apart:
            return next((each.schemas(wanted) for each in self._by_name.values()), {})
        of_values, of_keys = (self._by_name[name] for name in self._decode.registries)
        found = of_values.schemas(ref for ref in wanted if not isinstance(ref, OfKeys))
        of_key = of_keys.schemas(ref.ref for ref in wanted if isinstance(ref, OfKeys))
        return found | {OfKeys(ref): answer for ref, answer in of_key.items() if not isinstance(ref, OfKeys)}


def with_learned(
    known: Mapping[SchemaRef, WriterSchema], learned: Mapping[SchemaRef, WriterSchema]
) -> dict[SchemaRef, WriterSchema]:
    """What a run's later tasks need not ask for. It travels to each of them, so there is no more of it than some of a plan's
    other parts: what comes later is asked for by each process."""
    found, left = dict(known), _MOST_KNOWN_BYTES - sum(map(_size, known.values()))
    for ref, schema in learned.items():
        if ref not in found and (left := left - _size(schema)) >= 0:
            found[ref] = schema
    return found


def _size(schema: WriterSchema) -> int:
    return len(schema.text) + sum(len(name) + len(text) for name, text in schema.references)
