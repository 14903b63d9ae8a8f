"""Questions over HTTP: what is answered, whom it refuses, and that none takes the server down."""

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import msgspec
import pytest
from aiohttp import ClientSession
from tests.support.busy_cluster import BusyCluster
from tests.unit.api.test_yaml_text import laughs
from tests.unit.foresight.test_journal import _CYCLES, damage, path_in, recorded

from muster.base.clock import VirtualClock
from muster.base.log import Log, MemorySink
from muster.base.offload import in_thread, inline
from muster.base.timefmt import rfc3339
from muster.foresight.estimates import EstimateLog
from muster.foresight.journal.reader import Query, history
from muster.foresight.situation import Rules, Situation, rules_of
from muster.model.records import ClusterRecords
from muster.model.status import TaskStatus
from muster.runtime.connections import ServingLimits
from muster.runtime.page_access import TokenGate
from muster.testing import make
from muster.usage.accrual import DAY_S, AccountKey, AccountSums, Sums
from muster.usage.store import UsageStore
from muster.web.board import Board
from muster.web.handlers import LIST_MAX, Handlers
from muster.web.live import LiveCluster, NotReady
from muster.web.server import WebPart
from muster.web.submission import Surroundings

_WORLD = make.cluster(
    make.node("n1", gpu=4),
    make.node("n2", gpu=4),
    make.queue("a", quota_gpu=8),
    make.queue("b", quota_gpu=4),
    make.gang("old", 4, gpu=1, queue="a", nodes=("n1", "n1", "n1", "n2"), user="ana"),
    make.gang("train", 6, gpu=1, queue="a", created_s=5.0),
    make.gang("later", 5, gpu=1, queue="a", created_s=9.0),
)
_POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "one", "labels": {"kai.scheduler/queue": "b"}},
    "spec": {
        "schedulerName": "kai-scheduler",
        "containers": [
            {"name": "c", "image": "x", "resources": {"limits": {"nvidia.com/gpu": "2"}}}
        ],
    },
}


@dataclass
class Fixed:
    """A cluster that a test changes."""

    records: ClusterRecords = _WORLD
    rules: Rules = field(default_factory=rules_of)
    is_ready: bool = True
    revision: int = 1

    def situation(self) -> Situation:
        if not self.is_ready:
            raise NotReady("the cluster is still being read")
        return Situation.of(self.records, make.NOW_S, self.rules)

    def surroundings(self) -> Surroundings:
        return Surroundings()


@asynccontextmanager
async def asking(
    source: Fixed | None = None, journal: Path | None = None, **more: Any
) -> AsyncIterator[ClientSession]:
    offload = more.get("offload", inline)
    cluster = LiveCluster(source or Fixed(), VirtualClock(), offload, journal, b"key")
    handlers = Handlers(
        cluster, usage_store=more.get("usage"), estimates=more.get("estimates"), log=more.get("log")
    )
    limits = more.get("limits", ServingLimits())
    part = WebPart(
        "127.0.0.1", 0, Board(), VirtualClock(), more.get("gate"), limits=limits, questions=handlers
    )
    running = asyncio.create_task(part.run())
    await part.listening.wait()
    try:
        async with ClientSession(f"http://127.0.0.1:{part.port}") as client:
            yield client
    finally:
        part.stop()
        await running


async def got(client: ClientSession, path: str, status: int = 200) -> Any:
    answer = await client.get(path)
    assert answer.status == status, await answer.text()
    return await answer.json()


async def posted(
    client: ClientSession, path: str, body: Mapping[str, Any], status: int = 200
) -> Any:
    answer = await client.post(path, json=body)
    assert answer.status == status, await answer.text()
    return await answer.json()


async def test_why_names_the_code_the_place_and_what_would_help() -> None:
    async with asking() as client:
        why = await got(client, "/api/v1/why/default/train")
    assert (why["state"], why["code"], why["category"]) == ("waiting", "NoRoom", "now")
    assert why["place"]["at"] == 1
    assert why["changes"][0]["do"] == "4 pods instead of 6"
    assert why["changes"][0]["starts"] == "now"
    assert why["changes"][0]["verified"] == "cycle"


_UID = "0f0e0d0c-1111-2222-3333-444455556666"


