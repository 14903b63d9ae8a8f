"""A story from a seed: what chance decides, it decides here. Pure."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

import msgspec

from muster.base.rand import Rand
from muster.lab.simulate.files import CONFIGURATIONS
from muster.lab.simulate.manifests import CLAIMS_ONLY, DRIVER, MIG, RACK
from muster.lab.simulate.network import FAULTS, ODD_ERRORS
from muster.lab.simulate.odd_objects import ODD_OBJECTS
from muster.lab.simulate.replicas import LEASES
from muster.lab.simulate.story import (
    AnyStep,
    BreakDisk,
    Configure,
    Cordon,
    Finalize,
    Freeze,
    Kill,
    Listen,
    Malform,
    Outage,
    Protect,
    QueuePlan,
    Recreate,
    Remove,
    Resize,
    SetQuota,
    Silence,
    Story,
    Strike,
    Submit,
    Vanish,
)
from muster.services.scheduler.options import BindRequests
from muster.sim.kubelet.nodes import Gpus, NodeGroup

T = TypeVar("T")

_WRITTEN: Final = {
    "podgrouper": ("podgroups", "pods"),
    "podgroups": ("podgroups/status",),
    "queues": ("queues/status",),
    "binder": (
        "pods/binding",
        "bindrequests/status",
        "pods",
        "configmaps",
        "resourceclaims/status",
    ),
    "scheduler": ("bindrequests", "pods/eviction", "pods/status", "podgroups/status", "podgroups"),
    "scaleadjuster": ("pods",),
    "reservation": ("pods",),
}
_WATCHED: Final = {
    "podgrouper": ("pods", "podgroups"),
    "podgroups": ("pods", "podgroups"),
    "queues": ("podgroups", "queues"),
    "binder": ("pods", "nodes", "bindrequests", "configmaps", "persistentvolumeclaims"),
    "scheduler": ("pods", "nodes", "queues", "podgroups", "bindrequests", "resourceclaims"),
    "scaleadjuster": ("pods", "nodes"),
}
_ELECTED: Final = tuple(LEASES)
_PRIORITIES: Final = ("", "", "train", "build", "inference", "build-preemptible")
_PREEMPTIBILITY: Final = ("", "", "", "preemptible", "non-preemptible")


def drawn_story(seed: int) -> Story:
    """Small clusters and few minutes: what two faults do to each other shows in these."""
    rand = Rand(seed)
    nodes = _nodes(rand)
    queues = _queues(rand)
    calm_at_s = round(rand.uniform(60.0, 300.0))
    draws = _Draws(rand, nodes, [queue.name for queue in queues if queue.parent], calm_at_s)
    for _ in range(rand.randint(4, 14)):
        draws.work()
    for _ in range(rand.randint(2, 8)):
        draws.change()
    for _ in range(rand.randint(2, 12)):
        draws.fault()
    skews = {f"{who}-{one}": rand.uniform(-600.0, 600.0) for who in LEASES for one in (0, 1)}
    skews = skews if rand.random() < 0.5 else {}
    bind_requests = rand.choice(tuple(BindRequests))
    if rand.random() < 0.2:
        for _ in range(rand.randint(1, 4)):
            draws.trouble_with_files()
    return Story(
        seed=seed,
        nodes=nodes,
        queues=queues,
        steps=sorted(draws.steps, key=lambda step: step.at_s),
        calm_at_s=calm_at_s,
        skews_s=skews,
        bind_requests=bind_requests,
    )


def _nodes(rand: Rand) -> list[NodeGroup]:
    size = rand.choice((1, 2, 4, 8))
    count = rand.randint(2, 5)
    groups = [
        NodeGroup("gpu", count=count, gpus=Gpus(count=size), topology={RACK: 2}, cpu="32"),
    ]
    if rand.random() < 0.4:
        slices = Gpus(count=2, mig={MIG: rand.randint(1, 4)}, mig_gpus=1)
        groups.append(NodeGroup("mig", count=1, gpus=slices, cpu="32"))
    if rand.random() < 0.4:
        # Devices that a driver hands out, no device plugin beside it, and nobody who wants one.
        more: dict[str, Any] = {"resources": {"nvidia.com/gpu": "0"}, "taints": [CLAIMS_ONLY]}
        groups.append(
            NodeGroup("dra", count=2, gpus=Gpus(count=2, driver=DRIVER), cpu="32", **more)
        )
    if rand.random() < 0.4:
        groups.append(NodeGroup("cpu", count=1, cpu="16"))
    return groups


def _queues(rand: Rand) -> list[QueuePlan]:
    found = [QueuePlan("all", limit=rand.choice((-1.0, -1.0, -1.0, 6.0)))]
    for name in ("team-a", "team-b", "team-c")[: rand.randint(1, 3)]:
        gpus = float(rand.choice((-1, 0, 1, 2, 4)))
        limit = rand.choice((-1.0, -1.0, -1.0, 2.0, 4.0))
        found.append(QueuePlan(name, gpus, limit, parent="all"))
    return found


@dataclass(slots=True)
class _Draws:
    """Draws steps one after another; later ones refer to earlier ones."""

    rand: Rand
    nodes: Sequence[NodeGroup]
    queues: Sequence[str]
    calm_at_s: float
    steps: list[AnyStep] = field(default_factory=list)
    submitted: list[Submit] = field(default_factory=list)

    def work(self) -> None:
        rand = self.rand
        kind = rand.choice(
            ("pod", "pod", "job", "job", "job", "groups", "deployment", "statefulset")
        )
        pods = 1 if kind == "pod" else rand.randint(2 if kind == "groups" else 1, 4)
        asks = rand.choice(self._asks())
        work = Submit(
            at_s=self._moment(0.0, 0.7),
            name=f"{kind}{len(self.submitted)}",
            kind=kind,
            pods=pods,
            minimum=rand.choice((0, 0, 1)) if kind == "job" and pods > 1 else 0,
            asks=asks,
            queue=rand.choice(self.queues),
            priority=rand.choice(_PRIORITIES),
            preemptibility=rand.choice(_PREEMPTIBILITY),
            runs_s=round(rand.uniform(5.0, 200.0)) if kind in ("pod", "job") else 0.0,
            volume=rand.choice(("", "", "", "", "own", "shared-data")),
            rack=kind == "job" and rand.random() < 0.2,
        )
        if rand.random() < 0.3:
            work = msgspec.structs.replace(work, runs_s=0.0)
        self.submitted.append(work)
        self.steps.append(work)

    def change(self) -> None:
        """Somebody changes what there is."""
        of = self.rand.choice(self.submitted)
        node = self.rand.choice(self._node_names())
        at_s, for_s = self._moment(0.1, 1.0), float(self.rand.randint(5, 120))
        numbers = (1, 2, 3, 4)
        makers: list[Callable[[], AnyStep]] = [
            lambda: Remove(at_s=at_s, name=of.name),
            lambda: Resize(at_s=at_s, name=of.name, pods=self.rand.choice((0, 1, 3))),
            lambda: Recreate(at_s=at_s, name=of.name),
            lambda: Finalize(at_s=at_s, name=of.name, for_s=for_s),
            lambda: Protect(
                at_s=at_s,
                name=of.name,
                at_least=self.rand.choice((0, 1, 2)),
                twice=self.rand.random() < 0.3,
            ),
            lambda: SetQuota(
                at_s=at_s,
                queue=of.queue,
                gpus=float(self.rand.choice((-1, 0, *numbers))),
                limit=float(self.rand.choice((-1, -1, *numbers))),
            ),
            lambda: Cordon(at_s=at_s, node=node, for_s=for_s),
            lambda: Silence(at_s=at_s, node=node, for_s=for_s),
            lambda: Vanish(at_s=at_s, node=node, for_s=for_s),
            lambda: Malform(at_s=at_s, what=self.rand.choice(tuple(ODD_OBJECTS))),
        ]
        self.steps.append(self.rand.choice(makers)())

    def fault(self) -> None:
        rand = self.rand
        at_s, for_s = self._moment(0.0, 0.95), float(rand.randint(2, 60))
        makers: list[Callable[[], AnyStep]] = [
            lambda: self._strike(at_s),
            lambda: self._strike(at_s),
            lambda: self._strike(at_s),
            lambda: self._struck_read(at_s),
            lambda: self._listen(at_s, for_s),
            lambda: self._listen(at_s, for_s),
            lambda: Outage(at_s=at_s, for_s=for_s),
            lambda: Kill(at_s=at_s, who=self._replica(), after=rand.randint(0, 400)),
            lambda: Freeze(at_s=at_s, who=self._replica(), for_s=for_s, after=rand.randint(0, 400)),
        ]
        self.steps.append(rand.choice(makers)())

    def trouble_with_files(self) -> None:
        """Of the schedulers: what they are configured by, and where they write their cycles."""
        at_s = self._moment(0.0, 0.95)
        if self.rand.random() < 0.5:
            what = self.rand.choice(tuple(CONFIGURATIONS))
            self.steps.append(Configure(at_s=at_s, what=what))
        else:
            for_s = float(self.rand.randint(2, 60))
            self.steps.append(BreakDisk(at_s=at_s, for_s=for_s))

    def _strike(self, at_s: float) -> Strike:
        rand = self.rand
        who = rand.choice(tuple(_WRITTEN))
        return Strike(
            at_s=at_s,
            who=who,
            fault=rand.choice(FAULTS),
            resource=rand.choice(("", "leases", *_WRITTEN[who])),
            skip=rand.choice((0, 0, 0, 1, 3)),
            times=rand.choice((1, 1, 1, 2, 5, 20)),
        )

    def _struck_read(self, at_s: float) -> Strike:
        rand = self.rand
        who = rand.choice(tuple(_WATCHED))
        return Strike(
            at_s=at_s,
            who=who,
            fault=rand.choice(("410", "429", "500", "503", "dropped", "garbled", *ODD_ERRORS)),
            verbs=rand.choice(("read", "watch", "any")),
            resource=rand.choice(("", *_WATCHED[who])),
            times=rand.choice((1, 2, 5)),
        )

    def _listen(self, at_s: float, for_s: float) -> Listen:
        who = self.rand.choice(tuple(_WATCHED))
        return Listen(
            at_s=at_s,
            who=f"{who}-{self.rand.randint(0, 1)}" if self.rand.random() < 0.5 else who,
            how=self.rand.choice(("cut", "gone", "deaf", "late", "late")),
            resource=self.rand.choice(("", *_WATCHED[who])),
            for_s=for_s,
        )

    def _replica(self) -> str:
        return f"{self.rand.choice((*_ELECTED, 'admission'))}-{self.rand.randint(0, 1)}"

    def _moment(self, first: float, last: float) -> float:
        """Whole and half seconds: things that happen together are worth seeing."""
        at_s = self.rand.uniform(first * self.calm_at_s, last * self.calm_at_s)
        return round(at_s * 2) / 2

    def _asks(self) -> list[str]:
        wishes = [
            "gpu:1",
            "gpu:1",
            "gpu:2",
            "fraction:0.5",
            "fraction:0.3",
            "memory:20000",
            "cpu:2",
        ]
        there = {group.name for group in self.nodes}
        return wishes + ["mig:1"] * ("mig" in there) + ["claim"] * ("dra" in there)

    def _node_names(self) -> list[str]:
        return [
            group.name if group.count == 1 else f"{group.name}-{place}"
            for group in self.nodes
            for place in range(group.count)
        ]
