"""muster why, plan and priority: what they print, and how they end."""

import json
import re
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from tests.support.served_web import served
from typer.testing import CliRunner, Result

from muster.base.clock import SystemClock
from muster.base.timefmt import rfc3339
from muster.cli import jobs
from muster.cli.explaining import why_lines
from muster.cli.main import app
from muster.cli.moments import with_zone
from muster.testing import make

_POD = """
apiVersion: v1
kind: Pod
metadata: {{name: one, labels: {{kai.scheduler/queue: b}}}}
spec:
  schedulerName: kai-scheduler
  containers: [{{name: c, image: x, resources: {{limits: {{nvidia.com/gpu: "{gpus}"}}}}}}]
"""

_GROUP = "pg-train-0a1b2c3d-0000-4000-8000-00000000000f"


def _with_a_pod(job: make.Workload, name: str) -> make.Workload:
    """Of which one pod is called so."""
    first, *others = job.tasks
    return make.Workload(job.job, (make.with_fields(first, name=name), *others))


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    records = make.cluster(
        make.node("n1", gpu=4),
        make.node("n2", gpu=4),
        make.queue("a", quota_gpu=8),
        make.queue("b", quota_gpu=4),
        make.gang("old", 4, gpu=1, queue="a", nodes=("n1", "n1", "n1", "n2")),
        make.gang(_GROUP, 6, gpu=1, queue="a", created_s=5.0, owner_kind="Job"),
        make.gang("spark-1f2e", 1, gpu=16, queue="b", known_as=("SparkApplication/pi",)),
        make.gang("web-a", 1, gpu=16, queue="b", known_as=("Deployment/web",)),
        make.gang("web-b", 1, gpu=16, queue="b", known_as=("Deployment/web",)),
        _with_a_pod(make.gang("later", 5, gpu=1, queue="a", created_s=9.0), "exec-7"),
        make.gang("huge", 1, gpu=16, queue="a", created_s=11.0),
    )
    with served(records, "company") as address:
        yield address


def _run(server: str, *words: str) -> Result:
    return CliRunner().invoke(app, [*words], env={"MUSTER_SERVER": server, "COLUMNS": "200"})


def test_why_says_the_reason_the_place_and_what_would_start_it(server: str) -> None:
    result = _run(server, "why", "train")
    assert result.exit_code == 3
    lines = result.stdout.splitlines()
    assert lines[0].startswith("default/train waits: NoRoom. ")
    assert "  place     1 of 3 in a" in lines
    after = lines[lines.index("What would start it") + 1 :]
    assert after[0].split("   ")[0].strip() == "4 pods instead of 6"
    assert after[0].endswith("starts now, evicts nobody")


@pytest.mark.parametrize("name", ["train", "job/train", f"default/{_GROUP}", "default/train"])
def test_a_job_is_known_by_its_own_name_and_by_its_owners(server: str, name: str) -> None:
    result = _run(server, "why", name, "-o", "json", "--no-search")
    assert json.loads(result.stdout)["items"][0]["job"] == f"default/{_GROUP}"


@pytest.mark.parametrize("name", ["pi", "sparkapplication/pi", "default/pi", "spark-1f2e"])
def test_a_job_whose_group_has_another_name_is_known_by_what_was_submitted(
    server: str, name: str
) -> None:
    result = _run(server, "why", name, "-o", "json", "--no-search")
    assert json.loads(result.stdout)["items"][0]["job"] == "default/spark-1f2e"


@pytest.mark.parametrize("command", ["jobs -A", "when", "priority", "top", "status", "why pi"])
def test_tables_and_pages_call_a_job_as_why_knows_it(server: str, command: str) -> None:
    """Its group bears a name that nobody typed. Programs get the group, which they ask by."""
    shown = _run(server, *command.split()).stdout
    assert "spark-1f2e" not in shown
    if command not in ("status", "top"):  # they name the oldest and the newest
        assert re.search(r"\bpi\b", shown)
    assert "default/pi" in shown or command in ("jobs -A", "status", "top")


