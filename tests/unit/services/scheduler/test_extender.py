"""A server of the cluster's own has a say, and stops nobody whom it does not concern."""

import asyncio
from typing import Any

import pytest
from aiohttp import web
from tests.support.batch import Batch, bound, evicted, where
from tests.support.extender import Handler, Play, conf, playing

from muster.engine.config.reader import ConfigError
from muster.engine.profiles.known import parse_for
from muster.engine.profiles.volcano import VOLCANO
from muster.model.public_reasons import public_reason
from muster.services.scheduler.extender import server as server_module

_YES: dict[str, Any] = {"status": "", "code": 0}
_GPUS: dict[str, Any] = {"request": {"example.com/chip": 1}}


def _two_nodes() -> Batch:
    return Batch().queue("q").node("n1", 8).node("n2", 8)


def _takes(*nodes: str) -> Handler:
    return lambda said: _YES if said["node"]["Name"] in nodes else {"status": "not here", "code": 2}


def test_a_pod_starts_one_cycle_later_on_a_node_that_the_server_allows() -> None:
    async def story(play: Play) -> None:
        assert where(await play.cycle()) == {}
        assert where(await play.cycle()) == {"g-0": "n2", "g-1": "n2"}

    told = _two_nodes().gang("g", "q", 2, waiting=2)
    playing(told, {"predicate": _takes("n2")}, story)


def test_equal_pods_of_a_job_are_asked_about_once() -> None:
    async def story(play: Play) -> None:
        await play.cycle()
        assert len(bound(await play.cycle())) == 6
        assert play.server.count("predicate") == 2  # one for each node
        assert play.server.count("prioritize") == 1

    told = _two_nodes().gang("g", "q", 3, waiting=6)
    playing(told, {"predicate": lambda said: _YES, "prioritize": _half}, story)


def _half(said: Any) -> Any:
    return {"nodeScore": {node["Name"]: 0.5 for node in said["nodes"]}}


def test_the_server_sees_task_and_node_as_volcano_shows_them() -> None:
    seen: list[Any] = []

    def predicate(said: Any) -> Any:
        seen.append(said)
        return _YES

    async def story(play: Play) -> None:
        await play.cycle()

    told = Batch().queue("q").node("n1", 8).gang("old", "q", 1, on=["n1"], cpus=3)
    told.gang("g", "q", 1, waiting=1, members=["worker"], labels={"team": "blue"})
    playing(told, {"predicate": predicate}, story)
    (said,) = seen
    task, node = said["task"], said["node"]
    assert (task["Name"], task["Job"], task["TaskRole"], task["Status"]) == (
        "g-0",
        "ns/g",
        "worker",
        1,
    )
    assert task["Pod"]["metadata"]["labels"] == {"team": "blue"}
    assert node["Idle"]["MilliCPU"] == 5000
    assert node["Used"]["MilliCPU"] == 3000
    assert node["Tasks"]["ns/old-0"]["Status"] == 32
    assert node["Allocatable"]["ScalarResources"]["pods"] == 110


def test_scores_of_the_server_decide_between_nodes() -> None:
    def scores(said: Any) -> Any:
        return {"nodeScore": {"n1": 1, "n2": 7, "unknown": 9}}

    async def story(play: Play) -> None:
        await play.cycle()
        assert where(await play.cycle()) == {"g-0": "n2"}

    playing(_two_nodes().gang("g", "q", 1, waiting=1), {"prioritize": scores}, story)


def test_only_pods_that_ask_for_its_resources_concern_it() -> None:
    told = Batch().queue("q").node("n1", 8, has={"example.com/chip": 4})
    told.gang("plain", "q", 1, waiting=1).gang("chips", "q", 1, waiting=1, **_GPUS)

    async def story(play: Play) -> None:
        assert where(await play.cycle()) == {"plain-0": "n1"}
        assert {said["task"]["Job"] for _, said in play.server.asked} == {"ns/chips"}

    playing(
        told,
        {"predicate": _takes()},
        story,
        managedResources=["example.com/chip"],
    )


def test_whoever_is_kept_from_nodes_by_it_is_told_so() -> None:
    async def story(play: Play) -> None:
        await play.cycle()
        (why,) = (await play.cycle()).explanation.refusals["ns/g"]
        assert "extender" in public_reason(why).sentence

    playing(_two_nodes().gang("g", "q", 1, waiting=1), {"predicate": _takes()}, story)


