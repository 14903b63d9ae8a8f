"""What a running scheduler saw can be decided again from a file, by us and from KAI's archives."""

import io
import json
import zipfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.support.lab import BIND_REQUEST, NODE, POD, POD_GROUP, QUEUE, Lab, Setting, in_lab
from typer.testing import CliRunner

from muster.api.profiles import ProfileName
from muster.base.log import Log, MemorySink
from muster.cli.main import app
from muster.client.kinds import plain_kind
from muster.engine.config.conf import parse_conf
from muster.engine.cycle import run_cycle
from muster.engine.holds import Hold
from muster.engine.memory import Memory
from muster.engine.plan import Evict
from muster.model.records import ClusterRecords
from muster.model.tables import snapshot_of
from muster.services.scheduler.cycle_dump import CycleDump, decode_dump, encode_dump, plain_plan
from muster.services.scheduler.cycle_log import CycleLog
from muster.services.scheduler.options import Options
from muster.services.scheduler.wiring import active_policy
from muster.sim.kubelet.nodes import Gpus, NodeGroup
from muster.testing import make

ONE_NODE = Setting(nodes=(NodeGroup("gpu", count=1, gpus=Gpus(count=8)),))
CLASS = plain_kind("scheduling.k8s.io", "v1", "PriorityClass", "priorityclasses", namespaced=False)


@pytest.mark.row(141)
def test_a_cycle_dump_replays_to_the_same_plan() -> None:
    async def scenario(lab: Lab) -> None:
        await lab.job("gang", pods=2, gpus=4)
        await lab.until_running("gang", 2)
        await lab.job("waits", pods=1, gpus=8)
        await lab.clock.sleep(5.0)
        loop = lab.product.loop
        assert loop is not None
        assert loop.last is not None
        _, result, _ = loop.last
        asked = lab.cluster.supervisors["scheduler"].debug["snapshot"]()
        assert isinstance(asked, Iterator)
        dump = decode_dump(b"".join(asked))
        active = active_policy(parse_conf(dump.conf), Options())
        again = run_cycle(snapshot_of(dump.records), active.policy, active.actions, dump.now_s)
        assert again.plan == result.plan
        assert again.explanation.refusals == result.explanation.refusals

    in_lab(scenario, ONE_NODE)


def test_a_cycle_replays_with_the_room_that_was_held_then(tmp_path: Path) -> None:
    """Two jobs want one GPU; the older one was evicted for the younger, which therefore has it."""
    old = make.gang("victim", 1, queue="q", gpu=1, created_s=make.NOW_S - 1000)
    young = make.gang("actor", 1, queue="q", gpu=1, created_s=make.NOW_S - 10)
    records = make.cluster(make.node("n", gpu=1), make.queue("q", quota_gpu=1), old, young)
    evicted = Evict("victim-0", "default/victim", "n", "reclaim", "default/actor")
    memory = Memory(holds=(Hold("default/actor", ("n",), (evicted,), make.NOW_S),))
    active = active_policy(parse_conf(""), Options())
    policy, actions = active.policy, active.actions
    decided = run_cycle(snapshot_of(records), policy, actions, make.NOW_S, memory)
    dump = CycleDump(make.NOW_S, "", records, plan=plain_plan(decided.plan), holds=decided.held)
    file = tmp_path / "cycle.json"
    file.write_bytes(encode_dump(dump))
    told = CliRunner().invoke(app, ["replay", str(file)]).stdout
    assert "bind   default/actor-0 -> n" in told
    assert "the same plan as then" in told


def test_a_replay_calls_jobs_by_their_owners_and_is_asked_so(tmp_path: Path) -> None:
    group = "pg-train-0a1b2c3d-0000-4000-8000-00000000000f"
    waits = make.gang(group, 1, queue="q", gpu=4)
    records = make.cluster(make.node("n", gpu=1), make.queue("q", quota_gpu=1), waits)
    file = tmp_path / "cycle.json"
    file.write_bytes(encode_dump(CycleDump(make.NOW_S, "", records)))
    for words in ([], ["--job", "default/train"]):
        told = CliRunner().invoke(app, ["replay", str(file), *words]).stdout
        assert "waits  default/train: " in told


