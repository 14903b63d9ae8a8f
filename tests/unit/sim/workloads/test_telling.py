"""What the simulated control plane says about pods and Jobs."""

from typing import Any

from muster.sim.workloads.telling import Teller


class Heard:
    """A recorder that remembers."""

    def __init__(self) -> None:
        self.said: list[tuple[str, str, str, str]] = []

    def warning(self, about: Any, reason: str, message: str) -> None:
        self.said.append((f"{about.kind}/{about.name}", "Warning", reason, message))

    def normal(self, about: Any, reason: str, message: str) -> None:
        self.said.append((f"{about.kind}/{about.name}", "Normal", reason, message))


def told() -> tuple[Teller, Heard]:
    heard = Heard()
    return Teller(heard, ("kai-scheduler",)), heard  # type: ignore[arg-type]


def pod(**spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": "p", "namespace": "team", "uid": "u"}, "spec": spec}


def job(**conditions: str) -> dict[str, Any]:
    listed = [
        {"type": kind, "status": "True", "reason": reason, "message": "why"}
        for kind, reason in conditions.items()
    ]
    metadata = {"name": "j", "namespace": "team", "uid": "u"}
    return {"metadata": metadata, "spec": {}, "status": {"conditions": listed}}


def test_a_pod_that_names_no_scheduler_hears_which_one_there_is() -> None:
    teller, heard = told()
    teller.pod_changed(None, pod(schedulerName="default-scheduler"))
    ((about, kind, reason, message),) = heard.said
    assert (about, kind, reason) == ("Pod/p", "Warning", "FailedScheduling")
    assert "write kai-scheduler as schedulerName into the spec" in message


def test_a_pod_that_misspells_the_scheduler_hears_how_it_is_called() -> None:
    teller, heard = told()
    teller.pod_changed(None, pod(schedulerName="kai-schduler"))
    teller.pod_changed(None, pod(schedulerName="volcano"))
    ((_, _, _, message),) = heard.said
    assert message.startswith("No scheduler of this cluster is called kai-schduler, so nobody")
    assert "write kai-scheduler as schedulerName" in message


def test_a_daemon_set_hears_that_nobody_makes_its_pods() -> None:
    teller, heard = told()
    made = {"metadata": {"name": "agent", "namespace": "team", "uid": "u"}, "spec": {}}
    teller.daemon_set_changed(None, made)
    teller.daemon_set_changed(made, made)
    ((about, kind, reason, message),) = heard.said
    assert (about, kind, reason) == ("DaemonSet/agent", "Warning", "NoController")
    assert message.startswith("No controller of this cluster makes pods of a DaemonSet")


def test_a_pod_that_somebody_places_hears_nothing() -> None:
    teller, heard = told()
    teller.pod_changed(None, pod(schedulerName="kai-scheduler"))
    teller.pod_changed(None, pod(schedulerName="default-scheduler", nodeName="n"))
    seen = pod(schedulerName="default-scheduler")
    teller.pod_changed(seen, seen)
    teller.pod_changed(seen, None)
    assert heard.said == []


def test_a_job_that_failed_or_completed_says_so_once() -> None:
    teller, heard = told()
    failed = job(Failed="BackoffLimitExceeded")
    teller.job_changed(None, job())
    teller.job_changed(job(), failed)
    teller.job_changed(failed, failed)
    teller.job_changed(job(), job(Complete="CompletionsReached"))
    assert heard.said == [
        ("Job/j", "Warning", "BackoffLimitExceeded", "why"),
        ("Job/j", "Normal", "Completed", "Job completed"),
    ]