async def test_why_answers_by_the_name_of_the_workload_too() -> None:
    made = make.gang(f"pg-train-{_UID}", 6, gpu=1, queue="a")
    async with asking(Fixed(make.cluster(*_WORLD.nodes, *_WORLD.queues, made))) as client:
        why = await got(client, "/api/v1/why/default/train")
        start = await got(client, "/api/v1/when/default/train")
    assert why["job"] == f"default/pg-train-{_UID}"
    assert "at" in start


async def test_a_job_that_scheduling_gates_hold_back_waits_and_has_not_ended() -> None:
    made = make.gang("gated", 1, gpu=1, queue="a")
    held = replace(made, tasks=(msgspec.structs.replace(made.tasks[0], status=TaskStatus.GATED),))
    async with asking(Fixed(make.cluster(*_WORLD.nodes, *_WORLD.queues, held))) as client:
        why = await got(client, "/api/v1/why/default/gated")
    assert (why["state"], why["code"], why["changes"]) == ("waiting", "Gated", [])


async def test_why_answers_by_the_name_of_what_was_submitted_too() -> None:
    made = make.gang("spark-1f2e", 6, gpu=1, queue="a", known_as=("SparkApplication/pi",))
    async with asking(Fixed(make.cluster(*_WORLD.nodes, *_WORLD.queues, made))) as client:
        why = await got(client, "/api/v1/why/default/pi")
    assert why["job"] == "default/spark-1f2e"


_KNOWN = (
    make.gang("old", 2, gpu=4, queue="a", nodes=("n1", "n2"), expected_runtime_s=7200.0),
    make.gang("train", 1, gpu=4, queue="a", expected_runtime_s=3600.0),
)


async def test_why_names_the_job_to_wait_for_and_when_that_is_expected_to_end() -> None:
    source = Fixed(make.cluster(*_WORLD.nodes, *_WORLD.queues, *_KNOWN))
    async with asking(source) as client:
        first = (await got(client, "/api/v1/why/default/train"))["changes"][0]
    assert first["do"] == "wait until default/old ended"
    assert first["starts"] == "not before"
    assert first["at"][:16] == rfc3339(make.NOW_S + 3600.0)[:16]


async def test_a_plan_that_waits_says_when_it_starts_otherwise() -> None:
    source = Fixed(make.cluster(*_WORLD.nodes, *_WORLD.queues, *_KNOWN))
    async with asking(source) as client:
        asked = {"manifest": _POD, "when": True}
        found = await posted(client, "/api/v1/plan", asked)
        unasked = await posted(client, "/api/v1/plan", {"manifest": _POD})
    async with asking() as client:
        starts = await posted(client, "/api/v1/plan", asked)
    assert found["verdict"] == "waits"
    start = found["otherwise"]
    assert rfc3339(make.NOW_S) < start["earliest"] <= start["at"] <= start["latest"]
    assert unasked["otherwise"] is starts["otherwise"] is None


async def test_another_policy_moves_waits_and_what_queues_hold_over_the_next_hours() -> None:
    source = Fixed(make.cluster(*_WORLD.nodes, *_WORLD.queues, *_KNOWN))
    async with asking(source) as client:
        more = {"added_nodes": {"n1": 1}, "hours": 6}
        found = await posted(client, "/api/v1/whatif", more)
        same = await posted(client, "/api/v1/whatif", {"hours": 6})
        now = await posted(client, "/api/v1/whatif", {"added_nodes": {"n1": 1}})
        far = await posted(client, "/api/v1/whatif", {"hours": 25}, 400)
        many = await posted(client, "/api/v1/whatif", {"added_nodes": {"n1": 10**6}}, 400)
    async with asking() as client:
        unknown = await posted(client, "/api/v1/whatif", {"hours": 6})
    ahead = found["ahead"]
    assert found["starts_only_with"] == ["default/train"]
    before, after = ahead["waits_min"]["a"]
    assert after == 0.0 < before
    assert ahead["moved_min"]["default/train"] == -before
    held = ahead["held"]["a"]
    assert [one[0] for one in held] == [8.0, 12.0]
    assert held[0][-1] == held[1][-1] == 0.0
    assert same["ahead"]["moved_min"] == {}
    assert same["ahead"]["held"]["a"][0] == same["ahead"]["held"]["a"][1]
    assert now["ahead"] is None
    assert "hours" in far["error"]["message"]
    assert "added_nodes" in many["error"]["message"]
    assert "nobody knows" in unknown["ahead"]["why_not"]


