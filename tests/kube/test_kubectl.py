"""The real kubectl against the embedded cluster, as a person at a terminal uses it."""

import json
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.support.laptop import Laptop, laptop

pytestmark = [pytest.mark.kube, pytest.mark.slow]

Kubectl = Callable[..., str]

_WEB = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, labels: {app: web}}
spec:
  replicas: REPLICAS
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: c, image: "nginx:1.27", ports: [{containerPort: 80}]}]}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: conf}
data: {a: b}
"""
_PATIENCE = "--timeout=120s"
_CRD = """
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: boats.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {plural: boats, singular: boat, kind: Boat, shortNames: [bt]}
  versions:
    - name: v1
      served: true
      storage: true
      subresources: {status: {}}
      additionalPrinterColumns: [{name: Sails, type: integer, jsonPath: .spec.sails}]
      schema:
        openAPIV3Schema:
          type: object
          properties:
            spec:
              type: object
              required: [sails]
              properties: {sails: {type: integer, minimum: 1, description: How many sails it has}}
            status: {type: object, x-kubernetes-preserve-unknown-fields: true}
"""


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Laptop]:
    with laptop(tmp_path_factory.mktemp("laptop")) as found:
        yield found


@pytest.fixture
def kubectl(
    running: Laptop, kube_folder: Path, request: pytest.FixtureRequest
) -> Iterator[Kubectl]:
    """kubectl in a namespace of the test's own; returns what it prints, and must succeed."""
    namespace = "n-" + request.node.name.replace("_", "-")[5:60].rstrip("-")

    def run(*arguments: str, given: str | None = None, fails: bool = False) -> str:
        command = [str(kube_folder / "kubectl"), "--kubeconfig", str(running.kubeconfig)]
        ended = subprocess.run(
            [*command, "--namespace", namespace, *arguments],
            input=given,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert (ended.returncode != 0) == fails, f"{arguments}: {ended.stdout}{ended.stderr}"
        return ended.stdout + ended.stderr

    run("create", "namespace", namespace)
    yield run
    run("delete", "namespace", namespace)


def test_apply_reports_created_unchanged_and_configured(kubectl: Kubectl) -> None:
    three, two = _WEB.replace("REPLICAS", "3"), _WEB.replace("REPLICAS", "2")
    said = kubectl("apply", "-f", "-", given=three)
    assert "deployment.apps/web created" in said
    assert "unchanged" in kubectl("apply", "-f", "-", given=three)
    assert "deployment.apps/web configured" in kubectl("apply", "-f", "-", given=two)
    assert "successfully rolled out" in kubectl("rollout", "status", "deploy/web", _PATIENCE)
    assert kubectl("get", "deploy", "web", "-o", "jsonpath={.spec.replicas}") == "2"


def test_get_prints_wide_columns_json_yaml_and_names(kubectl: Kubectl) -> None:
    kubectl("apply", "-f", "-", given=_WEB.replace("REPLICAS", "1"))
    kubectl("wait", "--for=condition=Available", "deploy/web", _PATIENCE)
    wide = kubectl("get", "pods", "-o", "wide")
    for column in ("NAME", "READY", "STATUS", "RESTARTS", "AGE", "IP", "NODE", "NOMINATED NODE"):
        assert column in wide
    assert "1/1" in wide
    assert "Running" in wide
    deployment = json.loads(kubectl("get", "deploy", "web", "-o", "json"))
    assert deployment["kind"] == "Deployment"
    assert "kind: ConfigMap" in kubectl("get", "cm", "conf", "-o", "yaml")
    assert "pod/web-" in kubectl("get", "all")
    assert "configmap/conf" in kubectl("get", "cm,deploy", "-o", "name")


def test_describe_prints_deployments_pods_and_nodes(kubectl: Kubectl) -> None:
    kubectl("apply", "-f", "-", given=_WEB.replace("REPLICAS", "1"))
    kubectl("rollout", "status", "deploy/web", _PATIENCE)
    told = kubectl("describe", "deploy", "web")
    assert "StrategyType:           RollingUpdate" in told
    assert "nginx:1.27" in kubectl("describe", "pods")
    assert "nvidia.com/gpu" in kubectl("describe", "node", "node-0")


def test_explain_prints_fields_and_types(kubectl: Kubectl) -> None:
    assert "containers\t<[]Container>" in kubectl("explain", "pod.spec")
    assert "FIELD: rollingUpdate <RollingUpdateDeployment>" in kubectl(
        "explain", "deployment.spec.strategy.rollingUpdate"
    )
    assert "does not exist" in kubectl("explain", "pod.spec.nonsense", fails=True)


def test_objects_are_edited_by_patch_label_and_annotate(kubectl: Kubectl) -> None:
    kubectl("create", "configmap", "a", "--from-literal=k=v")
    kubectl("patch", "cm", "a", "-p", '{"data":{"k":"w"}}')
    kubectl("patch", "cm", "a", "--type=json", "-p", '[{"op":"add","path":"/data/l","value":"x"}]')
    kubectl("label", "cm", "a", "one=1", "two=2")
    kubectl("label", "cm", "a", "two-")
    kubectl("annotate", "cm", "a", "note=this")
    found = json.loads(kubectl("get", "cm", "a", "-o", "json"))
    assert found["data"] == {"k": "w", "l": "x"}
    assert found["metadata"]["labels"] == {"one": "1"}
    assert found["metadata"]["annotations"] == {"note": "this"}
    assert "a" in kubectl("get", "cm", "-l", "one=1", "-o", "name")


def test_deployments_scale_roll_out_and_roll_back(kubectl: Kubectl) -> None:
    kubectl("create", "deployment", "web", "--image=nginx", "--replicas=1")
    kubectl("scale", "deploy/web", "--replicas=3")
    kubectl("rollout", "status", "deploy/web", _PATIENCE)
    assert kubectl("get", "deploy", "web", "-o", "jsonpath={.status.readyReplicas}") == "3"
    kubectl("set", "image", "deploy/web", "nginx=nginx:2")
    kubectl("rollout", "status", "deploy/web", _PATIENCE)
    kubectl("rollout", "undo", "deploy/web")
    kubectl("rollout", "status", "deploy/web", _PATIENCE)
    assert "nginx:2" not in kubectl("get", "deploy", "web", "-o", "wide")


def test_jobs_are_created_with_defaults_and_deleted(kubectl: Kubectl) -> None:
    kubectl("create", "job", "once", "--image=busybox", "--", "true")
    job = json.loads(kubectl("get", "job", "once", "-o", "json"))
    assert job["spec"]["backoffLimit"] == 6
    kubectl("delete", "job", "once", "--wait")
    assert "NotFound" in kubectl("get", "job", "once", fails=True)


def test_auth_can_i_answers_by_rbac(kubectl: Kubectl) -> None:
    assert kubectl("auth", "can-i", "create", "pods").strip() == "yes"
    said = kubectl("auth", "can-i", "create", "pods", "--as=somebody", fails=True)
    assert said.strip() == "no"
    kubectl("create", "rolebinding", "r", "--clusterrole=edit", "--user=somebody")
    assert kubectl("auth", "can-i", "create", "pods", "--as=somebody").strip() == "yes"
    assert "Forbidden" in kubectl("get", "secrets", "-A", "--as=somebody", fails=True)
    assert len(kubectl("create", "token", "default")) > 100


def test_events_are_listed(kubectl: Kubectl) -> None:
    event: dict[str, Any] = {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"generateName": "e-"},
        "involvedObject": {"kind": "Pod", "name": "p"},
        "reason": "Tested",
        "message": "it was tested",
        "type": "Normal",
    }
    namespace = json.loads(kubectl("create", "cm", "x", "-o", "json"))["metadata"]["namespace"]
    event["involvedObject"]["namespace"] = namespace
    kubectl("create", "-f", "-", given=json.dumps(event))
    assert "Tested" in kubectl("get", "events")
    assert "Pod/p" in kubectl("events")


