"""The life of a pod on a node, as data: which stage follows which, after how long. Pure.

A pod is accepted, starts, runs, and ends or starts anew, by its restart policy. How long each takes
is its `Behaviour`: annotations of the pod, or else the habits of the fleet, in which chance comes
from a seed and the pod's own name, so that a pod behaves alike whatever happens around it.
"""

import re
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final, TypeVar

import msgspec

from muster.base.backoff import Backoff
from muster.base.rand import Rand

T = TypeVar("T")

# Annotations that set the behaviour of a pod here; real kubelets do not read these.
ANNOTATION: Final = "sim.muster.dev/"
RUN_TIME: Final = ANNOTATION + "run-time"
START_DELAY: Final = ANNOTATION + "start-delay"
STOP_DELAY: Final = ANNOTATION + "stop-delay"
EXIT_CODE: Final = ANNOTATION + "exit-code"
CRASHES: Final = ANNOTATION + "crashes"
PULL: Final = ANNOTATION + "image-pull"

_RESTARTS: Final = Backoff(first_s=10.0, factor=2.0, longest_s=300.0)
_DURATION: Final = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d)?", re.ASCII)
_WHOLE: Final = re.compile(r"-?\d{1,18}", re.ASCII)
_LONGEST_S: Final = 1e9
"""Thirty years: longer than any world is run, and clocks can reckon with it."""
_UNITS_S: Final = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0, None: 1.0}


class Stage(Enum):
    """Where in its life a pod is, as its kubelet sees it."""

    ACCEPTED = "accepted"
    RUNNING = "running"
    WAITING = "waiting to restart"
    NO_IMAGE = "image cannot be pulled"
    SUCCEEDED = "succeeded"
    FAILED = "failed"

    @property
    def is_end(self) -> bool:
        return self in (Stage.SUCCEEDED, Stage.FAILED)


class Chance(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """A time in seconds: fixed, or drawn from a distribution."""

    kind: str = "fixed"  # fixed, uniform, exponential, lognormal
    mean_s: float = 30.0
    spread: float = 0.5  # of the mean: half width (uniform), sigma (lognormal)

    def drawn_s(self, rand: Rand) -> float:
        match self.kind:
            case "uniform":
                return max(self.mean_s * (1 + self.spread * (2 * rand.random() - 1)), 0.0)
            case "exponential":
                return rand.expovariate(1.0 / self.mean_s) if self.mean_s > 0 else 0.0
            case "lognormal":
                return self.mean_s * rand.lognormvariate(0.0, self.spread)
        return self.mean_s


class Habits(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """The behaviour of pods without annotations."""

    start: Chance = Chance(mean_s=1.0)
    # Only pods that end by themselves (restartPolicy Never, OnFailure); the others run on.
    run: Chance = Chance(mean_s=30.0)
    stop: Chance = Chance(mean_s=1.0)
    # Share of pods that end with an error.
    failing: float = 0.0


@dataclass(frozen=True, slots=True)
class Behaviour:
    """What one pod will do. `run_s` None: it runs until somebody stops it."""

    start_s: float = 1.0
    run_s: float | None = None
    stop_s: float = 1.0
    exit_code: int = 0
    # How often it ends with the exit code before it ends well; None: always with it.
    crashes: int | None = None
    pulls: bool = True


@dataclass(frozen=True, slots=True)
class Next:
    """What happens next, and after how long."""

    stage: Stage
    after_s: float


def behaviour_of(pod: Mapping[str, Any], habits: Habits, seed: int) -> Behaviour:
    """The behaviour of the pod's annotations; the habits where one is absent or malformed."""
    meta = pod["metadata"]
    notes: Mapping[str, str] = meta.get("annotations") or {}
    rand = Rand(seed ^ zlib.crc32(f"{meta.get('namespace', '')}/{meta['name']}".encode()))
    start_s, run_s = habits.start.drawn_s(rand), habits.run.drawn_s(rand)
    stop_s, unlucky = habits.stop.drawn_s(rand), rand.random() < habits.failing
    ends = (pod["spec"].get("restartPolicy") or "Always") != "Always"
    usual_code = 1 if unlucky and ends else 0
    return Behaviour(
        start_s=_or(seconds(notes.get(START_DELAY, "")), start_s),
        run_s=_run_s(notes, run_s if ends else None),
        stop_s=_or(seconds(notes.get(STOP_DELAY, "")), stop_s),
        exit_code=_or(_number(notes.get(EXIT_CODE, "")), usual_code),
        crashes=_number(notes.get(CRASHES, "")),
        pulls=notes.get(PULL) != "fail",
    )


def next_stage(
    stage: Stage, behaviour: Behaviour, restart_policy: str, restarts: int
) -> Next | None:
    """What follows by itself; None: nothing, until somebody deletes the pod."""
    match stage:
        case Stage.ACCEPTED:
            return Next(Stage.RUNNING if behaviour.pulls else Stage.NO_IMAGE, behaviour.start_s)
        case Stage.RUNNING if behaviour.run_s is not None:
            code = exit_code(behaviour, restarts)
            return Next(_after_end(code, restart_policy), behaviour.run_s)
        case Stage.WAITING:
            return Next(Stage.RUNNING, _RESTARTS.delay_s(restarts + 1))
    return None


def exit_code(behaviour: Behaviour, restarts: int) -> int:
    """The code with which this run ends; crashes that are counted come first."""
    if behaviour.crashes is None:
        return behaviour.exit_code
    return (behaviour.exit_code or 1) if restarts < behaviour.crashes else 0


def stage_of(pod: Mapping[str, Any]) -> Stage:
    """Where a pod is, by its own status: what a kubelet that was restarted reads."""
    status = pod.get("status") or {}
    match status.get("phase"):
        case "Succeeded":
            return Stage.SUCCEEDED
        case "Failed":
            return Stage.FAILED
    containers = status.get("containerStatuses") or ()
    reasons = [
        ((each.get("state") or {}).get("waiting") or {}).get("reason") for each in containers
    ]
    if "CrashLoopBackOff" in reasons:
        return Stage.WAITING
    if "ImagePullBackOff" in reasons:
        return Stage.NO_IMAGE
    return Stage.RUNNING if status.get("phase") == "Running" else Stage.ACCEPTED


def restarts_of(pod: Mapping[str, Any]) -> int:
    containers = (pod.get("status") or {}).get("containerStatuses") or ()
    return max((int(each.get("restartCount", 0)) for each in containers), default=0)


def seconds(text: str) -> float | None:
    """`90`, `90s`, `1.5m`, `1h` in seconds; None when it is no such thing."""
    match = _DURATION.fullmatch(text.strip())
    return min(float(match[1]) * _UNITS_S[match[2]], _LONGEST_S) if match else None


def _run_s(notes: Mapping[str, str], usual_s: float | None) -> float | None:
    text = notes.get(RUN_TIME, "")
    if text == "forever":
        return None
    given_s = seconds(text)
    return usual_s if given_s is None else given_s


def _after_end(code: int, restart_policy: str) -> Stage:
    if restart_policy == "Always" or (restart_policy == "OnFailure" and code != 0):
        return Stage.WAITING
    return Stage.SUCCEEDED if code == 0 else Stage.FAILED


def _number(text: str) -> int | None:
    return int(text) if _WHOLE.fullmatch(text.strip()) else None


def _or(value: T | None, otherwise: T) -> T:
    return otherwise if value is None else value
