"""What plugins of Volcano Jobs make of pods, as programs in those pods read it."""

import json
from collections.abc import Mapping
from typing import Any

import pytest

from muster.api.codec import from_builtins
from muster.api.volcano import PodGroup
from muster.api.volcano_batch import Job
from muster.services.volcano.decide.jobs import JobDecision, JobView, decide
from muster.services.volcano.decide.plugins import ssh_config, ssh_keys_given

Body = dict[str, Any]
_RUNNING = from_builtins(PodGroup, {"status": {"phase": "Running"}})


def _task(name: str, replicas: int, container: str = "main", **spec: Any) -> Body:
    containers = [{"name": container, "image": "work"}]
    return {
        "name": name,
        "replicas": replicas,
        "template": {"spec": {"containers": containers, **spec}},
    }


def _job(plugins: Mapping[str, list[str]], *tasks: Body) -> Job:
    body = {
        "metadata": {"name": "j", "namespace": "team", "uid": "u1"},
        "spec": {"plugins": plugins, "tasks": list(tasks)},
        "status": {"state": {"phase": "Running"}, "retryCount": 2},
    }
    return from_builtins(Job, body)


def _decided(job: Job) -> JobDecision:
    return decide(JobView(job, (), group=_RUNNING), 1_000_000.0)


def _pods(job: Job) -> dict[str, Body]:
    return {pod["metadata"]["name"]: pod for pod in _decided(job).create}


def _variables(pod: Body, kind: str = "containers") -> dict[str, Any]:
    found = pod["spec"][kind][0].get("env", ())
    return {one["name"]: one.get("value", one.get("valueFrom")) for one in found}


def _ports(pod: Body) -> dict[str, int]:
    found = pod["spec"]["containers"][0].get("ports", ())
    return {one["name"]: one["containerPort"] for one in found}


def _objects(job: Job) -> dict[str, Body]:
    return dict(_decided(job).objects)


# -- arguments ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "given", [["--port=99"], ["-port=99"], ["--port", "99"], ["--master=master", "-port", "99"]]
)
def test_arguments_are_read_as_programs_take_them(given: list[str]) -> None:
    pods = _pods(_job({"pytorch": given}, _task("master", 1)))
    assert _variables(pods["j-master-0"])["MASTER_PORT"] == "99"


@pytest.mark.parametrize("given", ["0", "-1", "65536", "x", "9" * 400])
def test_a_port_that_is_none_is_the_usual_one(given: str) -> None:
    pods = _pods(_job({"pytorch": [f"--port={given}"]}, _task("master", 1)))
    assert _variables(pods["j-master-0"])["MASTER_PORT"] == "23456"


# -- env, svc and ssh -----------------------------------------------------------------------------


def test_a_pod_knows_its_index_and_how_often_the_job_was_restarted() -> None:
    pods = _pods(_job({"env": []}, _task("worker", 2)))
    assert _variables(pods["j-worker-1"]) == {"VK_TASK_INDEX": "1", "VC_TASK_INDEX": "1"}
    notes = pods["j-worker-1"]["metadata"]["annotations"]
    assert notes["volcano.sh/job-retry-count"] == "2"


def test_hosts_are_in_variables_and_in_files_named_with_underscores() -> None:
    job = _job({"svc": []}, _task("ps", 1), _task("big-worker", 2))
    found = _objects(job)["ConfigMap"]
    assert found["metadata"]["name"] == "j-svc"
    assert found["data"] == {
        "ps.host": "j-ps-0.j",
        "VC_PS_HOSTS": "j-ps-0.j",
        "VC_PS_NUM": "1",
        "big_worker.host": "j-big-worker-0.j\nj-big-worker-1.j",
        "VC_BIG_WORKER_HOSTS": "j-big-worker-0.j,j-big-worker-1.j",
        "VC_BIG_WORKER_NUM": "2",
    }
    pod = _pods(job)["j-ps-0"]
    assert (pod["spec"]["hostname"], pod["spec"]["subdomain"]) == ("j-ps-0", "j")
    key = {"configMapKeyRef": {"name": "j-svc", "key": "VC_BIG_WORKER_HOSTS"}}
    assert _variables(pod)["VC_BIG_WORKER_HOSTS"] == key
    mounts = pod["spec"]["containers"][0]["volumeMounts"]
    assert mounts == [{"name": "j-svc", "mountPath": "/etc/volcano"}]
    assert pod["spec"]["volumes"] == [{"name": "j-svc", "configMap": {"name": "j-svc"}}]


