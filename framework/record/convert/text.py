"""Text, UUIDs and bytes: JSON's to Iceberg's string, uuid, binary and fixed.

A string column takes text as it is, and numbers, booleans, objects and arrays as their JSON text. Bytes are base64 (or
hexadecimal where the hint's format says `hex`), complete and padded; a UUID is 32 hexadecimal digits, dashes or not.
"""

from __future__ import annotations

import base64
import json
import re
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from framework.config.spec import HEX
from framework.record.convert.converter import Converter
from framework.record.strict_json import JsonValue, NumberText

_UUID = re.compile(r"[0-9a-fA-F]{8}-?[0-9a-fA-F]{4}-?[0-9a-fA-F]{4}-?[0-9a-fA-F]{4}-?[0-9a-fA-F]{12}")
# Python takes padding where there is nothing to pad.
_BASE64 = re.compile(r"(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?")
_HEX = re.compile(r"([0-9a-fA-F]{2})*")


def is_base64(text: str) -> bool:
    """Whether a text is complete and padded Base64; an empty one is."""
    return _BASE64.fullmatch(text) is not None


def json_text(value: JsonValue) -> str:
    """A value as compact JSON text; numbers as they were written, keys in their order."""
    if isinstance(value, NumberText):
        return str(value)
    if isinstance(value, dict):
        return "{" + ",".join(f"{json.dumps(k, ensure_ascii=False)}:{json_text(v)}" for k, v in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ",".join(json_text(item) for item in value) + "]"
    return json.dumps(value, ensure_ascii=False)


@dataclass(frozen=True)
class StringConverter(Converter):
    def array(self, values: pa.Array) -> pa.Array:
        return values

    def value(self, value: JsonValue, path: str) -> object:
        if isinstance(value, str):
            return str(value)
        return json_text(value)


@dataclass(frozen=True)
class UuidConverter(Converter):
    def array(self, values: pa.Array) -> pa.Array:
        present = values.drop_null()
        digits = pc.replace_substring(present, "-", "")
        if not pc.all(pc.equal(pc.binary_length(digits), 32)).as_py() and len(present):
            raise pa.ArrowInvalid("not a UUID")
        # Where the dashes are is checked too, as for single values: all at the usual places, or none.
        lengths = pc.unique(pc.binary_length(present)).to_pylist()
        if any(length not in (32, 36) for length in lengths):
            raise pa.ArrowInvalid("not a UUID")
        if 36 in lengths and not pc.all(pc.match_substring_regex(present, f"^{_UUID.pattern}$")).as_py():
            raise pa.ArrowInvalid("not a UUID")
        try:
            data = bytes.fromhex("".join(digits.to_pylist()))
        except ValueError:
            raise pa.ArrowInvalid("not a UUID") from None
        if len(data) != 16 * len(present):
            raise pa.ArrowInvalid("not a UUID")
        packed = pa.Array.from_buffers(pa.binary(16), len(present), [None, pa.py_buffer(data)])
        return pa.ExtensionArray.from_storage(pa.uuid(), _spread(packed, values))

    def plausible(self, values: pa.Array) -> pa.Array | None:
        return pc.match_substring_regex(values, f"^{_UUID.pattern}$")

    def value(self, value: JsonValue, path: str) -> object:
        if not isinstance(value, str) or isinstance(value, NumberText):
            raise self.wrong_kind(value, path)
        if _UUID.fullmatch(value) is None:
            raise self.unparsable(value, path)
        return bytes.fromhex(value.replace("-", ""))


@dataclass(frozen=True)
class BytesConverter(Converter):
    """binary, and fixed when `length` is given."""

    encoding: str
    length: int | None

    def array(self, values: pa.Array) -> pa.Array:
        try:
            decoded = [None if text is None else self._decode(text) for text in values.to_pylist()]
        except ValueError:
            raise pa.ArrowInvalid(f"not {self.encoding}") from None
        if self.length is not None and any(data is not None and len(data) != self.length for data in decoded):
            raise pa.ArrowInvalid(f"not {self.length} bytes")
        return pa.array(decoded, self.target)

    def value(self, value: JsonValue, path: str) -> object:
        if not isinstance(value, str) or isinstance(value, NumberText):
            raise self.wrong_kind(value, path)
        try:
            data = self._decode(value)
        except ValueError:
            raise self.failure("FLOE-D304", f"is not {self.encoding}, as needed for", value, path) from None
        if self.length is not None and len(data) != self.length:
            raise self.failure("FLOE-D302", f"has {len(data)} bytes, not as many as", value, path)
        return data

    def _decode(self, text: str) -> bytes:
        if self.encoding == HEX:
            if _HEX.fullmatch(text) is None:
                raise ValueError("not hexadecimal")
            return bytes.fromhex(text)
        if not is_base64(text):
            raise ValueError("not base64")
        return base64.b64decode(text)


def _spread(packed: pa.Array, like: pa.Array) -> pa.Array:
    """`packed` holds the values of the non-null slots of `like`; put them at their slots, nulls between."""
    if like.null_count == 0:
        return packed
    present = pc.is_valid(like)
    slots = pc.subtract(pc.cumulative_sum(present.cast(pa.int64())), 1)
    return packed.take(pc.if_else(present, slots, pa.scalar(None, pa.int64())))
