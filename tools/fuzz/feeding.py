"""What a target is: how its inputs are drawn, how they are fed, and what refusals came of it."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeVar

import msgspec
from tools.fuzz import draws

from muster.api import kinds
from muster.api.codec import Unreadable, decode
from muster.api.kinds import Kind
from muster.api.meta import Struct
from muster.api.validation.problems import Problem
from muster.base.rand import Rand

Part = tuple[str, bytes]
"""What kind of thing it is, and the thing."""
Input = tuple[Part, ...]
StructT = TypeVar("StructT", bound=Struct)

KINDS: Final[tuple[Kind[Any], ...]] = tuple(
    found
    for found in vars(kinds).values()
    if isinstance(found, Kind) and issubclass(found.struct, Struct)
)
BY_NAME: Final = {f"{kind.full_name} {kind.struct.__name__}": kind for kind in KINDS}
"""Each by a name of its own: other groups have kinds of the same word, and pods are read twice."""
NAME_OF: Final = {kind: name for name, kind in BY_NAME.items()}


@dataclass(frozen=True, slots=True)
class Refusal:
    """Something was not taken: the field or name that is at fault, and the sentence about it."""

    field: str
    sentence: str


@dataclass(frozen=True, slots=True)
class Target:
    """`weight`: how often it is drawn, beside the others."""

    name: str
    weight: int
    draw: Callable[[Rand], Input]
    feed: Callable[[Input], Sequence[Refusal]]


def read(struct: type[StructT], data: bytes) -> Iterator[StructT]:
    """The object, if it can be read: services set the others aside, each by itself."""
    try:
        yield decode(struct, data)
    except Unreadable:
        return


def joined(rand: Rand, body: draws.Body) -> draws.Body:
    """Named so that others are meant: in a queue, in a group, on a node."""
    spec: Any = body.setdefault("spec", {})
    if body["kind"] == "Pod":
        notes = body["metadata"].setdefault("annotations", {})
        notes["pod-group-name"] = rand.choice(("a", "b", "fair"))
        spec["schedulerName"] = "kai-scheduler"
        if rand.random() < 0.6:
            spec.pop("nodeName", None)
            spec.pop("schedulingGates", None)
            body["status"] = {"phase": "Pending"}
        if rand.random() < 0.5:
            spec["containers"] = [{"name": "main"}]
    elif body["kind"] == "PodGroup" and rand.random() < 0.7:
        spec["queue"] = "q"
        body["metadata"]["name"] = rand.choice(("a", "b", "fair"))
    return body


def named_in(given: Input, sentence: str) -> str:
    """A word of the sentence that stands in the input, or that is a path."""
    whole = b" ".join(data for _, data in given).decode("utf-8", "replace")
    words = (word.strip("<>,:;\"'`().") for word in sentence.split())
    paths = ("spec.", "metadata.", "$.")
    return next((w for w in words if w and (w in whole or any(p in w for p in paths))), "")


def of_problem(problem: Problem) -> Refusal:
    # A text that is no YAML at all has no fields.
    return Refusal(problem.path or "$", str(problem))


def plain(data: bytes) -> draws.Body:
    """The object as dictionaries; nothing where it is none."""
    try:
        body = msgspec.json.decode(data)
    except (ValueError, RecursionError):
        return {}
    return body if isinstance(body, dict) else {}
