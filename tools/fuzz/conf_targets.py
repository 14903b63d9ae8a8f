"""What people write for the product itself: conf files, shards, configs; and texts as numbers."""

import json
from typing import Final

from tools.fuzz import draws
from tools.fuzz.feeding import Input, Refusal, Target, named_in, of_problem, read

from muster.api import kinds
from muster.api.config import Config
from muster.api.core import Pod
from muster.api.shard import SchedulingShard
from muster.api.validation.shards import shard_problems
from muster.base.rand import Rand
from muster.engine.config.conf import parse_conf
from muster.engine.config.reader import ConfigError
from muster.model.build import timestamp_s
from muster.model.gpu_request import gpu_groups_of, gpu_memory_mib, gpu_problem
from muster.services.operator.decide import usable_config
from muster.services.scheduler.options import Options
from muster.services.scheduler.wiring import active_policy

_CONF: Final[draws.Body] = {
    "actions": "allocate, consolidation, reclaim, preempt, stalegangeviction",
    "tiers": [
        {
            "plugins": [
                {"name": "predicates"},
                {"name": "proportion", "arguments": {"kValue": 1.5}},
                {"name": "minruntime", "arguments": {"defaultReclaimMinRuntime": "10m"}},
                {"name": "nodeplacement", "arguments": {"gpu": "spread", "cpu": "binpack"}},
                {"name": "dynamicresources", "arguments": {"maxCelCacheEntries": 10}},
                {"name": "gpupack", "disableNodeOrder": False},
                {"name": "topology"},
            ]
        }
    ],
    "queueDepthPerAction": {"allocate": 10, "reclaim": 3},
    "usageDBConfig": {
        "clientType": "prometheus",
        "connectionString": "http://usage",
        "usageParams": {
            "windowType": "cron",
            "cronString": "0 * * * *",
            "windowSize": "1h",
            "halfLifePeriod": "30m",
            "fetchInterval": "10s",
            "extraParams": {"a": "b"},
        },
    },
    "disruptionBudget": {"maxEvictedPerRequested": 2, "queues": {"a": {"maxEvictedPerHour": 1}}},
    "scenarioSearchBudgets": {"maxJobSearchDuration": "10s"},
    "configurations": [{"name": "allocate", "arguments": {"a": 1}}],
}


def _draw_conf(rand: Rand) -> Input:
    conf = {key: value for key, value in _CONF.items() if rand.random() < 0.7}
    conf = draws.bent(rand, json.loads(json.dumps(conf)))
    if rand.random() < 0.2:
        conf[rand.choice(draws.TEXTS)] = rand.choice(draws.TEXTS)
    return (("conf", draws.as_yaml(rand, conf).encode("utf-8", "replace")),)


def _feed_conf(given: Input) -> list[Refusal]:
    ((_, text),) = given
    try:
        active_policy(parse_conf(text.decode()), Options())
    except ConfigError as refused:
        return [Refusal(refused.where, str(refused))]
    return []


def _draw_install(rand: Rand) -> Input:
    kind = rand.choice((kinds.SCHEDULING_SHARD, kinds.CONFIG))
    return ((kind.kind, draws.spelled(rand, draws.bent(rand, draws.of_kind(kind)(rand)))),)


def _feed_install(given: Input) -> list[Refusal]:
    ((kind, data),) = given
    found: list[Refusal] = []
    for config in read(Config, data) if kind == "Config" else ():
        found += [of_problem(problem) for problem in usable_config(config)]
    for shard in read(SchedulingShard, data) if kind == "SchedulingShard" else ():
        found += [of_problem(problem) for problem in shard_problems(shard)]
    return found


_ALPHABET: Final = '0123456789eE+-._ xnumkKMGTPiNaIf,:TZ\u0663\u00b2{}[]"\x00'


def _draw_texts(rand: Rand) -> Input:
    texts = []
    for _ in range(4):
        text = str(rand.choice((*draws.TEXTS, *draws.QUANTITIES)))
        if rand.random() < 0.5:
            text = "".join(rand.choice(_ALPHABET) for _ in range(rand.randrange(12)))
        texts.append(("text", text.encode("utf-8", "replace")))
    return tuple(texts)


def _feed_texts(given: Input) -> list[Refusal]:
    found = []
    for at, (_, data) in enumerate(given):
        text = data.decode()
        timestamp_s(text)
        gpu_memory_mib({"nvidia.com/gpu.memory": text})
        for key in ("gpu-fraction", "gpu-memory", "gpu-fraction-num-devices"):
            problem = gpu_problem({key: text}, {})
            found += [Refusal(named_in((("", key.encode()),), problem), problem)] if problem else []
        body: draws.Body = {
            "metadata": {"annotations": {draws.KEYS[at]: text}, "labels": {draws.KEYS[-at]: text}},
            "spec": {"containers": [{"resources": {"requests": {"cpu": text, "memory": text}}}]},
        }
        for pod in read(Pod, json.dumps(body).encode()):
            gpu_groups_of(pod)
    return found


TARGETS: Final = (
    Target("conf files", 3, _draw_conf, _feed_conf),
    Target("shards and configs", 4, _draw_install, _feed_install),
    Target("numbers and times", 4, _draw_texts, _feed_texts),
)
