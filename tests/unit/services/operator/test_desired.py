"""What the operator makes of Config and shards."""

from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from muster.api.cel import compiled
from muster.api.codec import from_builtins
from muster.api.config import Config
from muster.api.shard import SchedulingShard
from muster.cli.commands import COMMANDS
from muster.engine.config.conf import parse_conf
from muster.engine.registry import build_policy
from muster.services.operator.decide import (
    Desired,
    desired,
    ineffective,
    missing_dependencies,
    usable_config,
    usable_shards,
)
from muster.services.operator.dialects import kept_for
from muster.services.operator.objects import OPTIONAL, Wanted
from muster.services.operator.settings import Installation, Release, Settings

Json = dict[str, Any]
RELEASE = Release("registry.example/muster", "1.2.3")
EVERYTHING = frozenset(kind.full_name for kind in OPTIONAL)
SERVICES = {
    "admission",
    "binder",
    "pod-grouper",
    "podgroup-controller",
    "queue-controller",
    "node-scale-adjuster",
}


def settings_of(spec: Json | None = None) -> Settings:
    config = from_builtins(Config, {"metadata": {"name": "kai-config"}, "spec": spec or {}})
    assert usable_config(config) == []
    return Settings.of(config, RELEASE)


def shard_of(name: str, **spec: Any) -> SchedulingShard:
    return from_builtins(SchedulingShard, {"metadata": {"name": name}, "spec": spec})


def desired_of(
    spec: Json | None = None,
    *shards: SchedulingShard,
    served: frozenset[str] = frozenset(),
) -> Desired:
    settings = settings_of(spec)
    usable, wrong = usable_shards(shards, settings, served)
    assert wrong == {}
    return desired(
        Installation(settings, usable, *kept_for(shards, settings, served), served, "Q0E=")
    )


def all_of(wants: Desired) -> Iterator[Wanted]:
    yield from wants.config
    yield from wants.webhooks
    for each in wants.shards.values():
        yield from each


def found(wants: Desired, kind: str, name: str) -> Json:
    (one,) = [
        want.body for want in all_of(wants) if (want.kind.kind, want.key.name) == (kind, name)
    ]
    return one


def names_of(wants: Desired, kind: str) -> set[str]:
    return {want.key.name for want in all_of(wants) if want.kind.kind == kind}


def container(deployment: Json) -> Json:
    (one,) = deployment["spec"]["template"]["spec"]["containers"]
    return dict(one)


def conf_of(shard: SchedulingShard, spec: Json | None = None) -> Json:
    wants = desired_of(spec, shard)
    name = f"kai-scheduler-{shard.metadata.name}"
    text = found(wants, "ConfigMap", name)["data"]["config.yaml"]
    document: Json = yaml.safe_load(text)
    return document


FULL: Json = {
    "global": {
        "jsonLog": True,
        "replicaCount": 2,
        "podLabelSelector": {"team": "a"},
        "namespaceLabelSelector": {"kind": "work"},
        "additionalImagePullSecrets": ["pull"],
        "vpa": {"enabled": True},
    },
    "podGrouper": {
        "maxConcurrentReconciles": 4,
        "k8sClientConfig": {"qps": 30, "burst": 60},
        "args": {
            "gangScheduleKnative": False,
            "defaultPrioritiesConfigMapName": "defaults",
            "defaultPrioritiesConfigMapNamespace": "elsewhere",
        },
    },
    "binder": {
        "maxConcurrentReconciles": 8,
        "service": {"k8sClientConfig": {"qps": 5, "burst": 6}},
        "plugins": {"hamicore": {"enabled": True}},
        "resourceReservation": {
            "allocationTimeout": 90,
            "runtimeClassName": "nvidia",
            "podResources": {"requests": {"cpu": "10m"}},
            "reservationPodSecurityContext": {"runAsUser": 1},
        },
    },
    "admission": {"gpuSharing": True, "blockNvidiaVisibleDevices": True},
    "queueController": {"queueLabelToMetricLabel": "a=b", "queueLabelToDefaultMetricValue": "a=c"},
    "podGroupController": {"maxConcurrentReconciles": 3},
    "nodeScaleAdjuster": {"args": {"gpuMemoryToFractionRatio": 0.5}},
    "prometheus": {"enabled": True},
}


