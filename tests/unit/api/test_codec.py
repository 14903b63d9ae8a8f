"""Objects from JSON: null-tolerant, one bad object never hides the others."""

import pytest

from muster.api import kinds
from muster.api.codec import (
    Bookmark,
    Changed,
    Failure,
    Unread,
    Unreadable,
    builtins,
    decode,
    decode_event,
    decode_page,
    encode,
    from_builtins,
)
from muster.api.core import Node, Pod
from muster.api.devices import ResourceSlice
from muster.api.meta import Key, ObjectMeta
from muster.api.podgroup import PodGroup, PodGroupSpec
from muster.api.quantity import Quantity
from muster.api.queue import Queue, QueueResource, QueueResources, QueueSpec
from muster.api.storage import CSINode

_GROUP = '{"metadata":{"namespace":"n","name":"%s","resourceVersion":"7"},"spec":%s}'


def _page(*items: str) -> str:
    return (
        f'{{"metadata":{{"resourceVersion":"42","continue":"next"}},"items":[{",".join(items)}]}}'
    )


def test_a_page_has_its_objects_and_its_continue_token() -> None:
    page = decode_page(PodGroup, _page(_GROUP % ("a", "{}"), _GROUP % ("b", '{"queue":"q"}')))
    assert [group.key for group in page.objects] == [Key("n", "a"), Key("n", "b")]
    assert (page.resource_version, page.continue_token, page.rejects) == ("42", "next", [])


@pytest.mark.row(86)
def test_an_object_that_cannot_be_decoded_is_rejected_by_name_and_the_others_are_read() -> None:
    page = decode_page(
        PodGroup,
        _page(
            _GROUP % ("good", "{}"),
            _GROUP % ("bad", '{"preemptionDelay":"banana"}'),
            _GROUP % ("also-good", '{"preemptionDelay":"1d"}'),
        ),
    )
    assert [group.metadata.name for group in page.objects] == ["good", "also-good"]
    (reject,) = page.rejects
    assert (reject.key, reject.path) == (Key("n", "bad"), "$.spec.preemptionDelay")
    assert reject.resource_version == "7"
    assert "not a duration: 'banana'" in reject.reason


def test_a_reject_has_its_key_even_when_its_metadata_is_malformed() -> None:
    odd = '{"metadata":{"namespace":"n","name":"odd","labels":{"a":1}},"spec":{}}'
    assert decode_page(PodGroup, _page(odd)).rejects[0].key == Key("n", "odd")
    assert decode_page(PodGroup, _page("17")).rejects[0].key == Key("", "")


def test_a_response_that_is_no_list_is_refused() -> None:
    with pytest.raises(Unreadable, match="not JSON"):
        decode_page(PodGroup, "{")
    with pytest.raises(Unreadable, match=r"\$.items"):
        decode_page(PodGroup, '{"items":5}')


def test_nulls_of_go_servers_read_as_absent() -> None:
    node = decode(CSINode, '{"metadata":{"name":"n","labels":null},"spec":{"drivers":null}}')
    assert (node.metadata.labels, node.spec.drivers) == ({}, ())
    pod = decode(Pod, '{"metadata":null,"spec":{"containers":null},"status":{}}')
    assert pod == Pod()


def test_a_null_inside_a_list_is_unreadable() -> None:
    with pytest.raises(Unreadable, match=r"\$.metadata.finalizers\[0\]"):
        decode(Pod, '{"metadata":{"finalizers":[null]}}')


def test_unknown_fields_are_ignored() -> None:
    assert decode(Node, '{"spec":{"futureField":{"x":1}}}') == Node()


def test_watch_lines_become_events() -> None:
    added = decode_event(PodGroup, '{"type":"ADDED","object":%s}' % (_GROUP % ("a", "{}")))
    assert isinstance(added, Changed)
    assert (added.type, added.object.key) == ("ADDED", Key("n", "a"))
    unread = decode_event(
        PodGroup, '{"type":"ADDED","object":%s}' % (_GROUP % ("b", '{"queue":1}'))
    )
    assert isinstance(unread, Unread)
    assert (unread.reject.key, unread.reject.path) == (Key("n", "b"), "$.spec.queue")


