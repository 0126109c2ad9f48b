"""Which rows of a typed column have a value for some part of its type.

In: a column, and an observed type that is a part of its own. Out: a mask of rows. Null, `[]`, `{}` and what holds
nothing else are no values, as where records are looked at one by one (framework.record.fit.infer_types).
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from framework.record.arrays import Mask
from framework.table.model import ObservedType


def rows_with_value(values: pa.Array, kind: ObservedType) -> Mask:
    """The rows with a value that asks for a column of this type."""
    there: Mask = values.is_valid().to_numpy(zero_copy_only=False)
    held = values.type
    if isinstance(kind, str):
        return there
    if kind[0] == "struct" and pa.types.is_struct(held):
        found = np.zeros(len(values), dtype=bool)
        columns = dict(zip((child.name for child in held), values.flatten(), strict=True))
        for name, child in kind[1]:
            if name in columns:
                found |= rows_with_value(columns[name], child)
        return found
    if kind[0] == "list" and (pa.types.is_list(held) or pa.types.is_large_list(held)):
        return _rows_of_items(values, values.flatten(), kind[1])
    if kind[0] == "map" and pa.types.is_map(held):
        # As a list of pairs: `flatten` of a list leaves out what lies under nulls and outside a slice.
        pairs = values.cast(pa.list_(pa.struct([("key", held.key_type), ("value", held.item_type)])))
        return _rows_of_items(pairs, pairs.flatten().field("value"), kind[2])
    return there


def _rows_of_items(lists: pa.Array, items: pa.Array, kind: ObservedType) -> Mask:
    found = np.zeros(len(lists), dtype=bool)
    found[pc.list_parent_indices(lists).to_numpy()[rows_with_value(items, kind)]] = True
    return found
