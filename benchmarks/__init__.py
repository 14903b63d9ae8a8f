"""How fast, measured: cases, their bars, and what was last seen on which machine."""

from muster.base.kernel_cache import keep_kernels_apart

# Here and not in `run`: it comes before the first import of numba.
keep_kernels_apart()
