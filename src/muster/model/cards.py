"""Cards of a node whose parts Volcano's device plugins give out, and which of them a pod has.

The plugin of vGPUs lists cards in an annotation of its node and reads the cards of a pod in
annotations of the pod, container by container; the older plugin counts cards and memory as
resources, and reads the numbers of cards. What cannot be read counts as not there.
"""

from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from muster.api.bounds import CARDS_MAX
from muster.base.parse_int import parse_int

VGPU_NUMBER: Final = "volcano.sh/vgpu-number"
VGPU_MEMORY: Final = "volcano.sh/vgpu-memory"
VGPU_CORES: Final = "volcano.sh/vgpu-cores"
VGPU_PERCENTAGE: Final = "volcano.sh/vgpu-memory-percentage"
GPU_MEMORY: Final = "volcano.sh/gpu-memory"
GPU_NUMBER: Final = "volcano.sh/gpu-number"
PARTS: Final = (VGPU_NUMBER, VGPU_MEMORY, VGPU_CORES, VGPU_PERCENTAGE, GPU_MEMORY, GPU_NUMBER)
"""Resources by which pods ask for cards or parts of them."""

VGPU_IDS: Final = "volcano.sh/vgpu-ids-new"
VGPU_IDS_TO_GIVE: Final = "volcano.sh/devices-to-allocate"
VGPU_NODE: Final = "volcano.sh/vgpu-node"
VGPU_TIME: Final = "volcano.sh/vgpu-time"
BIND_TIME: Final = "volcano.sh/bind-time"
BIND_PHASE: Final = "volcano.sh/bind-phase"
GPU_INDEX: Final = "volcano.sh/gpu-index"
PREDICATE_TIME: Final = "volcano.sh/predicate-time"
_VGPU_NOTES = (VGPU_IDS, VGPU_IDS_TO_GIVE, VGPU_NODE, VGPU_TIME, BIND_TIME, BIND_PHASE)
_CARD_NOTES: Final = frozenset((*_VGPU_NOTES, GPU_INDEX, PREDICATE_TIME))
"""What is written on a pod when it gets its cards."""

_REGISTER = "volcano.sh/node-vgpu-register"
_HANDSHAKE = "volcano.sh/node-vgpu-handshake"
_UNHEALTHY = "volcano.sh/gpu-unhealthy-ids"
_MIG = "mig"
_CARD_FIELDS = 4
"""Behind the uuid: slots, memory, type, health; then the way of sharing, where it is said."""
_PART_FIELDS = 3
"""Behind the uuid: type, memory, cores."""
_UNBOUNDED = 1 << 30
_WHOLE = 100


class Card(msgspec.Struct, frozen=True):
    """One card. Those of the older plugin have no uuid, only their place."""

    index: int
    memory_mib: int
    uuid: str = ""
    slots: int = _UNBOUNDED
    """How many pods may share it."""
    maker: str = ""


class Part(msgspec.Struct, frozen=True):
    """What a pod has of a card."""

    card: int
    """Its place among the node's cards."""
    memory_mib: int
    cores: int = 0
    """In hundredths; all of them: the card is the pod's alone."""


Parts = tuple[tuple[Part, ...], ...]
"""By container that asks."""


def cards_of(annotations: Mapping[str, str], capacity: Mapping[str, int]) -> tuple[Card, ...]:
    """The cards that a node can give parts of."""
    if _REGISTER in annotations:
        is_gone = annotations.get(_HANDSHAKE, "").startswith("Deleted")
        return () if is_gone else _registered(annotations[_REGISTER])
    count = min(capacity.get(GPU_NUMBER, 0), CARDS_MAX)
    if count <= 0 or GPU_MEMORY not in capacity:
        return ()
    sick = {parse_int(one.strip()) for one in annotations.get(_UNHEALTHY, "").split(",")}
    each = capacity[GPU_MEMORY] // capacity[GPU_NUMBER]
    return tuple(Card(index, each) for index in range(count) if index not in sick)


def _registered(text: str) -> tuple[Card, ...]:
    found = []
    for index, one in enumerate(text.split(":", CARDS_MAX)[:CARDS_MAX]):
        uuid, *rest = one.strip().split(",")
        if len(rest) < _CARD_FIELDS:
            continue
        slots, memory = parse_int(rest[0]), parse_int(rest[1])
        is_healthy = rest[3].lower() in ("1", "t", "true")
        is_shared = len(rest) == _CARD_FIELDS or rest[_CARD_FIELDS] != _MIG
        if slots and memory and memory < _UNBOUNDED and is_healthy and is_shared:
            found.append(Card(index, memory, uuid, min(slots, _UNBOUNDED), rest[2]))
    return tuple(found)


def parts_held(
    notes: Mapping[str, str], cards: Sequence[Card], request: Mapping[str, int]
) -> Parts | None:
    """What a placed pod has of its node's cards, as it is written on the pod; None: nothing."""
    if VGPU_IDS in notes:
        place = {card.uuid: at for at, card in enumerate(cards)}
        return tuple(
            tuple(part for one in container.split(":") if (part := _part(one, place)) is not None)
            for container in notes[VGPU_IDS].split(";")
        )
    if GPU_INDEX in notes:
        at = {card.index: at for at, card in enumerate(cards)}
        wanted = (parse_int(one.strip()) for one in notes[GPU_INDEX].split(",", CARDS_MAX))
        memory = request.get(GPU_MEMORY, 0)
        held = [at[index] for index in wanted if index is not None and index in at]
        cores = 0 if memory else _WHOLE
        return (tuple(Part(c, memory or cards[c].memory_mib, cores) for c in held),)
    return None


def _part(text: str, place: Mapping[str, int]) -> Part | None:
    uuid, *rest = text.split(",")
    if uuid not in place or len(rest) < _PART_FIELDS:
        return None
    memory, cores = parse_int(rest[1]), parse_int(rest[2])
    if memory is None or cores is None:
        return None
    return Part(place[uuid], min(memory, _UNBOUNDED), min(cores, _WHOLE))


def written(parts: Parts, cards: Sequence[Card], node: str, now_s: float) -> dict[str, str]:
    """The annotations by which Volcano's device plugins find a pod's cards."""
    if not all(cards[part.card].uuid for container in parts for part in container):
        found = (str(cards[part.card].index) for container in parts for part in container)
        return {GPU_INDEX: ",".join(found), PREDICATE_TIME: str(int(now_s * 1_000_000_000))}
    devices = ";".join("".join(_device(part, cards) for part in each) for each in parts)
    moment = str(int(now_s))
    return {
        VGPU_NODE: node,
        VGPU_TIME: moment,
        VGPU_IDS: devices,
        VGPU_IDS_TO_GIVE: devices,
        BIND_PHASE: "allocating",
        BIND_TIME: moment,
    }


def card_notes(annotations: Mapping[str, str]) -> dict[str, str]:
    """Those of a bind request by which its pod is to find its cards."""
    return {name: text for name, text in annotations.items() if name in _CARD_NOTES}


def _device(part: Part, cards: Sequence[Card]) -> str:
    return f"{cards[part.card].uuid},NVIDIA,{part.memory_mib},{part.cores}:"
