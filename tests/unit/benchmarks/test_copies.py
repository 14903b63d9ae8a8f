"""Copies of stored objects: every word replaced, in key and value, at its old length."""

import base64

import pytest
from benchmarks.copies import NotACopy, _batches, _copies

STORED = b"k8s\x00\n\x0apod-000000\x12\x05other pod-000000 on node-1"
KEY = b"/registry/pods/default/pod-000000"


def test_a_copy_differs_from_the_stored_object_in_the_given_replacements_alone() -> None:
    (put,) = _copies(KEY, STORED, [{"pod-000000": "pod-000007", "node-1": "node-2"}])
    found = put["requestPut"]
    assert base64.b64decode(found["key"]) == b"/registry/pods/default/pod-000007"
    expected = b"k8s\x00\n\x0apod-000007\x12\x05other pod-000007 on node-2"
    assert base64.b64decode(found["value"]) == expected


@pytest.mark.parametrize("words", [{"pod-000000": "pod-1"}, {"absent": "nobody"}], ids=str)
def test_a_copy_that_would_not_be_valid_is_refused(words: dict[str, str]) -> None:
    with pytest.raises(NotACopy):
        list(_copies(KEY, STORED, [words]))


def test_copies_are_written_in_batches_and_none_is_lost() -> None:
    changes = [{"pod-000000": f"pod-{number:06}"} for number in range(250)]
    batches = list(_batches(_copies(KEY, STORED, changes)))
    assert all(len(batch) <= 128 for batch in batches)
    keys = {put["requestPut"]["key"] for batch in batches for put in batch}
    assert len(keys) == 250
