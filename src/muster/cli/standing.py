"""Where something that was just submitted stands: its place in its queue, and when it starts."""

import threading
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from muster.base.clock import SystemClock
from muster.cli.jobs import start_text
from muster.cli.naming import of_owner
from muster.cli.objects import Thing
from muster.cli.reading import Reading
from muster.cli.tables import amount, counted
from muster.model.reason_codes import Code

WITHIN_S: Final = 5.0
"""Its pods are made, grouped and looked at within seconds, or it is said that they are not yet."""
_AGAIN_S: Final = 0.25
_NOT_YET: Final = frozenset({str(Code.PODS_MISSING)})
"""What is said of a job while its controller still makes its pods."""


@dataclass(frozen=True, slots=True)
class Standing:
    """Of one job."""

    text: str = ""
    """As a sentence goes on: ": 4 pods, 32 GPUs in queue llm, place 15 of 15, start ~17:30"."""
    place: Mapping[str, int] | None = None
    start: str | None = None


def stand_of(asked: Reading, made: Iterable[Thing]) -> Mapping[str, Standing]:
    """Of those that are seen in time. Where no dashboard is named nothing is said: the cluster
    would be read as a whole, again and again, until they are there."""
    wanted = [thing for thing in made if thing.starts]
    if not wanted or not asked.source.named_server:
        return {}
    clock, found = SystemClock(), dict[str, Standing]()
    until_s = clock.monotonic_s() + WITHIN_S
    while len(found) < len(wanted):
        for thing in (one for one in wanted if one.key not in found):
            job = _seen(asked, thing)
            if job is not None:
                found[thing.key] = _standing(asked, job)
        if len(found) == len(wanted) or clock.monotonic_s() > until_s:
            break
        threading.Event().wait(_AGAIN_S)
    return found


def _seen(asked: Reading, thing: Thing) -> Any:
    """The job that came of it, once somebody has decided about it; None: not yet."""
    query = {"namespace": thing.namespace, "search": thing.name, "limit": "1000"}
    listed = asked.try_ask("jobs", query)
    items = [] if listed is None else listed["items"]
    job = next((one for one in items if of_owner(one, thing.namespace, thing.name)), None)
    if job is None or job["state"] != "Waiting":
        return job
    is_whole = job["pods"]["max"] >= job["pods"]["min"]
    is_decided = job["reason"] is not None and job["reason"]["code"] not in _NOT_YET
    return job if is_whole and is_decided else None


def _standing(asked: Reading, job: Mapping[str, Any]) -> Standing:
    size = f"{counted(job['pods']['max'], 'pod')}, {counted(job['gpus']['asked'], 'GPU')}"
    text = f": {size} in queue {job['queue']}"
    if job["state"] != "Waiting":
        return Standing(f"{text}, {job['state'].lower()}")
    place, start = _place(asked, job), asked.try_ask(f"when/{job['key']}")
    if place is not None:
        text += f", place {amount(place['at'])} of {amount(place['of'])}"
    starts = start_text(start, job["reason"]["category"])
    code = job["reason"]["code"]
    if starts == "never":
        return Standing(f"{text}, never starts as it is: {code}", place)
    text += f", waits: {code}" if starts == "-" else f", start {starts}, waits: {code}"
    return Standing(text, place, start and start["at"])


def _place(asked: Reading, job: Mapping[str, Any]) -> Mapping[str, int] | None:
    listed = asked.try_ask("priority", {"queue": job["queue"], "limit": "1000"})
    items = [] if listed is None else listed["items"]
    found = (one for one in items if one["job"] == job["key"])
    return next(({"at": one["at"], "of": one["of"]} for one in found), None)
