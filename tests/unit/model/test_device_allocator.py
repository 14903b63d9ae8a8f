"""Devices for claims: what may serve what, and what is given out."""

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.api.bounds import SELECTING_MAX, SELECTING_OF_ALL_MAX
from muster.api.codec import decode
from muster.api.devices import DeviceClaim, DeviceClass, ResourceSlice
from muster.model.claim_book import ClaimBook
from muster.model.claim_needs import ClaimNeed, DeviceNeed, NoSuchClass, SameAttribute, claim_need
from muster.model.device_pool import DevicePool
from muster.model.node_index import NodeIndex
from muster.model.presence import Turn
from muster.model.records import NodeRecord

DRIVER = "gpu.example.com"


def slice_of(node: str, devices: list[dict[str, Any]], **spec: Any) -> ResourceSlice:
    pool = {"name": node, "generation": 1, "resourceSliceCount": 1}
    where = {} if {"allNodes", "nodeSelector"} & spec.keys() else {"nodeName": node}
    body = {"driver": DRIVER, "pool": pool, "devices": devices, **where, **spec}
    return decode(ResourceSlice, json.dumps({"metadata": {"name": node}, "spec": body}))


def gpu(name: str, model: str = "h100", **more: Any) -> dict[str, Any]:
    attributes = {"model": {"string": model}, "uuid": {"string": name}}
    capacity = {"memory": {"value": "80Gi" if model == "h100" else "40Gi"}}
    return {"name": name, "attributes": {**attributes, **more.pop("attributes", {})},
            "capacity": capacity, **more}  # fmt: skip


CLASSES = {
    "gpu": decode(
        DeviceClass,
        json.dumps(
            {"metadata": {"name": "gpu"},
             "spec": {"selectors": [{"cel": {"expression": f'device.driver == "{DRIVER}"'}}]}}
        ),
    )
}  # fmt: skip


def need(*requests: dict[str, Any], constraints: Any = ()) -> ClaimNeed:
    named = [{"name": f"r{i}", **request} for i, request in enumerate(requests)]
    claim = decode(DeviceClaim, json.dumps({"requests": named, "constraints": list(constraints)}))
    return claim_need(claim, CLASSES)


def exactly(**more: Any) -> dict[str, Any]:
    return {"exactly": {"deviceClassName": "gpu", **more}}


def selecting(expression: str) -> dict[str, Any]:
    return {"selectors": [{"cel": {"expression": expression}}]}


def book(*slices: ResourceSlice, nodes: int = 2) -> ClaimBook:
    records = [NodeRecord(f"n{i}", labels={"zone": str(i % 2)}) for i in range(nodes)]
    index = NodeIndex(records)
    rows = {record.name: i for i, record in enumerate(records)}
    return ClaimBook(DevicePool(slices, rows, index), index)


def given_to(found: ClaimBook, key: str = "c") -> list[tuple[str, str]]:
    ids = found.pool.ids
    return [(part.request, ids[part.device].device) for part in found.allocation(key)]


def servable(found: ClaimBook, *needs: ClaimNeed) -> list[bool]:
    return [bool(node) for node in found.servable(needs, np.arange(2))]


H = 'device.attributes["gpu.example.com"].model == "h100"'
BIG = 'device.capacity["gpu.example.com"].memory.compareTo(quantity("60Gi")) >= 0'


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        (need(exactly()), [True, True]),
        (need(exactly(count=2)), [True, True]),
        (need(exactly(count=3)), [False, False]),
        (need(exactly(count=2, **selecting(H))), [True, False]),
        (need(exactly(count=2, **selecting(BIG))), [True, False]),
        (
            need(
                exactly(**selecting("device.nothing ==")),
            ),
            [False, False],
        ),
        (need(exactly(**selecting('device.attributes["x"].y == 1'))), [False, False]),
        (need(exactly(**selecting(H)), exactly()), [True, True]),
        (need(exactly(**selecting(H)), exactly(**selecting(H))), [True, False]),
        (need(exactly(allocationMode="All")), [True, True]),
        (need(exactly(count=2, capacity={"requests": {"memory": "60Gi"}})), [True, False]),
        (need(exactly(capacity={"requests": {"memory": "1Ti"}})), [False, False]),
        (need(exactly(capacity={"requests": {"cores": "1"}})), [False, False]),
    ],
)
def test_a_node_serves_a_claim_with_devices_that_its_requests_accept(
    wanted: ClaimNeed, expected: list[bool]
) -> None:
    world = book(slice_of("n0", [gpu("0"), gpu("1")]), slice_of("n1", [gpu("0", "a100"), gpu("1")]))
    assert servable(world, wanted) == expected


