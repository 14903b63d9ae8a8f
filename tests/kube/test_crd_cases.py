"""Recorded objects, and what a real API server did with KAI's own CRDs: ours do the same."""

import json
from collections.abc import Mapping
from typing import Any

import pytest
from tests.reference.differences import differences
from tests.support.cases import cases_folder
from tests.support.crds import install_crds, refused_fields, sent, stored

from muster.api.kinds import OURS
from muster.lab.control_plane import ControlPlane

pytestmark = [pytest.mark.kube, pytest.mark.cases("kai-crds")]

_FOLDER = cases_folder() / "kai-crds"
_KINDS = {kind.kind.lower(): kind for kind in OURS}
_CASES = [case for path in sorted(_FOLDER.glob("*.json")) for case in json.loads(path.read_text())]

Case = Mapping[str, Any]


@pytest.fixture(scope="module")
def plane(control_plane: ControlPlane) -> ControlPlane:
    install_crds(control_plane)
    return control_plane


@pytest.mark.row(81, 82, 86, 87)
@pytest.mark.parametrize("case", _CASES, ids=lambda case: case["id"])
def test_an_object_is_stored_or_refused_as_by_the_original_unless_listed(
    plane: ControlPlane, case: Case
) -> None:
    if case["id"] in differences("crd"):
        assert _outcome(plane, case) != _expected(case)
    else:
        assert _outcome(plane, case) == _expected(case)


def _outcome(plane: ControlPlane, case: Case) -> object:
    with sent(plane, _KINDS[case["crd"]], case["steps"]) as answer:
        if answer.status < 300:
            return stored(answer.body)
        return answer.status, answer.body["reason"], refused_fields(answer.body)


def _expected(case: Case) -> object:
    expected = case["expected"]
    if expected["accepted"]:
        return expected["stored"]
    error = expected["error"]
    return error["code"], error["reason"], set(error["fields"])
