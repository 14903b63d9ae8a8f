"""What the pod grouper takes in: workloads of any kind, and config maps of rules and defaults."""

import json
import math
from typing import Any, Final

import msgspec
from tests.support.play_grouper import GrouperCluster
from tools.fuzz import draws
from tools.fuzz.feeding import Input, Refusal, Target, joined, named_in, of_problem, read

from muster.api import kinds
from muster.api.core import Pod
from muster.base.rand import Rand
from muster.services.podgrouper.defaults import kind_defaults
from muster.services.podgrouper.groupers.rule_book import rule_book
from muster.services.podgrouper.groupers.workload import GroupingSettings
from muster.services.podgrouper.reading import pod_object

_OWNERS: Final = (
    ("batch/v1", "Job"), ("apps/v1", "Deployment"), ("batch/v1", "CronJob"), ("v1", "Pod"),
    ("jobset.x-k8s.io/v1alpha2", "JobSet"), ("ray.io/v1", "RayCluster"), ("ray.io/v1", "RayJob"),
    ("kubeflow.org/v1", "PyTorchJob"), ("kubeflow.org/v1", "TFJob"), ("kubeflow.org/v1", "MPIJob"),
    ("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet"), ("grove.io/v1alpha1", "PodGangSet"),
    ("grove.io/v1alpha1", "PodCliqueSet"), ("serving.knative.dev/v1", "Revision"),
    ("kubeflow.org/v2beta1", "MPIJob"), ("argoproj.io/v1alpha1", "Workflow"),
    ("machinelearning.seldon.io/v1", "SeldonDeployment"), ("amlarc.azureml.com/v1alpha1", "AmlJob"),
    ("run.ai/v2alpha1", "TrainingWorkload"), ("example.com/v1", "Thing"), ("ray.io/v1",
    "RayService"),
    ("apps/v1", "StatefulSet"), ("apps/v1", "ReplicaSet"), ("tekton.dev/v1", "TaskRun"),
    ("scheduling.k8s.io/v1alpha2", "PodGroup"), ("sparkoperator.k8s.io/v1beta2",
    "SparkApplication"),
    ("trainer.kubeflow.org/v1alpha1", "TrainJob"), ("workspace.devfile.io/v1", "DevWorkspace"),
)  # fmt: skip
_SPECS: Final = draws.words(
    """
replicas parallelism completions minMember minAvailable suspend template workerGroupSpecs
headGroupSpec rayClusterSpec pytorchReplicaSpecs tfReplicaSpecs mpiReplicaSpecs runPolicy
schedulingPolicy slotsPerWorker elasticPolicy minReplicas maxReplicas numOfHosts groupName
replicatedJobs leaderWorkerTemplate size leaderTemplate startupPolicy startupPolicyOrder
podgroups podReferences name minReplicas topologyConstraint priorityClassName jobTemplate spec
cliques scalingGroups Worker Master Launcher metadata labels annotations successPolicy workers
"""
)


def _draw_workload(rand: Rand) -> Input:
    pod = joined(rand, draws.of_kind(kinds.POD)(rand))
    pod["metadata"]["annotations"].pop("pod-group-name")
    version, kind = rand.choice(_OWNERS)
    metadata = {**draws.metadata(rand, True), "name": "owner", "uid": "o"}
    metadata.pop("ownerReferences", None)
    reference = {"apiVersion": version, "kind": kind, "name": "owner", "uid": "o"}
    # Of kinds that nobody here knows a server checks the metadata, and nothing else.
    content = draws.bent(rand, {"spec": _tree(rand, 4), "status": _tree(rand, 2)})
    owner = {"apiVersion": version, "kind": kind, "metadata": metadata, **content}
    pod["metadata"]["ownerReferences"] = [reference] if rand.random() < 0.9 else []
    rules = _rules(rand) if rand.random() < 0.2 else ""
    return (
        ("Pod", draws.spelled(rand, draws.bent(rand, pod))),
        ("owner", json.dumps(_finite(owner)).encode()),
        ("rules", rules.encode("utf-8", "replace")),
    )


