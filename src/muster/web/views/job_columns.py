"""What lists of jobs are filtered and sorted by: columns over all jobs, made once for a moment."""

from functools import cached_property
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from muster.api.selectors import LabelSelector
from muster.model.reason_codes import Code
from muster.model.status import ACTIVE_USED, TaskStatus
from muster.numerics.arrays import Bools, Floats, Ints, Rows
from muster.web.moment import Moment

_S = TaskStatus
_HOLDS: Final = (_S.ALLOCATED, _S.BINDING, _S.BOUND, _S.RUNNING)
_OVER: Final = (_S.SUCCEEDED, _S.FAILED)
_MADE: Final = "job columns"
Texts = npt.NDArray[Any]


def job_columns(moment: Moment) -> "JobColumns":
    """Of all jobs, those that ended among them."""
    found: JobColumns | None = moment.made.get(_MADE)
    if found is None:
        found = moment.made[_MADE] = JobColumns(moment)
    return found


class JobColumns:
    """[J] each; a column is made when it is first asked for."""

    def __init__(self, moment: Moment) -> None:
        self._moment = moment
        self._records = moment.snapshot.jobs.records

    @cached_property
    def state(self) -> Texts:
        """Running: its minimum does; Waiting: pods of it wait; Starting: on its way; else Ended."""
        moment = self._moment
        holds = moment.per_job(moment.in_status(*_HOLDS))
        waits = moment.per_job(moment.in_status(_S.PENDING, _S.GATED))
        found = np.full(len(moment.snapshot.jobs.keys), "Ended", dtype=object)
        found[holds > 0] = "Starting"
        found[(waits > 0) & (holds < np.maximum(self.minimum, 1))] = "Waiting"
        found[(self.running > 0) & (self.running >= self.minimum)] = "Running"
        return found

    @cached_property
    def running(self) -> Floats:
        return self._moment.per_job(self._moment.in_status(_S.RUNNING))

    @cached_property
    def minimum(self) -> Ints:
        """The pods that a job needs in all: what its sub-groups need together."""
        leaves, is_used = self._moment.snapshot.leaves, self._moment.snapshot.leaves.job >= 0
        size = len(self._moment.snapshot.jobs.keys)
        return np.bincount(leaves.job[is_used], leaves.minimum[is_used], size).astype(int)

    @cached_property
    def pods(self) -> Floats:
        return self._moment.per_job(self._counted)

    @cached_property
    def held(self) -> Floats:
        moment = self._moment
        return moment.per_job(moment.in_status(*ACTIVE_USED), moment.task_gpus)

    @cached_property
    def asked(self) -> Floats:
        return self._moment.per_job(self._counted, self._moment.task_gpus)

    @cached_property
    def nodes(self) -> Ints:
        """On how many nodes a job is."""
        tasks, rows = self._moment.snapshot.tasks, self._moment.on_node
        rows = rows[tasks.job[rows] >= 0]
        # np.unique hashes, which costs ten times what sorting costs.
        pairs = np.sort(tasks.job[rows].astype(np.int64) << 32 | tasks.node[rows])
        is_first = np.diff(pairs, prepend=-1) != 0
        return np.bincount(pairs[is_first] >> 32, minlength=len(self._moment.snapshot.jobs.keys))

    @cached_property
    def shape(self) -> Ints:
        """That of the first pod that waits, else of the first; -1: it has no pods."""
        tasks = self._moment.snapshot.tasks
        found = np.full(len(self._moment.snapshot.jobs.keys), -1)
        rows = np.flatnonzero(tasks.live & (tasks.job >= 0))[::-1]
        found[tasks.job[rows]] = tasks.shape[rows]
        waits = rows[self._moment.in_status(_S.PENDING)[rows]]
        found[tasks.job[waits]] = tasks.shape[waits]
        return found

    @cached_property
    def shown(self) -> Rows:
        """The rows that lists have, by queue, then age."""
        return self._in_order(self.state != "Ended")

    @cached_property
    def ended(self) -> Rows:
        """Those of which nothing runs or waits any more, in the same order; a group of which no pod
        was ever made has not ended."""
        return self._in_order((self.state == "Ended") & (self._finished > 0))

    def _in_order(self, which: Bools) -> Rows:
        rows = np.flatnonzero(self._moment.snapshot.jobs.live & which).tolist()
        for column in (self.key, self.created, self.queue):
            rows.sort(key=column.__getitem__)
        return np.array(rows, dtype=np.int64)

    def labelled(self, rows: Rows, selector: LabelSelector) -> Bools:
        """Those of these rows that have such labels."""
        found, labels = np.zeros(len(self.state), dtype=bool), self._moment.labels
        found[[row for row in rows.tolist() if selector.matches(labels("jobs", self.key[row]))]] = (
            True
        )
        return found

    @cached_property
    def key(self) -> Texts:
        return _texts(self._moment.snapshot.jobs.keys)

    @cached_property
    def namespace(self) -> Texts:
        return _texts([key.partition("/")[0] for key in self._moment.snapshot.jobs.keys])

    @cached_property
    def queue(self) -> Texts:
        return self._of_records("queue")

    @cached_property
    def known_as(self) -> Texts:
        return self._of_records("known_as")

    @cached_property
    def user(self) -> Texts:
        return self._of_records("user")

    @cached_property
    def priority(self) -> Texts:
        return self._of_records("priority")

    @cached_property
    def created(self) -> Texts:
        return self._of_records("created_s")

    @cached_property
    def binds(self) -> Bools:
        """Whether its nodes are chosen, and nothing but the binding is to be waited for."""
        on_the_way = self._moment.per_job(self._moment.in_status(_S.ALLOCATED, _S.BINDING))
        return np.asarray((self.state == "Starting") & (on_the_way > 0))

    @cached_property
    def code(self) -> Texts:
        return np.where(self.binds, str(Code.BINDING), self._of_reasons(self._moment.code))

    @cached_property
    def category(self) -> Texts:
        told = self._of_reasons(self._moment.category)
        return np.where(self.binds, str(Code.BINDING.category), told)

    def on_node(self, name: str) -> Bools:
        """Whether it has pods there."""
        at = self._moment.snapshot.nodes.row.get(name, -1)
        tasks, rows = self._moment.snapshot.tasks, self._moment.on_node
        found = np.zeros(len(self._moment.snapshot.jobs.keys), dtype=bool)
        jobs = tasks.job[rows[tasks.node[rows] == at]]
        found[jobs[jobs >= 0]] = True
        return found

    def with_pod(self, key: str) -> Bools:
        """Whether this is one of its pods: of some kinds their names do not begin with its own."""
        tasks, (namespace, _, name) = self._moment.snapshot.tasks, key.partition("/")
        found = np.zeros(len(self._moment.snapshot.jobs.keys), dtype=bool)
        for row in np.flatnonzero(tasks.live & (tasks.job >= 0)).tolist():
            record = tasks.records[row]
            if record.name == name and record.namespace == namespace:
                found[tasks.job[row]] = True
        return found

    def below(self, name: str) -> Bools:
        """Whether its queue is this one or one below it."""
        jobs, queues = self._moment.snapshot.jobs, self._moment.snapshot.queues
        wanted = queues.row.get(name)
        if wanted is None:
            return np.asarray(self.queue == name)
        is_below = np.append((queues.chain == wanted).any(axis=1), False)
        return np.where(jobs.queue < 0, self.queue == name, is_below[jobs.queue]).astype(bool)

    @cached_property
    def _finished(self) -> Floats:
        return self._moment.per_job(self._moment.in_status(*_OVER))

    @cached_property
    def _counted(self) -> Bools:
        """[T] the pods that a job has; of one that ended, those that it had."""
        moment = self._moment
        has_ended = np.append(self.state == "Ended", False)
        alive = moment.in_status(*ACTIVE_USED, _S.PENDING, _S.GATED)
        return np.asarray(alive | (moment.in_status(*_OVER) & has_ended[moment.snapshot.tasks.job]))

    def _of_records(self, field: str) -> Texts:
        return _texts([getattr(one, field, None) for one in self._records])

    def _of_reasons(self, told: Any) -> Texts:
        found = np.full(len(self._moment.snapshot.jobs.keys), "", dtype=object)
        for row in self._moment.why:
            found[row] = told(row)
        return found


def _texts(values: Any) -> Texts:
    found = np.empty(len(values), dtype=object)
    found[:] = values
    return found