def test_two_jobs_do_not_get_in_one_cycle_what_it_would_have_given_to_one() -> None:
    def one_each(said: Any) -> Any:
        return {"status": "taken", "code": 2} if said["node"]["Tasks"] else _YES

    async def story(play: Play) -> None:
        await play.cycle()
        found = where(await play.cycle())
        assert sorted(found.values()) == ["n1", "n2"]

    told = _two_nodes()
    for name in ("a", "b", "c"):
        told.gang(name, "q", 1, waiting=1)
    playing(told, {"predicate": one_each}, story)


def test_what_was_said_of_a_node_does_not_count_once_other_pods_are_there() -> None:
    async def story(play: Play) -> None:
        await play.cycle()
        play.told.gang("came", "q", 1, on=["n1"])
        assert where(await play.cycle()) == {"g-0": "n2"}

    told = _two_nodes().gang("g", "q", 1, waiting=1)
    playing(told, {"predicate": lambda said: _YES}, story)


# -- queues, jobs, victims -------------------------------------------------------------------


def test_a_queue_that_it_calls_overused_gets_nothing_and_the_others_do() -> None:
    told = _two_nodes().queue("r").gang("g", "q", 1, waiting=1).gang("h", "r", 1, waiting=1)

    async def story(play: Play) -> None:
        await play.cycle()
        assert bound(await play.cycle()) == ["h-0"]

    over = {"queueOverused": lambda said: {"overused": said["queue"]["Name"] == "q"}}
    playing(told, over, story)


def test_it_says_which_jobs_are_let_in_and_hears_which_were() -> None:
    told = _two_nodes()
    for name in ("good", "bad"):
        told.gang(name, "q", 1, phase="Pending", min_cpus=1)
    verbs: dict[str, Handler] = {
        "jobEnqueueable": lambda said: {"status": 1 if said["job"]["Name"] == "good" else -1},
        "jobEnqueued": lambda said: {},
    }

    async def story(play: Play) -> None:
        assert (await play.cycle()).plan.admitted == ()
        assert (await play.cycle()).plan.admitted == ("ns/good",)
        told = [said["job"]["Name"] for verb, said in play.server.asked if verb == "jobEnqueued"]
        assert told == ["good"]

    playing(told, verbs, story, actions="enqueue, allocate")


@pytest.mark.parametrize("verb", ["preemptable", "reclaimable"])
def test_only_whom_it_names_goes_for_others(verb: str) -> None:
    told = Batch().queue("q").queue("r").node("n1", 4)
    told.gang("low", "q", 0, on=["n1"] * 4)
    told.gang("high", "q" if verb == "preemptable" else "r", 1, waiting=1, priority=10)

    def named(said: Any) -> Any:
        victims = [one for one in said["evictees"] if one["Name"] == "low-2"]
        return {"status": 1, "victims": [*victims, {"UID": "nobody"}]}

    async def story(play: Play) -> None:
        assert evicted(await play.cycle()) == []
        assert evicted(await play.cycle()) == ["low-2"]

    playing(told, {verb: named}, story, actions="preempt" if verb == "preemptable" else "reclaim")


def test_it_hears_who_got_a_node_and_who_lost_it() -> None:
    told = Batch().queue("q").node("n1", 4).gang("low", "q", 0, on=["n1"] * 3)
    told.gang("high", "q", 1, waiting=1, priority=10)
    verbs: dict[str, Handler] = {"allocateFunc": lambda said: {}, "deallocateFunc": lambda said: {}}

    async def story(play: Play) -> None:
        await play.cycle()
        heard = [(verb, said["task"]["Name"]) for verb, said in play.server.asked]
        assert heard == [("allocateFunc", "high-0")]
        (_, said) = play.server.asked[0]
        assert said["task"]["NodeName"] == "n1"

    playing(told, verbs, story)


def test_a_round_is_a_session_to_it() -> None:
    verbs: dict[str, Handler] = {
        "onSessionOpen": lambda said: {},
        "predicate": lambda said: _YES,
        "onSessionClose": lambda said: {},
    }

    async def story(play: Play) -> None:
        await play.cycle()
        names = [verb for verb, _ in play.server.asked]
        assert names == ["onSessionOpen", "predicate", "predicate", "onSessionClose"]
        opened = play.server.asked[0][1]
        assert set(opened["Jobs"]) == {"ns/g"}
        assert set(opened["Nodes"]) == {"n1", "n2"}
        assert set(opened["Queues"]) == {"q"}

    playing(_two_nodes().gang("g", "q", 1, waiting=1), verbs, story)


