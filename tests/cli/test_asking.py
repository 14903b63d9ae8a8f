"""Who is asked: a server that is named, a `muster up` that runs here, or the cluster itself."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from tests.support.served_web import served
from typer.testing import CliRunner, Result

from muster.cli.cluster_records import ClusterRecord, ClusterRecords, records_folder
from muster.cli.main import app
from muster.testing import make

_NOBODY = "http://127.0.0.1:1"
_UID = "0a1b2c3d-0000-4000-8000-00000000000f"


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    records = make.cluster(
        make.node("n1", gpu=8),
        make.queue("llm"),
        make.gang(f"pg-tune-{_UID}", 12, gpu=1, queue="llm"),
        make.gang(f"pg-tune-more-{_UID}", 2, gpu=1, queue="llm"),
    )
    with served(records, "people") as address:
        yield address


@pytest.fixture
def here(server: str, tmp_path: Path) -> Iterator[Path]:
    """The kubeconfig of a cluster that runs here, has a dashboard, and answers nothing itself."""
    config = tmp_path / "kubeconfig"
    described = {
        "current-context": "up",
        "clusters": [{"name": "c", "cluster": {"server": _NOBODY}}],
        "users": [{"name": "u", "user": {"token": "t"}}],
        "contexts": [{"name": "up", "context": {"cluster": "c", "user": "u"}}],
    }
    config.write_text(yaml.safe_dump(described))
    record = ClusterRecord(
        "people", os.getpid(), 0.0, "/", str(config), url=_NOBODY, dashboard=server
    )
    with ClusterRecords(records_folder(os.environ)).held(record):
        yield config


def _run(*words: str) -> Result:
    return CliRunner().invoke(app, [*words], env={"MUSTER_SERVER": None, "COLUMNS": "200"})


def test_a_cluster_of_this_machine_is_asked_through_its_dashboard(here: Path) -> None:
    listed = _run("jobs", "--kubeconfig", str(here), "-o", "name")
    assert listed.stdout.split() == [f"default/pg-tune-{_UID}", f"default/pg-tune-more-{_UID}"]
    opened = CliRunner().invoke(app, ["dashboard", "--no-open"], env={"KUBECONFIG": str(here)})
    assert opened.stdout.startswith("http://127.0.0.1:")


@pytest.mark.parametrize(
    "flags", [["--as", "ana"], ["--scheduler-conf", "/none"], ["--server", _NOBODY]]
)
def test_in_anothers_name_or_by_other_rules_it_is_not_asked(here: Path, flags: list[str]) -> None:
    flags = [*flags, "--request-timeout", "0.2"]
    assert _run("jobs", "--kubeconfig", str(here), *flags).exit_code == 1


def test_a_cluster_elsewhere_is_not_taken_for_one_that_runs_here(here: Path) -> None:
    here.write_text(here.read_text().replace(_NOBODY, "http://127.0.0.1:2"))
    found = _run("jobs", "--kubeconfig", str(here), "--request-timeout", "0.2")
    assert found.exit_code == 1


def test_jobs_are_called_by_their_owners_and_found_by_that(here: Path) -> None:
    table = _run("jobs", "--kubeconfig", str(here)).stdout.splitlines()
    assert [line.split()[0] for line in table] == ["NAME", "tune", "tune-more"]
    page = _run("jobs", "tune", "--kubeconfig", str(here)).stdout
    assert page.startswith("default/tune: Waiting")
    assert "More: muster why default/tune\n" in page
    fields = _run("jobs", "--columns", "key", "--no-headers", "--kubeconfig", str(here)).stdout
    assert f"default/pg-tune-{_UID}\n" in fields, "what programs read is whole"
