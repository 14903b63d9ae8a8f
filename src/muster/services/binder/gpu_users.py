"""Which pods are on a shared GPU, and what their labels must say of it. Pure.

Labels are their author's to edit, and anybody may write the name of a shared GPU on a pod of his.
So the bind request is asked, which lives as long as the pod; the labels are, where it is gone.
"""

from muster.api import names
from muster.api.bindrequest import FRACTION, BindRequest
from muster.api.core import Pod
from muster.api.kinds import POD
from muster.model.gpu_request import gpu_groups_of, shared_request
from muster.services.binder.cluster_view import Patch


def is_on(group: str, pod: Pod, request: BindRequest | None) -> bool:
    """Whether a pod of ours is on that shared GPU, or about to be: labelled, and not yet bound.

    `request` is the live bind request about the pod.
    """
    is_labelled = group in gpu_groups_of(pod)
    if request is None:
        return is_labelled and bool(pod.spec.node_name)
    if group not in request.spec.selected_gpu_groups:
        return False
    return is_labelled or pod.spec.node_name == request.spec.selected_node


def labels_write(pod: Pod, request: BindRequest) -> Patch | None:
    """What the labels lack of the request, and null for what they say beyond it."""
    wanted, have = _group_labels(pod, request), pod.metadata.labels
    changes: dict[str, str | None] = {
        key: value for key, value in wanted.items() if have.get(key) != value
    }
    changes |= {key: None for key in have if is_group_label(key) and key not in wanted}
    return labelled(pod, changes) if changes else None


def restored_labels(pod: Pod, request: BindRequest | None) -> Patch | None:
    """The write that gives a bound pod back the labels that somebody took or changed."""
    is_bound = bool(pod.spec.node_name) and not pod.has_ended
    is_leaving = pod.metadata.deletion_timestamp is not None
    if request is None or not is_bound or is_leaving:
        return None
    is_share = request.spec.received_resource_type == FRACTION
    return labels_write(pod, request) if is_share else None


def labelled(pod: Pod, labels: dict[str, str | None]) -> Patch:
    return Patch(POD, pod.key, {"metadata": {"labels": labels}}, uid=pod.metadata.uid)


def is_group_label(key: str) -> bool:
    return key == names.LABEL_GPU_GROUP or key.startswith(names.LABEL_GPU_GROUP_PREFIX)


def _group_labels(pod: Pod, request: BindRequest) -> dict[str, str]:
    """How the pod says which devices it shares; one device and several are written differently."""
    groups, received = request.spec.selected_gpu_groups, request.spec.received_gpu
    devices = received.count if received else shared_request(pod.metadata.annotations).devices
    if len(groups) == 1 and devices <= 1:
        return {names.LABEL_GPU_GROUP: groups[0]}
    return {f"{names.LABEL_GPU_GROUP_PREFIX}{group}": group for group in groups}
