"""Prometheus that refuses, breaks off, says nonsense or does not answer: said, never guessed."""

import asyncio
import json
from typing import Any
from urllib.parse import parse_qs

import pytest
from tests.support.scripted import Answer, ScriptedServer
from tests.support.virtual_time import LoopClock, virtually

from muster.base.offload import inline
from muster.client.errors import Unreachable
from muster.client.transport import InProcessTransport, Request, Response
from muster.model.usage import UsageDatabase, UsageWindow
from muster.usage.prometheus import Prometheus, PrometheusUsage, prometheus_at
from muster.usage.source import NoUsage
from muster.usage.sources import UsageSources

DATABASE = UsageDatabase("prometheus", "http://p")
NOW_S = 1_700_000_000.0


def said(result: list[Any], status: str = "success", **more: Any) -> Answer:
    body = {"status": status, "data": {"resultType": "vector", "result": result}, **more}
    return Answer(body=[json.dumps(body).encode()])


def value(number: float | str, **labels: str) -> dict[str, Any]:
    return {"metric": labels, "value": [NOW_S, str(number)]}


def asked(server: ScriptedServer) -> PrometheusUsage:
    transport = InProcessTransport(server.handle)
    return PrometheusUsage(Prometheus(transport, 10.0), DATABASE, "kai")


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (said([], "error", error="parse error"), "Prometheus refused: parse error"),
        (Answer(502, [b"<html>bad gateway</html>"]), "no answer of Prometheus: 502: <html>"),
        (Answer(body=[b"{}"]), "no answer of Prometheus"),
        (Answer(body=[b'{"status": "success", "data": {"result": [1]}}']), "no answer of"),
        (Unreachable("p: connection refused"), "cannot be asked: p: connection refused"),
        (Answer(body=[b"{", Unreachable("it broke off")]), "cannot be asked: it broke off"),
    ],
)
def test_an_answer_that_is_none_is_no_usage(answer: Any, words: str) -> None:
    server = ScriptedServer(*[answer] * 6)

    async def story() -> None:
        with pytest.raises(NoUsage, match=words):
            await asked(server).read(NOW_S)

    virtually(story())


def test_a_server_that_does_not_answer_is_given_up_after_the_query_timeout() -> None:
    async def silent(_: Request) -> Response:
        await asyncio.sleep(3600)
        raise AssertionError("nobody waits that long")

    async def story() -> None:
        clock = LoopClock()
        prometheus = Prometheus(InProcessTransport(silent), 10.0)
        with pytest.raises(NoUsage, match="within 10"):
            await PrometheusUsage(prometheus, DATABASE, "kai").read(NOW_S)
        assert clock.monotonic_s() == pytest.approx(10)

    virtually(story())


def test_usage_is_divided_by_what_there_was_and_odd_numbers_are_left_out() -> None:
    there = [said([value(80)]), said([]), said([value(1000)])]
    held = [
        said([value(20, queue_name="a"), value("NaN", queue_name="b")]),
        said([value(5, queue_name="a")]),
        said([value(250, queue_name="b")]),
    ]
    server = ScriptedServer(*there, *held)

    async def story() -> None:
        found = await asked(server).read(NOW_S)
        assert found.by_queue == {"a": {"gpu": 0.25, "cpu": 0.0}, "b": {"memory": 0.25}}
        questions = [parse_qs(request.body.decode()) for request in server.requests]
        assert {question["time"][0] for question in questions} == {f"{NOW_S:.3f}"}

    virtually(story())


@pytest.mark.parametrize("there", ["-8", "0", "5e-324", "Inf", "NaN", "1e308"])
@pytest.mark.parametrize("held", ["-1", "Inf", "-Inf", "1e308"])
def test_whatever_series_say_usage_is_a_number_that_can_be_calculated_with(
    there: str, held: str
) -> None:
    answers = [said([value(there)]), *[said([value(8)])] * 2]
    server = ScriptedServer(*answers, *[said([value(held, queue_name="a")])] * 3)

    async def story() -> None:
        for used in (await asked(server).read(NOW_S)).by_queue.values():
            assert all(0 <= part <= 1e6 for part in used.values())

    virtually(story())


def test_series_without_a_queue_are_an_error_that_names_the_metric() -> None:
    server = ScriptedServer(*[said([value(80)])] * 3, said([value(3)]), said([]), said([]))

    async def story() -> None:
        with pytest.raises(NoUsage, match="gpuAllocationMetric: its series have no label"):
            await asked(server).read(NOW_S)

    virtually(story())


@pytest.mark.parametrize(
    ("queues", "words"), [([], "scrapes the queue controller"), ([value(1)], "kube-state-metrics")]
)
def test_a_prometheus_without_samples_says_which_side_is_missing(
    queues: list[Any], words: str
) -> None:
    server = ScriptedServer(*[said([])] * 6, said(queues))

    async def story() -> None:
        with pytest.raises(NoUsage, match=words):
            await asked(server).read(NOW_S)

    virtually(story())


def test_before_the_first_tumbling_window_nothing_is_asked() -> None:
    database = UsageDatabase(
        "prometheus", "http://p", window=UsageWindow(kind="tumbling", start_s=NOW_S + 5)
    )
    server = ScriptedServer()

    async def story() -> None:
        prometheus = Prometheus(InProcessTransport(server.handle), 10.0)
        found = await PrometheusUsage(prometheus, database, "kai").read(NOW_S)
        assert found.by_queue == {}

    virtually(story())


def test_an_address_may_come_from_the_environment() -> None:
    database = UsageDatabase("prometheus", address_variable="USAGE")
    sources = UsageSources({"USAGE": "http://p"}, "kai", LoopClock(), inline)
    assert isinstance(sources.source(database), PrometheusUsage)
    with pytest.raises(NoUsage, match="the variable USAGE is not set here"):
        UsageSources({}, "kai", LoopClock(), inline).source(database)


def test_an_authority_that_cannot_be_read_is_named() -> None:
    with pytest.raises(NoUsage, match=r"caFile /nowhere/ca\.pem cannot be read"):
        prometheus_at(
            "https://p", UsageDatabase("prometheus", ca_file="/nowhere/ca.pem"), LoopClock()
        )
