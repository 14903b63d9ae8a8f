"""The control plane that other tests stand on: what it offers, and that it leaves no trace."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.support.kube import StartControlPlane, new_namespace

from muster.lab import programs
from muster.lab.control_plane import GANG_API, ControlPlane, Setup
from muster.lab.control_plane_files import ClusterUser
from muster.lab.programs import ProgramFailed

pytestmark = pytest.mark.kube


@pytest.fixture(scope="module")
def audited_plane(kube_folder: Path) -> Iterator[ControlPlane]:
    users = (ClusterUser("alice", groups=("readers",)), ClusterUser("robot"))
    with ControlPlane(kube_folder, Setup(audit=True, users=users)) as plane:
        yield plane


def test_the_server_reports_the_pinned_version(
    control_plane: ControlPlane, kube_folder: Path
) -> None:
    pinned = Path(__file__).parents[2] / "tools" / "kube" / "versions.env"
    version = control_plane.call("GET", "/version").body["gitVersion"]
    minor = ".".join(version.removeprefix("v").split(".")[:2])
    assert f"[{minor}]={version}" in pinned.read_text()


def test_a_user_may_do_what_a_role_grants_and_nothing_else(audited_plane: ControlPlane) -> None:
    plane = audited_plane
    assert plane.call("GET", "/api/v1/nodes", user="alice").status == 403

    rules = [{"apiGroups": [""], "resources": ["nodes"], "verbs": ["list"]}]
    _make_role(plane, "see-nodes", rules)
    plane.kubectl("create", "clusterrolebinding", "r", "--clusterrole=see-nodes", "--group=readers")

    assert plane.call("GET", "/api/v1/nodes", user="alice").status == 200
    assert plane.call("GET", "/api/v1/pods", user="alice").status == 403


def test_a_client_certificate_authenticates_and_an_expired_one_does_not(
    control_plane: ControlPlane, kube_folder: Path
) -> None:
    assert "default" in _namespaces_by(control_plane.certificate_kubeconfig(), kube_folder).stdout
    expired = control_plane.certificate_kubeconfig(valid_s=-60.0)
    assert "Unauthorized" in _namespaces_by(expired, kube_folder).stderr


def test_a_service_account_gets_a_token_that_the_server_accepts(
    control_plane: ControlPlane, namespace: str
) -> None:
    accounts = f"/api/v1/namespaces/{namespace}/serviceaccounts"
    control_plane.call("POST", accounts, {"metadata": {"name": "robot"}})
    token = control_plane.call("POST", f"{accounts}/robot/token", {"spec": {}}).body["status"]
    review = control_plane.call(
        "POST",
        "/apis/authentication.k8s.io/v1/tokenreviews",
        {"spec": {"token": token["token"]}},
    )
    assert review.body["status"]["user"]["username"] == f"system:serviceaccount:{namespace}:robot"


def test_a_component_can_be_killed_started_paused_and_resumed_and_loses_nothing(
    fresh_control_plane: ControlPlane,
) -> None:
    plane = fresh_control_plane
    name = new_namespace(plane)
    for part in ("kube-apiserver", "etcd"):
        plane.kill(part)
        assert part not in plane.pids()
        plane.start(part)
        plane.pause(part)
        plane.resume(part)
    assert plane.call("GET", f"/api/v1/namespaces/{name}").status == 200


def test_with_controllers_and_kwok_a_pod_runs_and_completes_on_a_fake_node(
    controlled_plane: ControlPlane,
) -> None:
    name = new_namespace(controlled_plane)
    controlled_plane.call("POST", "/api/v1/nodes", _node("made-up"))
    pods = f"/api/v1/namespaces/{name}/pods"
    controlled_plane.kubectl("wait", "-n", name, "--for=create", "serviceaccount/default")
    made = controlled_plane.call("POST", pods, _pod("p", node="made-up"))
    assert made.status == 201, made
    controlled_plane.kubectl("wait", "-n", name, "--for=condition=Ready", "pod/p")
    controlled_plane.kubectl("annotate", "-n", name, "pod/p", "muster.lab/finishes=true")
    controlled_plane.kubectl(
        "wait", "-n", name, "--for=jsonpath={.status.phase}=Succeeded", "pod/p"
    )
    controlled_plane.call("DELETE", f"{pods}/p")
    controlled_plane.kubectl("wait", "-n", name, "--for=delete", "pod/p")
    assert controlled_plane.call("GET", pods).body["items"] == []


def test_the_native_pod_group_api_can_be_enabled(
    start_control_plane: StartControlPlane,
) -> None:
    plane = start_control_plane(GANG_API)
    kinds = plane.call("GET", "/apis/scheduling.k8s.io/v1alpha2").body["resources"]
    assert {"podgroups", "workloads"} <= {kind["name"] for kind in kinds}


def test_the_dynamic_resource_api_is_served_by_default(control_plane: ControlPlane) -> None:
    kinds = control_plane.call("GET", "/apis/resource.k8s.io/v1").body["resources"]
    assert {"resourceclaims", "resourceslices"} <= {kind["name"] for kind in kinds}


def test_the_audit_log_records_verb_and_resource_of_a_request(audited_plane: ControlPlane) -> None:
    new_namespace(audited_plane)
    asked = {(event["verb"], event["objectRef"]["resource"]) for event in _by_admin(audited_plane)}
    assert ("create", "namespaces") in asked


def test_permissions_used_by_a_user_are_read_from_the_audit_log(
    audited_plane: ControlPlane,
) -> None:
    plane = audited_plane
    leases_and_logs = [
        {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["*"]},
        {"apiGroups": [""], "resources": ["pods/log"], "verbs": ["get"]},
    ]
    _make_role(plane, "some-things", leases_and_logs)
    plane.kubectl("create", "clusterrolebinding", "s", "--clusterrole=some-things", "--user=robot")
    leases = "/apis/coordination.k8s.io/v1/namespaces/default/leases"
    assert plane.call("POST", leases, {"metadata": {"name": "l"}}, user="robot").status == 201
    assert plane.call("GET", "/api/v1/namespaces/default/pods/p/log", user="robot").status == 404
    assert plane.call("GET", "/api/v1/nodes", user="robot").status == 403
    assert plane.permissions_used("robot") == {
        ("coordination.k8s.io", "leases", "create"),
        ("", "pods/log", "get"),
    }


def test_kube_scheduler_binds_a_pod(start_control_plane: StartControlPlane) -> None:
    plane = start_control_plane(Setup(scheduler=True))
    plane.call("POST", "/api/v1/nodes", _node("n1"))
    plane.call("POST", "/api/v1/namespaces/default/pods", _pod("p"))
    plane.kubectl("wait", "--for=jsonpath={.spec.nodeName}=n1", "pod/p")


def test_a_port_conflict_at_start_is_retried_with_other_ports(
    control_plane: ControlPlane, kube_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken = int(control_plane.server.rsplit(":", 1)[1])
    real, calls = programs.free_ports, []

    def first_a_taken_one(number: int) -> list[int]:
        calls.append(number)
        ports = real(number)
        return [*ports[:-1], taken] if len(calls) == 1 else ports

    monkeypatch.setattr("muster.lab.control_plane.free_ports", first_a_taken_one)
    with ControlPlane(kube_folder) as second:
        assert second.server != control_plane.server
        assert second.call("GET", "/readyz").status == 200
    assert len(calls) == 2


def test_a_component_that_refuses_its_flags_is_an_error_with_the_end_of_its_log(
    kube_folder: Path,
) -> None:
    setup = Setup(more_flags={"kube-apiserver": ["--no-such-flag"]})
    with pytest.raises(ProgramFailed, match=r"kube-apiserver ended.*no-such-flag"):
        ControlPlane(kube_folder, setup).__enter__()


def test_no_process_or_folder_is_left_after_the_control_plane_exits(kube_folder: Path) -> None:
    with ControlPlane(kube_folder) as plane:
        pids, folder = plane.pids(), plane.folder
    assert set(pids) == {"etcd", "kube-apiserver"}
    assert not any(_exists(pid) for pid in pids.values())
    assert not folder.exists()


def test_no_process_or_folder_is_left_after_its_owner_is_killed(kube_folder: Path) -> None:
    script = (
        "import sys, pathlib\n"
        "from muster.lab.control_plane import ControlPlane\n"
        "with ControlPlane(pathlib.Path(sys.argv[1])) as plane:\n"
        "    print(plane.folder, *plane.pids().values(), flush=True)\n"
        "    sys.stdin.read()\n"
    )
    child = subprocess.Popen(
        [sys.executable, "-c", script, str(kube_folder)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert child.stdout is not None
    folder, *pids = child.stdout.readline().split()
    child.send_signal(signal.SIGKILL)
    child.communicate()

    deadline_s = time.monotonic() + 120
    while any(_exists(int(pid)) for pid in pids) or Path(folder).exists():
        assert time.monotonic() < deadline_s, "the guard left something behind"
        os.sched_yield()


def _make_role(plane: ControlPlane, name: str, rules: list[dict[str, list[str]]]) -> None:
    roles = "/apis/rbac.authorization.k8s.io/v1/clusterroles"
    answer = plane.call("POST", roles, {"metadata": {"name": name}, "rules": rules})
    assert answer.status == 201, answer


def _namespaces_by(kubeconfig: Path, kube_folder: Path) -> "subprocess.CompletedProcess[str]":
    command = [str(kube_folder / "kubectl"), "--kubeconfig", str(kubeconfig), "get", "namespaces"]
    return subprocess.run(command, capture_output=True, text=True)


def _by_admin(plane: ControlPlane) -> list[dict[str, Any]]:
    events = plane.audit_events()
    return [
        event for event in events if event["user"]["username"] == "admin" and "objectRef" in event
    ]


def _node(name: str) -> dict[str, object]:
    amount = {"cpu": "8", "memory": "32Gi", "pods": "110"}
    ready = {"type": "Ready", "status": "True", "reason": "KubeletReady"}
    return {
        "metadata": {"name": name},
        "status": {"allocatable": amount, "capacity": amount, "conditions": [ready]},
    }


def _pod(name: str, node: str | None = None) -> dict[str, object]:
    containers = [{"name": "c", "image": "none", "resources": {"requests": {"cpu": "1"}}}]
    spec = {"containers": containers, "terminationGracePeriodSeconds": 0}
    return {"metadata": {"name": name}, "spec": spec | ({"nodeName": node} if node else {})}


def _exists(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True
