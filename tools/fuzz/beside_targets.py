"""What the parts beside the scheduler take in: installations, manifests that somebody asks about,
copies of past usage, and answers of Prometheus."""

from typing import Any, Final

import msgspec
import numpy as np
from tools.fuzz import draws
from tools.fuzz.feeding import Input, Refusal, Target, named_in, of_problem, plain, read

from muster.api import kinds
from muster.api.config import Config
from muster.api.core import ConfigMap
from muster.api.profiles import ProfileName
from muster.api.shard import SchedulingShard
from muster.base.rand import Rand
from muster.numerics.axis import QUEUE_WIDTH
from muster.services.operator.decide import desired, ineffective, usable_config, usable_shards
from muster.services.operator.dialects import QUEUES, kept_for
from muster.services.operator.objects import OPTIONAL
from muster.services.operator.settings import Installation, Release, Settings
from muster.services.operator.shard_args import OURS, SWITCHES, VALUES
from muster.usage.accrual import DAY_S
from muster.usage.cluster_copy import day_in, map_body, map_of
from muster.usage.days import BadDay, DayUsage, packed, unpacked
from muster.usage.prometheus import _series
from muster.usage.source import NoUsage
from muster.web.controllers import BadManifest
from muster.web.submission import Surroundings, submission_of

_OPTIONAL: Final = frozenset(kind.full_name for kind in OPTIONAL)
_CLUSTERS: Final = (_OPTIONAL, _OPTIONAL | {kind.full_name for kind in QUEUES.values()})
"""What clusters serve: without the kinds of other systems, and with them."""
_ARGS: Final = sorted(SWITCHES | VALUES.keys() | OURS | {"nosuch", "metrics-bind-address"})
_ARG_TEXTS: Final = (
    *(*ProfileName, "nosuch", "volcanoo", "true", "false", "always", "none", "30s", "-1", "100"),
    *("http://c:4318", "1Gi", "4294967296", "map", "map/key", "/", "{idleGpus: {below: 2}}", "{"),
)


def _draw_installation(rand: Rand) -> Input:
    kinds_of = (kinds.CONFIG, kinds.SCHEDULING_SHARD, kinds.SCHEDULING_SHARD)
    drawn = [_sparse(rand, draws.of_kind(one)(rand)) for one in kinds_of]
    for body in drawn[1:]:
        if rand.random() < 0.8:
            body["spec"]["args"] = _args(rand)
    bodies = [draws.bent(rand, body, ("metadata",)) for body in drawn]
    names = ("Config", "SchedulingShard", "SchedulingShard")
    pairs = zip(names, bodies, strict=True)
    return tuple((name, draws.spelled(rand, body)) for name, body in pairs)


def _sparse(rand: Rand, body: draws.Body) -> draws.Body:
    """With few fields: of many drawn ones some is always wrong, and nothing more is looked at."""
    spec = body.get("spec", {})
    kept = [key for key in spec if rand.random() < 2.5 / len(spec)]
    return {**body, "spec": {key: spec[key] for key in kept}, "status": {}}


def _args(rand: Rand) -> draws.Body:
    """What a shard says to its scheduler: mostly the right names, now and then the right text."""
    most = rand.choice((0, 1, 1, 2, 4))
    texts = (*_ARG_TEXTS, rand.choice(draws.TEXTS))
    found = {rand.choice(_ARGS): rand.choice(texts) for _ in range(most)}
    profiles = (*ProfileName, *ProfileName, *texts)
    return {**found, "profile": rand.choice(profiles)} if rand.random() < 0.5 else found


def _feed_installation(given: Input) -> list[Refusal]:
    """All that the operator would write is written as JSON."""
    (_, config_text), *texts = given
    shards = [one for _, data in texts for one in read(SchedulingShard, data)]
    found: list[Refusal] = []
    for config in read(Config, config_text):
        problems = usable_config(config)
        found += map(of_problem, problems)
        if problems:
            config = Config()
        settings = Settings.of(config, Release("example/muster", "1.2.3"))
        found += map(of_problem, ineffective(config, shards))
        for served in _CLUSTERS:
            usable, wrong = usable_shards(shards, settings, served)
            found += [of_problem(one) for problems in wrong.values() for one in problems]
            kept = kept_for(shards, settings, served)
            wants = desired(Installation(settings, usable, *kept, served, "Q0E="))
            for wanted in (wants.config, wants.webhooks, *wants.shards.values()):
                msgspec.json.encode([one.body for one in wanted])
    return found


