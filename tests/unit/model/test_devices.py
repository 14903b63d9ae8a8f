"""Names of shared GPUs."""

import re

from muster.model.devices import gpu_share_name


def test_a_shared_gpu_is_named_like_a_uuid_and_always_the_same() -> None:
    name = gpu_share_name("pod-1", "n1", 0)
    form = r"[0-9a-f]{8}-[0-9a-f]{4}-8[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}"
    assert re.fullmatch(form, name)
    assert name == gpu_share_name("pod-1", "n1", 0)
    assert len({name, gpu_share_name("pod-1", "n1", 1), gpu_share_name("pod-1", "n2", 0)}) == 3
