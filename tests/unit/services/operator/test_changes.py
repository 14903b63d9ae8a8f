"""What is written to bring an object to what is wanted, and that nothing is when it is so."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.services.operator.changes import change, whole_body
from muster.services.operator.objects import (
    CONFIG_MAP,
    DEPLOYMENT,
    SERVICE,
    VALIDATING,
    Wanted,
    wanted,
)
from muster.sim.apiserver.patch import merge_patch

Json = dict[str, Any]
OWNER: Json = {"kind": "Config", "name": "kai-config", "uid": "u1", "controller": True}


def stored(want: Wanted) -> Json:
    """As the server keeps it after we made it."""
    made: Json = json.loads(json.dumps(whole_body(want, OWNER)))
    return made


def patched(live: Json, patch: Json) -> Json:
    result: Json = merge_patch(json.loads(json.dumps(live)), patch)
    return result


_leaves = st.one_of(st.integers(0, 3), st.sampled_from(["", "a", "b"]), st.booleans())
_values = st.recursive(
    _leaves,
    lambda below: st.one_of(
        st.lists(below, max_size=3), st.dictionaries(st.sampled_from("pqrs"), below, max_size=3)
    ),
    max_leaves=10,
)
_specs = st.dictionaries(st.sampled_from("tuvw"), _values, max_size=4)


@given(first=_specs, second=_specs)
def test_one_write_brings_any_object_to_what_is_wanted_and_then_none(
    first: Json, second: Json
) -> None:
    before = wanted(SERVICE, "x", "ns", spec=first)
    after = wanted(SERVICE, "x", "ns", spec=second)
    live = stored(before)
    assert change(before, OWNER, live) == {}
    changed = patched(live, change(after, OWNER, live))
    assert change(after, OWNER, changed) == {}
    assert changed["spec"] == second, "what is wanted no more is gone"


@given(first=_specs, second=_specs, third=_specs)
def test_what_others_added_stays(first: Json, second: Json, third: Json) -> None:
    live = whole_body(wanted(SERVICE, "x", "ns", spec=first), OWNER)
    live["spec"]["theirs"] = third
    after = wanted(SERVICE, "x", "ns", spec=second)
    changed = patched(live, change(after, OWNER, live))
    assert changed["spec"]["theirs"] == third


def test_fields_that_the_server_filled_in_are_no_difference() -> None:
    want = wanted(DEPLOYMENT, "x", "ns", spec={"template": {"containers": [{"name": "a"}]}})
    live = stored(want)
    live["spec"]["progressDeadlineSeconds"] = 600
    live["spec"]["template"]["containers"][0]["terminationMessagePath"] = "/dev/log"
    live["status"] = {"replicas": 1}
    assert change(want, OWNER, live) == {}


@pytest.mark.parametrize(("written", "stored"), [("1000m", "1"), ("1024Mi", "1Gi"), ("1", "1")])
def test_amounts_are_compared_as_amounts(written: str, stored: str) -> None:
    def body(amount: str) -> Json:
        return {"containers": [{"resources": {"limits": {"cpu": amount}}}]}

    live = whole_body(wanted(DEPLOYMENT, "x", "ns", spec=body(stored)), OWNER)
    assert change(wanted(DEPLOYMENT, "x", "ns", spec=body(written)), OWNER, live) == {}
    assert change(wanted(DEPLOYMENT, "x", "ns", spec=body("77")), OWNER, live) != {}


def test_a_drifted_field_is_the_only_one_that_is_written() -> None:
    want = wanted(DEPLOYMENT, "x", "ns", spec={"replicas": 1, "paused": False})
    live = stored(want)
    live["spec"]["replicas"] = 7
    assert change(want, OWNER, live) == {"spec": {"replicas": 1}}


def test_an_object_of_kais_operator_is_taken_over_whole() -> None:
    live: Json = {
        "metadata": {
            "name": "binder",
            "namespace": "ns",
            "annotations": {"theirs": "stays"},
            "ownerReferences": [{**OWNER, "blockOwnerDeletion": True}],
        },
        "spec": {
            "replicas": 1,
            "template": {"containers": [{"name": "a", "env": [{"name": "GOGC"}]}]},
        },
    }
    want = wanted(
        DEPLOYMENT,
        "binder",
        "ns",
        spec={"replicas": 1, "template": {"containers": [{"name": "a"}]}},
    )
    changed = patched(live, change(want, OWNER, live))
    assert changed["spec"]["template"] == {"containers": [{"name": "a"}]}
    assert changed["metadata"]["annotations"]["theirs"] == "stays"
    assert change(want, OWNER, changed) == {}


def test_a_service_of_kais_operator_keeps_its_address() -> None:
    live: Json = {
        "metadata": {"name": "x", "namespace": "ns"},
        "spec": {"clusterIP": "10.0.0.1", "ports": [{"port": 1}]},
    }
    want = wanted(SERVICE, "x", "ns", spec={"ports": [{"port": 2}]})
    changed = patched(live, change(want, OWNER, live))
    assert changed["spec"] == {"clusterIP": "10.0.0.1", "ports": [{"port": 2}]}


def test_selectors_that_a_platform_adds_to_webhooks_are_left_to_it() -> None:
    ours = [{"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": ["kube-system"]}]
    theirs = {"key": "control-plane", "operator": "DoesNotExist"}
    hooks = [{"name": "a", "namespaceSelector": {"matchExpressions": ours}}]
    want = wanted(VALIDATING, "x", webhooks=hooks)
    live = json.loads(json.dumps(whole_body(want, OWNER)))
    live["webhooks"][0]["namespaceSelector"]["matchExpressions"].append(theirs)
    assert change(want, OWNER, live) == {}


def test_the_list_of_our_fields_holds_no_values() -> None:
    body = whole_body(wanted(CONFIG_MAP, "x", "ns", data={"tls.key": "geheim"}), OWNER)
    (fields,) = body["metadata"]["annotations"].values()
    assert "tls.key" in fields
    assert "geheim" not in fields