_POD: Final = {
    "schedulerName": "kai-scheduler",
    "containers": [{"name": "c", "image": "x", "resources": {"limits": {"nvidia.com/gpu": "2"}}}],
}
_TEMPLATE: Final = {"metadata": {"labels": {"a": "b"}}, "spec": _POD}
_ROLE: Final = {"replicas": 2, "template": _TEMPLATE}
_MANIFESTS: Final[tuple[draws.Body, ...]] = (
    {"apiVersion": "v1", "kind": "Pod", "spec": _POD},
    {"apiVersion": "batch/v1", "kind": "Job", "spec": {"parallelism": 2, "template": _TEMPLATE}},
    {"apiVersion": "apps/v1", "kind": "Deployment", "spec": _ROLE},
    {
        "apiVersion": "kubeflow.org/v1",
        "kind": "PyTorchJob",
        "spec": {"pytorchReplicaSpecs": {"Master": _ROLE, "Worker": _ROLE}},
    },
    {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "spec": {"replicatedJobs": [{"name": "a", "template": {"spec": _ROLE}, "replicas": 2}]},
    },
    {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "Job",
        "spec": {"minAvailable": 1, "tasks": [{"name": "a", **_ROLE}]},
    },
    {
        "apiVersion": "ray.io/v1",
        "kind": "RayCluster",
        "spec": {"headGroupSpec": _ROLE, "workerGroupSpecs": [_ROLE]},
    },
    {
        "apiVersion": "ray.io/v1",
        "kind": "RayJob",
        "spec": {"rayClusterSpec": {"headGroupSpec": _ROLE, "workerGroupSpecs": [_ROLE]}},
    },
    {
        "apiVersion": "leaderworkerset.x-k8s.io/v1",
        "kind": "LeaderWorkerSet",
        "spec": {"replicas": 2, "leaderWorkerTemplate": {"size": 2, "workerTemplate": _TEMPLATE}},
    },
    {
        "apiVersion": "batch/v1",
        "kind": "CronJob",
        "spec": {"jobTemplate": {"spec": {"parallelism": 2, "template": _TEMPLATE}}},
    },
)


def _draw_manifests(rand: Rand) -> Input:
    drawn = []
    for _ in range(rand.randrange(1, 4)):
        body = {**rand.choice(_MANIFESTS), "metadata": draws.metadata(rand, True)}
        drawn.append(("manifest", draws.spelled(rand, draws.bent(rand, body))))
    return tuple(drawn)


def _feed_manifests(given: Input) -> list[Refusal]:
    try:
        found = submission_of([plain(data) for _, data in given], "team", Surroundings(), 5.0)
    except BadManifest as refused:
        return [Refusal(_field_of(given, str(refused)), str(refused))]
    return [Refusal(_field_of(given, said), said) for said in found.problems]


def _field_of(given: Input, sentence: str) -> str:
    """A field of a manifest; of an amount a real server says only which object has it."""
    is_amount = "quantities must match the regular expression" in sentence
    return named_in(given, sentence) or ("document" if "document " in sentence or is_amount else "")


def _no_usage(day: int) -> DayUsage:
    held = np.zeros((0, QUEUE_WIDTH, 1))
    return DayUsage(day, day * DAY_S, ("",), (), held, ())


def _draw_usage(rand: Rand) -> Input:
    day = rand.choice((20000, 0, 2**31, -1))
    texts = (b"", b"\x00", packed(_no_usage(20000)), rand.randbytes(40))
    text = rand.choice(texts)
    if text and rand.random() < 0.7:
        at = rand.randrange(len(text))
        text = text[:at] + rand.randbytes(rand.randrange(4)) + text[at + rand.randrange(4) :]
    body = map_body(_no_usage(20000), map_of(day))
    sample = {"metric": {"queue": rand.choice(draws.TEXTS)}, "value": [1, rand.choice(draws.TEXTS)]}
    answer = {"status": "success", "data": {"resultType": "vector", "result": [sample, sample]}}
    return (
        ("day", text),
        ("ConfigMap", draws.spelled(rand, draws.bent(rand, {"kind": "ConfigMap", **body}))),
        ("answer", draws.spelled(rand, draws.bent(rand, answer))),
    )


def _feed_usage(given: Input) -> list[Refusal]:
    (_, day), (_, copied), (_, answer) = given
    found = []
    tries: list[Any] = [lambda: unpacked(day), lambda: _series(200, answer)]
    tries += [lambda one=one: day_in(one) for one in read(ConfigMap, copied)]
    for attempt in tries:
        try:
            attempt()
        except (BadDay, NoUsage) as refused:
            found.append(Refusal(str(refused), str(refused)))
    return found


TARGETS: Final = (
    Target("installations", 3, _draw_installation, _feed_installation),
    Target("manifests to plan", 4, _draw_manifests, _feed_manifests),
    Target("past usage", 2, _draw_usage, _feed_usage),
)
