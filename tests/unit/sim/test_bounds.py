"""Absurd manifests are refused by the embedded server, or cost its controllers nothing."""

import json
from typing import Any

import pytest

from muster.api.bounds import JOB_INDEXES_MAX, PODS_PER_WORKLOAD_MAX
from muster.base.log import Level, Log, MemorySink
from muster.client.transport import Request
from muster.sim.apiserver.embedded import Embedded, EmbeddedDependencies, EmbeddedSettings
from muster.sim.apiserver.patch import json_patch
from muster.sim.apiserver.quantities import BadQuantity, amount, canonical
from muster.sim.apiserver.refusal import ApiRefusal
from muster.sim.apiserver.structural.formats import is_formatted
from muster.sim.kubelet.stages import seconds
from muster.sim.workloads import jobs, replicasets, statefulsets

pytestmark = pytest.mark.timeout(30)
_TOKEN = "admin"
_MAPS = "/api/v1/namespaces/default/configmaps"
_MOST = 2**31 - 1


def _workload(**spec: Any) -> dict[str, Any]:
    template = {"metadata": {}, "spec": {"containers": [{"name": "c"}]}}
    meta = {"name": "w", "namespace": "d", "uid": "u"}
    return {"metadata": meta, "spec": {"template": template} | spec}


def test_controllers_create_no_more_pods_than_the_limit_per_workload() -> None:
    """Such an object came in before there was a bound, or from another server's data."""
    made, _ = jobs.decide(_workload(parallelism=_MOST), (), 0.0)
    assert len(made) <= PODS_PER_WORKLOAD_MAX + 1
    indexed = _workload(parallelism=2, completions=_MOST, completionMode="Indexed")
    made, _ = jobs.decide(indexed, (), 0.0)
    assert len(made) == 3
    made, _ = replicasets.decide(_workload(replicas=_MOST), (), 0.0)
    assert len(made) <= PODS_PER_WORKLOAD_MAX + 1
    wide = _workload(replicas=_MOST, podManagementPolicy="Parallel")
    made, _ = statefulsets.decide(wide, (), {}, 0.0)
    assert len(made) <= PODS_PER_WORKLOAD_MAX + 1


def test_completed_indexes_are_read_up_to_a_limit() -> None:
    assert jobs.indexes_from("0-2,5") == {0, 1, 2, 5}
    assert len(jobs.indexes_from(f"0-{10**17},3-{10**17}")) == JOB_INDEXES_MAX
    assert jobs.indexes_from(f"x,{'9' * 5000},1-x,7") == {7}


def test_a_json_patch_of_repeated_copies_is_refused() -> None:
    double = [{"op": "copy", "from": "/a", "path": "/a/-"}]
    assert json_patch({"a": [1]}, double) == {"a": [1, [1]]}
    with pytest.raises(ApiRefusal) as refused:
        json_patch({"a": ["x" * 100]}, double * 60)
    assert refused.value.code == 422


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("1e999999999", 2**63 - 1),
        ("-1e999999", -(2**63) + 1),
        ("1e" + "9" * 500, 2**63 - 1),
        ("9" * 1000, 2**63 - 1),
    ],
)
def test_an_amount_beyond_int64_is_clamped(text: str, kept: int) -> None:
    assert amount(text) == kept
    assert len(canonical(text)) < 30


def test_an_amount_of_a_million_digits_is_refused() -> None:
    with pytest.raises(BadQuantity):
        amount("9" * 1_000_000)


def test_a_huge_run_time_is_clamped_to_thirty_years() -> None:
    assert seconds("9" * 400 + "d") == 1e9
    assert seconds("90s") == 90.0


@pytest.mark.parametrize(
    ("name", "text"), [("hostname", "a" * 60 + "!"), ("duration", "1" * 500_000)]
)
def test_a_text_that_provokes_backtracking_does_not_match_its_format(name: str, text: str) -> None:
    assert not is_formatted(name, text)
    assert is_formatted("hostname", "a-b.c1.example.")
    assert not is_formatted("hostname", "a..b")


def _laughs() -> bytes:
    lines = ["metadata: {name: laughs}", "a0: &a0 [lol]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 10)]
    return "\n".join(lines).encode()


@pytest.mark.parametrize(
    ("media", "body", "words"),
    [
        ("application/yaml", _laughs(), "with its aliases written out it has more than 1000000"),
        ("application/yaml", b"[" * 100_000, "it is nested more than 100 levels deep"),
        ("application/yaml", b"a: &a {b: *a}", "alias *a stands inside of what it names"),
        ("application/json", b"[" * 100_000, "maximum recursion depth exceeded"),
        ("application/json", b'{"data":' * 400 + b"1" + b"}" * 400, ""),
    ],
)
async def test_a_body_with_an_alias_bomb_or_deep_nesting_is_refused(
    media: str, body: bytes, words: str
) -> None:
    world = EmbeddedDependencies(log=Log("test", MemorySink(), Level.ERROR))
    async with Embedded(EmbeddedSettings(admin_token=_TOKEN), world) as cluster:
        transport = cluster.transport(_TOKEN)

        async def sent(kind: str, content: bytes) -> tuple[int, Any]:
            answer = await transport.send(
                Request("POST", _MAPS, (), {"content-type": kind}, content)
            )
            return answer.status, json.loads(await answer.read())

        status, answer = await sent(media, body)
        assert (status, words in answer["message"]) == (400, True), answer
        fine = {"metadata": {"name": "fine"}}
        assert (await sent("application/json", json.dumps(fine).encode()))[0] == 201
