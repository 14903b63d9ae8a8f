"""What does not do its work in the cluster, as it shows from outside. Pure."""

from collections.abc import Iterable, Mapping
from typing import Final

from muster.api.bindrequest import BindRequest
from muster.web.shapes import Ailment

UNHEARD_S: Final = 20.0
"""A watch that breaks off is there again within seconds."""
BINDS_WITHIN_S: Final = 60.0
"""Binders take seconds; where they prepare something, at most some dozens of them."""
_NAMED_MAX: Final = 3


def ailments(
    unheard: Mapping[str, float], requests: Iterable[BindRequest], now_s: float
) -> tuple[Ailment, ...]:
    """`unheard`: for how many seconds there is no news of which kinds."""
    return (*_of_watches(unheard, now_s), *_of_the_binder(requests, now_s))


def _of_watches(unheard: Mapping[str, float], now_s: float) -> Iterable[Ailment]:
    if unheard:
        names = sorted(unheard, key=lambda kind: (-unheard[kind], kind))
        more = len(names) - _NAMED_MAX
        named = ", ".join(names[:_NAMED_MAX]) + (f" and {more} more" if more > 0 else "")
        yield Ailment(
            "watch",
            round(now_s - max(unheard.values())),
            f"There is no news of {named}: what is shown is from before. The API server may be "
            "away, or no longer lets them be read.",
        )


def _of_the_binder(requests: Iterable[BindRequest], now_s: float) -> Iterable[Ailment]:
    """One that failed was looked at: that is for the job to say."""
    made = {
        request.pod: request.metadata.creation_timestamp.timestamp()
        for request in requests
        if request.metadata.creation_timestamp is not None
        and not request.is_over
        and not request.status.failed_attempts
    }
    late = {pod: at_s for pod, at_s in made.items() if now_s - at_s >= BINDS_WITHIN_S}
    if late:
        first = min(late, key=lambda pod: (late[pod], pod))
        pods, them = ("1 pod has", "it") if len(late) == 1 else (f"{len(late)} pods have", "them")
        yield Ailment(
            "binder",
            late[first],
            f"{pods} a node and nobody binds {them}, {first} first. The binder may be down.",
        )
