"""What people read: the dominant cause, numbers that can be checked, and a next step that fits."""

import numpy as np
import pytest

from muster.model.public_reasons import public_reason
from muster.model.reasons import Evidence, NodeCount, Reason, Refusal, Room
from muster.model.topology import topology_tree
from muster.numerics.interned import InternedColumn


def _no_node(*counts: NodeCount, **more: object) -> Refusal:
    return Refusal(Reason.NO_NODE, nodes=counts, minimum=1, **more)  # type: ignore[arg-type]


def test_a_resource_that_no_node_has_is_not_said_to_be_there_0_times() -> None:
    numbers = Evidence("nvidia.com/mig-3g.40gb", 1, 0, "n1")
    told = public_reason(Refusal(Reason.TOO_LARGE, evidence=(numbers,)))
    assert told.sentence == "A pod asks for 1 nvidia.com/mig-3g.40gb, and no node has any."
    assert told.next_step.startswith("Ask for a resource that nodes have")


def test_what_a_tenant_wrote_is_spelt_out_wherever_a_reason_is_told() -> None:
    """Answers and histories are made of it, and end on terminals."""
    told = public_reason(Refusal(Reason.QUEUE_MISSING, "llm\x1b[2J\u202e"))
    assert "\\x1b[2J\\u202e" in told.sentence
    for text in (told.subject, told.sentence, told.next_step, told.as_json()["message"]):
        assert text.isprintable()


@pytest.mark.parametrize(
    ("asked", "meant"),
    [
        ("nvidia.com/gpus", "nvidia.com/gpu"),
        ("nvida.com/gpu", "nvidia.com/gpu"),
        ("amd.com/gpus", "amd.com/gpu"),
        ("intel.com/gpu", ""),
        ("abc.com/gpu", ""),
        ("nvidia.com/gpu.shared", ""),
    ],
)
def test_who_misspells_the_resource_of_gpus_is_told_which_there_is(asked: str, meant: str) -> None:
    told = public_reason(Refusal(Reason.TOO_LARGE, evidence=(Evidence(asked, 1, 0, "n1"),)))
    hint = f" Did you mean {meant}?" if meant else ""
    assert told.sentence == f"A pod asks for 1 {asked}, and no node has any.{hint}"


@pytest.mark.parametrize(
    ("reason", "step"),
    [
        (Reason.TOPOLOGY_MISSING, "Create the Topology, or correct the name."),
        (Reason.TOPOLOGY_LEVEL_MISSING, "Name one of its levels."),
        (Reason.TOPOLOGY_UNLABELLED, "Label the nodes, or name another level."),
    ],
)
def test_what_is_missing_of_a_topology_is_what_is_to_be_made(reason: Reason, step: str) -> None:
    assert public_reason(Refusal(reason, "racks")).next_step == step


def test_one_pod_that_is_held_back_is_one_pod() -> None:
    told = public_reason(Refusal(Reason.GATED, minimum=1, found=0, gated=1))
    assert told.sentence.startswith("It needs 1 pod to start; ")


def test_gpus_with_too_little_memory_are_told_by_the_memory() -> None:
    numbers = Evidence("MiB of GPU memory", 200_000, 81_559, "n1")
    counts = (NodeCount(Reason.GPU_TOO_SMALL, 64, alone=64), NodeCount(Reason.TAINT, 1))
    told = public_reason(_no_node(*counts, evidence=(numbers,), room=Room(0, 0, when_empty=-1)))
    assert told.sentence == (
        "A pod asks for 200000 MiB of GPU memory, and no GPU has more than 81559 MiB of GPU memory "
        "(n1)."
    )


def test_a_taint_on_the_only_nodes_of_the_kind_is_the_cause_not_the_kind_of_the_others() -> None:
    counts = (
        NodeCount(Reason.GPU_KIND, 66, alone=65),
        NodeCount(Reason.TAINT, 1, alone=1),
    )
    told = public_reason(_no_node(*counts))
    assert told.subject == "taint"
    assert told.sentence == (
        "None of 67 nodes can run it: 1 has a taint that it does not tolerate (and nothing else "
        "against it), 66 have the wrong kind of GPUs, or none."
    )


def test_of_several_nodes_it_is_said_how_many_only_one_thing_keeps_it_off() -> None:
    counts = (NodeCount(Reason.NODE_SELECTOR, 9, alone=3), NodeCount(Reason.TAINT, 1))
    assert "9 do not match its node selector or affinity (3 of these have nothing else" in (
        public_reason(_no_node(*counts)).sentence
    )


def test_a_job_above_its_quota_is_told_that_it_may_be_preemptible() -> None:
    numbers = Evidence("gpu", 1000, 0, "q", held=0, bound=0)
    told = public_reason(Refusal(Reason.OVER_QUOTA, "q", evidence=(numbers,)))
    assert told.code == "AboveLimit"
    assert told.sentence == (
        "The job needs 1 GPU, and it cannot be preempted: of such jobs queue q may never hold more "
        "than 0 GPUs (quota, where absent or 0 means none)."
    )
    assert told.next_step.startswith("Make it preemptible (kai.scheduler/preemptibility:")
    limited = public_reason(Refusal(Reason.OVER_LIMIT, "q", evidence=(numbers,)))
    assert limited.next_step.startswith("Ask for less")


def test_what_was_perhaps_meant_follows_a_name_that_does_not_exist() -> None:
    refusal = Refusal(Reason.DEVICE_CLASS_MISSING, "gpu.nvidia.co", names=("gpu.nvidia.com",))
    assert public_reason(refusal).sentence == (
        "Device class gpu.nvidia.co does not exist. Did you mean gpu.nvidia.com?"
    )


def test_a_claim_that_cannot_be_used_is_not_to_be_created_again() -> None:
    refusal = Refusal(Reason.VOLUME_CLAIM_UNUSABLE, "c", names=("it is not bound",))
    assert public_reason(refusal).next_step.startswith("Look at the events of the claim")


def test_a_topology_knows_the_level_that_no_node_carries() -> None:
    columns = [InternedColumn(["r1", "r2"]), InternedColumn[str]([None, None])]
    tree = topology_tree(["rack", "row"], columns)
    assert tree.unlabelled == ("row",)
    assert not np.flatnonzero(tree.depth == 1).size  # a node belongs only with all labels


def test_memory_of_a_queue_is_told_in_the_units_of_its_specification() -> None:
    numbers = Evidence("memory", 2**31, 0, "q", held=63_000 * 10**6, bound=64_000 * 10**6)
    assert public_reason(Refusal(Reason.OVER_LIMIT, "q", evidence=(numbers,))).sentence == (
        "Queue q would go over its limit: that is 64 GB of memory, it holds 63 GB of memory, and "
        "the job needs 2.147 GB of memory."
    )
