import pytest

from muster.lab.faults import (
    ALL_WRITES,
    WATCHES,
    WRITE_FAULTS,
    WRITES,
    Drop,
    FaultRule,
    FaultScript,
    LoseAnswer,
    ObservedCall,
    Refuse,
    every_fault,
    observed_call,
)

CREATE = ObservedCall("create", "pods", "a", "")
LIST = ObservedCall("list", "pods")


@pytest.mark.parametrize(
    ("method", "path", "watch", "expected"),
    [
        ("GET", "/api/v1/pods", False, ObservedCall("list", "pods")),
        ("GET", "/api/v1/pods", True, ObservedCall("watch", "pods")),
        ("GET", "/api/v1/nodes/n1", False, ObservedCall("get", "nodes", "", "n1")),
        ("POST", "/api/v1/namespaces", False, ObservedCall("create", "namespaces")),
        ("GET", "/api/v1/namespaces/a", False, ObservedCall("get", "namespaces", "", "a")),
        (
            "PUT",
            "/api/v1/namespaces/a/status",
            False,
            ObservedCall("update", "namespaces/status", "", "a"),
        ),
        ("POST", "/api/v1/namespaces/a/pods", False, ObservedCall("create", "pods", "a")),
        (
            "POST",
            "/api/v1/namespaces/a/pods/p/binding",
            False,
            ObservedCall("create", "pods/binding", "a", "p"),
        ),
        (
            "PATCH",
            "/apis/scheduling.run.ai/v2/queues/q/status",
            False,
            ObservedCall("patch", "queues/status", "", "q"),
        ),
        (
            "DELETE",
            "/apis/scheduling.run.ai/v1alpha2/namespaces/a/bindrequests/p",
            False,
            ObservedCall("delete", "bindrequests", "a", "p"),
        ),
        (
            "DELETE",
            "/api/v1/namespaces/a/pods",
            False,
            ObservedCall("deletecollection", "pods", "a"),
        ),
        ("GET", "/readyz", False, ObservedCall("get", "/readyz")),
        ("GET", "/apis", False, ObservedCall("get", "/apis")),
    ],
)
def test_a_url_is_parsed_into_a_verb_on_a_resource(
    method: str, path: str, watch: bool, expected: ObservedCall
) -> None:
    assert observed_call(method, path, watch) == expected


def test_a_fault_applies_to_its_write_only_and_reads_do_not_count() -> None:
    script = FaultScript([FaultRule(2, Drop())])
    said = [script.fault_for(each) for each in (LIST, CREATE, LIST, CREATE, CREATE)]
    assert said == [None, None, None, Drop(), None]
    assert script.count(WRITES) == 3


def test_a_fault_may_apply_several_times_and_equal_rules_count_separately() -> None:
    script = FaultScript(
        [FaultRule(1, Drop(), times=2), FaultRule(3, LoseAnswer()), FaultRule(3, LoseAnswer())]
    )
    said = [script.fault_for(CREATE) for _ in range(4)]
    assert said == [Drop(), Drop(), LoseAnswer(), None]


def test_lease_renewals_are_writes_but_not_of_a_flow() -> None:
    renewal = ObservedCall("update", "leases", "a", "l")
    assert ALL_WRITES.fits(renewal)
    assert not WRITES.fits(renewal)
    assert WATCHES.fits(ObservedCall("watch", "pods"))


def test_an_unavailable_server_drops_everything_until_it_is_back() -> None:
    script = FaultScript([FaultRule(1, Refuse(409))], away=True)
    assert script.fault_for(LIST) == Drop()
    assert script.fault_for(CREATE) == Drop()
    script.away = False
    assert script.fault_for(LIST) is None


def test_every_fault_is_listed_once_at_every_write() -> None:
    listed = list(every_fault(3))
    assert len(listed) == len(set(listed)) == 3 * len(WRITE_FAULTS)
    assert {strike.at for strike in listed} == {1, 2, 3}
