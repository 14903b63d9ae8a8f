"""GPUs that are held and not used, on a whole cluster: seen, shown, and given to who waits.

In place of Prometheus stands what DCGM exporter would have recorded of each pod, minute by minute.
What the real one makes of the same questions is shown in `tests/prometheus/test_utilisation.py`.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final
from urllib.parse import parse_qs

import msgspec
import pytest
from tests.support.lab import POD, POD_GROUP, Lab, Setting, in_lab

from muster.api.meta import Key
from muster.api.names import ANNOTATION_IDLE_GPUS_SINCE
from muster.client.errors import Unreachable
from muster.client.transport import Request
from muster.model.usage import IdlePolicy, UtilisationSettings
from muster.sim.kubelet.nodes import Gpus, NodeGroup
from muster.sim.kubelet.stages import Chance, Habits
from muster.usage.accounts import Question, read_accounts
from muster.usage.prometheus import Prometheus
from muster.usage.utilisation import expressions

HOUR_S: Final = 3600.0
MINUTE_S: Final = 60.0
CONF: Final = """
actions: allocate, reclaim, preempt
utilization:
  connectionString: http://prometheus.example:9090
  idleGpus: {below: 5, after: 1h, preemptible: true}
"""
POLICY: Final = IdlePolicy(below_percent=5, after_s=HOUR_S, is_preemptible=True)
ASKED: Final = {text: name for name, text in expressions(UtilisationSettings(idle=POLICY)).items()}

Percent = float | None
"""What a GPU does in one minute; None: nobody measured."""


class Answer:
    """A response that is there as a whole."""

    status = 200

    def __init__(self, body: bytes) -> None:
        self._body = body

    async def read(self) -> bytes:
        return self._body

    async def close(self) -> None:
        pass


class Recorded:
    """A transport to a Prometheus that has scraped DCGM exporter every minute."""

    def __init__(self) -> None:
        self.samples: dict[str, list[tuple[float, float]]] = {}
        self.is_away = False

    async def send(self, request: Request, timeout_s: float | None = None) -> Any:
        if self.is_away:
            raise Unreachable("connection refused")
        asked = parse_qs(request.body.decode())
        found = self._answer(ASKED[asked["query"][0]], float(asked["time"][0]))
        result = [
            {
                "metric": {"namespace": "default", "pod": pod},
                "value": [0, str(value)],
            }
            for pod, value in found.items()
        ]
        body = msgspec.json.encode({"status": "success", "data": {"result": result}})
        return Answer(body)

    async def close(self) -> None:
        pass

    def _answer(self, what: str, at_s: float) -> Mapping[str, float]:
        over_s = HOUR_S if what in ("peak", "samples") else 5 * MINUTE_S
        folds: dict[str, Callable[[list[float]], float]] = {
            "gpu": lambda values: sum(values) / len(values),
            "peak": max,
            "samples": len,
            "series": lambda _: 1,
        }
        inside = {
            pod: [value for sampled_s, value in samples if at_s - over_s < sampled_s <= at_s]
            for pod, samples in self.samples.items()
        }
        fold = folds.get(what)
        return {} if fold is None else {pod: fold(seen) for pod, seen in inside.items() if seen}


@pytest.fixture
def recorded(monkeypatch: pytest.MonkeyPatch) -> Recorded:
    found = Recorded()
    transport: Any = found
    monkeypatch.setattr(
        "muster.usage.sources.prometheus_at", lambda *_: Prometheus(transport, 10.0)
    )
    return found


@pytest.fixture
def setting(tmp_path: Path) -> Setting:
    conf = tmp_path / "conf.yaml"
    conf.write_text(CONF)
    return Setting(
        nodes=(NodeGroup("gpu", count=1, gpus=Gpus(count=2)),),
        habits=Habits(run=Chance(mean_s=1e9)),
        conf_file=conf,
        usage_store=tmp_path / "usage.db",
    )


async def minutes(lab: Lab, recorded: Recorded, count: int, **percent: Percent) -> None:
    """Time in which the pods of these jobs do so much."""
    for _ in range(count):
        await lab.clock.sleep(MINUTE_S)
        for job, value in percent.items():
            if value is not None:
                for pod in await lab.running(job):
                    recorded.samples.setdefault(pod, []).append((lab.clock.now_s(), value))


async def runs_for_good(lab: Lab, name: str) -> None:
    labels = {"kai.scheduler/preemptibility": "non-preemptible"}
    await lab.pod(name, gpus=1, queue="team", labels=labels)
    await lab.until_running(name, 1)


async def two_jobs(lab: Lab) -> None:
    """They fill the cluster, and nobody may take it from them."""
    await lab.queue("team", gpus=2)
    for name in ("sleeper", "worker"):
        await runs_for_good(lab, name)


async def marked(lab: Lab) -> set[str]:
    return {
        group["metadata"]["name"].split("-")[1]
        for group in await lab.all(POD_GROUP)
        if group["metadata"].get("annotations", {}).get(ANNOTATION_IDLE_GPUS_SINCE)
    }


def shown(lab: Lab) -> float:
    """GPUs of idle jobs, as the scheduler's metrics say."""
    registry = lab.laptop.supervisors["scheduler"].registry
    return sum(
        sample.value
        for metric in registry.collect()
        for sample in metric.samples
        if sample.name == "kai_idle_gpus"
    )


