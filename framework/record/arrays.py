"""Names for the NumPy arrays that record positions and masks are kept in, a column of Arrow's as one array, and the
cast between decimals, which Arrow's own does not check."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

# Integers as narrow as they came.
Numbers = npt.NDArray[np.integer]
Ints = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]


def one_array(column: pa.ChunkedArray | pa.Array) -> pa.Array:
    """The column's values; copied only where they lie in several pieces, which `combine_chunks` does to a single one as
    well. A ChunkedArray still, where there are more bytes than one array has offsets for."""
    if isinstance(column, pa.Array):
        return column
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


def cast_decimals(values: pa.Array, target: pa.DataType) -> pa.Array:
    """Decimals as decimals of another precision or scale, every digit kept.

    Arrow multiplies by a power of ten before it looks whether the product fits: what runs over the type's bits comes
    back as another number (apache/arrow 25, `safe=True`). So the values are compared with the target's range first.

    Raises:
        pyarrow.ArrowInvalid: a value has more digits than the target, before or behind its point.
    """
    source = values.type
    if target.precision - target.scale < source.precision - source.scale:
        found = pc.min_max(values)
        limit = 10 ** (target.precision - target.scale)
        if any(abs(int(each.as_py())) >= limit for each in found.values() if each.is_valid):
            raise pa.ArrowInvalid(f"a decimal of {source} is out of the range of {target}")
    return values.cast(target, safe=True)
