"""Devices that were decided in an earlier cycle are not given out again."""

import json

import numpy as np

from muster.api.codec import decode
from muster.api.devices import AllocationResult, DeviceClass, ResourceClaim, ResourceSlice
from muster.api.meta import ObjectMeta
from muster.engine.config.reader import Reader
from muster.engine.hooks import View
from muster.engine.plugins.dynamic_resources.plugin import DynamicResources
from muster.model.cluster_objects import ClusterObjects
from muster.model.constraint_terms import ClaimReference
from muster.model.constraints import Constraints
from muster.model.ledger import Ledger
from muster.model.records import ClusterRecords, NodeRecord, TaskRecord
from muster.model.status import TaskStatus
from muster.model.tables import snapshot_of


def test_a_task_that_is_being_bound_holds_the_devices_of_its_bind_request() -> None:
    spec = {"driver": "gpu", "nodeName": "n", "pool": {"name": "n"}, "devices": [{"name": "0"}]}
    request = {"name": "r", "exactly": {"deviceClassName": "gpu"}}
    claim = decode(ResourceClaim, json.dumps({"spec": {"devices": {"requests": [request]}}}))
    device = {"request": "r", "driver": "gpu", "pool": "n", "device": "0"}
    decided = decode(AllocationResult, json.dumps({"devices": {"results": [device]}}))
    wanted = Constraints(claims=(ClaimReference("gpus", template="one"),), namespace="x")
    binding = TaskRecord(
        "a", "a", status=TaskStatus.BINDING, node="n", constraints=wanted,
        claims={"gpus": "claim-a"}, claim_allocations={"gpus": decided},
    )  # fmt: skip
    pending = TaskRecord("b", "b", constraints=wanted, claims={"gpus": "claim-b"})
    objects = ClusterObjects(
        device_classes={"gpu": DeviceClass(metadata=ObjectMeta(name="gpu"))},
        device_slices={"s": decode(ResourceSlice, json.dumps({"spec": spec}))},
        device_claims={"x/claim-a": claim, "x/claim-b": claim},
    )
    for tasks, fits in (((pending,), [True]), ((binding, pending), [False])):
        snapshot = snapshot_of(
            ClusterRecords(nodes=(NodeRecord("n"),), tasks=tasks, cluster_objects=objects)
        )
        answers = DynamicResources(Reader(None, "test")).open(View(snapshot, Ledger(snapshot), 0.0))
        shape = snapshot.shape_of(len(tasks) - 1)
        assert answers.fits(shape, np.arange(1)).tolist() == fits