async def somebody_waits(lab: Lab) -> None:
    await lab.pod("urgent", gpus=1, queue="team", priority="build")
    await lab.clock.sleep(3 * MINUTE_S)


async def who_runs(lab: Lab) -> set[str]:
    return {
        pod["metadata"]["name"]
        for pod in await lab.all(POD, lab.namespace)
        if pod["status"].get("phase") == "Running"
    }


def test_an_idle_job_is_marked_shown_counted_and_makes_way(
    recorded: Recorded, setting: Setting
) -> None:
    async def story(lab: Lab) -> None:
        await two_jobs(lab)
        await minutes(lab, recorded, 55, sleeper=1.0, worker=80.0)
        assert await marked(lab) == set(), "not yet"
        await minutes(lab, recorded, 15, sleeper=1.0, worker=80.0)
        assert await marked(lab) == {"sleeper"}
        assert shown(lab) == 1
        (said,) = await lab.messages("IdleGpus")
        assert said == "its GPUs have been below 5% for 1h0m0s; it may be preempted"
        assert await who_runs(lab) == {"sleeper", "worker"}, "nobody wants what it holds"
        await somebody_waits(lab)
        assert await who_runs(lab) == {"urgent", "worker"}
        await lab.clock.sleep(3 * MINUTE_S)
        assert shown(lab) == 0
        assert setting.usage_store is not None
        now_s = lab.clock.now_s()
        found = read_accounts(setting.usage_store, Question(now_s - 86_400, now_s, ("job",)))
        idle = {(one.job or "").split("-")[1]: one.idle_gpu_hours for one in found}
        assert idle["sleeper"] > 0.05
        assert idle["worker"] == 0

    in_lab(story, setting)


def test_where_policy_only_shows_nobody_makes_way(
    recorded: Recorded, setting: Setting, tmp_path: Path
) -> None:
    conf = tmp_path / "shown.yaml"
    conf.write_text(CONF.replace(", preemptible: true", ""))

    async def story(lab: Lab) -> None:
        await two_jobs(lab)
        await minutes(lab, recorded, 70, sleeper=1.0, worker=80.0)
        assert await marked(lab) == {"sleeper"}
        await somebody_waits(lab)
        assert await who_runs(lab) == {"sleeper", "worker"}

    in_lab(story, replace(setting, conf_file=conf))


def test_nobody_makes_way_on_data_that_are_missing(recorded: Recorded, setting: Setting) -> None:
    async def story(lab: Lab) -> None:
        await two_jobs(lab)
        await minutes(lab, recorded, 30, sleeper=1.0)
        await minutes(lab, recorded, 20, sleeper=None)
        await minutes(lab, recorded, 20, sleeper=1.0)
        assert await marked(lab) == set(), "twenty minutes of the hour are unknown"
        await somebody_waits(lab)
        assert await who_runs(lab) == {"sleeper", "worker"}

    in_lab(story, setting)


@pytest.mark.parametrize("how", ["the exporter ends", "Prometheus is away"])
def test_who_was_idle_keeps_its_place_when_data_disappear(
    recorded: Recorded, setting: Setting, how: str
) -> None:
    async def story(lab: Lab) -> None:
        await two_jobs(lab)
        await minutes(lab, recorded, 70, sleeper=1.0, worker=80.0)
        assert await marked(lab) == {"sleeper"}
        recorded.is_away = how == "Prometheus is away"
        await lab.clock.sleep(10 * MINUTE_S)
        assert await marked(lab) == set()
        assert shown(lab) == 0
        await somebody_waits(lab)
        assert await who_runs(lab) == {"sleeper", "worker"}

    in_lab(story, setting)


def test_a_pod_of_the_same_name_does_not_inherit_what_was_measured(
    recorded: Recorded, setting: Setting
) -> None:
    async def story(lab: Lab) -> None:
        await two_jobs(lab)
        await minutes(lab, recorded, 70, sleeper=1.0, worker=80.0)
        assert await marked(lab) == {"sleeper"}
        await lab.cluster.writer.delete(POD, Key(lab.namespace, "sleeper"))
        await lab.clock.sleep(10)
        await runs_for_good(lab, "sleeper")
        await somebody_waits(lab)
        assert await who_runs(lab) == {"sleeper", "worker"}
        assert await marked(lab) == set()

    in_lab(story, setting)
