"""Webhooks: which are called, with which review, and what their responses do."""

import asyncio
import base64
import json
from collections.abc import Callable
from typing import Any

import pytest
from tests.unit.sim.apiserver.objects import Shelf

from muster.lab.virtual_loop import LoopClock, run_virtually
from muster.sim.apiserver.admission import Handler, LocalWebhookCaller, webhook_steps
from muster.sim.apiserver.kinds import ServedKind, ServedKinds
from muster.sim.apiserver.pipeline import UserInfo, WriteRequest
from muster.sim.apiserver.refusal import ApiRefusal
from muster.sim.apiserver.webhooks import GROUP

PODS = ServedKind("", "v1", "pods", "Pod")
EVERY_POD = {"operations": ["*"], "apiGroups": [""], "apiVersions": ["*"], "resources": ["pods"]}
POD = {"metadata": {"name": "p", "namespace": "team", "labels": {"app": "x"}}, "spec": {}}


def hook(name: str = "h.example.com", service: str = "s", **fields: Any) -> dict[str, Any]:
    client = {"service": {"namespace": "hooks", "name": service, "path": "/check"}}
    return {
        "name": name,
        "clientConfig": client,
        "rules": [EVERY_POD],
        "sideEffects": "None",
    } | fields


def answering(**response: Any) -> Handler:
    async def handler(path: str, body: bytes) -> bytes:
        uid = json.loads(body)["request"]["uid"]
        return json.dumps({"response": {"uid": uid, "allowed": True} | response}).encode()

    return handler


def patching(*operations: dict[str, Any]) -> Handler:
    patch = base64.b64encode(json.dumps(operations).encode()).decode()
    return answering(patchType="JSONPatch", patch=patch)


class AdmissionHarness:
    """A shelf with webhook configurations, and the calls that were made."""

    def __init__(self, *hooks: dict[str, Any], kind: str = "mutating", **handlers: Handler) -> None:
        self.shelf = Shelf(
            [("namespaces", {"metadata": {"name": "team", "labels": {"tier": "a"}}})]
        )
        configuration = {"metadata": {"name": "c"}, "webhooks": list(hooks)}
        self.shelf.put(f"{kind}webhookconfigurations.{GROUP}", configuration)
        self.calls: list[dict[str, Any]] = []
        watched = {("hooks", name): self._watched(each) for name, each in handlers.items()}
        self.kinds = ServedKinds()
        self.kinds.add(PODS)
        steps = webhook_steps(self.kinds, LocalWebhookCaller(watched))
        self._step = steps[0] if kind == "mutating" else steps[1]

    def _watched(self, handler: Handler) -> Handler:
        async def watched(path: str, body: bytes) -> bytes:
            self.calls.append(json.loads(body)["request"])
            return await handler(path, body)

        return watched

    async def write(self, obj: Any = POD, **request: Any) -> tuple[Any, WriteRequest]:
        asked = WriteRequest(
            request.pop("verb", "create"),
            request.pop("kind", PODS),
            "team",
            "p",
            UserInfo("ann", ("g",)),
            self.shelf,
            uid="u-1",
            **request,
        )
        copied = json.loads(json.dumps(obj))
        return await self._step.act(asked, None, copied), asked


async def test_the_admission_review_has_all_fields_of_the_write() -> None:
    world = AdmissionHarness(hook(), s=answering())
    await world.write()
    (asked,) = world.calls
    assert asked["operation"] == "CREATE"
    assert asked["kind"] == {"group": "", "version": "v1", "kind": "Pod"}
    assert asked["resource"] == {"group": "", "version": "v1", "resource": "pods"}
    assert asked["object"]["kind"] == "Pod"
    assert asked["object"]["metadata"]["name"] == "p"
    assert asked["oldObject"] is None
    assert asked["userInfo"] == {"username": "ann", "groups": ["g"]}
    assert (asked["namespace"], asked["dryRun"]) == ("team", False)


async def test_the_patch_of_a_webhook_is_stored() -> None:
    label = {"op": "add", "path": "/metadata/labels/added", "value": "yes"}
    changed, _ = await AdmissionHarness(hook(), s=patching(label)).write()
    assert changed["metadata"]["labels"] == {"app": "x", "added": "yes"}
    assert "kind" not in changed


async def test_a_webhook_patch_that_does_not_apply_is_an_internal_error() -> None:
    wrong = {"op": "replace", "path": "/nothing/here", "value": 1}
    with pytest.raises(ApiRefusal) as refused:
        await AdmissionHarness(hook(), s=patching(wrong)).write()
    assert refused.value.code == 500


@pytest.mark.parametrize(
    ("status", "code", "words"),
    [
        ({"message": "no queue", "code": 403}, 403, "denied the request: no queue"),
        ({"reason": "Because"}, 400, "denied the request: Because"),
        ({}, 400, "denied the request without explanation"),
        ({"message": "fine", "code": 200}, 400, "denied the request: fine"),
    ],
)
@pytest.mark.parametrize("kind", ["mutating", "validating"])
async def test_a_denial_is_returned_with_its_message_and_code(
    kind: str, status: dict[str, Any], code: int, words: str
) -> None:
    world = AdmissionHarness(hook(), kind=kind, s=answering(allowed=False, status=status))
    with pytest.raises(ApiRefusal) as refused:
        await world.write()
    assert refused.value.code == code
    assert refused.value.message == f'admission webhook "h.example.com" {words}'


async def test_warnings_are_returned_to_the_client() -> None:
    _, request = await AdmissionHarness(hook(), s=answering(warnings=["old field"])).write()
    assert request.warnings == ["old field"]


