"""Pods of two operating systems, as text, on a node that says it runs one and on one that does not.

They come the way of the scheduler's cache: shared parts, requirements read once per template.
"""

import json
import sys

from tests.support.extended import objects

import muster
from muster.api.codec import decode
from muster.engine.actions import allocate
from muster.engine.config.conf import parse_conf
from muster.engine.cycle import run_cycle
from muster.engine.registry import build_policy
from muster.model.pod_requirements import RequirementsCache
from muster.model.tables import snapshot_of
from muster.services.scheduler.pod_interning import PodInterner, RawPod
from muster.testing.invariants import broken

_SYSTEMS = {"first": "linux", "second": "linux", "third": "windows"}


def main() -> None:
    share, read = PodInterner(), RequirementsCache()
    texts = [json.dumps(objects.pod(n, {}, os={"name": os})) for n, os in _SYSTEMS.items()]
    pods = [share(decode(RawPod, text)) for text in texts]
    first, second, third = (read(pod, {}, False) for pod in pods)
    nodes = [
        objects.node("says-linux", {}, {"kubernetes.io/os": "linux"}),
        objects.node("a-mute", {}, {}),
    ]
    records = objects.records(nodes, objects.queue(), pods, read)
    policy = build_policy(parse_conf("actions: allocate\n"))
    result = run_cycle(snapshot_of(records), policy, [("allocate", allocate.execute)], 0.0)
    refusals = result.explanation.refusals
    seen = {
        "source": muster.__file__,
        "twins_are_read_once": first is second,
        "others_are_read_anew": first is not third,
        "started": {bind.task: bind.node for bind in result.plan.binds},
        "refused": {job: result.explanation.sentences(job) for job in refusals},
        "reasons": {job: [one.dominant.name for one in found] for job, found in refusals.items()},
        "broken": broken(records, result.plan),
    }
    json.dump(seen, sys.stdout)


if __name__ == "__main__":
    main()
