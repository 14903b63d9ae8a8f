"""What somebody may write by mistake or malice, by name: the objects, in order."""

from collections.abc import Callable, Mapping
from typing import Any, Final

from muster.client.kinds import Plain
from muster.lab.simulate.manifests import (
    CONFIG_MAP,
    POD,
    POD_GROUP,
    QUEUE,
    TOPOLOGY,
    Made,
)


def _pod(name: str, spec: Mapping[str, Any] | None = None, **metadata: Any) -> Plain:
    container = {"name": "main", "image": "work", "resources": {"limits": {"cpu": "1"}}}
    labels = {"kai.scheduler/queue": "team-a", **metadata.pop("labels", {})}
    return {
        "metadata": {"name": name, "labels": labels, **metadata},
        "spec": {
            "schedulerName": "kai-scheduler",
            "restartPolicy": "Never",
            "containers": [container],
            **(spec or {}),
        },
    }


def _owner(name: str, uid: str = "00000000-0000-0000-0000-000000000000") -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "name": name,
        "uid": uid,
        "controller": True,
    }


def _group(name: str, **spec: Any) -> Made:
    body = {"minMember": 1, "queue": "team-a", **spec}
    return (POD_GROUP, {"metadata": {"name": name}, "spec": body})


def _annotated(name: str, **notes: str) -> Made:
    return (POD, _pod(name, annotations={key.replace("_", "-"): v for key, v in notes.items()}))


def _cycle() -> list[Made]:
    """Two config maps that own each other. (Their uids are not known: see `act`.)"""
    return [
        (CONFIG_MAP, {"metadata": {"name": "odd-left"}}),
        (CONFIG_MAP, {"metadata": {"name": "odd-right", "ownerReferences": [_owner("odd-left")]}}),
        (POD, _pod("odd-cycle", ownerReferences=[_owner("odd-right")])),
    ]


ODD_OBJECTS: Final[Mapping[str, Callable[[], list[Made]]]] = {
    "owner cycle": _cycle,
    "no such queue": lambda: [
        (POD, _pod("odd-queue", labels={"kai.scheduler/queue": "nowhere"})),
    ],
    "no such group": lambda: [_annotated("odd-group", pod_group_name="nowhere")],
    "fraction of nothing": lambda: [_annotated("odd-fraction", gpu_fraction="0.0")],
    "fraction of text": lambda: [_annotated("odd-text", gpu_fraction="half")],
    "memory below zero": lambda: [_annotated("odd-memory", gpu_memory="-5")],
    "minimum of text": lambda: [
        (POD, _pod("odd-minimum", annotations={"kai.scheduler/batch-min-member": "many"}))
    ],
    "no such claim": lambda: [
        (
            POD,
            _pod(
                "odd-claim",
                {
                    "volumes": [
                        {"name": "v", "persistentVolumeClaim": {"claimName": "nowhere"}},
                    ]
                },
            ),
        )
    ],
    "no such device": lambda: [
        (
            POD,
            _pod("odd-device", {"resourceClaims": [{"name": "g", "resourceClaimName": "nowhere"}]}),
        )
    ],
    "no such class": lambda: [
        (POD, _pod("odd-class", {"priorityClassName": "nowhere"})),
    ],
    "no such topology": lambda: [
        _group(
            "odd-topology",
            topologyConstraint={"topology": "nowhere", "requiredTopologyLevel": "rack"},
        ),
        _annotated("odd-topology", pod_group_name="odd-topology"),
    ],
    "minimum of millions": lambda: [
        _group("odd-millions", minMember=2_000_000_000),
        _annotated("odd-millions", pod_group_name="odd-millions"),
    ],
    "sub-groups without pods": lambda: [
        _group("odd-parts", subGroups=[{"name": "a", "minMember": 3}, {"name": "b", "parent": "x"}])
    ],
    "queue below itself": lambda: [
        (QUEUE, {"metadata": {"name": "odd-loop"}, "spec": {"parentQueue": "odd-loop"}}),
        (POD, _pod("odd-loop", labels={"kai.scheduler/queue": "odd-loop"})),
    ],
    "queue without an end": lambda: [
        (QUEUE, {"metadata": {"name": "odd-orphan"}, "spec": {"parentQueue": "nowhere"}}),
        (POD, _pod("odd-orphan", labels={"kai.scheduler/queue": "odd-orphan"})),
    ],
    "topology of nothing": lambda: [
        (TOPOLOGY, {"metadata": {"name": "odd-levels"}, "spec": {"levels": []}})
    ],
    "affinity to nobody": lambda: [
        (
            POD,
            _pod(
                "odd-affinity",
                {
                    "affinity": {
                        "podAffinity": {
                            "requiredDuringSchedulingIgnoredDuringExecution": [
                                {"topologyKey": "nowhere", "labelSelector": {}}
                            ]
                        }
                    }
                },
            ),
        )
    ],
    "far too much": lambda: [
        (
            POD,
            _pod(
                "odd-much",
                {
                    "containers": [
                        {
                            "name": "main",
                            "image": "work",
                            "resources": {"limits": {"cpu": "9000000", "nvidia.com/gpu": "4096"}},
                        }
                    ]
                },
            ),
        )
    ],
    "gate that stays": lambda: [
        (POD, _pod("odd-gate", {"schedulingGates": [{"name": "example.com/never"}]}))
    ],
}
