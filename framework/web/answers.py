"""Reads a request as an operation wants it, and writes its answer; every refusal has Connect's form.

In: strings and bytes of strangers. Out: values for `Operation.handle`, bytes of JSON. Invariant: what a stranger sends
is either read as the operation says or refused with a status below 500.
"""

from __future__ import annotations

import json
import re
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from pydantic import TypeAdapter
from pydantic_core import PydanticSerializationError

from framework.adapters.secrets import hidden
from framework.errors import ConfigError, FloeError, SetupError
from framework.web.backend import Refused
from framework.web.operations import OPERATIONS, Operation, Parameter

# A configuration; what takes a processor longest of so many bytes takes two seconds.
MOST_BODY = 1 << 17
KEPT = 64
_NUMBER = re.compile(r"[0-9]{1,9}\Z")
_ADAPTERS = {each.name: TypeAdapter(each.returns) for each in OPERATIONS if each.returns is not None}


def read_query(parameters: Sequence[Parameter], given: Mapping[str, Sequence[str]]) -> dict[str, Any]:
    """The values of an operation's parameters. What it does not know is passed over, as Connect does."""
    return {each.name: _value(each, tuple(given.get(each.name, ()))) for each in parameters}


def _value(parameter: Parameter, given: tuple[str, ...]) -> Any:
    name = parameter.name
    if parameter.several:
        return tuple(_checked(parameter, each) for each in given)
    if not given:
        return parameter.default
    if len(given) > 1:
        raise Refused(400, f"`{name}` is given {len(given)} times")
    if isinstance(parameter.default, int):
        if not _NUMBER.match(given[0]) or not 1 <= int(given[0]) <= parameter.most:
            raise Refused(400, f"`{name}` is not a whole number from 1 to {parameter.most}")
        return int(given[0])
    return _checked(parameter, given[0])


def _checked(parameter: Parameter, text: str) -> str:
    if parameter.choices and text not in parameter.choices:
        raise Refused(400, f"`{parameter.name}` is not one of {', '.join(parameter.choices)}")
    if len(text) > parameter.most:
        raise Refused(400, f"`{parameter.name}` is longer than {parameter.most} characters")
    return text


def read_body(content_type: str, body: bytes) -> dict[str, str]:
    """A configuration: one JSON object of texts."""
    if content_type.partition(";")[0].strip().lower() not in ("application/json", ""):
        raise Refused(415, "the body is not application/json")
    try:
        found = json.loads(body)
    except (ValueError, RecursionError):
        raise Refused(400, "the body is not JSON") from None
    if not isinstance(found, dict) or not all(isinstance(value, str) for value in found.values()):
        raise Refused(400, "the body is not an object of settings, each a text")
    try:  # JSON can say half a character, and nothing that reads a text can
        "".join((*found, *found.values())).encode("utf-8")
    except UnicodeEncodeError:
        raise Refused(400, "the body holds half a character (a lone surrogate)") from None
    return found


def written(operation: Operation, answer: object) -> bytes:
    if operation.returns is None:
        return b""
    adapter = _ADAPTERS[operation.name]
    try:
        return adapter.dump_json(answer, by_alias=True)
    except PydanticSerializationError:  # a name with half a character, which JSON can say and UTF-8 cannot
        return json.dumps(adapter.dump_python(answer, by_alias=True)).encode()


def refusal(status: int, message: str) -> bytes:
    return json.dumps({"error_code": status, "message": message}).encode()


def as_refused(error: FloeError) -> Refused:
    """An error of floe's as an answer: its sentence, place, code and remedy."""
    status = 503 if isinstance(error, SetupError) else 400 if isinstance(error, ConfigError) else 409
    place = f" ({error.place})" if error.place else ""
    remedy = f"; remedy: {error.remedy}" if error.remedy else ""
    return Refused(status, hidden(f"{error.message}{place} [{error.code}]{remedy}"))


class Kept:
    """Answers that hang on one version of the overview: made once, however many ask. For any thread: of two that miss
    at once both make it, and both are right."""

    def __init__(self) -> None:
        self._found: OrderedDict[object, tuple[int, Any]] = OrderedDict()

    def get(self, key: object, version: int, make: Callable[[], Any]) -> Any:
        found = self._found.get(key)
        if found is not None and found[0] == version:
            return found[1]
        made = make()
        self._found[key] = (version, made)
        while len(self._found) > KEPT:
            try:
                self._found.popitem(last=False)
            except KeyError:
                break
        return made