# -- a server that fails ---------------------------------------------------------------------


async def _slow(said: Any) -> Any:
    await asyncio.sleep(30)


def _failing(said: Any) -> web.Response:
    return web.Response(status=500, text="no")


def _garbage(said: Any) -> web.Response:
    return web.Response(text='{"status": [1, 2')


def _wrong(said: Any) -> Any:
    return [1, 2, 3]


def _elsewhere(said: Any) -> web.Response:
    return web.Response(status=307, headers={"location": "http://127.0.0.1:9/"})


_BAD: list[Handler] = [_slow, _failing, _garbage, _wrong, _elsewhere]


@pytest.mark.parametrize("ignorable", [True, False])
@pytest.mark.parametrize("bad", _BAD)
def test_a_server_that_fails_counts_as_agreed_or_keeps_its_own_waiting(
    bad: Handler, ignorable: bool
) -> None:
    told = Batch().queue("q").node("n1", 8, has={"example.com/chip": 4})
    told.gang("plain", "q", 1, waiting=1).gang("chips", "q", 1, waiting=1, **_GPUS)

    async def story(play: Play) -> None:
        assert bound(await play.cycle()) == ["plain-0"]
        found = bound(await play.cycle())
        assert found == (["chips-0"] if ignorable else [])
        assert any("does not answer" in line for line in play.log)

    playing(
        told,
        {"predicate": bad},
        story,
        managedResources=["example.com/chip"],
        ignorable=ignorable,
        httpTimeout="50ms",
    )


def test_a_server_that_does_not_answer_is_given_up_after_a_few_questions() -> None:
    told = Batch().queue("q").gang("g", "q", 1, waiting=1)
    for number in range(200):
        told.node(f"n{number}", 8)

    async def story(play: Play) -> None:
        await play.cycle()
        assert play.server.count("predicate") < 50

    playing(told, {"predicate": _slow}, story, httpTimeout="50ms")


def test_an_answer_that_never_ends_is_not_read_to_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_module, "ANSWER_BYTES_MAX", 100_000)

    def huge(said: Any) -> web.Response:
        return web.Response(text='{"status": "' + "x" * 200_000 + '"}')

    async def story(play: Play) -> None:
        await play.cycle()
        assert bound(await play.cycle()) == []
        assert any("an answer of more than" in line for line in play.log)

    playing(_two_nodes().gang("g", "q", 1, waiting=1), {"predicate": huge}, story)


def test_no_credential_of_ours_is_shown() -> None:
    async def story(play: Play) -> None:
        await play.cycle()
        assert play.server.headers
        assert all("Authorization" not in shown for shown in play.server.headers)

    told = _two_nodes().gang("g", "q", 1, waiting=1)
    playing(told, {"predicate": lambda said: _YES}, story)


# -- the conf --------------------------------------------------------------------------------


def _said(text: str) -> list[str]:
    read = parse_for(VOLCANO, text, "conf")
    return [str(problem) for problem in read.no_effect]


def test_what_it_cannot_be_asked_is_a_warning_for_just_that() -> None:
    said = _said(conf(1, ["predicate", "jobReady", "allocateFunc"], bogus=1))
    assert len(said) == 3
    for name in ("jobReadyVerb", "allocateFuncVerb", "bogus"):
        assert sum(f"extender.{name}:" in line for line in said) == 1
    assert not any("predicateVerb:" in line for line in said)


@pytest.mark.parametrize(
    "where", ["extender:8713", "file:///etc/passwd", "http://", 7, "http://[", "http://h:99999"]
)
def test_an_address_that_is_none_is_an_error_that_names_it(where: object) -> None:
    text = conf(1, ["predicate"]).replace('"http://127.0.0.1:1/v1"', repr(where))
    with pytest.raises(ConfigError, match="urlPrefix: is no address such as"):
        _said(text)


def test_without_an_address_nobody_is_asked_and_it_is_said() -> None:
    text = conf(1, ["predicate"]).replace('"http://127.0.0.1:1/v1"', '""')
    assert any("urlPrefix" in line for line in _said(text))


def test_without_anybody_who_asks_it_has_no_say() -> None:
    """A dashboard, a replay, or a what-if asks nobody."""
    told = _two_nodes().gang("g", "q", 1, waiting=1)
    assert bound(told.run(conf(1, ["predicate", "queueOverused", "jobEnqueueable"]))) == ["g-0"]