@pytest.mark.row(80)
def test_an_empty_config_installs_every_service_and_one_scheduler_per_shard() -> None:
    wants = desired_of({}, shard_of("default"), shard_of("a100", partitionLabelValue="a100"))
    schedulers = {"kai-scheduler-default", "kai-scheduler-a100"}
    assert names_of(wants, "Deployment") == SERVICES | schedulers
    assert names_of(wants, "Service") == SERVICES | schedulers
    assert names_of(wants, "NetworkPolicy") == SERVICES | schedulers
    assert set(wants.shards) == {"default", "a100"}
    assert names_of(wants, "MutatingWebhookConfiguration") == {"mutating-kai-admission"}
    assert names_of(wants, "ValidatingWebhookConfiguration") == {
        "validating-kai-admission",
        "kai-queue-validation-v2",
        "kai-podgroup-validation-v2alpha2",
        "kai-bindrequest-validation-v1alpha2",
        "kai-workload-validation",
    }
    assert names_of(wants, "PriorityClass") == {"train", "build-preemptible", "build", "inference"}


def test_no_object_is_named_twice() -> None:
    wants = [*all_of(desired_of(FULL, shard_of("default"), served=EVERYTHING))]
    assert len({want.id for want in wants}) == len(wants)


@pytest.mark.parametrize("spec", [{}, FULL], ids=["defaults", "everything set"])
def test_every_service_understands_the_flags_that_it_is_given(spec: Json) -> None:
    shard = shard_of(
        "default",
        args={"default-staleness-grace-period": "30s", "full-hierarchy-fairness": "false"},
    )
    for want in all_of(desired_of(spec, shard)):
        if want.kind.kind == "Deployment":
            program, service = container(want.body)["command"]
            assert program == "muster"
            args = list(container(want.body)["args"])
            COMMANDS[service].load(service).make_context(service, [*args], resilient_parsing=False)


def test_every_flag_of_the_scheduler_is_the_operators_or_the_shards() -> None:
    """A flag that is added to the scheduler must be given a home."""
    from muster.cli.services import SERVICES
    from muster.services.operator.shard_args import SWITCHES, VALUES

    (scheduler,) = [one for one in SERVICES if one.name == "scheduler"]
    flags = {flag.name.removeprefix("--") for flag in scheduler.flags.values()}
    args = container(found(desired_of({}, shard_of("a")), "Deployment", "kai-scheduler-a"))["args"]
    of_other_systems = {"takes-unlabelled"}
    set_by_us = {arg.removeprefix("--").partition("=")[0] for arg in args} | of_other_systems
    never = {
        "kubeconfig",
        "scheduler-conf-map",
        "journal",
        "journal-cycles",
        "auth-token-file",
        "metrics-cert-file",
        "metrics-key-file",
    }
    assert flags - set_by_us == SWITCHES | VALUES.keys() | never


@pytest.mark.parametrize("kind", ["binpack", "spread"])
def test_the_rendered_configuration_is_one_that_the_scheduler_takes(kind: str) -> None:
    shard = shard_of("default", placementStrategy={"gpu": kind, "cpu": kind})
    wants = desired_of({}, shard)
    text = found(wants, "ConfigMap", "kai-scheduler-default")["data"]["config.yaml"]
    conf = parse_conf(text)
    assert build_policy(conf) is not None
    assert ("consolidation" in conf.actions) == (kind == "binpack")


def test_actions_and_plugins_stand_in_the_order_of_their_priorities() -> None:
    conf = conf_of(shard_of("default"))
    assert conf["actions"] == "allocate, consolidation, reclaim, preempt, stalegangeviction"
    names = [plugin["name"] for plugin in conf["tiers"][0]["plugins"]]
    assert names[:3] == ["predicates", "proportion", "priority"]
    assert names[-3:] == ["gpupack", "nodeplacement", "gpusharingorder"]
    assert "gpuspread" not in names


def test_a_shard_changes_priorities_arguments_and_switches() -> None:
    shard = shard_of(
        "default",
        placementStrategy={"gpu": "spread"},
        plugins={"priority": {"priority": 5000}, "ray": {"enabled": False}},
        actions={"preempt": {"priority": 450}},
        kValue=2.5,
        minRuntime={"preemptMinRuntime": "10m"},
        queueDepthPerAction={"allocate": 5, "reclaim": 0},
        scenarioSearchBudgets={"maxJobSearchDuration": "1m"},
    )
    conf = conf_of(shard)
    plugins = {one["name"]: one.get("arguments", {}) for one in conf["tiers"][0]["plugins"]}
    assert next(iter(plugins)) == "priority"
    assert "ray" not in plugins
    assert plugins["proportion"] == {"kValue": "2.5"}
    assert plugins["minruntime"] == {"defaultPreemptMinRuntime": "10m"}
    assert plugins["nodeplacement"] == {"gpu": "spread", "cpu": "binpack"}
    assert conf["actions"] == "allocate, preempt, reclaim, stalegangeviction"
    assert conf["queueDepthPerAction"] == {"allocate": 5}, "no limit is the absence of one"
    assert conf["scenarioSearchBudgets"]["maxJobSearchDuration"] == "1m0s"