def test_a_host_that_the_template_names_is_the_one_that_others_are_told() -> None:
    job = _job({"svc": []}, _task("head", 2, hostname="boss", subdomain="office"))
    assert _objects(job)["ConfigMap"]["data"] == {
        "head.host": "boss.office",
        "VC_HEAD_HOSTS": "boss.office",
        "VC_HEAD_NUM": "1",
    }
    assert _pods(job)["j-head-0"]["spec"]["hostname"] == "boss"


def test_a_large_job_may_do_without_the_variables_of_its_hosts() -> None:
    pods = _pods(_job({"svc": ["--inject-hosts-env=false"]}, _task("worker", 1)))
    assert _variables(pods["j-worker-0"]) == {}
    assert pods["j-worker-0"]["spec"]["volumes"]


def test_the_arguments_of_svc_say_what_is_made_beside_the_pods() -> None:
    usual = _objects(_job({"svc": []}, _task("worker", 1)))
    assert usual.keys() == {"Service", "ConfigMap", "NetworkPolicy"}
    assert usual["Service"]["spec"]["publishNotReadyAddresses"] is False
    given = ["--publish-not-ready-addresses=true", "--disable-network-policy"]
    other = _objects(_job({"svc": given}, _task("worker", 1)))
    assert other.keys() == {"Service", "ConfigMap"}
    assert other["Service"]["spec"]["publishNotReadyAddresses"] is True


def test_keys_are_in_a_folder_that_sshd_accepts() -> None:
    spec = _pods(_job({"ssh": []}, _task("worker", 1)))["j-worker-0"]["spec"]
    where = {"name": "j-ssh", "mountPath": "/root/.ssh", "subPath": ".ssh"}
    assert spec["containers"][0]["volumeMounts"] == [where]
    secret = spec["volumes"][0]["secret"]
    assert secret["defaultMode"] == 0o600
    assert {"key": "authorized_keys", "path": ".ssh/authorized_keys"} in secret["items"]


def test_who_is_not_root_reads_keys_in_a_folder_of_his() -> None:
    given = {"ssh": ["--ssh-key-file-path=/home/me/.ssh"]}
    spec = _pods(_job(given, _task("worker", 1)))["j-worker-0"]["spec"]
    assert spec["containers"][0]["volumeMounts"][0]["mountPath"] == "/home/me/.ssh"
    assert spec["volumes"][0]["secret"]["defaultMode"] == 0o644


def test_ssh_knows_hosts_by_the_names_of_pods_and_the_port_that_the_job_says() -> None:
    job = _job({"ssh": ["--ssh-port=2022"]}, _task("worker", 1))
    assert ssh_config(job).splitlines()[2:] == [
        "Host j-worker-0",
        "  HostName j-worker-0.j",
        "  Port 2022",
    ]
    assert "  Port 22\n" in ssh_config(_job({"ssh": []}, _task("worker", 1)))


def test_a_job_may_bring_its_own_keys() -> None:
    given = ["--ssh-private-key=secret", "--ssh-public-key=known"]
    assert ssh_keys_given(_job({"ssh": given}, _task("w", 1))) == ("secret", "known")
    assert ssh_keys_given(_job({"ssh": []}, _task("w", 1))) is None


# -- frameworks -----------------------------------------------------------------------------------


def test_tensorflow_is_told_the_cluster_and_its_place_in_it() -> None:
    given = {"tensorflow": ["--worker=trainer", "--port=3333"]}
    pods = _pods(_job(given, _task("ps", 1), _task("trainer", 2), _task("watch", 1)))
    cluster = {"ps": ["j-ps-0.j:3333"], "worker": ["j-trainer-0.j:3333", "j-trainer-1.j:3333"]}
    told = {name: json.loads(_variables(pod)["TF_CONFIG"]) for name, pod in pods.items()}
    assert told["j-trainer-1"] == {"cluster": cluster, "task": {"type": "worker", "index": 1}}
    assert told["j-watch-0"]["task"] == {"type": "watch", "index": 0}


def test_a_single_pod_of_tensorflow_is_told_nothing() -> None:
    pods = _pods(_job({"tensorflow": []}, _task("worker", 1)))
    assert "TF_CONFIG" not in _variables(pods["j-worker-0"])


def test_pytorch_is_told_where_the_master_is_and_its_rank() -> None:
    pods = _pods(_job({"pytorch": []}, _task("master", 1), _task("worker", 2), _task("log", 1)))
    common = {"MASTER_ADDR": "j-master-0.j", "MASTER_PORT": "23456", "WORLD_SIZE": "3"}
    found = {name: _variables(pod) for name, pod in pods.items()}
    told = {name: {n: v for n, v in of.items() if n[:3] != "VC_"} for name, of in found.items()}
    assert told == {
        "j-master-0": {**common, "RANK": "0"},
        "j-worker-0": {**common, "RANK": "1"},
        "j-worker-1": {**common, "RANK": "2"},
        "j-log-0": common,
    }
    assert _ports(pods["j-worker-0"]) == {"pytorchjob-port": 23456}
    assert "initContainers" not in pods["j-worker-0"]["spec"]


