"""Names for the array types that numerics, model and engine pass around."""

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]
Bytes = npt.NDArray[np.int8]
Rows = npt.NDArray[np.int64]
"""Row numbers of some table."""
