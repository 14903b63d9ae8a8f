"""Events that a real control plane writes about pods and Jobs, for the people who look at them.

Also one that only this world needs: it has no default scheduler, so a pod that names none waits.
"""

from dataclasses import dataclass

from muster.api.coordination import ObjectReference
from muster.client.events import Recorder
from muster.client.informer import Informer
from muster.client.kinds import Plain, header
from muster.sim.workloads.objects import JOB, POD, condition_of

_DEFAULT = "default-scheduler"


@dataclass(frozen=True, slots=True)
class Teller:
    """Tells of what it sees happen."""

    recorder: Recorder
    schedulers: tuple[str, ...] = ()
    """Those that may be named."""

    def listen(self, pods: Informer[Plain], jobs: Informer[Plain]) -> None:
        pods.add_handler(self.pod_changed)
        jobs.add_handler(self.job_changed)

    def pod_changed(self, old: Plain | None, new: Plain | None) -> None:
        if new is None or old is not None:
            return
        spec = new["spec"]
        if spec.get("nodeName") or (spec.get("schedulerName") or _DEFAULT) != _DEFAULT:
            return
        known = " or ".join(self.schedulers) or "the one that is to place it"
        self.recorder.warning(
            _reference(POD.api_version, "Pod", new),
            "FailedScheduling",
            f"No scheduler of this cluster is called {_DEFAULT}, so nobody places this pod: write "
            f"{known} as schedulerName into the spec of the pod, or of the template that it is "
            "made from.",
        )

    def job_changed(self, old: Plain | None, new: Plain | None) -> None:
        """As the Job controller tells of a Job that has ended."""
        if old is None or new is None:
            return
        about = _reference(JOB.api_version, "Job", new)
        if _has(new, "Failed") and not _has(old, "Failed"):
            failed = condition_of(new, "Failed")
            self.recorder.warning(about, str(failed["reason"]), str(failed["message"]))
        elif _has(new, "Complete") and not _has(old, "Complete"):
            self.recorder.normal(about, "Completed", "Job completed")


def _has(job: Plain, kind: str) -> bool:
    return bool(condition_of(job, kind).get("status") == "True")


def _reference(api_version: str, kind: str, thing: Plain) -> ObjectReference:
    key = header(thing).key
    return ObjectReference(
        api_version=api_version,
        kind=kind,
        namespace=key.namespace,
        name=key.name,
        uid=str(thing["metadata"]["uid"]),
    )
