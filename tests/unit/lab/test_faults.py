import pytest

from muster.lab.faults import (
    ALL_WRITES,
    WATCHES,
    WRITE_FAULTS,
    WRITES,
    Asked,
    Drop,
    LoseAnswer,
    Refuse,
    Script,
    Strike,
    asked,
    every_strike,
)

CREATE = Asked("create", "pods", "a", "")
LIST = Asked("list", "pods")


@pytest.mark.parametrize(
    ("method", "path", "watch", "expected"),
    [
        ("GET", "/api/v1/pods", False, Asked("list", "pods")),
        ("GET", "/api/v1/pods", True, Asked("watch", "pods")),
        ("GET", "/api/v1/nodes/n1", False, Asked("get", "nodes", "", "n1")),
        ("POST", "/api/v1/namespaces", False, Asked("create", "namespaces")),
        ("GET", "/api/v1/namespaces/a", False, Asked("get", "namespaces", "", "a")),
        (
            "PUT",
            "/api/v1/namespaces/a/status",
            False,
            Asked("update", "namespaces/status", "", "a"),
        ),
        ("POST", "/api/v1/namespaces/a/pods", False, Asked("create", "pods", "a")),
        (
            "POST",
            "/api/v1/namespaces/a/pods/p/binding",
            False,
            Asked("create", "pods/binding", "a", "p"),
        ),
        (
            "PATCH",
            "/apis/scheduling.run.ai/v2/queues/q/status",
            False,
            Asked("patch", "queues/status", "", "q"),
        ),
        (
            "DELETE",
            "/apis/scheduling.run.ai/v1alpha2/namespaces/a/bindrequests/p",
            False,
            Asked("delete", "bindrequests", "a", "p"),
        ),
        ("DELETE", "/api/v1/namespaces/a/pods", False, Asked("deletecollection", "pods", "a")),
        ("GET", "/readyz", False, Asked("get", "/readyz")),
        ("GET", "/apis", False, Asked("get", "/apis")),
    ],
)
def test_a_url_asks_for_a_verb_on_a_resource(
    method: str, path: str, watch: bool, expected: Asked
) -> None:
    assert asked(method, path, watch) == expected


def test_only_the_chosen_write_is_struck_and_reads_do_not_count() -> None:
    script = Script([Strike(2, Drop())])
    said = [script.fault_for(each) for each in (LIST, CREATE, LIST, CREATE, CREATE)]
    assert said == [None, None, None, Drop(), None]
    assert script.count(WRITES) == 3


def test_a_strike_may_last_and_equal_strikes_count_apart() -> None:
    script = Script([Strike(1, Drop(), times=2), Strike(3, LoseAnswer()), Strike(3, LoseAnswer())])
    said = [script.fault_for(CREATE) for _ in range(4)]
    assert said == [Drop(), Drop(), LoseAnswer(), None]


def test_leases_and_events_are_writes_but_not_of_a_flow() -> None:
    renewal = Asked("update", "leases", "a", "l")
    assert ALL_WRITES.fits(renewal)
    assert not WRITES.fits(renewal)
    assert WATCHES.fits(Asked("watch", "pods"))


def test_a_server_that_is_away_drops_everything_until_it_is_back() -> None:
    script = Script([Strike(1, Refuse(409))], away=True)
    assert script.fault_for(LIST) == Drop()
    assert script.fault_for(CREATE) == Drop()
    script.away = False
    assert script.fault_for(LIST) is None


def test_every_fault_is_tried_at_every_write_once() -> None:
    listed = list(every_strike(3))
    assert len(listed) == len(set(listed)) == 3 * len(WRITE_FAULTS)
    assert {strike.at for strike in listed} == {1, 2, 3}
