"""build(supervisor, writer): every stand-in operator, as a controller of the kind that it knows."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from muster.api.kinds import Kind
from muster.api.meta import Key
from muster.base.clock import Clock
from muster.client.informer import Informer
from muster.client.kinds import Plain, header
from muster.client.write import Writer
from muster.runtime.controller import Pace, own_key
from muster.runtime.reconciler import DONE, Result
from muster.runtime.supervisor import Supervisor
from muster.sim.operators import job_sets, kubeflow, serving, spark
from muster.sim.operators.children import (
    Child,
    ended_pods,
    gathered,
    has_finished,
    said,
)
from muster.sim.workloads.actions import Action, ActionExecutor, status_patch
from muster.sim.workloads.objects import JOB, POD, controller_of, is_terminating

_PACE: Final = Pace(workers=4)


@dataclass(slots=True)
class Decider:
    """What there is to do for an object and its children. Pure but for the runtimes it reads."""

    runtimes: Informer[Plain]

    def pytorch(self, job: Plain, there: Sequence[Plain], now_s: float) -> "Decision":
        state = kubeflow.pytorch_state(job, there)
        wanted = kubeflow.pytorch_children(job, there)
        return wanted, said(kubeflow.PYTORCH_JOB, job, state, now_s)

    def mpi(self, job: Plain, there: Sequence[Plain], now_s: float) -> "Decision":
        state = kubeflow.mpi_state(job, there)
        return kubeflow.mpi_children(job, there), said(kubeflow.MPI_JOB, job, state, now_s)

    def ray(self, cluster: Plain, there: Sequence[Plain], now_s: float) -> "Decision":
        status = status_patch(serving.RAY_CLUSTER, cluster, serving.ray_status(cluster, there))
        return serving.ray_children(cluster, there), [*ended_pods(there), *status]

    def ray_job(self, job: Plain, there: Sequence[Plain], now_s: float) -> "Decision":
        status = status_patch(serving.RAY_JOB, job, serving.ray_job_status(job, there))
        return serving.ray_job_children(job, there), status

    def lws(self, lws: Plain, there: Sequence[Plain], now_s: float) -> "Decision":
        status = status_patch(serving.LEADER_WORKER_SET, lws, serving.lws_status(lws, there))
        return serving.lws_children(lws, there), [*ended_pods(there), *status]

    def job_set(self, job_set: Plain, there: Sequence[Plain], now_s: float) -> "Decision":
        state = job_sets.job_set_state(job_set, there)
        return job_sets.job_set_children(job_set, there), said(
            job_sets.JOB_SET, job_set, state, now_s
        )

    def train_job(self, job: Plain, there: Sequence[Plain], now_s: float) -> "Decision":
        runtime = self.runtimes.get(Key("", job_sets.runtime_name(job)))
        state = job_sets.train_job_state(job, runtime, there)
        wanted = job_sets.train_job_children(job, runtime, there)
        return wanted, said(job_sets.TRAIN_JOB, job, state, now_s)

    def spark(self, app: Plain, there: Sequence[Plain], now_s: float) -> "Decision":
        state = spark.spark_state(app, there)
        word = {"COMPLETED": "Completed", "FAILED": "Failed"}.get(state, state.capitalize())
        told = said(
            spark.SPARK_APPLICATION,
            app,
            (word, f"the driver is {state}"),
            now_s,
            applicationState={"state": state},
        )
        return spark.spark_children(app, there), told


Decision = tuple[Sequence[Child], Sequence[Action]]
Decide = Callable[[Plain, Sequence[Plain], float], Decision]


@dataclass(slots=True)
class OperatorReconciler:
    """Brings the children of one object to what its operator wants."""

    kind: Kind[Plain]
    children: Sequence[tuple[Kind[Plain], Informer[Plain], Any]]
    """Kinds of children, where they are, and the same by the uid of their owner."""
    objects: Informer[Plain]
    decide: Decide
    executor: ActionExecutor
    clock: Clock

    async def reconcile(self, key: Key) -> Result:
        found = self.objects.get(key)
        if found is None or is_terminating(found):
            return DONE
        obj = {**found, "apiVersion": self.kind.api_version, "kind": self.kind.kind}
        there = self._there(obj["metadata"]["uid"])
        wanted, more = self.decide(obj, [one for _, one in there], self.clock.now_s())
        actions: list[Action] = []
        if not has_finished(obj):
            actions = gathered(obj, wanted, there)
        # A status names children before they are there: a RayJob its cluster.
        await self.executor.do([*more, *actions])
        return DONE

    def _there(self, uid: str) -> list[tuple[Kind[Plain], Plain]]:
        """Children, and what children own: executors belong to their driver."""
        found = [(kind, one) for kind, _, by_owner in self.children for one in by_owner.get(uid)]
        below = [
            (kind, one)
            for _, child in found
            for kind, _, by_owner in self.children
            if kind is POD
            for one in by_owner.get(child["metadata"]["uid"])
        ]
        return found + (below if self.kind is spark.SPARK_APPLICATION else [])


def build(supervisor: Supervisor, writer: Writer) -> None:
    """Add all operators to the supervisor."""
    kinds = (POD, JOB, job_sets.JOB_SET, serving.RAY_CLUSTER)
    informers = {kind.full_name: supervisor.informer(kind) for kind in kinds}
    by_owner = {name: one.add_index(_owner_uids) for name, one in informers.items()}
    executor = ActionExecutor(writer, supervisor.log, informers, supervisor.recorder)
    decider = Decider(supervisor.informer(job_sets.TRAINING_RUNTIME))
    for kind, decide, makes in _operators(decider):
        children = [(one, informers[one.full_name], by_owner[one.full_name]) for one in makes]
        objects = supervisor.informer(kind)
        reconciler = OperatorReconciler(kind, children, objects, decide, executor, supervisor.clock)
        controller = supervisor.controller(f"{kind.plural} operator", reconciler, _PACE)
        controller.watch(objects, own_key)
        for _, informer, _ in children:
            controller.watch(informer, _owner_key(kind))
        if kind is job_sets.TRAIN_JOB:
            controller.watch(decider.runtimes, partial(_all_keys, objects))


def _operators(
    decider: Decider,
) -> Iterable[tuple[Kind[Plain], Decide, tuple[Kind[Plain], ...]]]:
    yield kubeflow.PYTORCH_JOB, decider.pytorch, (POD,)
    yield kubeflow.MPI_JOB, decider.mpi, (POD, JOB)
    yield serving.RAY_CLUSTER, decider.ray, (POD,)
    yield serving.RAY_JOB, decider.ray_job, (serving.RAY_CLUSTER,)
    yield serving.LEADER_WORKER_SET, decider.lws, (POD,)
    yield job_sets.JOB_SET, decider.job_set, (JOB,)
    yield job_sets.TRAIN_JOB, decider.train_job, (job_sets.JOB_SET,)
    yield spark.SPARK_APPLICATION, decider.spark, (POD,)


def _owner_key(kind: Kind[Plain]) -> Callable[[Plain], Iterable[Key]]:
    """For `watch`: whose child an object is."""

    def keys(obj: Plain) -> Iterable[Key]:
        namespace = header(obj).key.namespace
        if kind is spark.SPARK_APPLICATION:
            name = (obj["metadata"].get("labels") or {}).get(spark.APP_NAME)
            return (Key(namespace, name),) if name else ()
        owner = controller_of(obj)
        if owner is None or owner.get("kind") != kind.kind:
            return ()
        return (Key(namespace, str(owner["name"])),)

    return keys


def _all_keys(informer: Informer[Plain], _: Plain) -> Iterable[Key]:
    return list(informer.objects)


def _owner_uids(obj: Plain) -> Iterable[str]:
    owner = controller_of(obj)
    return (str(owner["uid"]),) if owner is not None else ()