def test_programs_get_the_key_and_beside_it_what_it_is_called(server: str) -> None:
    assert "default/spark-1f2e" in _run(server, "jobs", "-A", "-o", "name").stdout.split()
    assert "spark-1f2e" in _run(server, "jobs", "-A", "-o", "csv").stdout
    told = json.loads(_run(server, "jobs", "-A", "-o", "json").stdout)
    assert told["called"] == {"default/spark-1f2e": "default/pi"}
    (row,) = [one for one in told["items"] if one["key"] == "default/spark-1f2e"]
    assert row["known_as"] == ["SparkApplication/pi"]


def test_replicas_of_one_deployment_stay_apart(server: str) -> None:
    shown = _run(server, "jobs", "-A", "-o", "wide").stdout
    assert "web-a" in shown
    assert "web-b" in shown
    assert re.search(r"\bpi .* SparkApplication ", shown), "the kind of what was submitted"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["why", "ttrain"], "no job ttrain is there (namespace default). Did you mean train?"),
        (["queues", "ab"], "There is no queue ab. It may have been deleted."),
        (["jobs", "-A", "--on", "n11"], "There is no node n11. Did you mean n1?"),
        (["jobs", "-A", "--reason", "noroom"], "there is no code noroom. Did you mean NoRoom?"),
        (["when", "-q", "bb"], "There is no queue bb."),
        (["jobs", "-A", "--class", "nver"], "write broken, never, policy, now, soon"),
    ],
)
def test_a_wrong_word_is_answered_with_the_nearest_right_one(
    server: str, words: list[str], said: str
) -> None:
    assert said in " ".join(_run(server, *words).stderr.split())


@pytest.mark.parametrize(
    ("pod", "job"),
    [("old-2", "default/old"), ("spark-1f2e-0", "default/spark-1f2e"), ("exec-7", "default/later")],
)
def test_a_pod_leads_to_its_job_whatever_it_is_called(server: str, pod: str, job: str) -> None:
    found = _run(server, "why", f"pod/{pod}", "-o", "json", "--no-search")
    assert json.loads(found.stdout)["items"][0]["job"] == job


def test_of_several_jobs_that_one_owner_has_all_are_named(server: str) -> None:
    result = _run(server, "why", "deployment/web")
    assert result.exit_code == 1
    assert "deployment/web may be default/web-a, default/web-b: name one of them" in result.stderr


@pytest.mark.parametrize("name", ["nothing", "cronjob/train", "other/train"])
def test_a_job_that_is_not_there_is_said(server: str, name: str) -> None:
    result = _run(server, "why", name)
    assert result.exit_code == 1
    assert f"no job {name} is there" in result.stderr


def test_one_that_can_never_start_ends_otherwise_than_one_that_waits(server: str) -> None:
    result = _run(server, "why", "huge", "--no-search")
    assert "TooLarge" in result.stdout
    assert result.exit_code == 4


def test_one_that_runs_is_well(server: str) -> None:
    result = _run(server, "why", "old")
    assert (result.exit_code, result.stdout) == (0, "default/old: running.\n")


@pytest.mark.parametrize(
    ("gpus", "code", "said"),
    [("2", 0, "It would start now."), ("16", 4, "It would not start now: never.")],
)
def test_a_plan_says_what_would_become_of_a_manifest(
    server: str, tmp_path: Path, gpus: str, code: int, said: str
) -> None:
    file = tmp_path / "pod.yaml"
    file.write_text(_POD.format(gpus=gpus))
    result = _run(server, "plan", "-f", str(file))
    assert (result.exit_code, result.stdout.splitlines()[0]) == (code, said)


