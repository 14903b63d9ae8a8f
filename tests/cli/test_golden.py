"""Every command that reads, on one recorded cluster: what it prints, how it ends, what programs
read.

`MUSTER_GOLDEN=write pytest tests/cli/test_golden.py` writes the pages anew: read the difference.
"""

import csv
import io
import json
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml
from tests.support import company
from typer.testing import CliRunner, Result

from muster.base.clock import SystemClock
from muster.cli.commands import COMMANDS
from muster.cli.main import app
from muster.foresight.order import Place
from muster.testing import make
from muster.web import shapes
from muster.web.usage import UsageView
from muster.web.views import answer_shapes

_FOLDER = Path(__file__).resolve().parents[1] / "golden" / "cli"
_PLANNED = """
apiVersion: v1
kind: Pod
metadata: {{name: one, labels: {{kai.scheduler/queue: serving}}}}
spec:
  schedulerName: kai-scheduler
  containers: [{{name: c, image: x, resources: {{limits: {{nvidia.com/gpu: "{gpus}"}}}}}}]
"""
_OTHER = """
actions: allocate, reclaim
placement: spread
queueDepthPerAction: {reclaim: 5}
usageDBConfig:
  clientType: prometheus
  connectionString: http://reader:secret@prometheus:9090
"""
_PAGES: dict[str, tuple[int, str]] = {
    "status": (0, "status"),
    "queues": (0, "queues"),
    "queues-wide": (0, "queues -o wide --flat"),
    "queues-owed": (0, "queues --owed"),
    "queue": (0, "queues llm"),
    "jobs": (0, "jobs -A"),
    "jobs-wide": (0, "jobs -A -o wide"),
    "jobs-of-a-namespace": (0, "jobs -n default --state waiting --sort-by -gpus"),
    "jobs-ended": (0, "jobs -A --state ended"),
    "jobs-labelled": (0, "jobs -A -l app=vision"),
    "jobs-of-a-class": (0, "jobs -A --class never"),
    "jobs-by-shape": (0, "jobs --shapes"),
    "jobs-chosen-columns": (0, "jobs -A --columns key,gpus.asked,reason.code --sort-by key"),
    "job": (0, "jobs det"),
    "nodes": (0, "nodes"),
    "nodes-each": (0, "nodes --each --rack r1"),
    "nodes-free": (0, "nodes --free 8"),
    "node": (0, "nodes node-03"),
    "why-waits": (3, "why seg"),
    "why-clears": (0, "why det --no-search"),
    "why-never": (4, "why huge --no-search"),
    "why-held": (3, "why eval --no-search"),
    "why-all": (3, "why seg --no-search --all --nodes"),
    "why-runs": (0, "why chat"),
    "why-nobody": (1, "why nobody"),
    "when-never": (4, "when huge"),
    "when-runs": (0, "when chat"),
    "priority": (0, "priority"),
    "priority-of-a-queue": (0, "priority -q vision"),
    "plan-starts": (0, "plan -f {folder}/fits.yaml --columns verdict"),
    "plan-never": (4, "plan -f {folder}/large.yaml"),
    "plan-of-a-quota": (0, "plan --quota llm=64"),
    "history": (0, "history"),
    "history-of-evictions": (0, "history --evictions -o wide"),
    "history-of-a-job": (0, "history default/sweep-9"),
    "history-of-a-queue": (0, "history -q serving"),
    "history-taken-by-a-queue": (0, "history --taken-by serving"),
    "usage": (0, "usage"),
    "usage-by-user": (0, "usage --by user"),
    "usage-by-day": (0, "usage --by day,queue"),
    "top": (0, "top"),
    "reasons": (0, "reasons Held"),
    "conf": (1, "conf check {folder}/wrong.yaml"),
    "conf-right": (0, "conf check {folder}/right.yaml"),
    "conf-difference": (0, "conf check {folder}/other.yaml --diff"),
    "conf-no-difference": (0, "conf check {folder}/same.yaml --diff --profile kai"),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = tmp_path_factory.mktemp("company")
    (found / "fits.yaml").write_text(_PLANNED.format(gpus=2))
    (found / "large.yaml").write_text(_PLANNED.format(gpus=16))
    (found / "right.yaml").write_text("actions: allocate, reclaim\n")
    (found / "other.yaml").write_text(_OTHER)
    (found / "same.yaml").write_text("# as it is\n")
    (found / "wrong.yaml").write_text("actions: allocate\nqueueDepthPerAction:\n  allocate: many\n")
    return found


@pytest.fixture(scope="module")
def server(folder: Path) -> Iterator[str]:
    with company.company(folder) as address:
        yield address


@pytest.fixture(autouse=True)
def an_hour_later(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    monkeypatch.setattr(SystemClock, "now_s", lambda _: company.NOW_S)
    monkeypatch.setenv("TZ", "UTC")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("KUBECONFIG", raising=False)
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


def _run(server: str, words: str, folder: Path) -> Result:
    typed = words.format(folder=folder).split()
    return CliRunner().invoke(app, typed, env={"MUSTER_SERVER": server, "COLUMNS": "200"})


@pytest.mark.parametrize("name", _PAGES)
def test_a_command_prints_what_it_printed(server: str, folder: Path, name: str) -> None:
    code, words = _PAGES[name]
    result = _run(server, words, folder)
    said = (result.stdout + result.stderr).replace(f"{folder}/", "")
    page = f"$ muster {words.replace('{folder}/', '')}\n{said}(exit {result.exit_code})\n"
    file = _FOLDER / f"{name}.txt"
    if os.environ.get("MUSTER_GOLDEN") == "write":
        file.write_text(page)
    assert (page, result.exit_code) == (file.read_text(), code)


def test_no_page_is_kept_that_nobody_prints() -> None:
    assert {file.stem for file in _FOLDER.glob("*.txt")} == set(_PAGES)


_SHAPES: dict[str, Any] = {
    "status": shapes.Status,
    "queues": shapes.Queue,
    "queues llm": shapes.Queue,
    "jobs -A": shapes.Job,
    "jobs --shapes": shapes.Shape,
    "nodes --each": shapes.Node,
    "nodes node-03": shapes.Node,
    "why seg --no-search": answer_shapes.WhyView,
    "when huge": answer_shapes.Start,
    "plan -f {folder}/fits.yaml": answer_shapes.PlanAnswer,
    "plan --quota llm=64": answer_shapes.Diff,
    "priority": Place,
    "history": answer_shapes.EventView,
    "usage": UsageView,
}


@pytest.mark.parametrize("words", _SHAPES)
def test_json_has_the_shape_that_http_has(server: str, folder: Path, words: str) -> None:
    listed = json.loads(_run(server, f"{words} -o json", folder).stdout)
    assert (listed["version"], listed["kind"][0].isupper()) == (1, True)
    assert (listed["cluster"], listed["rev"]) == ("company", 1)
    assert make.NOW_S <= listed["at"] <= company.NOW_S
    assert listed["items"]
    for item in listed["items"]:
        msgspec.convert(item, _SHAPES[words])


@pytest.mark.parametrize("name", [name for name in _PAGES if name not in ("why-nobody",)])
def test_programs_get_the_same_in_each_of_their_forms(server: str, folder: Path, name: str) -> None:
    code, words = _PAGES[name]
    plain = words.replace("-o wide", "")
    first = _run(server, f"{plain} -o json", folder)
    assert first.exit_code == code
    listed = _timeless(json.loads(first.stdout))
    assert _timeless(yaml.safe_load(_run(server, f"{plain} -o yaml", folder).stdout)) == listed
    rows = list(csv.reader(io.StringIO(_run(server, f"{plain} -o csv", folder).stdout)))
    assert len(rows) == len(listed["items"]) + 1
    assert {len(row) for row in rows} == {len(rows[0])}


def _timeless(listed: dict[str, Any]) -> dict[str, Any]:
    """Without what is another each time: tokens hold the moment at which they were made."""
    items = [
        {key: value for key, value in item.items() if key not in ("token", "took_ms")}
        for item in listed["items"]
    ]
    return {**listed, "items": items}


def test_a_start_stands_beside_what_the_job_needs(server: str, folder: Path) -> None:
    """The times themselves are drawn: the rest of the table is not."""
    first, *rows = _run(server, "when", folder).stdout.splitlines()
    assert first.split() == ["JOB", "NEEDS", "START", "BETWEEN", "BASIS"]
    needs = {row.split()[0]: row.split("   ")[1].strip() for row in rows}
    assert needs["default/seg"] == "2 pods, 16 GPUs"
    assert "nobody knows how long" in _run(server, "when seg", folder).stdout


def test_usage_goes_into_a_file_for_programs_that_read_columns(
    server: str, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What pyarrow makes of it is not ours to test, and pyarrow is large."""
    file, given = tmp_path / "usage.parquet", list[Any]()

    def parquet_of(rows: Any, fields: Any) -> bytes:
        given.extend([rows, fields])
        return b"PAR1"

    words = f"usage --by user,job --parquet {file}"
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    without = _run(server, words, folder)
    assert (without.exit_code, file.exists()) == (1, False)
    assert "Parquet needs pyarrow: pip install pyarrow" in without.stderr
    monkeypatch.setattr("muster.usage.accounts.parquet_of", parquet_of)
    said = _run(server, words, folder)
    assert (said.exit_code, file.read_bytes()) == (0, b"PAR1")
    listed = json.loads(_run(server, "usage --by user,job -o json", folder).stdout)
    assert given == [listed["items"], tuple(UsageView.__struct_fields__)]
    assert f"Written to {file}: {len(listed['items'])} lines." in said.stderr


def test_usage_as_csv_is_what_programs_add_up(server: str, folder: Path) -> None:
    """Nothing is rounded, and what is not known is empty."""
    words = "usage --by queue,user,queue"
    listed = json.loads(_run(server, f"{words} -o json", folder).stdout)["items"]
    first, *rows = csv.reader(io.StringIO(_run(server, f"{words} -o csv", folder).stdout))
    assert first[:4] == ["queue", "user", "gpu-hours", "of-quota"], "each name once"
    assert [(row[0], row[1], float(row[2])) for row in rows] == [
        (one["queue"], one["user"], one["gpu_hours"]) for one in listed
    ]
    assert {row[3] for row in rows} == {""}, "users have no quota"
    assert [float(row[first.index("wait-p95")]) for row in rows] == [
        one["wait_p95_s"] for one in listed
    ]


def test_who_used_nothing_is_said_of_the_days_that_count(
    server: str, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file is there all the same: whoever reads it every day finds it."""
    fields = list[Any]()

    def parquet_of(rows: Any, names: Any) -> bytes:
        fields.extend([rows, names])
        return b"PAR1"

    monkeypatch.setattr("muster.usage.accounts.parquet_of", parquet_of)
    file = tmp_path / "usage.parquet"
    said = _run(server, f"usage -q nobody --parquet {file}", folder)
    assert "Nobody used GPUs from 2023-11-07T00:00:00Z to 2023-11-14T22:23:20Z." in said.stderr
    assert (file.read_bytes(), fields) == (b"PAR1", [[], UsageView.__struct_fields__])


def test_every_command_that_reads_has_a_page() -> None:
    from_pages = {words.split()[0] for _, words in _PAGES.values()}
    reads = {
        name
        for name, entry in COMMANDS.items()
        if any(one.name == "columns" for one in entry.load(name).params)
    }
    assert reads == from_pages


@pytest.mark.parametrize("name", [name for name, entry in COMMANDS.items() if entry.examples])
def test_the_examples_of_a_command_are_read_by_it(name: str) -> None:
    import shlex

    entry = COMMANDS[name]
    assert len(entry.examples) == 3
    for example in entry.examples:
        program, called, *words = shlex.split(example)
        assert (program, called) == ("muster", name)
        entry.load(name).make_context(name, words)