_OTHER_TIER = {"matchLabels": {"tier": "b"}}
_NOT_MATCHING: list[dict[str, Any]] = [
    {"rules": [EVERY_POD | {"operations": ["UPDATE"]}]},
    {"rules": [EVERY_POD | {"resources": ["pods/status"]}]},
    {"rules": [EVERY_POD | {"apiGroups": ["apps"]}]},
    {"rules": [EVERY_POD | {"scope": "Cluster"}]},
    {"namespaceSelector": _OTHER_TIER},
    {"objectSelector": {"matchLabels": {"app": "y"}}},
    {"matchConditions": [{"name": "c", "expression": "object.metadata.name == 'q'"}]},
    {"matchConditions": [{"name": "c", "expression": "request.userInfo.username == 'bob'"}]},
]


@pytest.mark.parametrize("fields", _NOT_MATCHING)
async def test_a_webhook_is_not_called_for_what_no_rule_matches(fields: dict[str, Any]) -> None:
    world = AdmissionHarness(hook(**fields), s=answering(allowed=False))
    await world.write()
    assert world.calls == []


_MATCHING: list[dict[str, Any]] = [
    {"rules": [EVERY_POD | {"resources": ["*"]}]},
    {"rules": [EVERY_POD | {"scope": "Namespaced"}]},
    {"namespaceSelector": {"matchExpressions": [{"key": "tier", "operator": "Exists"}]}},
    {"matchConditions": [{"name": "c", "expression": "has(object.metadata.labels.app)"}]},
]


@pytest.mark.parametrize("fields", _MATCHING)
async def test_a_webhook_is_called_for_what_its_rules_match(fields: dict[str, Any]) -> None:
    world = AdmissionHarness(hook(**fields), s=answering())
    await world.write()
    assert len(world.calls) == 1


async def test_match_policy_equivalent_matches_other_versions_and_exact_does_not() -> None:
    beta = ServedKind("", "v1beta1", "pods", "Pod")
    rule = EVERY_POD | {"apiVersions": ["v1beta1"]}
    for policy, calls in (("Equivalent", 1), ("Exact", 0)):
        world = AdmissionHarness(hook(rules=[rule], matchPolicy=policy), s=answering())
        world.kinds.add(beta)
        await world.write()
        assert [call["kind"]["version"] for call in world.calls] == ["v1beta1"] * calls


async def nonsense(path: str, body: bytes) -> bytes:
    return b"what?"


@pytest.mark.parametrize("service", ["absent", "s"])
async def test_failure_policy_decides_whether_a_failing_webhook_refuses_the_write(
    service: str,
) -> None:
    await AdmissionHarness(hook(service=service, failurePolicy="Ignore"), s=nonsense).write()
    with pytest.raises(ApiRefusal) as refused:
        await AdmissionHarness(hook(service=service), s=nonsense).write()
    assert refused.value.code == 500
    assert refused.value.message.startswith(
        'Internal error occurred: failed calling webhook "h.example.com": '
    )


async def test_a_failing_match_condition_counts_as_a_failed_call() -> None:
    broken = [{"name": "c", "expression": "object.spec.absent == 1"}]
    await AdmissionHarness(
        hook(matchConditions=broken, failurePolicy="Ignore"), s=answering()
    ).write()
    with pytest.raises(ApiRefusal, match="no such key: absent"):
        await AdmissionHarness(hook(matchConditions=broken), s=answering()).write()


async def test_a_dry_run_is_refused_for_webhooks_with_side_effects() -> None:
    await AdmissionHarness(hook(sideEffects="NoneOnDryRun"), s=answering()).write(dry_run=True)
    with pytest.raises(ApiRefusal, match="does not support dry run"):
        await AdmissionHarness(hook(sideEffects="Some"), s=answering()).write(dry_run=True)


async def test_webhooks_run_in_order_and_see_earlier_patches() -> None:
    first = patching({"op": "add", "path": "/spec/a", "value": 1})
    second = patching({"op": "add", "path": "/spec/b", "value": 2})
    world = AdmissionHarness(hook("a.x", "one"), hook("b.x", "two"), one=first, two=second)
    changed, _ = await world.write()
    assert changed["spec"] == {"a": 1, "b": 2}
    assert [call["object"]["spec"] for call in world.calls] == [{}, {"a": 1}]


async def test_a_webhook_with_reinvocation_policy_is_called_again_after_later_changes() -> None:
    second = patching({"op": "add", "path": "/spec/b", "value": 2})
    again = hook("a.x", "one", reinvocationPolicy="IfNeeded")
    world = AdmissionHarness(again, hook("b.x", "two"), one=answering(), two=second)
    await world.write()
    assert [call["object"]["spec"] for call in world.calls] == [{}, {}, {"b": 2}]


def test_a_webhook_that_exceeds_its_timeout_refuses_the_write() -> None:
    async def silent(path: str, body: bytes) -> bytes:
        await asyncio.Event().wait()
        return b""

    async def main(clock: LoopClock) -> float:
        with pytest.raises(ApiRefusal, match="no answer in 7 s"):
            await AdmissionHarness(hook(timeoutSeconds=7), s=silent).write()
        return clock.monotonic_s()

    assert run_virtually(main) == 7


def test_webhook_configurations_are_not_subject_to_webhooks() -> None:
    registration = ServedKind(GROUP, "v1", "mutatingwebhookconfigurations", "X", namespaced=False)
    request = WriteRequest("create", registration, "", "x", UserInfo("ann"), Shelf())
    applies: list[Callable[[WriteRequest], bool]] = [
        step.applies for step in webhook_steps(ServedKinds(), LocalWebhookCaller())
    ]
    assert not any(each(request) for each in applies)
