"""muster status, queues, jobs, nodes, reasons: what they print of one cluster, and how they end."""

import csv
import io
import json
from collections.abc import Iterator

import pytest
import yaml
from msgspec import structs
from tests.support.served_web import served
from typer.testing import CliRunner, Result

from muster.base.clock import SystemClock
from muster.cli.asking import Source
from muster.cli.main import app
from muster.cli.people import status_lines
from muster.cli.reading import Reading
from muster.model.reason_codes import CODES
from muster.model.records import TopologyRecord
from muster.testing import make


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    """A dashboard of a small cluster: vision borrows, llm is owed, n3 is cordoned."""
    records = make.cluster(
        make.node("n1", gpu=8, labels={"rack": "r1"}),
        make.node("n2", gpu=4, labels={"rack": "r1"}),
        make.node("n3", gpu=4, labels={"rack": "r2"}, is_unschedulable=True),
        TopologyRecord("default", ("rack", "kubernetes.io/hostname")),
        make.queue("research", quota_gpu=16),
        make.queue("llm", quota_gpu=12, parent="research"),
        make.queue("vision", quota_gpu=4, parent="research", limit_gpu=8),
        make.gang("train", 8, gpu=1, queue="vision", nodes=("n1",) * 8, user="ana"),
        make.gang("tune", 12, gpu=1, queue="llm", user="ben", owner_kind="Job"),
    )
    with served(records, "company", labels=_labels, closed_since={"n3": make.NOW_S}) as address:
        yield address


def _labels(kind: str, name: str) -> dict[str, str]:
    return {"app": "vision"} if name in ("default/train", "vision") else {}


@pytest.fixture(autouse=True)
def an_hour_later(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SystemClock, "now_s", lambda _: make.NOW_S + 3600)


def _run(server: str, *words: str) -> Result:
    return CliRunner().invoke(app, [*words], env={"MUSTER_SERVER": server, "COLUMNS": "200"})


def _printed(server: str, *words: str) -> str:
    result = _run(server, *words)
    assert result.exit_code == 0, result.output
    return result.stdout


def test_status_is_a_page_that_fits_a_glance(server: str) -> None:
    assert _printed(server, "status") == (
        "company   16 GPUs   8 used   4 free   4 out of service   cycle 1, 1h ago\n"
        "jobs      1 running   1 waiting for 12 GPUs: 1 now\n"
        "owed      llm 12 (vision borrows)\n"
        "fits now  4 GPUs on one node (n2)   4 in one rack (r1)   4 in all\n"
        "nodes     n3 cordoned for 1h\n"
        "longest   default/tune waits for 2h\n"
    )


def test_status_says_which_part_does_not_do_its_work(server: str) -> None:
    asked = Reading("status", Source(server=server))
    found = asked.ask("status")
    late = {"part": "binder", "since": make.NOW_S, "message": "1 pod has a node."}
    lines = status_lines(asked, {**found, "ailments": [late]})
    assert "binder    1 pod has a node. So for 1h." in lines


def test_queues_are_a_tree_with_what_each_is_owed(server: str) -> None:
    assert _printed(server, "queues") == (
        "NAME       QUOTA   SHARE   USED   LIMIT   USE                     STANDS      RUNNING   "
        "WAITING\n"
        "research      16      16      8       -   ##########..........|   owed 8            1   "
        "      1\n"
        "  llm         12      12      0       -   ...............|        owed 12           0   "
        "      1\n"
        "  vision       4       4      8       8   #####|+++++             borrows 4         1   "
        "      0\n"
    )


def test_jobs_say_why_they_wait(server: str) -> None:
    assert _printed(server, "jobs", "-n", "default") == (
        "NAME    STATE     REASON   QUEUE    USER   PODS   GPUS   PLACE   START   AGE\n"
        "tune    Waiting   NoRoom   llm      ben    0/12     12   1/1     -        2h\n"
        "train   Running   -        vision   ana    8/8       8   -       -        2h\n"
    )


@pytest.mark.parametrize(
    ("asked", "names"),
    [
        (["--state", "waiting"], ["default/tune"]),
        (["-q", "vision"], ["default/train"]),
        (["-u", "ben"], ["default/tune"]),
        (["--reason", "NoRoom"], ["default/tune"]),
        (["--on", "n1"], ["default/train"]),
        (["-l", "app=vision"], ["default/train"]),
        (["-l", "!app"], ["default/tune"]),
        (["--state", "ended"], []),
        (["-n", "other"], []),
        (["--sort-by", "-gpus"], ["default/tune", "default/train"]),
        (["--sort-by", "gpus"], ["default/train", "default/tune"]),
        (["--limit", "0"], ["default/tune", "default/train"]),
    ],
)
def test_jobs_are_those_that_were_asked_for(
    server: str, asked: list[str], names: list[str]
) -> None:
    assert _printed(server, "jobs", "-o", "name", *asked).split() == names


