"""What must hold when faults are over and the cluster has come to rest, and when all is gone."""

from collections.abc import Iterator

from muster.client.kinds import Plain
from muster.lab.simulate.manifests import HOME
from muster.lab.simulate.reasons import untrue_reasons
from muster.lab.simulate.reckoning import would_fit
from muster.lab.simulate.view import (
    EVENTS,
    GROUPS,
    PODS,
    REQUESTS,
    View,
    has_ended,
    is_terminating,
    name_of,
    node_of,
)


def wrong_at_rest(view: View) -> Iterator[tuple[str, str]]:
    """What must not be so when nothing goes wrong any more: the invariant, and who breaks it."""
    for pod in view.all(PODS, HOME):
        if is_terminating(pod) or has_ended(pod) or pod["spec"].get("schedulingGates"):
            continue
        if node_of(pod):
            if (pod.get("status") or {}).get("phase") != "Running":
                yield "what is bound runs", f"{name_of(pod)} does not run on {node_of(pod)}"
        elif not any(_reasons(view, pod)):
            yield "who waits is told why", f"{name_of(pod)} waits without a reason"
    for group in view.all(GROUPS):
        if would_fit(view, group):
            yield "what fits runs", f"{name_of(group)} waits, and there is room for it"
        for untrue in untrue_reasons(view, group):
            yield "reasons are true", f"{name_of(group)}: {untrue}"
    for request in view.all(REQUESTS):
        phase = (request.get("status") or {}).get("phase")
        if phase != "Succeeded":
            yield "what is decided is done", f"bind request {name_of(request)} is {phase}"


def left_behind(view: View) -> list[str]:
    """What of our making is still there when people have taken all of theirs away."""
    return [
        f"{storage} {one['metadata'].get('namespace', '')}/{name_of(one)}"
        for storage in (PODS, GROUPS, REQUESTS)
        for one in view.all(storage)
    ]


def _reasons(view: View, pod: Plain) -> Iterator[str]:
    """All that is said about why a pod waits."""
    for condition in (pod.get("status") or {}).get("conditions") or ():
        if condition["type"] == "PodScheduled" and condition["status"] == "False":
            yield condition.get("message") or ""
    group = view.group_of(pod)
    for condition in ((group or {}).get("status") or {}).get("schedulingConditions") or ():
        yield condition.get("message") or ""
    about = {name_of(pod), *([name_of(group)] if group else [])}
    for event in view.all(EVENTS, HOME):
        regarding = event.get("involvedObject") or event.get("regarding") or {}
        if regarding.get("name") in about:
            yield event.get("message") or event.get("note") or ""
