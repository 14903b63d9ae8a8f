"""No request body makes the embedded server fail, or stops it serving other clients."""

import copy
import json
from collections.abc import Iterator
from typing import Any

import pytest

from muster.base.log import Level, Log, MemorySink
from muster.base.rand import Rand
from muster.client.transport import Request, Transport
from muster.sim.apiserver.embedded import Embedded, EmbeddedDependencies, EmbeddedSettings

_TOKEN = "odd"
_RBAC = "/apis/rbac.authorization.k8s.io/v1/namespaces/default"
JUNK: list[Any] = [
    None, 0, -1, 1.5, "", "x", True, "100%", "-5", [], {}, [1], ["a"], [{}], [None], [[]],
    {"a": 1}, {"a": {}}, {"name": "x"},
]  # fmt: skip
CONTAINER = {
    "name": "c",
    "image": "x",
    "env": [{"name": "A", "value": "b"}],
    "resources": {"requests": {"cpu": "1"}, "limits": {"memory": "1Gi"}},
}
SCHEMA = {
    "type": "object",
    "required": ["a"],
    "x-kubernetes-validations": [{"rule": "self.a == 'x'", "message": "m"}],
    "properties": {
        "a": {"type": "string", "default": "x", "enum": ["x"], "pattern": "^x$", "maxLength": 3},
        "l": {
            "type": "array",
            "items": {"type": "object", "properties": {"k": {"type": "string"}}, "required": ["k"]},
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["k"],
        },
        "m": {"type": "object", "additionalProperties": {"type": "integer", "minimum": 0}},
        "i": {"x-kubernetes-int-or-string": True, "anyOf": [{"type": "integer"}]},
    },
}
WEBHOOK = {
    "name": "a.b.c",
    "clientConfig": {"url": "https://127.0.0.1:1/x", "caBundle": "eA=="},
    "rules": [
        {
            "operations": ["CREATE"],
            "apiGroups": [""],
            "apiVersions": ["v1"],
            "resources": ["secrets"],
        }
    ],
    "sideEffects": "None",
    "admissionReviewVersions": ["v1"],
    "failurePolicy": "Ignore",
    "namespaceSelector": {"matchExpressions": [{"key": "a", "operator": "In", "values": ["b"]}]},
    "matchConditions": [{"name": "x", "expression": "object.metadata.name == 'x'"}],
    "timeoutSeconds": 1,
}
BODIES: list[tuple[str, dict[str, Any]]] = [
    (
        "/api/v1/namespaces/default/pods",
        {
            "spec": {
                "restartPolicy": "Never",
                "tolerations": [{"key": "k", "operator": "Exists"}],
                "nodeSelector": {"a": "b"},
                "volumes": [{"name": "v", "configMap": {"name": "c"}}],
                "containers": [CONTAINER],
                "initContainers": [{"name": "i", "image": "x"}],
            }
        },
    ),
    (
        "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
        {
            "metadata": {"name": "things.example.com"},
            "spec": {
                "group": "example.com",
                "scope": "Namespaced",
                "names": {"plural": "things", "kind": "Thing"},
                "versions": [
                    {
                        "name": "v1",
                        "served": True,
                        "storage": True,
                        "subresources": {"status": {}},
                        "schema": {
                            "openAPIV3Schema": {"type": "object", "properties": {"spec": SCHEMA}}
                        },
                    }
                ],
            },
        },
    ),
    (
        "/api/v1/namespaces/default/limitranges",
        {"spec": {"limits": [{"type": "Pod", "min": {"cpu": "1"}, "max": {"cpu": "2"}}]}},
    ),
    (
        "/api/v1/namespaces/default/resourcequotas",
        {"spec": {"hard": {"pods": "500"}, "scopes": ["BestEffort"]}},
    ),
    (f"{_RBAC}/roles", {"rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]}),
    (
        f"{_RBAC}/rolebindings",
        {
            "roleRef": {
                "apiGroup": "rbac.authorization.k8s.io",
                "kind": "ClusterRole",
                "name": "view",
            },
            "subjects": [{"kind": "User", "name": "ann"}],
        },
    ),
    (
        "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations",
        {"webhooks": [WEBHOOK]},
    ),
]


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    for key in list(value) if isinstance(value, dict) else range(len(value)):
        yield value, key
        if isinstance(value[key], dict | list):
            yield from _places(value[key])


def odd(body: dict[str, Any], rand: Rand) -> dict[str, Any]:
    """The body with up to three places gone or replaced by junk."""
    changed = copy.deepcopy(body)
    for _ in range(rand.randint(1, 3)):
        places = list(_places(changed))
        if not places:
            break
        holder, key = rand.choice(places)
        if rand.random() < 0.2:
            del holder[key]
        else:
            holder[key] = copy.deepcopy(rand.choice(JUNK))
    return changed


async def _sent(transport: Transport, method: str, path: str, body: Any = None) -> tuple[int, Any]:
    content = b"" if body is None else json.dumps(body).encode()
    request = Request(method, path, (), {"content-type": "application/json"}, content)
    answer = await transport.send(request)
    return answer.status, json.loads(await answer.read())


@pytest.mark.parametrize("seed", range(6))
async def test_odd_bodies_are_accepted_or_refused_and_the_server_goes_on_serving(seed: int) -> None:
    rand = Rand(seed)
    world = EmbeddedDependencies(log=Log("test", MemorySink(), Level.ERROR))
    async with Embedded(EmbeddedSettings(admin_token=_TOKEN), world) as cluster:
        transport = cluster.transport(_TOKEN)
        for number in range(150):
            path, body = rand.choice(BODIES)
            named = {"metadata": {"name": f"n{number}"}} | body
            status, answer = await _sent(transport, "POST", path, odd(named, rand))
            assert status < 500, (path, answer)
        fine = {"metadata": {"name": "fine"}}
        path = "/api/v1/namespaces/default/configmaps"
        assert (await _sent(transport, "POST", path, fine))[0] == 201
        assert (await _sent(transport, "GET", "/apis"))[0] == 200
        assert (await _sent(transport, "GET", "/api/v1/namespaces/default/pods"))[0] == 200
