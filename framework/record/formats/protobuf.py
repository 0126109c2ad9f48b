"""Protobuf data to typed columns, by descriptors alone: no generated code.

In: payloads, and compiled schemas: the registry's file and those it imports, or a descriptor set of the pipeline's.
Out: rows and failures. A field that can be absent is null when it is; one that cannot (proto3 without `optional`) has
its default. A record with fields that its schema does not know is an error, since they would be lost (invariant 9).
"""

from __future__ import annotations

import base64
from collections.abc import Iterable
from functools import lru_cache
from typing import Any

import numpy as np
from google.protobuf import (
    any_pb2,
    descriptor_pb2,
    descriptor_pool,
    duration_pb2,
    empty_pb2,
    field_mask_pb2,
    message_factory,
    struct_pb2,
    timestamp_pb2,
    wrappers_pb2,
)
from google.protobuf.message import DecodeError

from framework.config.spec import FormatSpec
from framework.record.arrays import Ints
from framework.record.failure import RecordFailure
from framework.record.formats.columns import StructColumn, build_parts, is_too_wide
from framework.record.formats.protobuf_columns import inner_messages, message_column
from framework.record.formats.typed_rows import TypedRows
from framework.record.formats.wire import FramedPayload, WriterSchema, not_framed

Failures = dict[int, RecordFailure]
# Files that every compiler has; schemas import them without saying more.
_WELL_KNOWN = {
    module.DESCRIPTOR.name: module.DESCRIPTOR.serialized_pb
    for module in (
        any_pb2, descriptor_pb2, duration_pb2, empty_pb2, field_mask_pb2, struct_pb2, timestamp_pb2, wrappers_pb2,
    )
}  # fmt: skip


class ProtobufFault(ValueError):
    """Why a compiled schema cannot be used."""


def decode_protobuf(
    framed: list[FramedPayload], places: Ints, writer: WriterSchema | None, spec: FormatSpec
) -> tuple[list[TypedRows], Failures]:
    """The rows of payloads of one writer's file; `writer` is None for the pipeline's own descriptor set."""
    failures: Failures = {}
    if writer is None:
        groups: dict[tuple[int, ...], tuple[list[bytes], list[int]]] = {
            (): ([one.payload for one in framed], places.tolist())
        }
    else:
        groups = _by_message(framed, places, failures)
    parts: list[TypedRows] = []
    for index, (payloads, own) in groups.items():
        try:
            kind, root = message_type(writer, spec.schema, spec.message, index)
        except ProtobufFault as fault:
            failure = RecordFailure("decode", "FLOE-D116", f"the writer's schema cannot be used: {fault}")
            failures |= dict.fromkeys(own, failure)
            continue
        messages, good = [], []
        for payload, place in zip(payloads, own, strict=True):
            try:
                messages.append(_message(kind, payload))
                good.append(place)
            except RecordFailure as failure:
                failures[place] = failure
        kinds = {name: child.kind for name, child, _ in root.children}
        built, unfit = build_parts(root, messages, np.array(good, dtype=np.int64))
        failures |= unfit
        parts += [TypedRows(kept, columns, kinds) for columns, kept in built]
    return parts, failures


def _message(kind: Any, payload: bytes) -> Any:
    try:
        message = kind.FromString(payload)
    except (DecodeError, RecursionError) as error:
        raise RecordFailure(
            "decode", "FLOE-D115", f"the record is not protobuf of {kind.DESCRIPTOR.full_name}: {error}"
        ) from None
    size = message.ByteSize()
    message.DiscardUnknownFields()
    if message.ByteSize() != size:
        name = kind.DESCRIPTOR.full_name
        raise RecordFailure(
            "decode",
            "FLOE-D118",
            f"the record has fields that {name} does not know, which would be lost",
            expected=f"the fields of {name}",
            actual=f"{size - message.ByteSize()} bytes more",
        )
    return message


def _by_message(
    framed: list[FramedPayload], places: Ints, failures: Failures
) -> dict[tuple[int, ...], tuple[list[bytes], list[int]]]:
    """The payloads by the place of their message in the file, which stands before each (or in its header)."""
    groups: dict[tuple[int, ...], tuple[list[bytes], list[int]]] = {}
    for one, place in zip(framed, places.tolist(), strict=True):
        try:
            if one.which is not None:
                index, _ = message_index(one.which)
                payload = one.payload
            else:
                index, end = message_index(one.payload)
                payload = one.payload[end:]
        except RecordFailure as failure:
            failures[place] = failure
            continue
        group = groups.setdefault(index, ([], []))
        group[0].append(payload)
        group[1].append(place)
    return groups