def test_my_jobs_are_those_that_name_me(server: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MUSTER_USER", "ana")
    assert _printed(server, "jobs", "--mine", "-o", "name") == "default/train\n"


@pytest.mark.parametrize(
    ("asked", "jobs"), [(["-q", "llm"], [1]), (["-q", "vision"], []), (["-u", "ana"], [])]
)
def test_shapes_are_of_the_jobs_that_were_asked_for(
    server: str, asked: list[str], jobs: list[int]
) -> None:
    listed = json.loads(_printed(server, "jobs", "--shapes", "-o", "json", *asked))
    assert [one["jobs"] for one in listed["items"]] == jobs
    assert _run(server, "jobs", "--shapes", "--state", "running").exit_code == 2


def test_parts_of_a_gpu_are_not_rounded_away_in_the_table_of_queues() -> None:
    records = make.cluster(
        make.node("n1", gpu=1),
        make.queue("whole", quota_gpu=1),
        make.queue("small", quota_gpu=0.03, parent="whole"),
        make.gang("notebook", 1, gpu=0.25, queue="small", nodes=("n1",)),
    )
    with served(records, "company") as address:
        rows = [line.split() for line in _printed(address, "queues").splitlines()]
    assert [row[:4] for row in rows[1:]] == [
        ["whole", "1", "0.25", "0.25"],
        ["small", "0.03", "0.25", "0.25"],
    ]


def test_queues_and_nodes_are_chosen_by_labels_too(server: str) -> None:
    assert _printed(server, "queues", "-l", "app=vision", "-o", "name") == "vision\n"
    assert _printed(server, "nodes", "--each", "-l", "rack in (r2)", "-o", "name") == "n3\n"


def test_what_ended_and_is_deleted_stands_in_the_history(server: str) -> None:
    result = _run(server, "jobs", "--state", "ended")
    assert (result.exit_code, result.stdout) == (0, "")
    assert "muster history --since 7d" in result.stderr


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["jobs", "-n", "nowhere"], "No jobs in namespace nowhere; -A shows those of all"),
        (["jobs", "-A", "-u", "nobody"], "No such jobs: leave out a filter."),
        (["jobs", "-A", "--shapes", "-u", "nobody"], "No such jobs wait: leave out a filter."),
        (["queues", "-l", "app=none"], "No such queues."),
        (["nodes", "--free", "99"], "No such nodes."),
        (["priority", "-q", "vision"], "Nothing waits."),
    ],
)
def test_an_empty_list_is_a_sentence_beside_it_and_no_failure(
    server: str, words: list[str], said: str
) -> None:
    found = _run(server, *words)
    assert (found.exit_code, found.stdout) == (0, "")
    assert found.stderr.startswith(said)


def test_what_is_left_out_is_said(server: str) -> None:
    result = _run(server, "jobs", "--limit", "1")
    assert "1 of 2 jobs shown; --limit 0 shows all" in result.stderr
    assert "shown" not in result.stdout


def test_nodes_show_what_is_held(server: str) -> None:
    assert _printed(server, "nodes", "--each") == (
        "NODE   RACK   STATE      GPUS       USED   FREE   HOLDERS\n"
        "n1     r1     ready      ########      8      0   default/train 8\n"
        "n2     r1     ready      ....          0      4   -\n"
        "n3     r2     cordoned   ....          0      0   -\n"
    )
    assert _printed(server, "nodes", "--free", "4", "-o", "name") == "n2\n"
    assert _printed(server, "nodes", "--rack", "r2", "-o", "name") == "n3\n"


def test_a_queue_says_what_past_use_counts_against_it() -> None:
    used = structs.replace(make.queue("llm"), usage={"gpu": 0.314})
    records = make.cluster(make.node("n1", gpu=8), used, make.queue("vision"))
    with served(records, "company") as address:
        said = _printed(address, "queues", "llm")
    assert "  past use  31.4% of the cluster's GPUs, in the window that counts\n" in said


@pytest.mark.parametrize("command", ["queues", "jobs", "nodes"])
def test_programs_read_the_same_in_their_own_forms(server: str, command: str) -> None:
    listed = json.loads(_printed(server, command, "-o", "json"))
    assert listed["version"] == 1
    assert listed["items"]
    assert yaml.safe_load(_printed(server, command, "-o", "yaml")) == listed
    rows = list(csv.reader(io.StringIO(_printed(server, command, "-o", "csv"))))
    assert len(rows) == len(listed["items"]) + 1
    whole = _printed(server, command).splitlines()
    rest = _printed(server, command, "--no-headers").splitlines()
    assert [line.split() for line in rest] == [line.split() for line in whole[1:]]


def test_codes_are_explained_without_a_cluster() -> None:
    listed = _printed("", "reasons", "-o", "name").split()
    assert listed == [str(code) for code in CODES]
    assert _printed("", "reasons", "NoRoom").startswith("NoRoom (now)\n")
    wrong = CliRunner().invoke(app, ["reasons", "NoRom"])
    assert wrong.exit_code == 1
    assert "Did you mean NoRoom?" in wrong.stderr


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["queues", "-o", "xml"], 2, "table, wide, json"),
        (["queues", "--resource", "disk"], 2, "gpu, cpu or memory"),
        (["jobs", "--state", "done"], 2, "waiting, running, starting, ended"),
        (["jobs", "-l", "app vision"], 1, "write KEY=VALUE"),
        (["jobs", "--sort-by", "colour"], 1, "colour: no field colour; known are"),
        (["jobs", "--columns", "key,colour"], 1, "colour: no field colour; known are"),
        (["status", "--server", "nowhere"], 1, "write http://host:port"),
        (["status", "--server", "http://127.0.0.1:1"], 1, "nothing answers at"),
    ],
)
def test_what_cannot_be_answered_is_said_with_the_right_code(
    server: str, words: list[str], code: int, said: str
) -> None:
    result = _run(server, *words)
    assert result.exit_code == code
    assert said in " ".join(result.stderr.split())
