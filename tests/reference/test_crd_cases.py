"""Recorded objects, and what a real API server did with KAI's own CRDs: ours do the same.

Once on a real API server, and once on the embedded one in its place.
"""

import json
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from tests.reference.differences import differences
from tests.support.cases import cases_folder
from tests.support.crds import Server, install_crds, refused_fields, sent, stored
from tests.support.embedded import embedded_server

from muster.api.kinds import OURS
from muster.lab.control_plane import ControlPlane

pytestmark = pytest.mark.cases("kai-crds")

_FOLDER = cases_folder() / "kai-crds"
_KINDS = {kind.kind.lower(): kind for kind in OURS}
_CASES = [case for path in sorted(_FOLDER.glob("*.json")) for case in json.loads(path.read_text())]

Case = Mapping[str, Any]


@pytest.fixture(scope="module")
def real(control_plane: ControlPlane) -> Server:
    install_crds(control_plane)
    return control_plane


@pytest.fixture(scope="module")
def embedded() -> Iterator[Server]:
    with embedded_server() as server:
        install_crds(server)
        yield server


@pytest.mark.kube
@pytest.mark.row(81, 82, 86, 87)
@pytest.mark.parametrize("case", _CASES, ids=lambda case: case["id"])
def test_an_object_is_stored_or_refused_as_with_the_crds_of_kai_unless_listed(
    real: Server, case: Case
) -> None:
    if case["id"] in differences("crd"):
        assert _outcome(real, case) != _expected(case)
    else:
        assert _outcome(real, case) == _expected(case)


@pytest.mark.parametrize("case", _CASES, ids=lambda case: case["id"])
def test_the_embedded_server_stores_or_refuses_as_the_real_one(
    embedded: Server, case: Case
) -> None:
    assert _outcome(embedded, case) == _expected(case)


def _outcome(server: Server, case: Case) -> object:
    with sent(server, _KINDS[case["crd"]], case["steps"]) as answer:
        if answer.status < 300:
            return stored(answer.body)
        return answer.status, answer.body["reason"], refused_fields(answer.body)


def _expected(case: Case) -> object:
    expected = case["expected"]
    if expected["accepted"]:
        return expected["stored"]
    error = expected["error"]
    return error["code"], error["reason"], set(error["fields"])