@pytest.mark.parametrize("count", [1500, 2**63 - 1])
def test_more_devices_than_the_search_depth_are_not_servable(count: int) -> None:
    world = book(slice_of("n0", [gpu(str(number)) for number in range(2000)]))
    assert servable(world, need(exactly(count=count))) == [False, False]
    world.join("pod", 0, {"c": need(exactly(count=count))})
    assert given_to(world) == []


def test_an_earlier_device_choice_is_revised_for_a_later_request() -> None:
    world = book(slice_of("n0", [gpu("0"), gpu("1", "a100")]))
    both = need(exactly(), exactly(**selecting(H)))
    assert servable(world, both) == [True, False]
    world.join("pod", 0, {"c": both})
    assert given_to(world) == [("r0", "1"), ("r1", "0")]


def test_the_first_available_alternative_that_fits_is_allocated() -> None:
    world = book(slice_of("n0", [gpu("0"), gpu("1", "a100"), gpu("2", "a100")]))
    choice = {"firstAvailable": [
        {"name": "best", "deviceClassName": "gpu", "count": 2, **selecting(H)},
        {"name": "good", "deviceClassName": "gpu", "count": 2},
        {"name": "odd", "deviceClassName": "unknown"},
    ]}  # fmt: skip
    world.join("pod", 0, {"c": need(choice)})
    assert given_to(world) == [("r0/good", "0"), ("r0/good", "1")]


def test_match_attribute_restricts_devices_to_one_value() -> None:
    numa = [gpu(str(i), attributes={"numa": {"int": i % 2}}) for i in range(4)]
    world = book(slice_of("n0", numa))
    same = [{"matchAttribute": f"{DRIVER}/numa", "requests": ["r0"]}]
    assert servable(world, need(exactly(count=3), constraints=same)) == [False, False]
    world.join("pod", 0, {"c": need(exactly(count=2), constraints=same)})
    assert [device for _, device in given_to(world)] == ["0", "2"]
    assert SameAttribute("a", ("r0",)).concerns("r0/alternative")


def test_tainted_devices_are_only_for_requests_that_tolerate_them() -> None:
    world = book(slice_of("n0", [gpu("0", taints=[{"key": "broken", "effect": "NoSchedule"}])]))
    tolerant = exactly(tolerations=[{"key": "broken", "operator": "Exists"}])
    assert servable(world, need(exactly())) == [False, False]
    assert servable(world, need(tolerant)) == [True, False]


def test_admin_access_gets_allocated_devices_and_allocates_none() -> None:
    world = book(slice_of("n0", [gpu("0")]))
    world.join("pod", 0, {"c": need(exactly())})
    assert servable(world, need(exactly())) == [False, False]
    watching = need(exactly(adminAccess=True))
    assert servable(world, watching) == [True, False]
    world.join("admin", 0, {"w": watching})
    world.leave("pod", ["c"])
    assert servable(world, need(exactly())) == [True, False]


def test_partitions_of_one_device_share_its_counters() -> None:
    def part(name: str, amount: int) -> dict[str, Any]:
        counters = {"memory": {"value": str(amount)}}
        return gpu(name, consumesCounters=[{"counterSet": "gpu-0", "counters": counters}])

    sets = [{"name": "gpu-0", "counters": {"memory": {"value": "4"}}}]
    world = book(
        slice_of("n0", [part("whole", 4), part("a", 2), part("b", 2)], sharedCounters=sets)
    )
    world.join("pod", 0, {"c": need(exactly(**selecting(
        'device.attributes["gpu.example.com"].uuid == "a"')))})  # fmt: skip
    assert servable(world, need(exactly())) == [True, False]
    assert servable(world, need(exactly(count=2))) == [False, False]
    world.leave("pod", ["c"])
    assert servable(world, need(exactly(count=2))) == [True, False]


def test_devices_of_all_nodes_are_allocated_once() -> None:
    world = book(slice_of("fabric", [gpu("0")], allNodes=True))
    assert servable(world, need(exactly())) == [True, True]
    world.join("pod", 1, {"c": need(exactly())})
    assert servable(world, need(exactly())) == [False, False]
    usable = world.usable("c")
    assert usable is not None
    assert usable.tolist() == [True, True]


