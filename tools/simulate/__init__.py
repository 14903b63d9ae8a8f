"""Whole clusters on a bad day, one for each seed."""

from muster.base.kernel_cache import keep_kernels_apart

# Kernels that another version of the sources compiled are not loaded.
keep_kernels_apart()