@pytest.mark.parametrize(
    ("prometheus", "address"),
    [
        ({"enabled": True}, "http://usage-prometheus.kai-scheduler.svc.cluster.local:9090"),
        ({"externalPrometheusUrl": "http://far:9090"}, "http://far:9090"),
        ({"enabled": True, "externalPrometheusUrl": "http://far:9090"}, "http://far:9090"),
    ],
)
def test_past_usage_is_read_where_config_says_it_is(prometheus: Json, address: str) -> None:
    usage = {"clientType": "prometheus"}
    conf = conf_of(shard_of("default", usageDBConfig=usage), {"prometheus": prometheus})
    assert conf["usageDBConfig"]["connectionString"] == address


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ({"queueDepthPerAction": {"guess": 3}}, "spec.queueDepthPerAction[guess]"),
        ({"placementStrategy": {"gpu": "random"}}, "spec.placementStrategy.gpu"),
        ({"args": {"no-such-flag": "1"}}, "spec.args[no-such-flag]"),
        ({"usageDBConfig": {"clientType": "prometheus"}}, "spec.usageDBConfig.connectionString"),
    ],
)
def test_a_shard_that_cannot_be_used_is_named_with_its_field(spec: Json, field: str) -> None:
    usable, wrong = usable_shards([shard_of("good"), shard_of("bad", **spec)], settings_of())
    assert [shard.metadata.name for shard in usable] == ["good"] or field in str(wrong)
    assert any(problem.path == field for problem in wrong["bad"])


@pytest.mark.parametrize("name", ["team.a", "x" * 50])
def test_a_shard_whose_service_could_not_be_called_after_it_says_so(name: str) -> None:
    shards = [shard_of("x" * 49), shard_of(name, partitionLabelValue="a")]
    usable, wrong = usable_shards(shards, settings_of())
    assert [one.metadata.name for one in usable] == ["x" * 49]
    (problem,) = wrong[name]
    assert problem.path == "metadata.name"
    assert "at most 49" in problem.fix


def test_of_two_shards_that_claim_the_same_nodes_the_older_one_has_them() -> None:
    def aged(name: str, when: str) -> SchedulingShard:
        metadata = {"name": name, "creationTimestamp": when}
        return from_builtins(SchedulingShard, {"metadata": metadata, "spec": {}})

    shards = [aged("new", "2026-02-01T00:00:00Z"), aged("old", "2026-01-01T00:00:00Z")]
    usable, wrong = usable_shards(shards, settings_of())
    assert [shard.metadata.name for shard in usable] == ["old"]
    assert list(wrong) == ["new"]
    assert "shard new claims the same nodes as shard old" in str(wrong["new"])


def test_pods_of_services_meet_the_restricted_pod_security_standard() -> None:
    for want in all_of(desired_of({}, shard_of("default"))):
        if want.kind.kind != "Deployment":
            continue
        pod = want.body["spec"]["template"]["spec"]
        context = container(want.body)["securityContext"]
        assert pod["securityContext"]["runAsNonRoot"] is True
        assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        assert context["allowPrivilegeEscalation"] is False
        assert context["readOnlyRootFilesystem"] is True
        assert context["capabilities"] == {"drop": ["ALL"]}
        assert not any("hostPath" in volume for volume in pod["volumes"])


def test_openshift_decides_about_security_contexts_itself() -> None:
    deployment = found(desired_of({"global": {"openshift": True}}), "Deployment", "binder")
    assert "securityContext" not in deployment["spec"]["template"]["spec"]
    assert "securityContext" not in container(deployment)


def test_services_that_write_hold_a_lease_even_with_one_replica() -> None:
    wants = desired_of({}, shard_of("default"))
    for name in (SERVICES | {"kai-scheduler-default"}) - {"admission"}:
        assert "--leader-elect" in container(found(wants, "Deployment", name))["args"]