def test_an_incomplete_or_outdated_pool_is_not_used() -> None:
    half = slice_of("n0", [gpu("0")], pool={"name": "p", "generation": 1, "resourceSliceCount": 2})
    old = slice_of("n1", [gpu("0"), gpu("1")], pool={"name": "q", "generation": 1})
    new = slice_of("n1", [gpu("0")], pool={"name": "q", "generation": 2})
    world = book(half, old, new)
    assert servable(world, need(exactly())) == [False, True]
    assert servable(world, need(exactly(count=2))) == [False, False]


def test_an_unknown_device_class_is_an_error_that_names_it() -> None:
    with pytest.raises(NoSuchClass, match="unknown"):
        need({"exactly": {"deviceClassName": "unknown"}})


def test_a_claim_shared_by_pods_stays_allocated_until_the_last_has_left() -> None:
    world = book(slice_of("n0", [gpu("0")]))
    for pod in ("a", "b"):
        world.join(pod, 0, {"c": need(exactly())})
    world.leave("a", ["c"])
    assert servable(world, need(exactly())) == [False, False]
    world.leave("b", ["c"])
    assert servable(world, need(exactly())) == [True, False]


def test_a_pod_whose_eviction_is_taken_back_has_its_former_devices() -> None:
    """Even if it was to have others meanwhile."""
    world = book(slice_of("n0", [gpu("0"), gpu("1")]))
    world.join("first", 0, {"x": need(exactly())})
    wanted = {"c": need(exactly())}
    world.join("pod", 0, wanted)
    world.leave("first", ["x"])
    world.post(Turn.EVICTED, "pod", 0, wanted)
    world.post(Turn.COMES, "pod", 0, wanted)
    assert given_to(world) == [("r0", "0")]
    world.post(Turn.WITHDRAWN, "pod", 0, wanted)
    world.post(Turn.NOT_EVICTED, "pod", 0, wanted)
    assert given_to(world) == [("r0", "1")]


def test_a_pod_does_not_return_to_devices_that_another_has_by_now() -> None:
    world = book(slice_of("n0", [gpu("0"), gpu("1")]))
    wanted = {"c": need(exactly())}
    world.join("pod", 0, wanted)
    world.post(Turn.EVICTED, "pod", 0, wanted)
    assert world.can_return(wanted)
    world.join("other", 0, {"x": need(exactly())})
    assert not world.can_return(wanted)
    world.leave("other", ["x"])
    world.post(Turn.RESTORED, "pod", 0, wanted)
    assert world.can_return(wanted)
    assert given_to(world) == [("r0", "0")]


masks = st.lists(st.tuples(st.sets(st.integers(0, 3)), st.integers(1, 2)), min_size=1, max_size=3)


@given(masks, st.sets(st.integers(0, 3)))
def test_several_requests_are_served_exactly_when_some_division_of_devices_serves_them(
    requests: list[tuple[set[int], int]], held: set[int]
) -> None:
    """Against all divisions: each request names the devices that it accepts."""
    world = book(slice_of("n0", [gpu(str(i)) for i in range(4)]))

    def among(devices: set[int]) -> str:
        names = ", ".join(f'"{d}"' for d in sorted(devices))
        return f'device.attributes["gpu.example.com"].uuid in [{names}]'

    for device in held:
        one = ClaimNeed(((DeviceNeed("r", "gpu", (among({device}),)),),))
        world.join(f"holder{device}", 0, {f"held{device}": one})
    wanted = ClaimNeed(
        tuple((DeviceNeed(f"r{i}", "gpu", (among(d),), n),) for i, (d, n) in enumerate(requests))
    )

    def divides(left: list[tuple[set[int], int]], free: set[int]) -> bool:
        if not left:
            return True
        accepted, count = left[0]
        if count == 0:
            return divides(left[1:], free)
        return any(
            divides([(accepted, count - 1), *left[1:]], free - {device})
            for device in accepted & free
        )

    possible = divides(requests, set(range(4)) - held)
    assert servable(world, wanted) == [possible, False]
    world.join("pod", 0, {"c": wanted})
    assert bool(world.allocation("c")) == possible


DOUBLING = "cel.bind(b0, 'abcdefgh', {}size(b26) > 0{})".format(
    "".join(f"cel.bind(b{at}, b{at - 1} + b{at - 1}, " for at in range(1, 27)), ")" * 26
)


