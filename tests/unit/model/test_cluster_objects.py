"""ClusterObjects travel with records, and labels become visible when a selector begins to read
them.
"""

import pytest

from muster.api.devices import Device, DeviceAttribute, ResourceSlice, ResourceSliceSpec
from muster.api.quantity import Quantity
from muster.api.storage import CSIStorageCapacity
from muster.model.cluster_objects import ClusterObjects
from muster.model.constraint_terms import AffinityTerm, PodAffinity
from muster.model.constraints import Constraints
from muster.model.records import ClusterRecords, TaskRecord, from_json, to_json
from muster.model.selectors import LabelSelector, equalities
from muster.model.tables import ClusterTables


@pytest.mark.row(4)
def test_cluster_objects_round_trip_through_json() -> None:
    model = DeviceAttribute(string="h100")
    device = Device(name="gpu-0", attributes={"model": model, "numa": DeviceAttribute(int=1)})
    objects = ClusterObjects(
        config_maps=frozenset({"team/settings"}),
        storage_capacities={"c": CSIStorageCapacity(capacity=Quantity("10Gi"))},
        device_slices={"s": ResourceSlice(spec=ResourceSliceSpec(devices=(device,)))},
    )
    records = ClusterRecords(cluster_objects=objects)
    assert from_json(to_json(records)) == records


def test_pods_become_separate_classes_when_a_selector_reads_a_label_in_which_they_differ() -> None:
    tables = ClusterTables()
    for name in ("a", "b"):
        tables.upsert_task(TaskRecord(name, name, namespace="team", labels={"app": name}))
    before = tables.snapshot()
    assert before.tasks.shape[0] == before.tasks.shape[1]
    others = AffinityTerm("host", LabelSelector(equalities({"app": "a"})))
    picky = Constraints(pod_affinity=PodAffinity(anti_required=(others,)))
    tables.upsert_task(TaskRecord("c", "c", constraints=picky))
    after = tables.snapshot()
    assert after.tasks.shape[0] != after.tasks.shape[1]
    assert after.shape_of(0).constraints.labels == (("app", "a"),)
    assert after.shape_of(0).constraints.namespace == "team"


def test_unused_equivalence_classes_are_dropped() -> None:
    tables = ClusterTables()
    for number in range(3000):
        own = Constraints(volume_claims=(f"data-{number}",), namespace="team")
        tables.upsert_task(TaskRecord(f"t{number}", f"t{number}", constraints=own))
    assert len(tables.snapshot().shapes) == 3000
    for number in range(2990):
        tables.remove_task(f"t{number}")
    after = tables.snapshot()
    assert len(after.shapes) == 10
    assert [shape.row for shape in after.shapes] == list(range(10))
    for row, record in enumerate(after.tasks.records):
        if after.tasks.live[row]:
            assert after.shape_of(row).constraints == record.constraints
    tables.upsert_task(TaskRecord("late", "late", constraints=after.shapes[3].constraints))
    assert len(tables.snapshot().shapes) == 10
