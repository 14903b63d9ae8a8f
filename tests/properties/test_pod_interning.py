"""What the scheduler forgets of a pod never changes what it decides about it."""

import json
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from muster.api.codec import decode, from_builtins
from muster.api.core import Pod
from muster.engine.plan import Bind
from muster.model.build import Identity, task_record
from muster.services.scheduler.manifests import needs_no_preparation
from muster.services.scheduler.pod_interning import PodInterner, RawPod

names = st.sampled_from(["a", "b", "c"])
amounts = st.dictionaries(
    st.sampled_from(["cpu", "memory", "nvidia.com/gpu"]), st.sampled_from(["1", "2", "1000m"])
)
claim_template = {"metadata": {"labels": {"x": "y"}}, "spec": {"accessModes": ["ReadWriteOnce"]}}


def optional(**fields: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries({}, optional=fields)


config_map = st.fixed_dictionaries({"name": names}, optional={"optional": st.booleans()})
variables = st.one_of(
    st.fixed_dictionaries({"name": names, "value": names}),
    st.builds(
        lambda name, ref: {"name": name, "valueFrom": {"configMapKeyRef": {**ref, "key": "k"}}},
        names,
        config_map,
    ),
)
containers = st.fixed_dictionaries(
    {"name": names, "image": names},
    optional={
        "resources": optional(requests=amounts, limits=amounts),
        "env": st.lists(variables, max_size=3),
        "envFrom": st.lists(st.builds(lambda ref: {"configMapRef": ref}, config_map), max_size=2),
        "volumeMounts": st.lists(
            st.fixed_dictionaries({"name": names, "mountPath": names}), max_size=3
        ),
        "ports": st.lists(st.fixed_dictionaries({"hostPort": st.integers(1, 9)}), max_size=2),
        "restartPolicy": st.just("Always"),
    },
)
sources = st.one_of(
    st.just({}),
    st.builds(lambda ref: {"configMap": ref}, config_map),
    st.builds(lambda name: {"persistentVolumeClaim": {"claimName": name}}, names),
    st.just({"ephemeral": {"volumeClaimTemplate": claim_template}}),
    st.builds(lambda ref: {"projected": {"sources": [{"configMap": ref}]}}, config_map),
    st.builds(lambda name: {"csi": {"driver": name}}, names),
)
volumes = st.builds(lambda name, source: {"name": name, **source}, names, sources)
tolerations = st.fixed_dictionaries({"key": names, "operator": st.just("Exists")})
pods = st.fixed_dictionaries(
    {
        "metadata": optional(
            name=names,
            namespace=names,
            uid=names,
            labels=st.dictionaries(names, names),
            annotations=st.dictionaries(
                st.sampled_from(
                    [
                        "pod-group-name",
                        "gpu-fraction",
                        "kubectl.kubernetes.io/last-applied-configuration",
                    ]
                ),
                st.sampled_from(["0.5", "g"]),
            ),
        ),
        "spec": optional(
            containers=st.lists(containers, max_size=3),
            initContainers=st.lists(containers, max_size=2),
            volumes=st.lists(volumes, max_size=4),
            tolerations=st.lists(tolerations, max_size=2),
            nodeSelector=st.dictionaries(names, names),
            nodeName=names,
            schedulerName=st.just("kai-scheduler"),
        ),
        "status": optional(phase=st.sampled_from(["Pending", "Running", "Failed"])),
    }
)


@settings(max_examples=200, deadline=None)
@given(st.lists(pods, min_size=1, max_size=4))
def test_an_interned_pod_makes_the_same_task_record(written: list[dict[str, Any]]) -> None:
    keeper = PodInterner(keeps_images=True)
    for plain in written:
        whole = from_builtins(Pod, plain)
        kept = keeper(decode(RawPod, json.dumps(plain)))
        for containers_matter in (False, True):
            wanted = task_record(whole, Identity(), 0.0, keeps_containers=containers_matter)
            assert task_record(kept, Identity(), 0.0, keeps_containers=containers_matter) == wanted
        bind = Bind("u", "x/j", "n")
        assert needs_no_preparation(kept, bind, wanted.gpu) == needs_no_preparation(
            whole, bind, wanted.gpu
        )
        assert kept.status == whole.status
        assert kept.key == whole.key
