"""Who holds a lease."""

import os
import socket

import pytest

from muster.cli.serving import own_identity


def test_two_processes_with_the_same_hostname_and_process_id_are_told_apart(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(socket, "gethostname", lambda: "node-1")
    monkeypatch.setattr(os, "getpid", lambda: 1)
    first, second = own_identity(), own_identity()
    assert first != second
    assert first.startswith("node-1_")
    assert second.startswith("node-1_")
