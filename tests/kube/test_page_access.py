"""Who gets to see metrics and debug pages, by a real API server's word."""

from pathlib import Path

import pytest
import yaml
from tests.support.client import client_of
from tests.support.page_readers import account, check_readers, pages

from muster.lab.control_plane import ControlPlane
from muster.runtime.page_access import KubernetesGate

pytestmark = pytest.mark.kube


async def test_a_real_server_says_who_reads_metrics_and_debug_pages(
    control_plane: ControlPlane, namespace: str, tmp_path: Path
) -> None:
    async with client_of(control_plane.kubeconfig()) as admin:
        token = await account(admin.connection, namespace, "muster", "system:auth-delegator")
        config = yaml.safe_load(control_plane.kubeconfig().read_text())
        config["users"][0]["user"] = {"token": token}
        (tmp_path / "config").write_text(yaml.safe_dump(config))
        async with client_of(tmp_path / "config") as muster:
            gate = KubernetesGate(muster.connection)
            async with pages(gate, gate) as served:
                await check_readers(served, admin.connection, namespace)
