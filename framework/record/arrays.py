"""Names for the NumPy arrays that record positions and masks are kept in, and a column of Arrow's as one array."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

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
