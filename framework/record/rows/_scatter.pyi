from typing import NewType

INTERFACE: int

Scatter = NewType("Scatter", object)
# ("fixed", bytes), ("codes", bytes), ("bits",), ("text",), ("list", Spec), ("struct", (Spec, ...)); the root is a struct of the
# columns. Codes come and go as numbers of four bytes, and are held in one byte or two.
Spec = tuple[object, ...]
# The first row, and the addresses of validity bits, offsets and values.
Array = tuple[int, int, int, int]
# Rows, nulls, validity bits, offsets and values: of a node, then of its children.
Node = tuple[int, int, bytes | None, bytes | None, bytes | None]

def create(spec: Spec, /) -> Scatter: ...
def add(scatter: Scatter, arrays: list[Array], slots: int, rows: int, most: int, /) -> None: ...
def take(scatter: Scatter, slot: int, /) -> list[Node]: ...
def release() -> bool: ...
