"""Built-in admission as pipeline steps, in Kubernetes' order and under its names."""

from collections.abc import Callable, Iterable

from muster.sim.apiserver.pipeline import Act, AdmissionPhase, AdmissionStep, WriteRequest
from muster.sim.apiserver.plugins import limit_ranges, others, pods, quotas
from muster.sim.apiserver.rbac import Rbac

Applies = Callable[[WriteRequest], bool]

# Needs a node lifecycle controller to take the taint away again, and one that makes accounts.
NEED_CONTROLLERS = frozenset({"ServiceAccount", "TaintNodesByCondition"})


def built_in_steps(disabled: Iterable[str] = ()) -> list[AdmissionStep]:
    """The steps before the webhooks (mutating) and among the checks, less the disabled ones."""
    off = frozenset(disabled)
    steps = [
        _mutating("TaintNodesByCondition", others.taint_new_node, _creates("nodes")),
        _mutating("LimitRanger", limit_ranges.set_container_defaults, _creates("pods")),
        _mutating("ServiceAccount", pods.set_account, _creates("pods")),
        _mutating("Priority", pods.set_priority, _creates("pods")),
        _mutating("DefaultTolerationSeconds", pods.set_tolerations, _creates("pods")),
        _mutating("RuntimeClass", pods.set_runtime, _creates("pods")),
        _mutating(
            "DefaultStorageClass", others.set_storage_class, _creates("persistentvolumeclaims")
        ),
        _checking("LimitRanger", limit_ranges.enforce_limits, limit_ranges.concerns_limits),
        _checking("Priority", pods.check_default_class, _writes(pods.PRIORITY_CLASSES)),
    ]
    return [step for step in steps if step.name not in off]


def last_steps(rbac: Rbac | None, disabled: Iterable[str] = ()) -> list[AdmissionStep]:
    """The steps after the webhooks: who may give rights, and quota, which must be last."""
    roles = others.role_steps(rbac) if rbac is not None else []
    quota = _checking("ResourceQuota", quotas.enforce_quota, quotas.limits_namespace)
    return [step for step in (*roles, quota) if step.name not in frozenset(disabled)]


def _mutating(name: str, act: Act, applies: Applies) -> AdmissionStep:
    return AdmissionStep(name, AdmissionPhase.MUTATE, act, applies)


def _checking(name: str, act: Act, applies: Applies) -> AdmissionStep:
    return AdmissionStep(name, AdmissionPhase.ADMIT, act, applies)


def _creates(resource: str) -> Applies:
    return lambda request: request.kind.resource == resource and request.verb == "create"


def _writes(resource: str) -> Applies:
    return lambda request: request.kind.resource == resource and request.verb != "delete"
