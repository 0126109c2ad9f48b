"""What a slice of lists or maps holds, so that lists and maps can be made of it anew.

In: an Arrow array, which may be a slice of a longer one. Out: where each list begins among the entries of these lists
alone, and these entries. Whoever makes a list or a map of another one's offsets takes them from here.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc


def own_entries(values: pa.Array, *children: pa.Array) -> tuple[pa.Array, tuple[pa.Array, ...]]:
    """The offsets and the entries. `children` are the whole ones, `values.values` or `values.keys` and `values.items`, of
    which a slice has a part. Arrow makes no list of a slice's offsets as they are, where one of the lists is null."""
    if not len(values):
        return pa.array([0], pa.int32()), tuple(child.slice(0, 0) for child in children)
    first, end = values.offsets[0].as_py(), values.offsets[-1].as_py()
    return pc.subtract(values.offsets, first), tuple(child.slice(first, end - first) for child in children)
