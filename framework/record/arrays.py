"""Names for the NumPy arrays that record positions and masks are kept in."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

# Integers as narrow as they came.
Numbers = npt.NDArray[np.integer]
Ints = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]
