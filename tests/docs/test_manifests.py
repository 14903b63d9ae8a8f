"""deploy/ is what the code says, and whole."""

from pathlib import Path
from typing import Any

import yaml
from tools import manifests


def _documents(path: Path) -> list[dict[str, Any]]:
    return [one for one in yaml.safe_load_all(path.read_text()) if one]


def test_the_manifests_are_what_make_docs_would_write() -> None:
    for name, text in manifests.files().items():
        assert (manifests.FOLDER / name).read_text() == text, "run `make docs`"


def test_everything_that_is_applied_exists() -> None:
    (kustomization,) = _documents(manifests.FOLDER / manifests.KUSTOMIZATION)
    listed = {manifests.FOLDER / name for name in kustomization["resources"]}
    assert all(path.exists() for path in listed)
    assert set((manifests.FOLDER / "crds").glob("*.yaml")) <= listed


def test_every_account_role_and_binding_that_is_named_is_there() -> None:
    objects = _documents(manifests.FOLDER / manifests.OPERATOR)
    there = {
        (one["kind"], one["metadata"].get("namespace", ""), one["metadata"]["name"])
        for one in objects
    }
    for one in objects:
        namespace = one["metadata"].get("namespace", "")
        if namespace:
            assert ("Namespace", "", namespace) in there
        if "roleRef" in one:
            ref = one["roleRef"]
            where = namespace if ref["kind"] == "Role" else ""
            assert (ref["kind"], where, ref["name"]) in there
            for subject in one["subjects"]:
                assert ("ServiceAccount", subject["namespace"], subject["name"]) in there


def test_the_operator_makes_what_files_cannot() -> None:
    (deployment,) = [
        one
        for one in _documents(manifests.FOLDER / manifests.OPERATOR)
        if one["kind"] == "Deployment"
    ]
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    assert "--make-defaults" in container["args"]
    assert "--leader-elect" in container["args"]