def message_index(data: bytes) -> tuple[tuple[int, ...], int]:
    """Which message of a file: the path of places through nested messages, and where it ends.

    Raises:
        RecordFailure: FLOE-D111, there is none.
    """
    count, at = _zigzag(data, 0)
    if count == 0:
        return (0,), at
    if not 0 < count <= 100:
        raise not_framed(f"{count} message indexes")
    path = []
    for _ in range(count):
        place, at = _zigzag(data, at)
        path.append(place)
    return tuple(path), at


def _zigzag(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        if at >= len(data) or shift > 63:
            raise not_framed("the message index has no end")
        byte = data[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return (value >> 1) ^ -(value & 1), at


# ---- schemas --------------------------------------------------------------------------------------------------------


@lru_cache(maxsize=1024)
def message_type(
    writer: WriterSchema | None, schema: str | None, message: str | None, index: tuple[int, ...]
) -> tuple[Any, StructColumn]:
    """The class of a message and its columns; cached, since making them is dear.

    Raises:
        ProtobufFault: the files do not hold together, or hold no such message.
    """
    if writer is not None:
        pool, file = _registered(writer)
        found = file.message_types_by_name.values()
        descriptor: Any = None
        for place in index:
            if not 0 <= place < len(found):
                raise ProtobufFault(f"{file.name} has no message {'.'.join(map(str, index))}")
            descriptor = list(found)[place]
            found = descriptor.nested_types
    else:
        pool, files = descriptor_set(schema or "")
        descriptor = _named(pool, files, message)
    if is_too_wide(descriptor, inner_messages, lambda message: message.full_name):
        raise ProtobufFault("it stands for more columns than any table has")
    return message_factory.GetMessageClass(descriptor), message_column(descriptor)


def descriptor_set(text: str) -> tuple[Any, list[Any]]:
    """The pool and the files of a descriptor set in Base64, in their order.

    Raises:
        ProtobufFault: it is none, or lacks a file that another imports.
    """
    try:
        whole = descriptor_pb2.FileDescriptorSet.FromString(base64.b64decode("".join(text.split()), validate=True))
    except (ValueError, DecodeError):
        raise ProtobufFault("it is no descriptor set in Base64") from None
    if not whole.file:
        raise ProtobufFault("the descriptor set holds no file")
    pool = descriptor_pool.DescriptorPool()
    _add(pool, whole.file)
    return pool, [pool.FindFileByName(file.name) for file in whole.file]


def _registered(writer: WriterSchema) -> tuple[Any, Any]:
    pool = descriptor_pool.DescriptorPool()
    files = []
    for name, text in (*writer.references, ("", writer.text)):
        try:
            file = descriptor_pb2.FileDescriptorProto.FromString(base64.b64decode(text, validate=True))
        except (ValueError, DecodeError):
            raise ProtobufFault("the registry gave it as text, not compiled") from None
        file.name = name or file.name or "value.proto"
        files.append(file)
    _add(pool, files)
    return pool, pool.FindFileByName(files[-1].name)


def _add(pool: Any, files: Iterable[Any]) -> None:
    """Put files into a pool, each after what it imports."""
    own = {file.name: file for file in files}
    done: set[str] = set()

    def add(name: str, around: tuple[str, ...]) -> None:
        if name in done:
            return
        file = own.get(name)
        if file is None:
            if name not in _WELL_KNOWN:
                raise ProtobufFault(f"{around[-1]} imports {name}, which is not there")
            file = descriptor_pb2.FileDescriptorProto.FromString(_WELL_KNOWN[name])
        if name in around:
            raise ProtobufFault(f"{name} imports itself")
        for dependency in file.dependency:
            add(dependency, (*around, name))
        try:
            pool.Add(file)
        except TypeError as error:
            raise ProtobufFault(str(error)) from None
        done.add(name)

    for name in own:
        add(name, ())


def _named(pool: Any, files: list[Any], message: str | None) -> Any:
    if message is not None:
        try:
            return pool.FindMessageTypeByName(message)
        except KeyError:
            raise ProtobufFault(f"it holds no message {message}") from None
    last = list(files[-1].message_types_by_name.values())
    if len(last) != 1:
        raise ProtobufFault(f"{files[-1].name} holds {len(last)} messages, and `message` names none")
    return last[0]
