"""Who pays for placed pods, whatever has been written on them and their pod groups since.

A pod that holds a node is counted under what it was placed under: its job and sub-group, while the
job is there, else a job of orphans; in the queue that it was placed in, while that exists, else in
the default queue; and as work that may be taken back if it was placed as such. So nobody takes a
running pod out of the accounts by editing it, its group or its labels. What the group says takes
effect when none of its pods is placed any more. Nor does anybody keep a running job young: its last
start is a note on its group, and counts as far as the kubelets' own word of its pods allows.

The bind request says what a pod was placed under. Pods without one (bound directly, or by another
scheduler) are in the job that they name, and in the queue of that. All of it follows from what is
in the API server now: the next process counts the same.
"""

from collections import Counter
from collections.abc import Iterable

import msgspec

from muster.api import names
from muster.api.bindrequest import BindRequest
from muster.api.names import Names
from muster.model.charges import Charge, charge_of
from muster.model.records import (
    Disruption,
    JobRecord,
    SubGroupRecord,
    TaskKind,
    TaskRecord,
    gang,
)
from muster.model.status import ACTIVE_USED
from muster.model.tables import ClusterTables

_ORPHANED = "/orphaned"
"""Behind the key of a job: its pods that are placed while there is no such job. No pod group has a
name with a slash."""
_CLOCKS_APART_S = 600.0
"""A start that was noted by so much more than its pods' kubelets say is no matter of clocks."""
_Terms = tuple[str, bool]
"""Queue, and whether it was placed as work that may be taken back."""


