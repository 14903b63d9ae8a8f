"""Scenarios of the lab on a real control plane, in real time."""

import asyncio

from tests.support.lab import BIND_REQUEST, JOB, NODE, POD, POD_GROUP, QUEUE, Lab, Setting, Story

from muster.api.meta import Key
from muster.client.errors import NotFound
from muster.client.kinds import plain_kind
from muster.client.write import Deletion, Propagation
from muster.lab.control_plane import ControlPlane
from muster.lab.install import Installation
from muster.lab.kube_cluster import SLICE, KubeCluster, webhook_server

_HOOKS = [
    plain_kind("admissionregistration.k8s.io", "v1", kind, plural, namespaced=False)
    for kind, plural in (
        ("MutatingWebhookConfiguration", "mutatingwebhookconfigurations"),
        ("ValidatingWebhookConfiguration", "validatingwebhookconfigurations"),
    )
]
VOLCANO_JOB = plain_kind("batch.volcano.sh", "v1alpha1", "Job", "jobs")
# Owners before what they own; nodes when nothing runs on them.
_LEFT_BEHIND = (*_HOOKS, VOLCANO_JOB, JOB, POD, BIND_REQUEST, POD_GROUP, QUEUE, NODE, SLICE)
_AT_ONCE = Deletion(propagation=Propagation.BACKGROUND, grace_s=0)
_GONE_WITHIN_S = 300.0
_LOOK_EVERY_S = 0.1


def on_kube(plane: ControlPlane, scenario: Story, setting: Setting | None = None) -> None:
    """Tell a story; at its end the cluster is checked, and emptied for the next."""
    told = setting or Setting()

    async def main() -> None:
        product = Installation(
            options=told.options,
            conf_file=told.conf_file,
            without=told.without,
            hami_core=told.hami_core,
            dialect=told.dialect,
            dialect_conf=told.dialect_conf,
            webhook_server=webhook_server(plane),
        )
        async with KubeCluster(plane, told.nodes, wrap=told.wrap) as cluster:
            lab = Lab(cluster, product, cluster.clock, look_every_s=_LOOK_EVERY_S)
            try:
                await product.bring_up(cluster)
                await scenario(lab)
                await lab.check()
            finally:
                await empty(cluster, lab)

    asyncio.run(main())


async def empty(cluster: KubeCluster, lab: Lab) -> None:
    for name in list(cluster.supervisors):
        await cluster.kill(name)
    for kind in _LEFT_BEHIND:
        for found in await lab.all(kind):
            meta = found["metadata"]
            try:
                await cluster.writer.delete(
                    kind, Key(meta.get("namespace", ""), meta["name"]), _AT_ONCE
                )
            except NotFound:
                continue

    async def nothing_is_left() -> bool:
        return not any([await lab.all(kind) for kind in (JOB, POD, NODE)])

    await lab.until(nothing_is_left, _GONE_WITHIN_S)