def test_of_how_many_jobs_the_place_is_known_is_said_where_not_of_all(
    server: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "PLACE" not in _run(server, "jobs", "-A").stderr
    monkeypatch.setattr(jobs, "_PLACES_MAX", 2)
    told = "PLACE is of the first 2 that wait; muster why JOB tells it of any\n"
    assert told in _run(server, "jobs", "-A").stderr


def test_a_manifest_that_cannot_be_read_is_said(server: str, tmp_path: Path) -> None:
    missing = _run(server, "plan", "-f", str(tmp_path / "none"))
    assert (missing.exit_code, "none" in missing.stderr) == (1, True)
    wrong = tmp_path / "wrong.yaml"
    wrong.write_text("{")
    assert _run(server, "plan", "-f", str(wrong)).exit_code == 1


def test_a_page_says_local_time_with_its_zone_and_json_the_moment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    at = datetime.fromtimestamp(make.NOW_S, UTC)
    monkeypatch.setattr(SystemClock, "now_s", lambda _: make.NOW_S)
    monkeypatch.setenv("TZ", "XYZ-2")
    time.tzset()
    try:
        assert with_zone(make.NOW_S) == f"{at + timedelta(hours=2):%H:%M} XYZ"
        event = {"kind": "started", "at": rfc3339(make.NOW_S), "pods": 2, "nodes": ["n1"]}
        lines = why_lines(_RUNS | {"decided": [_EVENT | event]})
        assert lines[-1] == f"  started   {at + timedelta(hours=2):%H:%M} XYZ, 2 pods on n1"
    finally:
        monkeypatch.undo()
        time.tzset()


_EVENT = {"moves_to": [], "for": "", "by": "", "because": ""}
_RUNS = {"job": "a/b", "state": "running", "where": {"n1": 2}, "because": ""}


def test_the_order_in_its_queue_is_told_where_there_is_room(server: str) -> None:
    lines = _run(server, "priority", "-o", "wide").stdout.splitlines()
    assert lines[0].split()[-5:] == [
        "OVERALL",
        "BEHIND-IN-QUEUE",
        "BECAUSE-IN-QUEUE",
        "BEHIND",
        "BECAUSE",
    ]
    assert "default/train" in " ".join(lines)


def test_the_order_names_the_rule_that_made_it(server: str) -> None:
    result = _run(server, "priority", "-q", "a", "--no-headers")
    rows = [line.split("   ") for line in result.stdout.splitlines()]
    assert [row[0] for row in rows] == ["1/3", "2/3", "3/3"]
    assert rows[1][-1].strip() == "submitted 4s later"


@pytest.fixture(scope="module")
def known() -> Iterator[str]:
    """A server of a cluster of which it is known how long what runs still runs."""
    records = make.cluster(
        make.node("n1", gpu=4),
        make.queue("a", quota_gpu=8),
        make.queue("b", quota_gpu=4),
        make.gang("old", 4, gpu=1, queue="b", nodes=("n1",) * 4, expected_runtime_s=7200.0),
        make.gang("train", 1, gpu=2, queue="b", expected_runtime_s=3600.0),
    )
    with served(records, "company") as address:
        yield address


def test_why_and_a_plan_say_what_to_wait_for_and_until_when(known: str, tmp_path: Path) -> None:
    why = _run(known, "why", "train")
    assert "wait until default/old ended   not before that, expected about " in why.stdout
    file = tmp_path / "one.yaml"
    file.write_text(_POD.format(gpus=2))
    plan = _run(known, "plan", "-f", str(file))
    assert plan.exit_code == 3, plan.stdout
    (line,) = [line for line in plan.stdout.splitlines() if line.startswith("  starts ")]
    assert "between" in line


def test_another_policy_is_followed_into_the_next_hours(known: str) -> None:
    found = _run(known, "plan", "--nodes", "n1=1", "--hours", "6")
    assert found.exit_code == 0, found.stdout
    assert "Over the next 6 hours" in found.stdout
    assert "  sooner    default/train by " in found.stdout
    assert "  waits     b " in found.stdout
    assert "Over the next" not in _run(known, "plan", "--nodes", "n1=1").stdout


def test_of_hours_about_which_nothing_is_known_nothing_is_said(server: str) -> None:
    found = _run(server, "plan", "--quota", "a=4", "--hours", "6")
    assert "Nothing can be said of the hours after: of 100%" in found.stdout


@pytest.mark.parametrize(
    "words", [("--nodes", "n1"), ("--nodes", "n1=x"), ("--hours", "3"), ("--hours", "30")]
)
def test_a_question_about_the_policy_that_makes_no_sense_is_refused(
    known: str, words: tuple[str, ...]
) -> None:
    assert _run(known, "plan", *words).exit_code == 2
