"""Each rule about the install-wide Config accepts and refuses."""

from typing import Any

import pytest

from muster.api.codec import from_builtins
from muster.api.config import Config
from muster.api.config_defaults import defaulted_config
from muster.api.meta import ObjectMeta, Struct
from muster.api.podgroup import PodGroup
from muster.api.validation.configs import config_problems
from muster.api.validation.objects import problems

pytestmark = pytest.mark.row(81)

Json = dict[str, Any]


def _config(name: str = "kai-config", **spec: Any) -> Config:
    return from_builtins(Config, {"metadata": {"name": name}, "spec": spec})


_WRONG: list[tuple[Json, str, str]] = [
    ({"binder": {"replicas": -1}}, "spec.binder.replicas", "-1 replicas cannot be"),
    ({"global": {"replicaCount": -1}}, "spec.global.replicaCount", "-1 replicas cannot be"),
    (
        {"binder": {"resourceReservation": {"allocationTimeout": 0}}},
        "spec.binder.resourceReservation.allocationTimeout",
        "0 is not above 0",
    ),
    (
        {"nodeScaleAdjuster": {"args": {"gpuMemoryToFractionRatio": 1.5}}},
        "spec.nodeScaleAdjuster.args.gpuMemoryToFractionRatio",
        "1.5 is no part of a GPU",
    ),
    (
        {"admission": {"webhook": {"targetPort": 8080}}},
        "spec.admission.webhook.metricsPort",
        "8080 is targetPort, too",
    ),
    ({"global": {"replicaCount": 101}}, "spec.global.replicaCount", "101 replicas cannot be"),
    (
        {"podGrouper": {"maxConcurrentReconciles": 0}},
        "spec.podGrouper.maxConcurrentReconciles",
        "0 is not above 0",
    ),
    (
        {"binder": {"service": {"k8sClientConfig": {"qps": 0}}}},
        "spec.binder.service.k8sClientConfig.qps",
        "0 is not above 0",
    ),
    ({"binder": {"probePort": 0}}, "spec.binder.probePort", "0 is no port"),
    ({"admission": {"webhook": {"port": 70000}}}, "spec.admission.webhook.port", "no port"),
    (
        {"scheduler": {"service": {"image": {"pullPolicy": "Sometimes"}}}},
        "spec.scheduler.service.image.pullPolicy",
        "unknown value 'Sometimes'",
    ),
    ({"global": {"queueLabelKey": "a b"}}, "spec.global.queueLabelKey", "no label key"),
    ({"global": {"nodePoolLabelKey": "/"}}, "spec.global.nodePoolLabelKey", "no label key"),
    ({"global": {"schedulerName": ""}}, "spec.global.schedulerName", "empty"),
    ({"global": {"schedulerName": "my.scheduler"}}, "spec.global.schedulerName", "DNS label"),
    (
        {"queueController": {"queueLabelToMetricLabel": "a"}},
        "spec.queueController.queueLabelToMetricLabel",
        "no list of pairs",
    ),
    (
        {"queueController": {"queueLabelToDefaultMetricValue": "=b"}},
        "spec.queueController.queueLabelToDefaultMetricValue",
        "no list of pairs",
    ),
    (
        {"prometheus": {"retentionPeriod": "ever"}},
        "spec.prometheus.retentionPeriod",
        "no Prometheus duration",
    ),
    (
        {"prometheus": {"serviceMonitor": {"interval": "1.5m"}}},
        "spec.prometheus.serviceMonitor.interval",
        "no Prometheus duration",
    ),
    (
        {"binder": {"service": {"image": {"name": "my binder"}}}},
        "spec.binder.service.image.name",
        "'my binder' cannot be pulled",
    ),
    (
        {"binder": {"resourceReservation": {"image": {"tag": "1 "}}}},
        "spec.binder.resourceReservation.image.tag",
        "'1 ' cannot be pulled",
    ),
    (
        {"nodeScaleAdjuster": {"args": {"scalingPodImage": {"repository": "here/ there"}}}},
        "spec.nodeScaleAdjuster.args.scalingPodImage.repository",
        "cannot be pulled",
    ),
    (
        {"binder": {"service": {"resources": {"limits": {"memory": "-1Gi"}}}}},
        "spec.binder.service.resources.limits[memory]",
        "-1Gi is negative",
    ),
    (
        {"scheduler": {"service": {"resources": {"requests": {"so much": "1"}}}}},
        "spec.scheduler.service.resources.requests[so much]",
        "no resource",
    ),
    (
        {"binder": {"resourceReservation": {"podResources": {"requests": {"cpu": "-1m"}}}}},
        "spec.binder.resourceReservation.podResources.requests[cpu]",
        "-1m is negative",
    ),
    (
        {"binder": {"service": {"podDisruptionBudget": {"maxUnavailable": -1}}}},
        "spec.binder.service.podDisruptionBudget.maxUnavailable",
        "-1 is negative",
    ),
    ({"namespace": "kai.scheduler"}, "spec.namespace", "no DNS label"),
    (
        {"binder": {"resourceReservation": {"namespace": "A"}}},
        "spec.binder.resourceReservation.namespace",
        "no DNS label",
    ),
    (
        {"binder": {"resourceReservation": {"serviceAccountName": "a b"}}},
        "spec.binder.resourceReservation.serviceAccountName",
        "no name of an object",
    ),
    (
        {"binder": {"resourceReservation": {"appLabel": "a b"}}},
        "spec.binder.resourceReservation.appLabel",
        "no label value",
    ),
    (
        {"global": {"additionalImagePullSecrets": ["good", "Bad"]}},
        "spec.global.additionalImagePullSecrets[1]",
        "'Bad' is no name of an object",
    ),
    ({"global": {"priorityClassName": "High"}}, "spec.global.priorityClassName", "no name"),
    ({"global": {"nodeSelector": {"a b": "c"}}}, "spec.global.nodeSelector[a b]", "no label key"),
    (
        {"global": {"podLabelSelector": {"team": "a b"}}},
        "spec.global.podLabelSelector[team]",
        "no label value",
    ),
    (
        {"global": {"namespaceLabelSelector": {f"k{i}": "v" for i in range(10_000)}}},
        "spec.global.namespaceLabelSelector",
        "10000 labels",
    ),
    (
        {"admission": {"validatingWebhookConfigurationName": "A"}},
        "spec.admission.validatingWebhookConfigurationName",
        "no name of an object",
    ),
    (
        {"queueController": {"webhooks": {"webhookConfigurationNamePrefix": "-"}}},
        "spec.queueController.webhooks.webhookConfigurationNamePrefix",
        "no beginning of an object's name",
    ),
    (
        {"queueController": {"metricsNamespace": "my-metrics"}},
        "spec.queueController.metricsNamespace",
        "no beginning of a metric's name",
    ),
    (
        {"scheduler": {"schedulerService": {"type": "Public"}}},
        "spec.scheduler.schedulerService.type",
        "unknown value 'Public'",
    ),
    (
        {"queueController": {"controllerService": {"metrics": {"name": "My Port"}}}},
        "spec.queueController.controllerService.metrics.name",
        "no DNS label",
    ),
    (
        {"prometheus": {"accountingLabelKey": "a b"}},
        "spec.prometheus.accountingLabelKey",
        "no label key",
    ),
    (
        {"admission": {"webhook": {"port": 8080}}},
        "spec.admission.webhook.metricsPort",
        "8080 is port, too",
    ),
    ({"dashboard": {"port": 8080}}, "spec.dashboard.port", "8080 is that of its metrics"),
    (
        {"prometheus": {"storageSize": "much"}},
        "spec.prometheus.storageSize",
        "not a quantity",
    ),
]


@pytest.mark.parametrize(("spec", "path", "text"), _WRONG)
def test_a_config_that_breaks_a_rule_has_one_problem_at_the_field(
    spec: Json, path: str, text: str
) -> None:
    (problem,) = config_problems(_config(**spec))
    assert problem.path == path
    assert text in problem.message


def test_a_config_of_another_name_is_a_problem() -> None:
    (problem,) = config_problems(_config("mine"))
    assert (problem.path, problem.message) == ("metadata.name", "only kai-config is read")


def test_the_defaults_have_no_problem() -> None:
    assert list(config_problems(defaulted_config(_config(), "registry", "v1"))) == []


@pytest.mark.parametrize(
    ("obj", "count"),
    [(_config("mine"), 1), (PodGroup(), 0), (ObjectMeta(), 0)],
)
def test_problems_are_found_by_the_type_of_the_object(obj: Struct, count: int) -> None:
    assert len(list(problems(obj))) == count
