"""CustomResourceDefinitions of the kinds that the stand-ins know: their fields, as far as read."""

from collections.abc import Sequence
from typing import Any, Final

from muster.api.bounds import PODS_PER_WORKLOAD_MAX
from muster.api.kinds import Kind
from muster.client.kinds import Plain, plain_kind
from muster.sim.operators.job_sets import JOB_SET, TRAIN_JOB, TRAINING_RUNTIME
from muster.sim.operators.kubeflow import MPI_JOB, PYTORCH_JOB
from muster.sim.operators.serving import LEADER_WORKER_SET, RAY_CLUSTER, RAY_JOB
from muster.sim.operators.spark import SPARK_APPLICATION

DEFINITION: Final = plain_kind(
    "apiextensions.k8s.io",
    "v1",
    "CustomResourceDefinition",
    "customresourcedefinitions",
    namespaced=False,
)
Schema = dict[str, Any]

_LIST_MAX: Final = 64
_APPROVED: Final = {
    "api-approved.kubernetes.io": "https://github.com/kubeflow/spark-operator/pull/1298"
}
"""As the Spark operator's own definitions say."""


def _object(fields: Schema | None = None, required: Sequence[str] = ()) -> Schema:
    """Fields that are read have a type; what else people write is kept as it is."""
    schema: Schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    if fields:
        schema["properties"] = fields
    if required:
        schema["required"] = list(required)
    return schema


def _list(item: Schema) -> Schema:
    return {"type": "array", "maxItems": _LIST_MAX, "items": item}


_TEXT: Final[Schema] = {"type": "string"}
_FLAG: Final[Schema] = {"type": "boolean"}
_COUNT: Final[Schema] = {
    "type": "integer",
    "format": "int32",
    "minimum": 0,
    "maximum": PODS_PER_WORKLOAD_MAX,
}
_TEXTS: Final[Schema] = {"type": "object", "additionalProperties": _TEXT}
_TEMPLATE: Final = _object(
    {
        "metadata": _object({"labels": _TEXTS, "annotations": _TEXTS}),
        "spec": _object({"containers": _list(_object({"name": _TEXT}))}),
    }
)
_REPLICAS: Final[Schema] = {
    "type": "object",
    "maxProperties": _LIST_MAX,
    "additionalProperties": _object(
        {"replicas": _COUNT, "restartPolicy": _TEXT, "template": _TEMPLATE}
    ),
}
_POLICY: Final = _object({"suspend": _FLAG})
_SPARK_PART: Final = _object(
    {
        "instances": _COUNT,
        "image": _TEXT,
        "memory": _TEXT,
        "schedulerName": _TEXT,
        "labels": _TEXTS,
        "annotations": _TEXTS,
        "template": _TEMPLATE,
        "gpu": _object({"name": _TEXT, "quantity": _COUNT}),
    }
)
_JOB_SET: Final = _object(
    {
        "suspend": _FLAG,
        "startupPolicy": _object({"startupPolicyOrder": _TEXT}),
        "replicatedJobs": _list(
            _object(
                {
                    "name": _TEXT,
                    "replicas": _COUNT,
                    "template": _object(
                        {
                            "metadata": _object({"labels": _TEXTS, "annotations": _TEXTS}),
                            "spec": _object({"parallelism": _COUNT, "template": _TEMPLATE}),
                        }
                    ),
                },
                ["name"],
            )
        ),
    }
)

_RAY_CLUSTER: Final = _object(
    {
        "suspend": _FLAG,
        "headGroupSpec": _object({"template": _TEMPLATE}),
        "workerGroupSpecs": _list(
            _object(
                {
                    "groupName": _TEXT,
                    "replicas": _COUNT,
                    "minReplicas": _COUNT,
                    "numOfHosts": _COUNT,
                    "suspend": _FLAG,
                    "template": _TEMPLATE,
                }
            )
        ),
    },
    ["headGroupSpec"],
)

