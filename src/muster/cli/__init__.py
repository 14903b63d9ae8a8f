"""muster <noun> <verb>."""

from muster.base.kernel_cache import keep_kernels_apart

# Here and not in a command: it comes before the first import of numba.
keep_kernels_apart()
