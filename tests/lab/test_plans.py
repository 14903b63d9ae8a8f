"""A plan is what happens when what was planned is submitted, on a whole cluster and from outside:
through the API server, the webhooks, the grouper and the scheduler.
"""

from collections import Counter
from dataclasses import dataclass, field
from random import Random
from typing import Any

import pytest
from tests.support.lab import JOB, POD, QUEUE, Lab, Setting, in_lab

from muster.base.clock import Clock
from muster.base.offload import inline
from muster.client.errors import ApiError
from muster.foresight.plan import (
    BadToken,
    Plan,
    Submission,
    Verdict,
    checked,
    held,
    plan,
    token_of,
)
from muster.foresight.situation import Situation
from muster.foresight.variants import Variants
from muster.services.scheduler.observer import build_observer
from muster.services.scheduler.options import Options, SchedulerServiceConfig
from muster.sim.kubelet.nodes import Gpus, NodeGroup
from muster.web.live import NotReady, rules_digest
from muster.web.observed import ObservedCluster
from muster.web.submission import submission_of

_KEY = b"key"
_NODES = Setting(nodes=(NodeGroup("gpu", count=3, gpus=Gpus(count=4)),))


@dataclass
class Planner:
    """What `muster web` plans with, beside the live scheduler."""

    observed: ObservedCluster
    clock: Clock
    asked: list[Any] = field(default_factory=list)

    @classmethod
    async def of(cls, lab: Lab) -> "Planner":
        supervisor = lab.laptop.supervisor("web")
        options = Options()
        observed = ObservedCluster.of(supervisor, options.names)

        async def on_observed(seen: Any) -> None:
            observed.newest = seen

        build_observer(supervisor, SchedulerServiceConfig(options, offload=inline), on_observed)
        await lab.laptop.start(supervisor)
        return cls(observed, lab.clock)