def test_a_selector_that_could_cost_too_much_selects_nothing_and_says_why() -> None:
    found = book(slice_of("n0", [gpu("a")]), slice_of("n1", [gpu("b")]))
    costly, plain = need(exactly(**selecting(DOUBLING))), need(exactly(**selecting(H)))
    assert servable(found, costly) == [False, False]
    said = found.pool.problem(costly)
    assert said.startswith('request r0 (or device class gpu): selector "cel.bind(b0')
    assert "at most 1000000 are allowed" in said
    assert len(said) < 700
    assert servable(found, plain) == [True, True]
    assert found.pool.problem(plain) == ""


def test_a_selector_is_bounded_over_all_devices_that_it_tells_apart() -> None:
    devices = [gpu(f"d{at}", attributes={"index": {"int": at}}) for at in range(40)]
    slow = "cel.bind(m, device.attributes['gpu.example.com'].index, {})".format(
        "[1,2,3,4,5,6,7,8,9,10].all(a, [1,2,3,4,5,6,7,8,9,10].all(b, "
        "[1,2,3,4,5,6,7,8,9,10].all(c, [1,2,3,4,5,6,7,8,9,10].all(d, a + b + c + d + m > 0))))"
    )
    few, many = book(slice_of("n0", devices[:2])), book(slice_of("n0", devices))
    asked = need(exactly(**selecting(slow)))
    assert few.pool.problem(asked) == ""
    assert "of which there are 40 kinds" in many.pool.problem(asked)


def test_an_alternative_that_costs_too_much_leaves_the_others() -> None:
    found = book(slice_of("n0", [gpu("a")]))
    first = {"name": "x", "deviceClassName": "gpu", **selecting(DOUBLING)}
    second = {"name": "y", "deviceClassName": "gpu", **selecting(H)}
    asked = need({"firstAvailable": [first, second]})
    assert found.pool.problem(asked) == ""
    assert servable(found, asked) == [True, False]


def test_what_is_remembered_of_selectors_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("muster.model.device_pool.SELECTIONS_KEPT_MAX", 10)
    pool = book(slice_of("n0", [gpu("a")])).pool
    for at in range(50):
        pool.accepted(DeviceNeed("r", "gpu", (f"{at} == {at}",)))
        assert len(pool._masks) <= 10
        assert len(pool._selections) <= 10


def _many(selectors: int, start: int = 0) -> ClaimNeed:
    """A claim with so many selectors that nobody else has; each sees every device."""
    texts = [f'device.attributes["{DRIVER}"].index >= {-at}' for at in range(start, selectors)]
    return need(exactly(selectors=[{"cel": {"expression": text}} for text in texts]))


def test_selectors_of_one_namespace_are_evaluated_for_half_a_second_of_a_cycle() -> None:
    devices = [gpu(f"d{at}", attributes={"index": {"int": at}}) for at in range(300)]
    pool = book(slice_of("n0", devices)).pool
    many, few = _many(1000), need(exactly(**selecting(H)))
    pool.begin()
    assert pool.postpones(many, "greedy")
    assert pool.has_postponed
    assert not pool.postpones(few, "other")
    assert SELECTING_MAX <= pool._spent["greedy"] < SELECTING_MAX * 1.2
    first = len(pool._selections)
    pool.begin()
    assert not pool.postpones(few, "greedy")
    assert pool.postpones(many, "greedy")
    assert len(pool._selections) > first + 5, "it gets further in each cycle"


def test_selectors_of_all_namespaces_are_evaluated_for_two_seconds_of_a_cycle() -> None:
    devices = [gpu(f"d{at}", attributes={"index": {"int": at}}) for at in range(300)]
    pool = book(slice_of("n0", devices)).pool
    for number in range(12):
        pool.postpones(_many(40 * number + 40, start=40 * number), f"team-{number}")
    assert SELECTING_OF_ALL_MAX <= pool._spent.total() < SELECTING_OF_ALL_MAX * 1.1


def test_selectors_that_are_asked_for_again_are_forgotten_last(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("muster.model.device_pool.SELECTIONS_KEPT_MAX", 10)
    pool = book(slice_of("n0", [gpu("a")])).pool
    usual = need(exactly(**selecting(H)))
    for at in range(50):
        assert not pool.postpones(usual, "team")
        pool.postpones(need(exactly(**selecting(f"{at} == {at}"))), "other")
        assert H in pool._selections
