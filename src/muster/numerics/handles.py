"""Columns under one pointer, for kernels that call kernels.

A kernel that is given a tuple of arrays counts a reference for each of them, at each call. Where it
calls others for every task that costs more than what they do. A handle is one pointer to the same
arrays under the same names: one reference, however many there are. It is made inside the kernel
that begins, and must be made anew when an array is replaced.
"""

import sys
from collections.abc import Callable, Sequence
from typing import Any

import numba
from numba.core import types
from numba.experimental import structref

IS_INTERPRETED = bool(numba.config.DISABLE_JIT)  # type: ignore[attr-defined]
"""For debuggers: then columns are their own handle, as a proxy made without numba has no end."""


class HandleType(types.StructRef):
    """The type that kernels are compiled for."""

    def preprocess_fields(
        self, fields: Sequence[tuple[str, types.Type]]
    ) -> tuple[tuple[str, types.Type], ...]:
        return tuple((n, types.unliteral(kind)) for n, kind in fields)  # type: ignore[no-untyped-call]


def handle_of(columns: Any, module: str) -> Callable[..., Any]:
    """The handle for a named tuple of columns, to be called inside kernels: `Xs` becomes
    `XsHandle`, which is to be kept under that name in `module`, so that compiled kernels find it
    again.
    """
    if IS_INTERPRETED:
        return columns  # type: ignore[no-any-return]
    name = f"{columns.__name__}Handle"
    kind = type(f"{name}Type", (HandleType,), {"__module__": module})
    setattr(sys.modules[module], kind.__name__, kind)
    proxy = type(name, (structref.StructRefProxy,), {"__module__": module})
    structref.register(kind)  # type: ignore[no-untyped-call]
    structref.define_proxy(proxy, kind, list(columns._fields))  # type: ignore[no-untyped-call]
    return proxy
