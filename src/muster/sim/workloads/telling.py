"""Events that a real control plane writes about pods and Jobs, for the people who look at them.

Also two that only this world needs: it has no default scheduler, so a pod that names none waits;
and nobody makes the pods of a DaemonSet.
"""

from dataclasses import dataclass
from difflib import get_close_matches

from muster.client.events import Recorder
from muster.client.informer import Informer
from muster.client.kinds import Plain
from muster.sim.workloads.objects import DAEMON_SET, JOB, POD, condition_of, reference

_DEFAULT = "default-scheduler"


@dataclass(frozen=True, slots=True)
class Teller:
    """Tells of what it sees happen."""

    recorder: Recorder
    schedulers: tuple[str, ...] = ()
    """Those that may be named."""

    def listen(
        self, pods: Informer[Plain], jobs: Informer[Plain], daemon_sets: Informer[Plain]
    ) -> None:
        pods.add_handler(self.pod_changed)
        jobs.add_handler(self.job_changed)
        daemon_sets.add_handler(self.daemon_set_changed)

    def pod_changed(self, old: Plain | None, new: Plain | None) -> None:
        if new is None or old is not None:
            return
        named = new["spec"].get("schedulerName") or _DEFAULT
        # Another name is that of somebody else's scheduler, unless it is one of these misspelled.
        is_slip = named not in self.schedulers and get_close_matches(named, self.schedulers)
        if new["spec"].get("nodeName") or (named != _DEFAULT and not is_slip):
            return
        known = " or ".join(self.schedulers) or "the one that is to place it"
        self.recorder.warning(
            reference(new, POD.api_version, "Pod"),
            "FailedScheduling",
            f"No scheduler of this cluster is called {named}, so nobody places this pod: write "
            f"{known} as schedulerName into the spec of the pod, or of the template that it is "
            "made from.",
        )

    def daemon_set_changed(self, old: Plain | None, new: Plain | None) -> None:
        """Its zero pods look like a mistake of whoever wrote it."""
        if new is None or old is not None:
            return
        self.recorder.warning(
            reference(new, DAEMON_SET.api_version, "DaemonSet"),
            "NoController",
            "No controller of this cluster makes pods of a DaemonSet: its nodes are pretended, and "
            "need no agents. Write a Deployment to try its pod template.",
        )

    def job_changed(self, old: Plain | None, new: Plain | None) -> None:
        """As the Job controller tells of a Job that has ended."""
        if old is None or new is None:
            return
        about = reference(new, JOB.api_version, "Job")
        if _has(new, "Failed") and not _has(old, "Failed"):
            failed = condition_of(new, "Failed")
            self.recorder.warning(about, str(failed["reason"]), str(failed["message"]))
        elif _has(new, "Complete") and not _has(old, "Complete"):
            self.recorder.normal(about, "Completed", "Job completed")


def _has(job: Plain, kind: str) -> bool:
    return bool(condition_of(job, kind).get("status") == "True")