@pytest.mark.parametrize("required", [False, True])
def test_replicas_of_a_service_keep_apart(required: bool) -> None:
    spec = {"global": {"replicaCount": 2, "requireDefaultPodAntiAffinityTerm": required}}
    deployment = found(desired_of(spec), "Deployment", "binder")
    apart = deployment["spec"]["template"]["spec"]["affinity"]["podAntiAffinity"]
    assert ("requiredDuringSchedulingIgnoredDuringExecution" in apart) == required
    surge = deployment["spec"]["strategy"]["rollingUpdate"]["maxSurge"]
    assert surge == (0 if required else 1), "a node each leaves no place for one more"


def test_an_affinity_of_the_user_is_used_as_it_is() -> None:
    own: Json = {"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": []}}
    spec = {"global": {"replicaCount": 2, "affinity": own}}
    deployment = found(desired_of(spec), "Deployment", "binder")
    assert list(deployment["spec"]["template"]["spec"]["affinity"]) == ["podAntiAffinity"]


def test_a_budget_is_made_where_there_is_more_than_one_replica() -> None:
    budget = {"service": {"podDisruptionBudget": {"enabled": True}}}
    assert names_of(desired_of({"binder": budget}), "PodDisruptionBudget") == set()
    two = {"binder": {**budget, "replicas": 2}}
    assert names_of(desired_of(two), "PodDisruptionBudget") == {"binder"}


def test_all_services_run_from_the_operators_own_image() -> None:
    wants = desired_of({}, shard_of("default"))
    images = {
        container(want.body)["image"] for want in all_of(wants) if want.kind.kind == "Deployment"
    }
    assert images == {"registry.example/muster/muster:1.2.3"}


@pytest.mark.parametrize(
    ("text", "release"),
    [
        ("muster:1.0", Release("", "1.0", "muster")),
        ("host:5000/team/muster:1.0", Release("host:5000/team", "1.0", "muster")),
        ("host/own@sha256:ab", Release("host", "sha256:ab", "own")),
        ("host/own", Release("host", "", "own")),
    ],
)
def test_an_image_is_read_as_pods_name_it(text: str, release: Release) -> None:
    assert Release.of(text) == release


def test_images_that_kai_left_in_the_config_are_not_run() -> None:
    kai = {"repository": "elsewhere/kai", "name": "binder", "tag": "v0.17.0"}
    wants = desired_of({"binder": {"service": {"image": kai}}})
    image = container(found(wants, "Deployment", "binder"))["image"]
    assert image == "registry.example/muster/muster:1.2.3"
    spec = {"binder": {"service": {"image": kai}}}
    (told,) = ineffective(from_builtins(Config, {"spec": spec}), [])
    assert told.path == "spec.binder.service.image"


def test_an_image_of_ones_own_is_run_without_our_command() -> None:
    image = {"repository": "own", "name": "reserve", "tag": "sha256:ab"}
    wants = desired_of({"binder": {"resourceReservation": {"image": image}}})
    args = container(found(wants, "Deployment", "binder"))["args"]
    assert "--resource-reservation-pod-image=own/reserve@sha256:ab" in args
    assert not [arg for arg in args if "pod-command" in arg]


def test_a_request_above_the_default_limit_lifts_the_limit() -> None:
    service = {"resources": {"requests": {"memory": "8Gi"}}}
    wants = desired_of({"binder": {"service": service}})
    resources = container(found(wants, "Deployment", "binder"))["resources"]
    assert resources["limits"]["memory"] == "8Gi"


def test_a_service_that_is_switched_off_leaves_nothing_behind() -> None:
    wants = desired_of({"admission": {"service": {"enabled": False}}})
    assert [want for want in all_of(wants) if want.body["metadata"]["name"] == "admission"] == []
    assert wants.webhooks == ()


def test_validation_of_queues_can_be_switched_off_alone() -> None:
    wants = desired_of({"queueController": {"webhooks": {"enableValidation": False}}})
    assert names_of(wants, "ValidatingWebhookConfiguration") == {
        "validating-kai-admission",
        "kai-podgroup-validation-v2alpha2",
        "kai-bindrequest-validation-v1alpha2",
        "kai-workload-validation",
    }


def test_webhooks_are_called_where_the_service_listens() -> None:
    spec = {"admission": {"webhook": {"port": 8443, "targetPort": 10443}}}
    wants = desired_of(spec)
    ports = {one["name"]: one for one in found(wants, "Service", "admission")["spec"]["ports"]}
    assert (ports["webhook"]["port"], ports["webhook"]["targetPort"]) == (8443, 10443)
    for want in wants.webhooks:
        for hook in want.body["webhooks"]:
            assert hook["clientConfig"]["service"]["port"] == 8443
            assert hook["clientConfig"]["caBundle"] == "Q0E="