def test_workers_of_pytorch_may_wait_until_the_master_answers() -> None:
    given = {"pytorch": ["--wait-master-enabled", "--wait-master-image=mine", "--port=77"]}
    pods = _pods(_job(given, _task("master", 1), _task("worker", 1)))
    (waits,) = pods["j-worker-0"]["spec"]["initContainers"]
    assert (waits["name"], waits["image"]) == ("wait-for-master", "mine")
    assert waits["command"][3:] == ["j-master-0.j", "77"]
    assert waits["command"][2].startswith("left=300;")
    assert "initContainers" not in pods["j-master-0"]["spec"]


def test_mpi_is_told_its_workers_and_opens_the_port_of_ssh() -> None:
    pods = _pods(_job({"mpi": ["--master=boss"]}, _task("boss", 1), _task("worker", 2)))
    assert _variables(pods["j-boss-0"])["MPI_HOST"] == "j-worker-0.j,j-worker-1.j"
    assert "MPI_HOST" not in _variables(pods["j-worker-0"])
    assert _ports(pods["j-worker-0"]) == _ports(pods["j-boss-0"]) == {"mpijob-port": 22}


def test_a_port_that_is_open_already_is_not_opened_twice() -> None:
    boss = _task("worker", 1)
    boss["template"]["spec"]["containers"][0]["ports"] = [{"name": "ssh", "containerPort": 22}]
    assert _ports(_pods(_job({"mpi": []}, boss))["j-worker-0"]) == {"ssh": 22}


def test_the_head_of_ray_starts_a_cluster_that_workers_join() -> None:
    job = _job(
        {"ray": ["--port=7000"]},
        _task("head", 1, container="head"),
        _task("worker", 1, container="worker"),
    )
    pods = _pods(job)
    head = pods["j-head-0"]["spec"]["containers"][0]["command"]
    assert head[:2] == ["sh", "-c"]
    assert "--head" in head[2]
    assert "--port=7000 --dashboard-port=8265 --ray-client-server-port=10001" in head[2]
    ports = {"gcs": 7000, "dashboard": 8265, "client-server": 10001}
    assert _ports(pods["j-head-0"]) == ports
    worker = pods["j-worker-0"]["spec"]["containers"][0]["command"]
    assert worker[2] == "ray start --block --address=j-head-0.j:7000"
    services = [body for kind, body in _decided(job).objects if kind == "Service"]
    (service,) = [body for body in services if body["metadata"]["name"] == "j-head-svc"]
    assert service["spec"]["selector"]["volcano.sh/task-spec"] == "head"
    assert {one["name"]: one["port"] for one in service["spec"]["ports"]} == ports


def test_ray_without_a_head_changes_nothing() -> None:
    pods = _pods(_job({"ray": []}, _task("worker", 1, container="worker")))
    assert "command" not in pods["j-worker-0"]["spec"]["containers"][0]


@pytest.mark.parametrize(
    ("plugins", "ranks"),
    [
        ({"hcclrank": []}, {"j-master-0": "0", "j-worker-0": "1", "j-worker-1": "2"}),
        (
            {"hcclrank": [], "pytorch": []},
            {"j-master-0": "0", "j-worker-0": "1", "j-worker-1": "2"},
        ),
        ({"hcclrank": ["--master=worker", "--worker=x"]}, {"j-worker-0": "0", "j-worker-1": "1"}),
        ({}, {}),
    ],
)
def test_hccl_is_told_the_rank_of_each_pod(
    plugins: dict[str, list[str]], ranks: dict[str, str]
) -> None:
    pods = _pods(_job(plugins, _task("master", 1), _task("worker", 2), _task("log", 1)))
    notes = {name: pod["metadata"]["annotations"] for name, pod in pods.items()}
    key = "hccl/rankIndex"
    assert {name: of[key] for name, of in notes.items() if key in of} == ranks


def test_a_rank_that_the_pod_says_itself_stays() -> None:
    task = _task("worker", 1)
    task["template"]["metadata"] = {"annotations": {"hccl/rankIndex": "7"}}
    pods = _pods(_job({"hcclrank": []}, task))
    assert pods["j-worker-0"]["metadata"]["annotations"]["hccl/rankIndex"] == "7"
