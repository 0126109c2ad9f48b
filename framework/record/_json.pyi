from typing import NewType

INTERFACE: int

Tree = NewType("Tree", object)
# ("boolean",), ("long",), ("double",), ("string",), ("decimal", bytes, precision, scale), ("list", Spec),
# ("map", Spec of the items), ("struct", ((name, Spec), ...)); the root is a struct.
Spec = tuple[object, ...]
# Rows, nulls, validity bits, offsets, values: of a node, then of its children.
Node = tuple[int, int, bytes | None, bytes | None, bytes | None]

def compile(spec: Spec, /) -> Tree: ...
def decode(tree: Tree, data: bytes, records: int, most: int, /) -> tuple[list[Node], list[int]] | None: ...