def test_every_cycle_with_decisions_is_logged_and_replays_to_the_same_plan(
    tmp_path: Path,
) -> None:
    """Also one that evicts, by options that are not the usual ones."""

    async def scenario(lab: Lab) -> None:
        await lab.queue("a", gpus=0)
        await lab.queue("b", gpus=8)
        for number in range(8):
            await lab.pod(f"greedy-{number}", gpus=1, queue="a")
        await lab.until_running("greedy", 8)
        await lab.job("owed", pods=2, gpus=2, queue="b")
        await lab.until_running("owed", 2)

    options = Options(
        max_consolidation_victims=3, allow_consolidating_reclaim=False, profile=ProfileName.KAI
    )
    in_lab(scenario, replace(ONE_NODE, options=options, cycle_log_folder=tmp_path))
    files = sorted(tmp_path.iterdir())
    told = [CliRunner().invoke(app, ["replay", str(file)]).stdout for file in files]
    assert len(told) >= 3
    assert all("the same plan as then" in text for text in told)
    assert any("evict  default/greedy" in text for text in told)
    assert {decode_dump(file.read_bytes()).options for file in files} == {options}
    other = tmp_path / "conf.yaml"
    other.write_text("actions: allocate\n")
    evicting = next(file for file, text in zip(files, told, strict=True) if "evict " in text)
    shown = CliRunner().invoke(app, ["replay", str(evicting), "--conf", str(other)]).stdout
    assert "another plan than then" in shown


def test_the_cycle_log_prunes_the_oldest_and_survives_a_full_disk(tmp_path: Path) -> None:
    sink = MemorySink()
    cycle_log = CycleLog(tmp_path / "kept", 3, Log("test", sink))
    for second in range(5):
        cycle_log.write(CycleDump(float(second), "", ClusterRecords()))
    assert [decode_dump(file.read_bytes()).now_s for file in cycle_log.files()] == [2.0, 3.0, 4.0]
    assert not sink.events
    (tmp_path / "file").write_text("in the way")
    CycleLog(tmp_path / "file", 3, Log("test", sink)).write(CycleDump(0.0, "", ClusterRecords()))
    assert sink.messages() == ["cycle not logged"]


def test_a_truncated_cycle_dump_is_refused_with_a_reason(tmp_path: Path) -> None:
    cycle_log = CycleLog(tmp_path, 1, Log("test"))
    cycle_log.write(CycleDump(0.0, "", ClusterRecords()))
    (file,) = cycle_log.files()
    file.write_bytes(file.read_bytes()[:-9])
    failed = CliRunner().invoke(app, ["replay", str(file)])
    assert failed.exit_code == 1
    assert "truncated" in failed.output


def test_a_kai_snapshot_archive_is_replayed(tmp_path: Path) -> None:
    archive = tmp_path / "snapshot.zip"

    async def scenario(lab: Lab) -> None:
        await lab.cluster.kill("scheduler")
        await lab.job("gang", pods=2, gpus=4)
        await lab.clock.sleep(2.0)
        await lab.job("waits", pods=1, gpus=8)
        await lab.clock.sleep(5.0)
        raw: dict[str, Any] = {
            "pods": await lab.all(POD),
            "nodes": await lab.all(NODE),
            "queues": await lab.all(QUEUE),
            "podGroups": await lab.all(POD_GROUP),
            "bindRequests": await lab.all(BIND_REQUEST),
            "priorityClasses": await lab.all(CLASS),
        }
        raw["queues"].append({"metadata": {"name": "odd"}, "spec": {"reclaimMinRuntime": "banana"}})
        with zipfile.ZipFile(archive, "w") as made:
            made.writestr("snapshot.json", json.dumps({"rawObjects": raw}))

    in_lab(scenario, ONE_NODE)
    result = CliRunner().invoke(app, ["replay", str(archive)])
    assert result.exit_code == 0, result.output
    said = result.output.splitlines()
    assert said[0].startswith("1 nodes, 3 pods, 2 pod groups")
    assert sum(line.startswith("bind   default/gang-") for line in said) == 2
    assert any(line.startswith("waits  default/waits") for line in said)
    assert any(line.startswith("unread queues/odd") and "banana" in line for line in said)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"not json", "not a cycle dump"),
        (b"{}", "not a cycle dump"),
        (None, "holds no snapshot.json"),
    ],
)
def test_a_file_that_is_no_cycle_dump_is_refused_with_a_reason(
    tmp_path: Path, content: bytes | None, said: str
) -> None:
    file = tmp_path / "x"
    if content is None:
        buffer = io.BytesIO()
        with zipfile.ZipFile(buffer, "w") as made:
            made.writestr("other.txt", "")
        content = buffer.getvalue()
    file.write_bytes(content)
    result = CliRunner().invoke(app, ["replay", str(file)])
    assert result.exit_code == 1
    assert said in result.output
    assert "Traceback" not in result.output


def test_replay_prints_the_plan_as_json(tmp_path: Path) -> None:
    file = tmp_path / "empty.json"
    file.write_bytes(msgspec.json.encode({"now_s": 0.0, "conf": "", "records": {}}))
    result = CliRunner().invoke(app, ["replay", str(file), "--json"])
    assert json.loads(result.output)["binds"] == []