async def test_what_an_elastic_job_waits_for_beyond_its_minimum_is_not_estimated() -> None:
    half = make.gang("half", 6, gpu=2, queue="a", minimum=2, nodes=("n1", "n1", "n2", "n2"))
    async with asking(Fixed(make.cluster(*_WORLD.nodes, *_WORLD.queues, half))) as client:
        start = await got(client, "/api/v1/when/default/half")
    assert start["why_not"].startswith("its minimum runs")


async def test_the_order_and_the_rule_behind_it() -> None:
    async with asking() as client:
        order = await got(client, "/api/v1/priority?queue=a")
        reflected = await got(client, "/get-job-order")
    assert [one["job"] for one in order["items"]] == ["default/train", "default/later"]
    assert order["items"][1]["because"] == "submitted 4s later"
    assert reflected["global_order"][0] == {"id": "default/train", "priority": 50}


async def test_a_plan_has_a_token_that_holds_until_something_matters() -> None:
    source = Fixed()
    async with asking(source) as client:
        found = await posted(client, "/api/v1/plan", {"manifest": _POD})
        assert (found["verdict"], found["starts"]) == ("starts now", True)
        again = {"manifest": _POD, "token": found["token"]}
        await posted(client, "/api/v1/plan", again)
        taken = make.gang("more", 4, gpu=1, queue="b", nodes=("n1", "n2", "n2", "n2"))
        source.records = make.cluster(
            *_WORLD.nodes,
            *_WORLD.queues,
            taken,
            make.Workload(_WORLD.jobs[0], tuple(t for t in _WORLD.tasks if t.node)),
        )
    async with asking(source) as client:
        answer = await posted(client, "/api/v1/plan", again, 409)
    assert answer["error"]["code"] == "PlanDoesNotHold"


async def test_another_policy_is_compared_with_this_one() -> None:
    async with asking() as client:
        found = await posted(client, "/api/v1/whatif", {"queues": {"a": {"limit": {"gpu": 4}}}})
        lost = await posted(client, "/api/v1/whatif", {"drained_nodes": ["n2"]})
        unknown = await posted(client, "/api/v1/whatif", {"queues": {"z": {}}}, 400)
    assert found["starts_only_with"] == []
    assert lost["verdict"]
    assert "no queue z" in unknown["error"]["message"]


@pytest.mark.parametrize(
    ("conf", "said"),
    [
        ("actions: " + ", ".join(["allocate"] * 65), "conf: actions: there are 65: at most 64"),
        (
            'actions: "allocate"\ntiers:\n'
            + "- plugins: [{name: priority}, {name: elastic}]\n" * 33,
            "conf: plugins: there are 66",
        ),
        ("# " + "x" * (1 << 16), "conf: is longer than 65536 letters"),
    ],
)
async def test_a_configuration_that_no_scheduler_has_is_not_tried(conf: str, said: str) -> None:
    async with asking() as client:
        found = await posted(client, "/api/v1/whatif", {"conf": conf}, 400)
    assert said in found["error"]["message"]


async def test_readers_are_told_apart_by_their_tokens() -> None:
    """One that keeps asking is refused after a while; another one is not."""
    holds = asyncio.Event()

    async def slow(work: Callable[[], Any]) -> Any:
        await holds.wait()
        return work()

    def asked(client: ClientSession, token: str) -> "asyncio.Task[int]":
        async def status() -> int:
            headers = {"Authorization": f"Bearer {token}"}
            answer = await client.get("/api/v1/priority", headers=headers)
            return answer.status

        return asyncio.create_task(status())

    async with asking(offload=slow) as client:
        greedy = [asked(client, "greedy") for _ in range(12)]
        done, _ = await asyncio.wait(greedy, return_when=asyncio.FIRST_COMPLETED)
        other = asked(client, "ana")
        assert {task.result() for task in done} == {429}
        holds.set()
        assert await other == 200
        assert sorted(await asyncio.gather(*greedy)) == [200] * 8 + [429] * 4


