"""NUMA zones that nodes publish reach the numa plugin, where the cluster has such a kind."""

from pathlib import Path
from typing import Any

import yaml
from tests.support.lab import DEFINITION, POD, InWorld, Lab, Setting, in_lab

from muster.api import kinds
from muster.api.kinds import NODE_RESOURCE_TOPOLOGY, Kind
from muster.api.meta import Key
from muster.api.profiles import ProfileName
from muster.client.kinds import Plain, plainly
from muster.engine.config.conf import DEFAULT_ACTIONS, DEFAULT_PLUGINS
from muster.lab.hosting import ensure
from muster.services.scheduler.options import Options
from muster.sim.kubelet.nodes import Gpus, NodeGroup

ZONES = plainly(NODE_RESOURCE_TOPOLOGY)
NUMATOPOLOGY = plainly(kinds.NUMATOPOLOGY)
VOLCANO_JOB = plainly(kinds.VOLCANO_JOB)
ONE_NODE = (NodeGroup("gpu", count=1, gpus=Gpus(count=8)),)
_PREDICTED = "kai.scheduler/numa-placement-predicted"


def _definition(kind: Kind[Plain]) -> Plain:
    """The definition as exporters of topologies bring it, its schema left open."""
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {"name": kind.version, "served": True, "storage": True}
    return {
        "metadata": {
            "name": kind.full_name,
            # The server wants to know who agreed to a group of Kubernetes' own.
            "annotations": {"api-approved.kubernetes.io": "https://github.com/kubernetes/"},
        },
        "spec": {
            "group": kind.group,
            "names": {"kind": kind.kind, "plural": kind.plural},
            "scope": "Cluster",
            "versions": [{**version, "schema": {"openAPIV3Schema": schema}}],
        },
    }


def _zones(node: str, gpus: int) -> Plain:
    """A node whose kubelet wants a pod's devices in one of two zones."""
    amounts = {"allocatable": str(gpus), "available": str(gpus), "capacity": str(gpus)}
    resources = [{"name": "nvidia.com/gpu", **amounts}]
    return {
        "metadata": {"name": node},
        "attributes": [
            {"name": "topologyManagerPolicy", "value": "single-numa-node"},
            {"name": "topologyManagerScope", "value": "pod"},
        ],
        "zones": [
            {"name": f"node-{number}", "type": "Node", "resources": resources}
            for number in range(2)
        ],
    }


def _with_numa(folder: Path) -> Path:
    plugins = [{"name": name} for name in (*DEFAULT_PLUGINS, "numa")]
    conf = {"actions": ", ".join(DEFAULT_ACTIONS), "tiers": [{"plugins": plugins}]}
    file = folder / "scheduler.yaml"
    file.write_text(yaml.safe_dump(conf))
    return file


def test_numa_zones_are_used_from_publication_until_their_crd_is_deleted(
    in_world: InWorld, tmp_path: Path
) -> None:
    async def scenario(lab: Lab) -> None:
        await lab.pod("before", gpus=6)
        await lab.until_running("before", 1)
        (node,) = (await lab.running("before")).values()
        await lab.cluster.writer.delete(POD, Key(lab.namespace, "before"))
        await _publish(lab, ZONES, _zones(node, gpus=4))
        await lab.pod("small", gpus=2)
        await lab.until_running("small", 1)
        assert '"node-0"' in (await lab.get(POD, "small"))["metadata"]["annotations"][_PREDICTED]
        await lab.pod("wide", gpus=6)
        await lab.until(lambda: _waits_for_alignment(lab, "wide"))
        await lab.cluster.writer.delete(DEFINITION, Key("", ZONES.full_name))
        await lab.until_running("wide", 1)

    in_world(scenario, Setting(nodes=ONE_NODE, conf_file=_with_numa(tmp_path)))


def test_a_pod_of_volcano_waits_for_a_zone_that_its_numatopology_shows(tmp_path: Path) -> None:
    conf = tmp_path / "volcano-scheduler.conf"
    plugins = [{"name": name} for name in ("gang", "predicates", "proportion", "numa-aware")]
    conf.write_text(
        yaml.safe_dump({"actions": "enqueue, allocate", "tiers": [{"plugins": plugins}]})
    )
    whole = {"cpu": "6", "memory": "1Gi"}
    part = {
        "containers": [
            {"name": "c", "image": "i", "resources": {"requests": whole, "limits": whole}}
        ]
    }
    job = {"tasks": [{"name": "t", "replicas": 1, "template": {"spec": part}}]}

    async def scenario(lab: Lab) -> None:
        detail = {str(cpu): {"numa": cpu // 4} for cpu in range(8)}
        policies = {"CPUManagerPolicy": "static", "TopologyManagerPolicy": "restricted"}
        spec = {"policies": policies, "cpuDetail": detail}
        await _publish(lab, NUMATOPOLOGY, {"metadata": {"name": "node-1"}, "spec": spec})
        for name, wish in (("loose", "none"), ("tight", "restricted")):
            tasks = [{**job["tasks"][0], "topologyPolicy": wish}]
            await lab.create(VOLCANO_JOB, {"metadata": {"name": name}, "spec": {"tasks": tasks}})
            await lab.until_running(name, 1)
        assert (await lab.get(POD, "tight-t-0"))["spec"]["nodeName"] == "node-1"

    options = Options(watches_claims=False)
    nodes = (NodeGroup("node", count=3, cpu="8"),)
    in_lab(
        scenario,
        Setting(
            nodes=nodes,
            options=options,
            dialect=ProfileName.VOLCANO,
            dialect_conf=conf,
            without=("scheduler", "podgrouper", "scaleadjuster", "reservation"),
        ),
    )


async def _publish(lab: Lab, kind: Kind[Plain], published: Plain) -> None:
    """Bring the kind, and one object of it, and let the scheduler hear of them."""
    await ensure(lab.cluster.writer, DEFINITION, _definition(kind))

    async def is_served() -> bool:
        found = await lab.get(DEFINITION, kind.full_name)
        conditions: list[Any] = (found.get("status") or {}).get("conditions") or []
        return any(one["type"] == "Established" and one["status"] == "True" for one in conditions)

    await lab.until(is_served)
    await ensure(lab.cluster.writer, kind, published)

    async def is_heard_of() -> bool:
        found = lab.cluster.supervisors
        scheduler = next(one for name, one in found.items() if name.endswith("scheduler"))
        informers: Any = scheduler.debug["informers"]()
        return any(one["kind"] == kind.full_name and one["objects"] for one in informers)

    await lab.until(is_heard_of)


async def _waits_for_alignment(lab: Lab, pod: str) -> bool:
    conditions = ((await lab.get(POD, pod)).get("status") or {}).get("conditions") or []
    return any("NUMA" in (one.get("message") or "") for one in conditions)
