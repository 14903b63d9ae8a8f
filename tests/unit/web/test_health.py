"""What does not do its work in the cluster, told from outside."""

from muster.api.bindrequest import BindRequest
from muster.api.codec import decode
from muster.web.health import ailments

_NOW_S = 1000.0


def _request(made: str, status: str = "{}", more: str = "") -> BindRequest:
    metadata = f'"name": "one", "namespace": "team", "creationTimestamp": "{made}"{more}'
    text = (
        f'{{"metadata": {{{metadata}}},'
        f' "spec": {{"podName": "one", "backoffLimit": 3}}, "status": {status}}}'
    )
    return decode(BindRequest, text.encode())


_LATE, _FRESH = "1970-01-01T00:10:00Z", "1970-01-01T00:16:00Z"


def test_a_pod_that_has_a_node_and_is_bound_by_nobody_is_the_binders_trouble() -> None:
    (found,) = ailments({}, [_request(_FRESH), _request(_LATE)], _NOW_S)
    assert (found.part, found.since) == ("binder", 600.0)
    assert found.message == (
        "1 pod has a node and nobody binds it, team/one first. The binder may be down."
    )


def test_a_request_that_is_fresh_or_over_or_was_looked_at_is_no_trouble_of_the_binder() -> None:
    well = [
        _request(_FRESH),
        _request(_LATE, '{"phase": "Succeeded"}'),
        _request(_LATE, '{"phase": "Failed", "failedAttempts": 1}'),
        _request(_LATE, more=', "deletionTimestamp": "1970-01-01T00:15:00Z"'),
    ]
    assert ailments({}, well, _NOW_S) == ()


def test_kinds_of_which_there_is_no_news_are_named_the_longest_first() -> None:
    unheard = {"pods": 30.0, "nodes": 90.0, "queues": 30.0, "podgroups": 30.0}
    (found,) = ailments(unheard, [], _NOW_S)
    assert (found.part, found.since) == ("watch", 910.0)
    assert "no news of nodes, podgroups, pods and 1 more" in found.message