async def test_history_comes_from_the_journal(tmp_path: Path) -> None:
    recorded(tmp_path, BusyCluster(3), 20).close()
    async with asking(journal=tmp_path) as client:
        found = await got(client, "/api/v1/history?kind=started&queue=a&limit=5")
        bad = await got(client, "/api/v1/history?kind=eaten", 400)
    assert 0 < len(found["items"]) <= 5
    assert {event["queue"] for event in found["items"]} == {"a"}
    assert "started" in bad["error"]["message"]
    async with asking() as client:
        assert (await got(client, "/api/v1/history", 404))["error"]["code"] == "NoJournal"


async def test_what_happened_is_told_by_the_name_of_what_was_submitted_too(tmp_path: Path) -> None:
    """A page that was reached by such an address said that nothing had been decided."""
    recorded(tmp_path, BusyCluster(3), 20).close()
    key = history(tmp_path, Query(kinds=("started",)))[0].job
    made = make.gang(key.partition("/")[2], 1, gpu=1, queue="a", known_as=("Spark/pi",))
    namespace = key.partition("/")[0]
    job = msgspec.structs.replace(made.job, key=key)
    world = make.cluster(*_WORLD.nodes, *_WORLD.queues, make.Workload(job, ()))
    async with asking(Fixed(world), journal=tmp_path) as client:
        found = await got(client, f"/api/v1/history?job={namespace}/pi")
        known = await got(client, f"/api/v1/history?job={key}")
    assert found["items"]
    assert found["items"] == known["items"]


async def test_why_tells_what_was_decided_before_and_by_which_rule(tmp_path: Path) -> None:
    recorded(tmp_path, BusyCluster(7), _CYCLES).close()
    evicted = history(tmp_path, Query(kinds=("evicted",)))[0]
    namespace, _, name = evicted.job.partition("/")
    again = make.gang(name, 1, gpu=9, queue="a")
    source = Fixed(make.cluster(*_WORLD.nodes, *_WORLD.queues, again))
    async with asking(source, tmp_path) as client:
        why = await got(client, f"/api/v1/why/{namespace}/{name}")
    told = next(one for one in why["decided"] if one["kind"] == "evicted")
    assert told["because"] == evicted.because != ""
    assert told["for"] == evicted.actor
    async with asking(source) as client:
        assert (await got(client, f"/api/v1/why/{namespace}/{name}"))["decided"] == []


async def test_when_is_an_interval_or_a_reason(tmp_path: Path) -> None:
    recorded(tmp_path, BusyCluster(3), 20).close()
    known = make.gang("old", 2, gpu=4, queue="a", nodes=("n1", "n2"), expected_runtime_s=7200.0)
    waits = make.gang("train", 1, gpu=4, queue="a")
    source = Fixed(make.cluster(*_WORLD.nodes, *_WORLD.queues, known, waits))
    async with asking(source, tmp_path) as client:
        start = await got(client, "/api/v1/when/default/train")
        everybody = await got(client, "/api/v1/when")
        runs = await got(client, "/api/v1/when/default/old")
    assert start["earliest"] <= start["at"] <= start["latest"]
    assert everybody["items"]["default/train"] == start
    assert runs["why_not"] == "it does not wait: running"
    async with asking() as client:
        assert "nobody knows" in (await got(client, "/api/v1/when/default/train"))["why_not"]


async def test_a_record_of_estimates_that_fails_takes_no_estimate_from_anybody() -> None:
    broken, said = EstimateLog(), MemorySink()
    broken.close()
    known = make.gang("old", 2, gpu=4, queue="a", nodes=("n1", "n2"), expected_runtime_s=7200.0)
    waits = make.gang("train", 1, gpu=4, queue="a")
    source = Fixed(make.cluster(*_WORLD.nodes, *_WORLD.queues, known, waits))
    async with asking(source, estimates=broken, log=Log("web", said)) as client:
        start = await got(client, "/api/v1/when/default/train")
        judged = await got(client, "/api/v1/estimates")
    assert start["earliest"] <= start["at"] <= start["latest"]
    assert judged["items"] == []
    assert "record of estimates not used" in said.messages()