def _finite(value: Any) -> Any:
    """Without what JSON has no words for: servers store none of it."""
    if isinstance(value, dict):
        return {key: _finite(one) for key, one in value.items()}
    if isinstance(value, list):
        return [_finite(one) for one in value]
    is_odd = isinstance(value, float) and not math.isfinite(value)
    is_odd = is_odd or (isinstance(value, str) and "\ud800" in value)
    return None if is_odd else value


def _tree(rand: Rand, depth: int) -> Any:
    """Anything, under the keys that groupers look for."""
    if depth == 0 or rand.random() < 0.25:
        return rand.choice((1, 2, 0, -1, 10**12, 2.5, "2", "x", True, None, "", [], {}, "a", 1e300))
    if rand.random() < 0.2:
        return [_tree(rand, depth - 1) for _ in range(rand.randrange(4))]
    return {rand.choice(_SPECS): _tree(rand, depth - 1) for _ in range(rand.randrange(1, 7))}


def _feed_workload(given: Input) -> list[Refusal]:
    (_, pod), (_, owner), (_, rules) = given
    found = []
    book = rule_book(rules.decode())
    settings = GroupingSettings(rules=book.rules)
    for found_pod in read(Pod, pod):
        world = GrouperCluster(settings, ("train",), {"plurals": {}})
        top = msgspec.json.decode(owner)
        world.objects[(top["kind"], "owner")] = top
        plain = pod_object(found_pod)
        plain["metadata"]["name"] = plain["metadata"]["name"] or "p"
        try:
            world.create(plain, {f"Pod/{plain['metadata']['name']}": plain["metadata"]})
        finally:
            world.objects.pop((top["kind"], "owner"), None)
        json.dumps(world.outcome())
        found += [Refusal(named_in(given, e["message"]), e["message"]) for e in world.events]
    return found


_RULE_KEYS: Final = draws.words(
    """
group version kind minMember queue priorityClass topology subGroups name pods labels cel path
required preferred rules
"""
)
_RULE_VALUES: Final[tuple[Any, ...]] = (
    "example.com", "*", "Thing", "Job", "batch", 1, 0, -1, 10**20, 1.5, None, True, "",
    ".spec.replicas",
    {"path": ".spec.replicas"}, {"path": "x["}, {"cel": "object.spec.replicas"}, {"cel": "1 +"},
    {"cel": "object.spec.nothing"}, {"cel": 1}, {"cel": "pod.metadata.name"}, [], {}, [{}],
    "1" * 30,
    {"cel": "1/0"}, {"cel": "[1,2].map(x, x*2)"}, {"cel": "'a' + 1"}, {"path": ""},
    {"path": "." * 50},
)  # fmt: skip


def _rules(rand: Rand) -> str:
    listed = [_rule(rand, 2) for _ in range(rand.randrange(4))]
    document: Any = draws.bent(rand, {"rules": listed})
    return draws.as_yaml(rand, document)


def _rule(rand: Rand, depth: int) -> draws.Body:
    rule: draws.Body = {"group": "example.com", "kind": "Thing"} if rand.random() < 0.7 else {}
    for _ in range(rand.randrange(5)):
        value = rand.choice(_RULE_VALUES)
        if depth and rand.random() < 0.3:
            value = rand.choice((_rule(rand, depth - 1), [_rule(rand, depth - 1)]))
        rule[rand.choice(_RULE_KEYS)] = value
    return rule


def _draw_config_maps(rand: Rand) -> Input:
    entry = {"typeName": "Job", "group": "batch", "priorityName": "train", "preemptibility": "x"}
    listed = draws.bent(rand, {"types": [dict(entry), dict(entry)]}).get("types")
    types = draws.spelled(rand, listed)
    return ("rules", _rules(rand).encode("utf-8", "replace")), ("types", types)


def _feed_config_maps(given: Input) -> list[Refusal]:
    (_, rules), (_, types) = given
    book = rule_book(rules.decode())
    kind_defaults({"types": types.decode("utf-8", "replace")})
    return [of_problem(problem) for problem in book.problems]


TARGETS: Final = (
    Target("pod grouper", 6, _draw_workload, _feed_workload),
    Target("rules and defaults", 3, _draw_config_maps, _feed_config_maps),
)
