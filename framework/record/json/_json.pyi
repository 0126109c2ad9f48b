from typing import NewType

INTERFACE: int

Tree = NewType("Tree", object)
# ("boolean",), ("long",), ("double",), ("string",), ("words",), ("decimal", bytes, precision, scale), ("list", Spec),
# ("map", Spec of the items), ("struct", ((name, Spec), ...)); the root is a struct.
Spec = tuple[object, ...]
# How many, their ends, their bytes; the same object as long as there are no more.
Words = tuple[int, bytes, bytes]
# Rows, nulls, validity bits, offsets, values, words: of a node, then of its children. With words, the values are places of
# these, of 4 bytes each, and there are no offsets.
Node = tuple[int, int, bytes | None, bytes | None, bytes | None, Words | None]

def compile(spec: Spec, /) -> Tree: ...
def decode(tree: Tree, data: bytes, records: int, most: int, /) -> tuple[list[Node], list[int]] | None: ...
