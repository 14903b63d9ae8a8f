"""Discovery and tables of the embedded server are those of the real one for the same kinds."""

import json
from typing import Any

import pytest
from tests.conformance.conftest import connected
from tests.support.embedded import embedded_server

from muster.client.transport import Request
from muster.lab.control_plane import ControlPlane
from muster.sim.apiserver.builtin import builtin_kinds
from muster.sim.apiserver.columns.table import COLUMNS
from muster.sim.apiserver.discovery import aggregated

pytestmark = pytest.mark.kube

_GROUPS = sorted({(row.group, row.version) for row in builtin_kinds()})
_LISTED = sorted(
    (row for row in builtin_kinds() if "list" in row.verbs), key=lambda row: row.resource
)
# Doors that the real server has and that need a kubelet or a proxy behind them.
_NOT_HERE = ("/attach", "/exec", "/portforward", "/proxy")
_AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"


@pytest.mark.parametrize(("group", "version"), _GROUPS)
def test_discovery_lists_the_resources_of_the_real_server(
    control_plane: ControlPlane, group: str, version: str
) -> None:
    path = f"/apis/{group}/{version}" if group else f"/api/{version}"
    theirs = {r["name"]: r for r in control_plane.call("GET", path).body["resources"]}
    with embedded_server() as plane:
        ours = {r["name"]: r for r in plane.call("GET", path).body["resources"]}
    for name, resource in ours.items():
        expected = {k: v for k, v in theirs[name].items() if k != "storageVersionHash"}
        assert resource == expected
    kinds = {name.split("/")[0] for name in ours}
    doors = {n for n in theirs if n.split("/")[0] in kinds and not n.endswith(_NOT_HERE)}
    assert doors <= set(ours)


@pytest.mark.parametrize("row", _LISTED, ids=lambda row: row.resource)
async def test_tables_have_the_columns_of_the_real_server(
    control_plane: ControlPlane, row: Any
) -> None:
    prefix = f"/apis/{row.group}/{row.version}" if row.group else f"/api/{row.version}"
    headers = {"accept": "application/json;as=Table;v=v1;g=meta.k8s.io"}
    transport = connected(control_plane.kubeconfig())
    try:
        response = await transport.send(Request("GET", f"{prefix}/{row.plural}", (), headers), 20)
        theirs = json.loads(await response.read())["columnDefinitions"]
    finally:
        await transport.close()
    shown = [(c["name"], c["type"], c["format"], c["priority"]) for c in theirs]
    columns = COLUMNS.get(row.storage) or ()
    ours = [(c.name, c.type, c.format, c.priority) for c in columns]
    assert ours == shown or (not columns and shown[0][0] == "Name" and len(shown) == 2)


async def test_aggregated_discovery_matches_the_real_server_for_our_api_groups(
    control_plane: ControlPlane,
) -> None:
    transport = connected(control_plane.kubeconfig())
    try:
        response = await transport.send(Request("GET", "/apis", (), {"accept": _AGGREGATED}), 20)
        theirs = json.loads(await response.read())
    finally:
        await transport.close()
    expected = {g["metadata"]["name"]: g for g in theirs["items"]}
    for group in _aggregated()["items"]:
        mine = group["versions"][0]
        other = next(
            v
            for v in expected[group["metadata"]["name"]]["versions"]
            if v["version"] == mine["version"]
        )
        resources = {r["resource"]: r for r in other["resources"]}
        for resource in mine["resources"]:
            wanted = resources[resource["resource"]]
            for key in ("scope", "singularResource", "verbs", "shortNames", "categories"):
                assert resource.get(key) == wanted.get(key), resource["resource"]
            assert resource["responseKind"]["kind"] == wanted["responseKind"]["kind"]


def _aggregated() -> Any:
    return aggregated(builtin_kinds(), "v2", legacy=False)
