"""In which steps webhooks move to a server that answers them. Pure.

KAI's queues and pod groups are judged by the controllers of these kinds; ours by admission. While
its Deployment rolls, whoever is asked may still be KAI's, or our last release, and know nothing of
a path that we would register; and who was asked so far must stay until nobody asks there any more.
So an API server that trusts both is told first, then admission rolls, then the webhooks move, then
the others do.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any, Final

from muster.api.names import SERVICE_POD_GROUP_CONTROLLER, SERVICE_QUEUE_CONTROLLER
from muster.services.operator.objects import DEPLOYMENT, SERVICE, Json, Wanted
from muster.services.operator.status import unavailability

Asked = tuple[str, str]
"""A service of our namespace and a path of it."""
ANSWER_FOR_KAI: Final = (SERVICE_QUEUE_CONTROLLER, SERVICE_POD_GROUP_CONTROLLER)
"""Services that KAI's webhooks ask, and ours do not."""


def asked(hooks: Iterable[Mapping[str, Any]], namespace: str) -> Iterator[Asked]:
    """Whom the API server asks for these webhooks."""
    for hook in hooks:
        service = (hook.get("clientConfig") or {}).get("service") or {}
        if service.get("namespace") == namespace:
            yield service["name"], service.get("path", "")


def is_answered(want: Wanted, live: Json, namespace: str) -> bool:
    """Whether all that it asks for is asked for already."""
    return {*asked(want.body["webhooks"], namespace)} <= {
        *asked(live.get("webhooks", ()), namespace)
    }


def trusting(want: Wanted, live: Json, namespace: str) -> Wanted:
    """What is there now, but for the certificates: those of whoever is asked afterwards are good
    already."""
    bundles = {
        service: hook["clientConfig"].get("caBundle")
        for hook in want.body["webhooks"]
        for service, _ in asked([hook], namespace)
    }
    hooks = []
    for hook in live.get("webhooks", ()):
        client = hook["clientConfig"]
        for service, _ in asked([hook], namespace):
            if bundles.get(service):
                client = {**client, "caBundle": bundles[service]}
        hooks.append({**hook, "clientConfig": client})
    return replace(want, body={**want.body, "webhooks": hooks})


def has_rolled(deployment: Json) -> bool:
    """Whether it is ready and nothing of an earlier one is left."""
    status = deployment.get("status") or {}
    is_new = status.get("replicas", 0) == status.get("updatedReplicas", 0)
    return is_new and not unavailability(deployment)


def waiting(wants: Iterable[Wanted], services: frozenset[str]) -> list[Wanted]:
    """What may not change as long as the API server asks these services."""
    return [
        want for want in wants if want.kind in (DEPLOYMENT, SERVICE) and want.key.name in services
    ]
