"""Benchmark cases by name.

A case is a function without arguments that returns what it measured: `seconds` (of the largest
size) and whatever else is worth knowing; several sizes go in `sizes`, a list of such mappings,
smallest first.

    @case("reclaim-many-victims", why="one gang takes back a third of the cluster")
    def reclaim_many_victims() -> Measured:
        return {"seconds": ..., "sizes": [{"nodes": 100, "seconds": ...}, ...]}
"""

import importlib
import pkgutil
from collections.abc import Callable
from dataclasses import dataclass

from benchmarks import cases

Measured = dict[str, object]
Measure = Callable[[], Measured]


@dataclass(frozen=True, slots=True)
class Case:
    name: str
    why: str
    measure: Measure


class UnknownCase(Exception):
    def __init__(self, name: str, known: list[str]) -> None:
        super().__init__(f"no benchmark case {name!r}; there are: {', '.join(known)}")


_CASES: dict[str, Case] = {}


def case(name: str, why: str) -> Callable[[Measure], Measure]:
    """Registers a function as a case; names are unique."""

    def register(measure: Measure) -> Measure:
        if name in _CASES:
            raise ValueError(f"two benchmark cases are called {name!r}")
        _CASES[name] = Case(name, why, measure)
        return measure

    return register


def all_cases() -> dict[str, Case]:
    """Every case of every module under `benchmarks/cases`."""
    for module in pkgutil.iter_modules(cases.__path__):
        importlib.import_module(f"{cases.__name__}.{module.name}")
    return dict(sorted(_CASES.items()))


def find(name: str) -> Case:
    known = all_cases()
    if name not in known:
        raise UnknownCase(name, list(known))
    return known[name]