def test_server_side_apply_and_its_conflicts(kubectl: Kubectl) -> None:
    web = _WEB.replace("REPLICAS", "2")
    assert "serverside-applied" in kubectl("apply", "--server-side", "-f", "-", given=web)
    kubectl("scale", "deploy/web", "--replicas=4")
    other = web.replace("replicas: 2", "replicas: 3")
    said = kubectl("apply", "--server-side", "-f", "-", given=other, fails=True)
    assert "conflict with" in said
    assert ".spec.replicas" in said
    kubectl("apply", "--server-side", "--force-conflicts", "-f", "-", given=other)
    assert kubectl("get", "deploy", "web", "-o", "jsonpath={.spec.replicas}") == "3"


def test_kustomizations_are_applied(kubectl: Kubectl, tmp_path: Path) -> None:
    (tmp_path / "web.yaml").write_text(_WEB.replace("REPLICAS", "1"))
    (tmp_path / "kustomization.yaml").write_text(
        "resources: [web.yaml]\nnamePrefix: my-\ncommonAnnotations: {by: kustomize}\n"
    )
    assert "deployment.apps/my-web created" in kubectl("apply", "-k", str(tmp_path))
    assert "kustomize" in kubectl("get", "cm", "my-conf", "-o", "yaml")
    kubectl("delete", "-k", str(tmp_path))


def test_strict_validation_names_the_unknown_field(kubectl: Kubectl) -> None:
    wrong = _WEB.replace("replicas: REPLICAS", "replica: 1")
    assert 'unknown field "spec.replica"' in kubectl("apply", "-f", "-", given=wrong, fails=True)


def test_custom_resources_are_applied_listed_explained_and_validated(kubectl: Kubectl) -> None:
    kubectl("apply", "-f", "-", given=_CRD)
    kubectl("wait", "--for=condition=Established", "crd/boats.example.com", _PATIENCE)
    boat = "apiVersion: example.com/v1\nkind: Boat\nmetadata: {name: b}\nspec: {sails: 3}\n"
    assert "boat.example.com/b created" in kubectl("apply", "-f", "-", given=boat)
    shown = kubectl("get", "bt")
    assert "SAILS" in shown
    assert "3" in shown
    assert "How many sails it has" in kubectl("explain", "boat.spec.sails")
    wrong = boat.replace("sails: 3", "sails: 0")
    assert "should be greater than or equal to 1" in kubectl(
        "apply", "-f", "-", given=wrong, fails=True
    )
    kubectl("patch", "boat", "b", "--type=merge", "-p", '{"spec":{"sails":5}}')
    assert kubectl("get", "boat", "b", "-o", "jsonpath={.metadata.generation}") == "2"
    kubectl("delete", "crd", "boats.example.com", "--wait")
    assert "NotFound" in kubectl("get", "--raw", "/apis/example.com/v1/boats", fails=True)


def test_nodes_are_cordoned_and_drained(kubectl: Kubectl) -> None:
    kubectl("create", "deployment", "web", "--image=nginx", "--replicas=3")
    kubectl("rollout", "status", "deploy/web", _PATIENCE)
    assert "cordoned" in kubectl("cordon", "node-1")
    assert "SchedulingDisabled" in kubectl("get", "node", "node-1")
    said = kubectl("drain", "node-1", "--force", "--ignore-daemonsets", _PATIENCE)
    assert "drained" in said
    kubectl("uncordon", "node-1")
    kubectl("taint", "node", "node-2", "k=v:NoSchedule")
    kubectl("taint", "node", "node-2", "k-")
