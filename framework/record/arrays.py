"""Names for the NumPy arrays that record positions and masks are kept in, and what Arrow and NumPy lack: a column as one
array, a table without rows, rows by a number of each, and a cast between decimals that checks their range."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

# Integers as narrow as they came.
Numbers = npt.NDArray[np.integer]
Ints = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

SMALL = 2**16


def one_array(column: pa.ChunkedArray | pa.Array) -> pa.Array:
    """The column's values; copied only where they lie in several pieces, which `combine_chunks` does to a single one as
    well. A ChunkedArray still, where there are more bytes than one array has offsets for."""
    if isinstance(column, pa.Array):
        return column
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


def no_rows(schema: pa.Schema) -> pa.Table:
    """A table without rows. Arrow's own `empty_table` makes none with a UUID inside of a list, a map or a struct."""
    return pa.table([pa.nulls(0, each.type) for each in schema], schema=schema)


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


def rows_by_number(numbers: Ints) -> tuple[Ints, Ints]:
    """The rows with the lowest number first, those of one number in their order, and where each number that occurs
    begins among them; the last bound is the end.

    Args:
        numbers: one for each row, from 0 on; small ones are sorted in a fraction of the time.
    """
    is_small = not len(numbers) or int(numbers.max()) < SMALL
    order = np.argsort(numbers.astype(np.uint16) if is_small else numbers, kind="stable")
    ordered = numbers[order]
    starts = np.flatnonzero(np.append(True, ordered[1:] != ordered[:-1])) if len(numbers) else np.empty(0, np.int64)
    return order, np.append(starts, len(numbers))