async def test_every_code_is_listed() -> None:
    async with asking() as client:
        reasons = await got(client, "/api/v1/reasons")
    assert {"code", "category", "means", "next"} <= reasons["items"][0].keys()


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 200),
        ({"Origin": "http://evil.example"}, 403),
        ({"Sec-Fetch-Site": "cross-site"}, 403),
        ({"Host": "rebound.example"}, 403),
        ({"X-Forwarded-For": "10.0.0.1"}, 403),
    ],
)
async def test_open_on_this_machine_is_not_open_to_pages_of_others(
    headers: dict[str, str], status: int
) -> None:
    async with asking() as client:
        answer = await client.get("/api/v1/reasons", headers=headers)
        assert answer.status == status
        assert answer.headers["X-Content-Type-Options"] == "nosniff"
        assert "default-src 'none'" in answer.headers["Content-Security-Policy"]


async def test_from_elsewhere_a_token_is_needed(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("right")
    elsewhere = {"Host": "web.example"}
    async with asking(gate=TokenGate(file)) as client:
        for token, status in (("right", 200), ("wrong", 401), ("", 401)):
            headers = {**elsewhere, **({"Authorization": f"Bearer {token}"} if token else {})}
            assert (await client.get("/api/v1/reasons", headers=headers)).status == status


@pytest.mark.parametrize("method", ["PUT", "PATCH", "DELETE", "POST"])
async def test_nothing_can_be_written(method: str) -> None:
    async with asking() as client:
        answer = await client.request(method, "/api/v1/why/default/train")
        assert answer.status == 405


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/api/v1/why/no/body", 404),
        ("/api/v1/priority?limit=lots", 400),
        ("/api/v1/priority?limit=nan", 400),
        ("/api/v1/nothing", 404),
        ("/api/v1/why/a/b%2F..%2Fc", 404),
    ],
)
async def test_bad_questions_are_answered_with_what_is_wrong(path: str, status: int) -> None:
    async with asking() as client:
        error = (await got(client, path, status))["error"]
        assert error["code"]
        assert error["message"]


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"[]",
        b'{"manifest": 3}',
        b'{"manifest": "a: [b"}',
        b'{"manifest": "\\u0000"}',
        b'{"manifest": {}, "surprise": 1}',
        b'{"manifest": {"apiVersion": "v1", "kind": "Pod", "metadata": {"labels": 3}}}',
        b'{"manifest": {"apiVersion": "x/v1", "kind": "X", "metadata": {"name": "x"},'
        b' "spec": {"replicas": 1e300, "template": {"spec": {"containers": []}}}}}',
        b"\xff\xfe",
        b'{"manifest": ' + b"[" * 50_000 + b"]" * 50_000 + b"}",
        b'{"manifest": "a: ' + b"[" * 3000 + b'"}',
        b'{"manifest": "a: ' + b"9" * 5000 + b'"}',
        b'{"manifest": "a: 2001-99-99"}',
    ],
)
async def test_a_body_that_makes_no_sense_is_refused_and_the_next_question_answered(
    body: bytes,
) -> None:
    async with asking() as client:
        answer = await client.post("/api/v1/plan", data=body)
        assert answer.status in (200, 400)
        await got(client, "/api/v1/reasons")


@pytest.mark.parametrize("priority", [2**31, 2**63, -(10**20)])
async def test_a_priority_beyond_all_numbers_is_named(priority: int) -> None:
    async with asking() as client:
        edit = {"queues": {"a": {"priority": priority}}}
        answer = await client.post("/api/v1/whatif", json=edit)
        assert answer.status == 400
        assert "priority: write a whole number" in await answer.text()


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ({"queues": {"a": {"quota": {"gpu": -5}}}}, "quota: write a number from 0 to 1e9, or -1"),
        ({"queues": {"a": {"limit": {"gpu": -0.5}}}}, "limit: write a number from 0 to 1e9, or -1"),
        ({"queues": {"a": {"weight": {"gpu": -1}}}}, "weight: write a number from 0 to 1e9"),
        ({"added_nodes": {"n1": 600, "n2": 600}}, "at most 1000 all together"),
        ({"added_nodes": {"n1": -2}}, "added_nodes: n1: write 1 or more"),
    ],
)
async def test_amounts_that_no_queue_and_no_cluster_has_are_named(body: Any, said: str) -> None:
    async with asking() as client:
        found = await posted(client, "/api/v1/whatif", body, 400)
    assert said in found["error"]["message"]