_SHORT_NAMES: Final = {"LeaderWorkerSet": "lws", "SparkApplication": "sparkapp"}
_SPECS: Final[Sequence[tuple[Kind[Plain], Schema]]] = (
    (PYTORCH_JOB, _object({"pytorchReplicaSpecs": _REPLICAS, "runPolicy": _POLICY})),
    (MPI_JOB, _object({"mpiReplicaSpecs": _REPLICAS, "runPolicy": _POLICY})),
    (
        RAY_CLUSTER,
        _RAY_CLUSTER,
    ),
    (
        RAY_JOB,
        _object(
            {"suspend": _FLAG, "entrypoint": _TEXT, "rayClusterSpec": _RAY_CLUSTER},
            ["rayClusterSpec"],
        ),
    ),
    (JOB_SET, _JOB_SET),
    (
        LEADER_WORKER_SET,
        _object(
            {
                "replicas": _COUNT,
                "startupPolicy": _TEXT,
                "leaderWorkerTemplate": _object(
                    {"size": _COUNT, "leaderTemplate": _TEMPLATE, "workerTemplate": _TEMPLATE}
                ),
            }
        ),
    ),
    (
        SPARK_APPLICATION,
        _object({"suspend": _FLAG, "driver": _SPARK_PART, "executor": _SPARK_PART}),
    ),
    (
        TRAIN_JOB,
        _object(
            {
                "suspend": _FLAG,
                "labels": _TEXTS,
                "annotations": _TEXTS,
                "runtimeRef": _object({"name": _TEXT}, ["name"]),
                "trainer": _object({"numNodes": _COUNT}),
                "podTemplateOverrides": _list(
                    _object(
                        {
                            "targetJobs": _list(_object({"name": _TEXT})),
                            "metadata": _object({"labels": _TEXTS, "annotations": _TEXTS}),
                            "spec": _object(),
                        }
                    )
                ),
            },
            ["runtimeRef"],
        ),
    ),
    (TRAINING_RUNTIME, _object({"template": _object({"spec": _JOB_SET})})),
)


def definitions() -> list[dict[str, Any]]:
    return [_definition(kind, spec) for kind, spec in _SPECS]


def training_runtime() -> dict[str, Any]:
    """What a TrainJob that names it is made of: as many equal nodes as it asks for."""
    container = {"name": "node", "image": "pytorch"}
    job = {
        "metadata": {"labels": {"trainer.kubeflow.org/trainjob-ancestor-step": "trainer"}},
        "spec": {"template": {"spec": {"containers": [container]}}},
    }
    template = {"spec": {"replicatedJobs": [{"name": "node", "replicas": 1, "template": job}]}}
    return {"metadata": {"name": "torch-distributed"}, "spec": {"template": template}}


def _definition(kind: Kind[Plain], spec: Schema) -> dict[str, Any]:
    schema = {
        "type": "object",
        "required": ["spec"],
        "properties": {"spec": spec, "status": _object()},
    }
    version = {
        "name": kind.version,
        "served": True,
        "storage": True,
        "subresources": {"status": {}},
        "schema": {"openAPIV3Schema": schema},
        "additionalPrinterColumns": [
            {
                "name": "State",
                "type": "string",
                "jsonPath": ".status.conditions[-1:].type",
            },
            {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
        ],
    }
    short = _SHORT_NAMES.get(kind.kind)
    # Kubernetes refuses groups of its own domain where nobody says who approved them.
    notes = _APPROVED if kind.group.endswith((".k8s.io", ".kubernetes.io")) else {}
    return {
        "metadata": {"name": kind.full_name, "annotations": notes},
        "spec": {
            "group": kind.group,
            "scope": "Namespaced" if kind.namespaced else "Cluster",
            "names": {
                "kind": kind.kind,
                "listKind": f"{kind.kind}List",
                "plural": kind.plural,
                "singular": kind.kind.lower(),
                **({"shortNames": [short]} if short else {}),
            },
            "versions": [version],
        },
    }