def test_kinds_of_others_are_made_only_where_they_are_served() -> None:
    served = desired_of(FULL, shard_of("default"), served=EVERYTHING)
    assert names_of(served, "ServiceMonitor") == SERVICES | {"kai-scheduler-default"}
    assert names_of(served, "VerticalPodAutoscaler") == SERVICES | {"kai-scheduler-default"}
    assert names_of(served, "Prometheus") == {"prometheus"}
    not_served = desired_of(FULL, shard_of("default"))
    for kind in OPTIONAL:
        assert names_of(not_served, kind.kind) == set()
    assert missing_dependencies(Installation(settings_of(FULL))) == ["prometheus operator"]
    assert missing_dependencies(Installation(settings_of())) == []


def _rules(wants: Desired) -> Iterator[tuple[str, str, Json]]:
    for want in all_of(wants):
        if want.kind.kind in ("ClusterRole", "Role"):
            for rule in want.body["rules"]:
                yield want.kind.kind, want.key.name, rule


def test_no_role_has_a_wildcard() -> None:
    for _, name, rule in _rules(desired_of({}, shard_of("default"))):
        for part in ("verbs", "apiGroups", "resources"):
            assert "*" not in rule.get(part, ()), name


def test_a_service_changes_its_own_lease_and_no_other() -> None:
    wants = desired_of({}, shard_of("default"), shard_of("a", partitionLabelValue="a"))
    changing = [
        (kind, name, rule)
        for kind, name, rule in _rules(wants)
        if "leases" in rule.get("resources", ()) and set(rule["verbs"]) != {"create"}
    ]
    assert {kind for kind, _, _ in changing} == {"Role"}
    leases = {name: rule["resourceNames"] for _, name, rule in changing}
    assert leases["muster-scheduler"] == ["kai-scheduler", "kai-scheduler-a"]
    assert all(len(held) == 1 for name, held in leases.items() if name != "muster-scheduler")


@pytest.mark.parametrize(
    ("role", "verb", "resource"),
    [
        ("muster-binder", "create", "pods"),
        ("muster-node-scale-adjuster", "create", "pods"),
        ("muster-node-scale-adjuster", "delete", "pods"),
        ("muster-scheduler", "create", "configmaps"),
        ("muster-resource-reservation", "patch", "pods"),
        ("muster-pod-grouper", "list", "configmaps"),
    ],
)
def test_rights_that_matter_in_one_namespace_are_given_in_that_one_only(
    role: str, verb: str, resource: str
) -> None:
    holders = {
        kind
        for kind, name, rule in _rules(desired_of({}, shard_of("default")))
        if name == role and verb in rule["verbs"] and resource in rule["resources"]
    }
    assert holders == {"Role"}


def test_a_reservation_pod_may_change_only_itself() -> None:
    wants = desired_of({}, served=EVERYTHING)
    policy = found(wants, "ValidatingAdmissionPolicy", "muster-resource-reservation-own-pod")
    (check,) = policy["spec"]["validations"]
    (asked,) = policy["spec"]["matchConditions"]
    account = "system:serviceaccount:kai-resource-reservation:kai-resource-reservation"

    def holds(expression: str, who: str, extra: Json) -> bool:
        request = {"userInfo": {"username": who, "extra": extra}}
        pod = {"metadata": {"name": "gpu-a"}}
        program = compiled(expression, ("object", "request"))
        return program.is_true({"object": pod, "request": request})

    key = "authentication.kubernetes.io/pod-name"
    assert holds(check["expression"], account, {key: ["gpu-a"]})
    others: list[Json] = [{key: ["gpu-b"]}, {}, {key: []}, {key: ["gpu-a", "gpu-b"]}]
    for other in others:
        assert not holds(check["expression"], account, other), other
    assert holds(asked["expression"], account, {})
    assert not holds(asked["expression"], "system:serviceaccount:kai-scheduler:binder", {})
    assert policy["spec"]["failurePolicy"] == "Fail"
    bound = found(wants, "ValidatingAdmissionPolicyBinding", "muster-resource-reservation-own-pod")
    assert bound["spec"]["policyName"] == policy["metadata"]["name"]
    assert bound["spec"]["validationActions"] == ["Deny"]