async def test_pods_on_nodes_that_are_lost_are_told_and_where_their_jobs_restart() -> None:
    both = (
        make.gang(f"on-{node}", 2, gpu=2, queue="a", nodes=(node,) * 2, expected_runtime_s=7200.0)
        for node in ("n1", "n2")
    )
    source = Fixed(make.cluster(*_WORLD.nodes, *_WORLD.queues, *both))
    async with asking(source) as client:
        found = await posted(client, "/api/v1/whatif", {"without_nodes": ["n1"], "hours": 6})
    (lost,) = found["displaced"]
    assert (lost["job"], lost["pods"], lost["gpus"], lost["by"]) == (
        "default/on-n1",
        2,
        4.0,
        "node lost",
    )
    assert found["ahead"]["restarts_min"]["default/on-n1"] > 0.0
    assert "2 pods lose their node, 0 of them get another place" in found["verdict"]


async def test_a_journal_that_is_damaged_is_named_and_takes_no_other_answer(
    tmp_path: Path,
) -> None:
    recorded(tmp_path, BusyCluster(7), 20).close()
    damage(path_in(tmp_path))
    async with asking(journal=tmp_path) as client:
        history = await got(client, "/api/v1/history", 404)
        await got(client, "/api/v1/why/default/train")
        await got(client, "/api/v1/when/default/train")
    assert "cannot be read" in history["error"]["message"]


async def test_an_alias_bomb_is_refused_in_its_turn_and_not_on_the_loop_of_the_stream() -> None:
    on_loop = threading.get_ident()
    read_in: list[int] = []

    class Watched(Fixed):
        def surroundings(self) -> Surroundings:
            read_in.append(threading.get_ident())
            return Surroundings()

    async with asking(Watched(), offload=in_thread) as client:
        answer = await client.post("/api/v1/plan", json={"manifest": laughs(9)})
        assert answer.status == 400
        assert "aliases written out" in await answer.text()
        await posted(client, "/api/v1/plan", {"manifest": _POD})
    assert read_in
    assert on_loop not in read_in


async def test_a_plan_may_take_longer_than_sending_it() -> None:
    """The clock of the connection is for the client; it used to run until the answer."""

    async def slow(work: Callable[[], Any]) -> Any:
        late = asyncio.Event()
        asyncio.get_running_loop().call_later(0.6, late.set)
        await late.wait()
        return work()

    async with asking(offload=slow, limits=ServingLimits(read_s=0.5)) as client:
        assert (await posted(client, "/api/v1/plan", {"manifest": _POD}))["starts"]


async def test_a_body_that_is_too_large_is_refused() -> None:
    async with asking() as client:
        answer = await client.post("/api/v1/plan", data=b" " * (2 << 20))
        assert answer.status == 413


async def test_before_the_cluster_is_read_it_is_said() -> None:
    async with asking(Fixed(is_ready=False)) as client:
        answer = await client.get("/api/v1/priority")
        assert (answer.status, answer.headers["Retry-After"]) == (503, "1")


async def test_accounts_are_not_cut_where_other_lists_are(tmp_path: Path) -> None:
    path, day = tmp_path / "usage.db", int(VirtualClock().now_s() // DAY_S)
    store, jobs = UsageStore(path), [f"team/job-{n}" for n in range(LIST_MAX + 200)]
    sums = {AccountKey(day, "llm", "ana", job): AccountSums(gpu_s=3600.0) for job in jobs}
    store.add(Sums(accounts=sums), VirtualClock().now_s())
    store.close()
    async with asking(usage=path) as client:
        found = await got(client, "/api/v1/usage?by=job&limit=100000")
        assert sorted(one["job"] for one in found["items"]) == sorted(jobs)
        few = await got(client, "/api/v1/usage?by=job&limit=7")
        assert (len(few["items"]), few["total"]) == (7, len(jobs))