def test_a_bookmark_with_null_fields_is_decoded() -> None:
    line = (
        '{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"9","creationTimestamp":null,'
        '"annotations":{"k8s.io/initial-events-end":"true"}},"spec":{"containers":null}}}'
    )
    assert decode_event(Pod, line) == Bookmark("9", initial_events_end=True)


def test_a_watch_error_carries_its_status() -> None:
    line = '{"type":"ERROR","object":{"status":"Failure","code":410,"reason":"Expired"}}'
    failure = decode_event(Pod, line)
    assert isinstance(failure, Failure)
    assert (failure.status.code, failure.status.reason) == (410, "Expired")


def test_a_line_that_is_no_event_is_refused() -> None:
    with pytest.raises(Unreadable):
        decode_event(Pod, '{"kind":"Status"}')


def test_absent_and_zero_of_min_member_differ_on_the_wire() -> None:
    absent = PodGroup(metadata=ObjectMeta(name="a"), spec=PodGroupSpec(queue="q"))
    zero = PodGroup(metadata=ObjectMeta(name="a"), spec=PodGroupSpec(queue="q", min_member=0))
    assert b"minMember" not in encode(kinds.POD_GROUP, absent)
    assert b'"minMember":0' in encode(kinds.POD_GROUP, zero)


def test_the_three_numbers_of_a_queue_resource_are_always_written() -> None:
    queue = Queue(
        metadata=ObjectMeta(name="q"),
        spec=QueueSpec(resources=QueueResources(gpu=QueueResource(quota=2, limit=-1))),
    )
    assert builtins(queue)["spec"]["resources"]["gpu"] == {
        "quota": 2,
        "overQuotaWeight": 0,
        "limit": -1,
    }


def test_encoded_objects_have_api_version_and_kind_and_round_trip() -> None:
    text = '{"metadata":{"name":"n"},"status":{"allocatable":{"cpu":"2","memory":"64Gi"}}}'
    node = decode(Node, text)
    assert node.status.allocatable["memory"] == Quantity("64Gi")
    plain = from_builtins(dict, decode(dict, encode(kinds.NODE, node)))
    assert (plain["apiVersion"], plain["kind"]) == ("v1", "Node")
    assert from_builtins(Node, plain) == node


def test_a_decoder_can_be_made_for_every_kind() -> None:
    everything = [each for each in vars(kinds).values() if isinstance(each, kinds.Kind)]
    assert len(everything) > 20
    for kind in everything:
        page = decode_page(kind.struct, '{"items":[]}')
        assert page.objects == []


def test_device_attributes_are_decoded_by_their_type() -> None:
    values = {"n": {"int": 3}, "y": {"bool": True}, "s": {"string": "x"}}
    device = {"name": "d", "attributes": values}
    read = from_builtins(ResourceSlice, {"spec": {"devices": [device]}})
    attributes = read.spec.devices[0].attributes
    assert (attributes["n"].int, attributes["y"].bool, attributes["s"].string) == (3, True, "x")


def test_a_time_without_a_zone_is_refused_because_it_cannot_be_compared() -> None:
    group = {"spec": {}, "status": {"conditions": [{"lastTransitionTime": "2026-01-02T03:04:05"}]}}
    with pytest.raises(Unreadable, match=r"timezone.*") as refused:
        from_builtins(PodGroup, group)
    assert refused.value.path == "$.status.conditions[0].lastTransitionTime"


def test_an_event_about_an_object_that_is_no_text_is_set_aside() -> None:
    line = b'{"type": "ADDED", "object": {"metadata": {"name": "\xed\xa0\x80", "labels": 1}}}'
    event = decode_event(Pod, line)
    assert isinstance(event, Unread)
    assert event.reject.key == Key("", "")