class Charges:
    """Placed pods by the job that they count in. `changed` are jobs whose records are due anew."""

    def __init__(self, known: Names, tables: ClusterTables) -> None:
        self.changed: set[str] = set()
        self.has_begun = False
        """Whether all jobs and queues have been seen, so that one which is not there is missing."""
        self._names = known
        self._tables = tables
        self._home: dict[str, str] = {}
        self._started_s: dict[str, float] = {}
        """When placed pods were started, by their kubelets."""
        self._members: dict[str, dict[str, Charge]] = {}
        self._terms: dict[str, Counter[_Terms]] = {}
        self._by_queue: dict[str, set[str]] = {}
        self._adrift: set[str] = set()
        """Jobs whose queue is not one that their pods were placed in."""
        self._renamed: set[str] = set()
        """Pods that name another job than theirs, until all jobs have been seen."""

    def placed(
        self, record: TaskRecord, request: BindRequest | None, started_s: float | None = None
    ) -> TaskRecord:
        """The task in the job that it counts in. Call it with every task that changes."""
        is_placed = record.is_ours and record.kind is TaskKind.WORK and bool(record.node)
        if not is_placed or record.status not in ACTIVE_USED:
            self.drop(record.uid)
            return record
        charge = self._charge(record, request)
        home = self._home_of(record, charge)
        self._put(record.uid, home, charge)
        if started_s is not None:
            self._started_s[record.uid] = started_s
        sub_group = charge.sub_group if home == charge.job else record.sub_group
        if (home, sub_group) == (record.job, record.sub_group):
            return record
        return msgspec.structs.replace(record, job=home, sub_group=sub_group)

    def drop(self, uid: str) -> None:
        """The pod holds nothing any more."""
        home = self._home.pop(uid, None)
        if home is None:
            return
        self._started_s.pop(uid, None)
        charge = self._members[home].pop(uid)
        self._count(home, charge, -1)
        if not self._members[home]:
            del self._members[home], self._terms[home]
            self._adrift.discard(home)

    def applied(self, record: JobRecord) -> JobRecord:
        """The job as its placed pods were placed."""
        terms = self._terms.get(record.key)
        if not terms:
            return record
        queue = self._existing(record.key, record.queue)
        is_preemptible = record.is_preemptible or any(soft for _, soft in terms)
        last_start_s = self._last_start_s(record)
        found = (queue, is_preemptible, last_start_s)
        if found == (record.queue, record.is_preemptible, record.last_start_s):
            return record
        return msgspec.structs.replace(
            record, queue=queue, is_preemptible=is_preemptible, last_start_s=last_start_s
        )

    def orphans(self, key: str) -> JobRecord | None:
        """The job of pods whose own is missing; None when there are no such pods."""
        terms = self._terms.get(key)
        if not terms:
            return None
        return JobRecord(
            key=key,
            queue=self._existing(key, names.DEFAULT_QUEUE),
            sub_groups=gang(1),
            priority=0,
            is_preemptible=any(soft or not queue for queue, soft in terms),
            disruption=Disruption.TASK,
        )

    def begin(self) -> Iterable[str]:
        """All has been seen. Returns the pods that have to be counted elsewhere."""
        self.has_begun = True
        self.changed |= set(self._members)
        missing = [key for key in self._members if self._tables.job(key) is None]
        found = self._renamed | {uid for key in missing for uid in self._members[key]}
        self._renamed = set()
        return found

    def pods_of(self, job: str) -> list[str]:
        """Placed pods that belong to a job, also those that count apart while it is missing."""
        return [*self._members.get(job, ()), *self._members.get(orphaned(job), ())]

    def queue_changed(self, name: str) -> None:
        """A queue has come, or gone."""
        if not self.has_begun:
            return
        self.changed |= self._by_queue.get(name, set())
        for key in self._adrift:
            job = self._tables.job(key)
            if job is None or job.queue in (name, names.DEFAULT_QUEUE):
                self.changed.add(key)

    def _last_start_s(self, record: JobRecord) -> float | None:
        """As noted, unless as many pods as the job needs were running long before that."""
        members = self._members[record.key]
        noted_s = record.last_start_s
        needed = max(1, min(_needed(record.sub_groups), len(members)))
        starts_s = [self._started_s[uid] for uid in members if uid in self._started_s]
        if noted_s is None or len(starts_s) < needed:
            return noted_s
        ran_s = sorted(starts_s)[needed - 1]
        return ran_s if noted_s > ran_s + _CLOCKS_APART_S else noted_s

    def _charge(self, record: TaskRecord, request: BindRequest | None) -> Charge:
        said = charge_of(request, self._names) if request is not None else None
        if said is not None:
            return said
        return Charge(record.job, record.sub_group)

    def _home_of(self, record: TaskRecord, charge: Charge) -> str:
        """The job that the pod names now, if that changes nobody's account; the one that it was
        placed under; or that of orphans.
        """
        if not self.has_begun:
            if record.job != charge.job:
                self._renamed.add(record.uid)
            return charge.job
        named = self._tables.job(record.job) if record.job != charge.job else None
        if named is not None and named.queue == charge.queue:
            return record.job
        if self._tables.job(charge.job) is not None:
            return charge.job
        if not self._tables.has_node(record.node):
            return record.job  # Of another pool, whose scheduler counts it.
        return orphaned(charge.job or f"{record.namespace}/")

    def _put(self, uid: str, home: str, charge: Charge) -> None:
        before = self._home.get(uid)
        if before == home and self._members[home][uid] == charge:
            return
        self.drop(uid)
        self._home[uid] = home
        self._members.setdefault(home, {})[uid] = charge
        self._count(home, charge, 1)

    def _count(self, key: str, charge: Charge, by: int) -> None:
        """A job whose pods come to have other terms than before has another record."""
        terms = self._terms.setdefault(key, Counter())
        term = (charge.queue, charge.is_preemptible)
        was = terms[term]
        terms[term] += by
        if was and terms[term]:
            return
        self.changed.add(key)
        if not terms[term]:
            del terms[term]
        queues = {queue for queue, _ in terms}
        if charge.queue in queues:
            self._by_queue.setdefault(charge.queue, set()).add(key)
        elif charge.queue in self._by_queue:
            self._by_queue[charge.queue].discard(key)
            if not self._by_queue[charge.queue]:
                del self._by_queue[charge.queue]

    def _queue(self, key: str) -> str:
        """The queue that the pods of a job were placed in, those that came last if they differ."""
        queues = {queue for queue, _ in self._terms[key] if queue}
        if len(queues) < 2:
            return next(iter(queues), "")
        known = [(one.placed_s, uid, one.queue) for uid, one in self._members[key].items()]
        return max(one for one in known if one[2])[2]

    def _existing(self, key: str, otherwise: str) -> str:
        """The queue that the pods of a job were placed in, if it exists; the other, likewise; or
        the default one.
        """
        queue = self._queue(key)
        if not self.has_begun:
            return queue or otherwise
        if queue and self._tables.has_queue(queue):
            self._adrift.discard(key)
            return queue
        self._adrift.add(key)
        return otherwise if self._tables.has_queue(otherwise) else names.DEFAULT_QUEUE


def _needed(group: SubGroupRecord) -> int:
    """How many tasks the job needs at most."""
    if not group.children:
        return group.minimum or 0
    return sum(map(_needed, group.children))


def orphaned(job: str) -> str:
    """The key under which placed pods of a job are counted that is not there."""
    return f"{job}{_ORPHANED}"


def is_orphaned(job: str) -> bool:
    return job.endswith(_ORPHANED)
