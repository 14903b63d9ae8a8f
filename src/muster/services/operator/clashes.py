"""Names that people choose and that something of ours has already. Pure.

Shards, accounts and webhooks are called as people say. Where two things of ours are called alike
each look writes the one over the other, and the next look the other over the one, without an end.
"""

from collections.abc import Iterator, Sequence, Set
from typing import Final

from muster.api import names
from muster.api.config import Config
from muster.api.shard import SchedulingShard
from muster.api.validation.problems import Problem
from muster.services.operator.dialects import profile_of
from muster.services.operator.rbac import rights_of_services
from muster.services.operator.settings import Release, Settings

_FIX: Final = "give it another name"
_HOOK: Final = "ValidatingWebhookConfiguration"
_Row = tuple[str, str]
"""Where a name was chosen, and the object; of one that nobody chooses the place is empty."""


def scheduler_name(settings: Settings, shard: SchedulingShard) -> str:
    """Of the Deployment, the ConfigMap and the Service of a shard."""
    return f"{settings.names.scheduler}-{shard.metadata.name}"


def dashboard_name(shard: SchedulingShard) -> str:
    """Of the Deployment and the Service of its dashboard."""
    return f"{names.SERVICE_DASHBOARD}-{shard.metadata.name}"


def shard_names(shard: SchedulingShard, settings: Settings) -> list[str]:
    """What objects of a shard are called in our namespace, of whatever kind."""
    found = [scheduler_name(settings, shard)]
    if profile_of(shard).speaks_kai and settings.section("dashboard")["service"]["enabled"]:
        found.append(dashboard_name(shard))
    return found


def shard_clashes(called: Sequence[str], taken: Set[str]) -> Iterator[Problem]:
    """Of a shard whose objects would be called so; `taken` is what is there before it."""
    for index, name in enumerate(called):
        if name in taken or name in called[:index]:
            why = f"its objects would be called {name}, and something of ours is"
            yield Problem("metadata.name", why, _FIX)


def names_of_ours(settings: Settings) -> Iterator[str]:
    """What is called so in our namespace and belongs to no shard, whoever makes it."""
    yield from (names.OPERATOR_DEPLOYMENT, names.DEFAULTS_CONFIG_MAP)
    yield names.SERVICE_USAGE_PROMETHEUS
    for service, rights in rights_of_services(settings).items():
        yield service
        for rule in rights.within.get(settings.names.namespace, ()):
            if "configmaps" in rule["resources"]:
                yield from rule.get("resourceNames", ())


def config_clashes(config: Config) -> Iterator[Problem]:
    """Two accounts, or two webhooks, under one name."""
    settings = Settings.of(config, Release())
    taken: set[str] = set()
    for path, name in (*_accounts(settings), *_hooks(settings)):
        if path and name in taken:
            yield Problem(path, f"there is another {name} of ours", _FIX)
        taken.add(name)


def _accounts(settings: Settings) -> Iterator[_Row]:
    known = settings.names
    for service in (*rights_of_services(settings), names.OPERATOR_DEPLOYMENT):
        yield "", f"ServiceAccount {known.namespace}/{service}"
    reservation = f"{known.reservation_namespace}/{known.reservation_service_account}"
    yield "spec.binder.resourceReservation.serviceAccountName", f"ServiceAccount {reservation}"
    scaling = f"{known.scale_adjust_namespace}/{known.scale_adjust_service_account}"
    yield "spec.nodeScaleAdjuster.args.nodeScaleServiceAccount", f"ServiceAccount {scaling}"
    instance = f"{known.namespace}/{settings.prometheus['instanceName']}"
    yield "spec.prometheus.instanceName", f"ServiceAccount {instance}"


def _hooks(settings: Settings) -> Iterator[_Row]:
    known, of_controller = settings.names, "webhooks.webhookConfigurationNamePrefix"
    yield "", f"{_HOOK} {known.bind_request_webhook_prefix}v1alpha2"
    yield "", f"{_HOOK} {known.workload_webhook}"
    yield "", f"{_HOOK} {names.VOLCANO_VALIDATING_WEBHOOK}"
    yield "", f"MutatingWebhookConfiguration {names.VOLCANO_MUTATING_WEBHOOK}"
    yield f"spec.queueController.{of_controller}", f"{_HOOK} {known.queue_webhook_prefix}v2"
    groups = f"{known.pod_group_webhook_prefix}v2alpha2"
    yield f"spec.podGroupController.{of_controller}", f"{_HOOK} {groups}"
    path = "spec.admission.validatingWebhookConfigurationName"
    yield path, f"{_HOOK} {known.validating_webhook}"
    mutating = f"MutatingWebhookConfiguration {known.mutating_webhook}"
    yield "spec.admission.mutatingWebhookConfigurationName", mutating
