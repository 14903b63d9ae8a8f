"""Which victim and which gang must wait until when, and why.

What the API server refused is not asked for again at once: a victim is passed over, so that others
are tried, and a gang is not handed over; who has met with several refusals has nobody evicted for
it for a while, however many might go. Each refusal doubles the pause. It ends early when
something changes that may have been the reason; the next refusal still doubles it, so that nothing
a user does in a loop makes us write in one. Refusals that pass by themselves have short pauses.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

from muster.api import names
from muster.api.coordination import PodDisruptionBudget
from muster.api.core import Pod
from muster.api.meta import Key
from muster.api.podgroup import PodGroup
from muster.api.queue import Queue
from muster.base.backoff import Backoff
from muster.base.clock import Clock
from muster.client.informer import Informer
from muster.model.cluster_objects import HeldBack
from muster.services.scheduler.refusals import Cause, Refused

_REFUSED = Backoff(first_s=5.0, longest_s=300.0)
_PASSING = Backoff(first_s=1.0, longest_s=10.0)
_REMEMBERED_S = 2 * _REFUSED.longest_s
"""How long after its pause a refusal still counts, so that the next one is not a first one."""
_TRIES = 3
"""Refusals in a row after which a beneficiary waits, whoever else might go for it."""
_BUDGETS = (Cause.BUDGET, Cause.SEVERAL_BUDGETS)
_A_MOMENT_S = 1e-3


@dataclass(frozen=True, slots=True)
class RefusalInformers:
    """The local copies of what may end a pause."""

    pods: Informer[Pod]
    groups: Informer[PodGroup]
    queues: Informer[Queue]
    budgets: Informer[PodDisruptionBudget] | None


@dataclass(slots=True)
class _Pause:
    """Of one victim or gang."""

    namespace: str
    refused: Refused
    failures: int
    until_s: float
    """On the monotonic clock, which nobody sets back."""
    held: HeldBack
    is_in_force: bool = False
    """Whether the newest snapshot holds it back."""


class Backoffs:
    """Refusals in, what is held back out."""

    def __init__(self, informers: RefusalInformers, clock: Clock) -> None:
        self.on_change: Callable[[], None] = lambda: None
        """Called when something may be decided otherwise than before."""
        self._informers = informers
        self._clock = clock
        self._victims: dict[str, _Pause] = {}
        """By uid of the pod."""
        self._actors: dict[str, _Pause] = {}
        """By key of the pod group that others were to make room for."""
        self._gangs: dict[str, _Pause] = {}
        """By key of the pod group."""
        informers.pods.add_handler(self._pod_changed)
        informers.groups.add_handler(self._group_changed)
        informers.queues.add_handler(self._queue_changed)
        if informers.budgets is not None:
            informers.budgets.add_handler(self._budget_changed)

    # -- what was refused ----------------------------------------------------------------

    def victim_refused(self, pod: Pod, refused: Refused) -> None:
        """Do not choose this pod for a while."""
        self._pause(self._victims, pod.metadata.uid, pod.metadata.namespace, refused)

    def actor_refused(self, actor: str, refused: Refused) -> None:
        """Evict nobody for this job for a while, unless others are still worth a try."""
        namespace = actor.partition("/")[0]
        self._pause(self._actors, actor, namespace, refused, free=_TRIES)

    def actor_served(self, actor: str) -> None:
        """All of its victims went: the next refusal is a first one again."""
        self._actors.pop(actor, None)

    def gang_refused(self, job: str, refused: Refused, lag_s: float = 0.0) -> float:
        """Do not hand this gang over for a while, which begins in `lag_s`. For how long in all."""
        namespace = job.partition("/")[0]
        return self._pause(self._gangs, job, namespace, refused, lag_s=lag_s)

    def gang_bound(self, job: str) -> None:
        """It was taken: the next refusal is a first one again."""
        self._gangs.pop(job, None)

    def was_refused(self, job: str) -> bool:
        """Whether the gang has been refused since it was last taken."""
        return job in self._gangs

    # -- what a cycle reads --------------------------------------------------------------

    def evictions(self) -> Mapping[str, HeldBack]:
        """Victims to pass over, by uid of the pod."""
        return dict(self._held(self._victims))

    def actors(self) -> Mapping[str, HeldBack]:
        """Jobs that nobody is to be evicted for, by key of the pod group."""
        return dict(self._held(self._actors))

    def binds(self) -> Mapping[str, HeldBack]:
        """Gangs not to hand over, by key of the pod group."""
        return dict(self._held(self._gangs))

    def next_end_s(self) -> float | None:
        """When the next pause ends, on the clock on the wall."""
        now_s = self._clock.monotonic_s()
        pauses = (*self._victims.values(), *self._actors.values(), *self._gangs.values())
        # One that ended since the newest snapshot was taken is still in force there.
        ends = (one.until_s for one in pauses if one.is_in_force or one.until_s > now_s)
        end_s = min(ends, default=None)
        return None if end_s is None else self._clock.now_s() + end_s - now_s + _A_MOMENT_S

    def _pause(
        self,
        pauses: dict[str, _Pause],
        key: str,
        namespace: str,
        refused: Refused,
        *,
        lag_s: float = 0.0,
        free: int = 0,
    ) -> float:
        """`free`: so many failures in a row cost nothing yet."""
        before = pauses.get(key)
        failures = before.failures + 1 if before is not None else 1
        backoff = _PASSING if refused.is_passing else _REFUSED
        pause_s = lag_s + backoff.delay_s(failures - free)
        held = HeldBack(refused.text, self._clock.now_s() + pause_s)
        until_s = self._clock.monotonic_s() + pause_s
        pauses[key] = _Pause(namespace, refused, failures, until_s, held)
        self.on_change()
        return pause_s

    def _held(self, pauses: dict[str, _Pause]) -> Iterator[tuple[str, HeldBack]]:
        now_s = self._clock.monotonic_s()
        for key in [key for key, one in pauses.items() if now_s > one.until_s + _REMEMBERED_S]:
            del pauses[key]
        for key, one in pauses.items():
            one.is_in_force = one.until_s > now_s
            if one.is_in_force:
                yield key, one.held

    # -- what ends a pause early ---------------------------------------------------------

    def _pod_changed(self, old: Pod | None, new: Pod | None) -> None:
        if not (self._victims or self._gangs) or old is None:
            return
        uid = old.metadata.uid
        if new is None or new.metadata.uid != uid:
            self._victims.pop(uid, None)
        elif _is_changed(old, new):
            group = new.metadata.annotations.get(names.ANNOTATION_POD_GROUP, "")
            self._end_for_victims((uid,))
            self._end(self._gangs, (f"{new.metadata.namespace}/{group}",))

    def _group_changed(self, old: PodGroup | None, new: PodGroup | None) -> None:
        if not (self._gangs or self._actors) or old is None:
            return
        key = str(old.key)
        if new is None:
            self._gangs.pop(key, None)
            self._actors.pop(key, None)
        elif old.spec != new.spec or old.metadata.labels != new.metadata.labels:
            self._end(self._gangs, (key,))
            self._end(self._actors, (key,))

    def _queue_changed(self, old: Queue | None, new: Queue | None) -> None:
        if self._gangs and old is not None and new is not None and old.spec != new.spec:
            queue = new.metadata.name
            self._end(self._gangs, [job for job in self._gangs if self._queue_of(job) == queue])

    def _queue_of(self, job: str) -> str:
        namespace, _, name = job.partition("/")
        group = self._informers.groups.get(Key(namespace, name))
        return "" if group is None else group.spec.queue

    def _budget_changed(
        self, old: PodDisruptionBudget | None, new: PodDisruptionBudget | None
    ) -> None:
        if not self._victims or old is None or (new is not None and not _lets_more_go(old, new)):
            return
        namespace = old.metadata.namespace
        self._end_for_victims(
            [
                uid
                for uid, one in self._victims.items()
                if one.refused.cause in _BUDGETS and one.namespace == namespace
            ]
        )

    def _end_for_victims(self, uids: Iterable[str]) -> None:
        """Whoever wanted them gone may try again too."""
        if self._end(self._victims, uids):
            self._end(self._actors, list(self._actors))

    def _end(self, pauses: dict[str, _Pause], keys: Iterable[str]) -> bool:
        """Whether there was one. That it was refused stays known, so that the next pause is longer
        all the same.
        """
        now_s, has_ended = self._clock.monotonic_s(), False
        for key in keys:
            pause = pauses.get(key)
            if pause is not None and pause.until_s > now_s:
                pause.until_s = now_s
                has_ended = True
                self.on_change()
        return has_ended


def _is_changed(old: Pod, new: Pod) -> bool:
    """Whether somebody wrote on the pod what a rule may look at."""
    before, after = old.metadata, new.metadata
    return (
        before.labels != after.labels
        or before.annotations != after.annotations
        or old.spec != new.spec
    )


def _lets_more_go(old: PodDisruptionBudget, new: PodDisruptionBudget) -> bool:
    before, after = old.status, new.status
    return (
        old.metadata.generation != new.metadata.generation
        or before.observed_generation != after.observed_generation
        or before.disruptions_allowed < after.disruptions_allowed
    )
