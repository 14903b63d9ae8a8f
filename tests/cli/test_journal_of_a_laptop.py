"""What was decided on the cluster of `muster up` is known to commands, without being told where."""

from pathlib import Path

import pytest

from muster.cli.asking import Source
from muster.cli.cluster_records import ClusterRecord, ClusterRecords, records_folder
from muster.sim.apiserver.kubeconfig import ServerAccess, kubeconfig

_URL = "https://127.0.0.1:6443"


@pytest.mark.parametrize(("url", "is_known"), [(_URL, True), ("https://127.0.0.1:6444", False)])
def test_the_journal_of_a_laptop_cluster_is_found_by_its_address(
    tmp_path: Path, url: str, is_known: bool
) -> None:
    environ = {"XDG_STATE_HOME": str(tmp_path / "state")}
    file = tmp_path / "kubeconfig"
    file.write_text(kubeconfig(ServerAccess(url, b"", "token")))
    record = ClusterRecord("laptop", 1, 0.0, "", "", _URL, journal=str(tmp_path / "journal"))
    source = Source(file, environ=environ)
    with ClusterRecords(records_folder(environ)).held(record):
        assert source.journal_folder() == (tmp_path / "journal" if is_known else None)
    assert source.journal_folder() is None
