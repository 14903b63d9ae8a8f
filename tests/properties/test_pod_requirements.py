"""Reading what a pod asks for with a memory is reading it."""

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.properties.test_pod_interning import names, optional, pods

from muster.api.codec import from_builtins
from muster.api.core import Pod
from muster.model.pod_requirements import RequirementsCache, requirements_of
from muster.services.scheduler.pod_interning import PodInterner

expressions = st.builds(
    lambda key, value: {"key": key, "operator": "In", "values": [value]}, names, names
)
near = st.builds(
    lambda key, value, label: {
        "requiredDuringSchedulingIgnoredDuringExecution": [
            {
                "topologyKey": key,
                "labelSelector": {"matchLabels": {key: value}},
                "matchLabelKeys": [label],
            }
        ]
    },
    names,
    names,
    names,
)
nodes = st.builds(
    lambda need: {
        "requiredDuringSchedulingIgnoredDuringExecution": {
            "nodeSelectorTerms": [{"matchExpressions": [need]}]
        }
    },
    expressions,
)
rare = optional(
    affinity=optional(nodeAffinity=nodes, podAffinity=near, podAntiAffinity=near),
    overhead=st.just({"cpu": "10m"}),
    resources=st.just({"requests": {"cpu": "7"}}),
    topologySpreadConstraints=st.lists(
        st.builds(
            lambda key, label: {
                "maxSkew": 1,
                "topologyKey": key,
                "whenUnsatisfiable": "DoNotSchedule",
                "labelSelector": {},
                "matchLabelKeys": [label],
            },
            names,
            names,
        ),
        max_size=1,
    ),
    resourceClaims=st.lists(
        st.builds(lambda name: {"name": name, "resourceClaimName": name}, names), max_size=1
    ),
)
notes = st.dictionaries(
    st.sampled_from(
        [
            "gpu-fraction",
            "gpu-memory",
            "gpu-fraction-num-devices",
            "runai/shared-gpu-configmap",
            "nvidia.com/mig-1g.5gb",
        ]
    ),
    st.sampled_from(["0.5", "2", "a"]),
)


@settings(max_examples=150, deadline=None)
@given(st.lists(st.tuples(pods, rare, notes, st.booleans()), min_size=1, max_size=5))
def test_cached_pod_requirements_equal_freshly_computed_ones(
    written: list[tuple[dict[str, Any], dict[str, Any], dict[str, str], bool]],
) -> None:
    keeper, memo = PodInterner(), RequirementsCache()
    for plain, wishes, annotations, containers_matter in (*written, *written):
        metadata = {**plain["metadata"], "annotations": annotations}
        spec = {**plain["spec"], **wishes}
        pod = keeper(from_builtins(Pod, {**plain, "metadata": metadata, "spec": spec}))
        found = memo(pod, {}, containers_matter)
        assert found == requirements_of(pod, {}, containers_matter)
