"""Watching: rows stay where they are, what ended is dimmed, and twelve thousand rows are quick."""

import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from time import process_time

import pytest
from typer.testing import CliRunner

from muster.base.clock import SystemClock
from muster.cli import screen
from muster.cli.following import News, follow
from muster.cli.main import app
from muster.cli.objects import Thing
from muster.cli.screen import GONE_S, Places, Screen
from muster.cli.submission import Wish, job_manifest
from muster.cli.tables import BadColumn, Column, Row, chosen, ordered, table_lines, wrapped


def _names(found: list[tuple[dict[str, str], bool]]) -> list[tuple[str, bool]]:
    return [(row["name"], is_gone) for row, is_gone in found]


def test_rows_stay_where_they_were_and_new_ones_come_last() -> None:
    places = Places("name")
    places.arrange([{"name": "b"}, {"name": "c"}], 0.0)
    again = places.arrange([{"name": "a"}, {"name": "c"}, {"name": "b"}], 1.0)
    assert _names(again) == [("b", False), ("c", False), ("a", False)]  # type: ignore[arg-type]


def test_a_row_that_ended_stays_dimmed_for_a_while() -> None:
    places = Places("name")
    places.arrange([{"name": "a"}, {"name": "b"}], 0.0)
    gone = places.arrange([{"name": "b"}], 1.0)
    assert _names(gone) == [("a", True), ("b", False)]  # type: ignore[arg-type]
    later = places.arrange([{"name": "b"}], 1.0 + GONE_S)
    assert _names(later) == [("b", False)]  # type: ignore[arg-type]


def test_a_screen_is_drawn_over_and_never_more_than_fits(
    capsys: pytest.CaptureFixture[str],
) -> None:
    shown = Screen(height=4)
    shown.draw(["one", "two"], frozenset({1}))
    first = capsys.readouterr().out
    assert "\x1b[2mtwo" in first
    assert "\x1b[2A" not in first
    shown.draw([str(at) for at in range(9)])
    second = capsys.readouterr().out
    assert second.startswith("\x1b[2A")
    assert "7 more rows do not fit" in second
    assert second.count("\n") == 3


def test_twelve_thousand_rows_are_a_table_within_half_a_second() -> None:
    rows = [{"name": f"job-{at}", "gpus": at, "queue": "llm"} for at in range(12_000)]
    began_s = process_time()
    lines = table_lines(chosen("name,gpus,queue"), ordered(rows, (), "-gpus"))
    took_s = process_time() - began_s
    assert len(lines) == 12_001
    assert took_s < 0.5


def test_only_the_last_column_is_cut_and_names_never_are() -> None:
    columns = [Column("NAME", lambda row: row["a"]), Column("TEXT", lambda row: row["b"])]
    row = {"a": "a-name-of-thirty-characters-yes", "b": "x" * 100}
    (line,) = table_lines(columns, [row], headers=False, width_max=60)
    assert len(line) == 60
    assert line.endswith("…")
    (line,) = table_lines(columns, [row], headers=False, width_max=20)
    assert "yes" in line


def test_numbers_and_titles_are_never_cut_however_narrow_the_terminal() -> None:
    numbers = [Column("NAME", lambda row: row["a"]), Column("WAITING", lambda row: row["n"], True)]
    shown = table_lines(numbers, [{"a": "team-of-the-long-name", "n": "12"}], width_max=20)
    assert [line.split() for line in shown] == [
        ["NAME", "WAITING"],
        ["team-of-the-long-name", "12"],
    ]
    texts = [Column("NAME", lambda row: row["a"]), Column("BECAUSE", lambda row: row["n"])]
    title, told = table_lines(texts, [{"a": "x" * 30, "n": "its queue has its share"}], width_max=9)
    assert title.endswith("BECAUSE")
    assert told.endswith("its queue has…")


def test_a_chosen_field_that_is_one_word_may_be_a_name_and_is_not_cut() -> None:
    (line,) = table_lines(chosen("key"), [{"key": "llm/" + "x" * 90}], False, 40, is_raw=True)
    assert line == "llm/" + "x" * 90


def test_of_a_page_nothing_is_cut_and_what_follows_stands_below_its_text() -> None:
    line = "  also      Queue llm has its share: it may use what is free, and take nothing else."
    rows = wrapped(line, 40)
    assert all(len(row) <= 40 for row in rows)
    assert {row[:12].strip() for row in rows[1:]} == {""}
    assert " ".join(" ".join(rows).split()) == " ".join(line.split())
    assert wrapped(line, 0) == [line]
    assert wrapped("sentence " * 9, 40)[1].startswith("    sentence")


def test_lines_that_the_terminal_breaks_are_drawn_over_too(
    capsys: pytest.CaptureFixture[str],
) -> None:
    shown = Screen(height=6, width=10)
    shown.draw(["x" * 25, "y" * 10])
    capsys.readouterr()
    shown.draw(["x" * 25, "y" * 10, "z" * 11, "w"])
    again = capsys.readouterr().out
    assert again.startswith("\x1b[4A"), "three rows and one"
    assert "2 more rows do not fit" in again


def test_rows_without_a_value_come_last_whichever_way_they_are_sorted() -> None:
    rows: list[Row] = [{"n": None}, {"n": 2}, {"n": 1}]
    assert [row["n"] for row in ordered(rows, (), "n")] == [1, 2, None]
    assert [row["n"] for row in ordered(rows, (), "-n")] == [2, 1, None]
    with pytest.raises(BadColumn, match="known are n"):
        ordered(rows, (), "m")


def test_a_job_from_flags_is_a_gang_in_its_queue() -> None:
    wish = Wish("tune", "llm", "x:1", pods=4, minimum=2, gpus=8, cpu="4", rack="default/rack")
    made = job_manifest(wish)
    notes = made["metadata"]["annotations"]
    assert notes["kai.scheduler/batch-min-member"] == "2"
    assert notes["kai.scheduler/topology-required-placement"] == "rack"
    assert made["metadata"]["labels"] == {"kai.scheduler/queue": "llm"}
    (container,) = made["spec"]["template"]["spec"]["containers"]
    assert container["resources"] == {"requests": {"cpu": "4"}, "limits": {"nvidia.com/gpu": "8"}}


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["submit"], "--name, --queue, --image: write them, or -f FILE"),
        (
            ["submit", "--name", "a", "-q", "b", "--image", "c", "--min", "3"],
            "--min at most --pods",
        ),
        (
            ["submit", "-f", "a.yaml", "-q", "b", "--pods", "2", "--", "x"],
            "--queue, --pods, -- COMMAND: ",
        ),
        (["plan"], "write -f FILE, or --quota QUEUE=GPUS, or --conf FILE, or --nodes NODE=COUNT"),
        (["plan", "--quota", "llm"], "write QUEUE=GPUS"),
        (["wait", "x", "--for", "ever"], "write started, ended or succeeded"),
        (["usage", "--by", "colour"], "write one or more of queue, user, job, day"),
        (["history", "--since", "yesterday"], "write how long ago"),
        (["jobs", "-o", "xml"], "table, wide, json"),
    ],
)
def test_a_wrong_command_line_names_what_to_write(words: list[str], said: str) -> None:
    result = CliRunner().invoke(app, words, env={"MUSTER_SERVER": "http://127.0.0.1:1"})
    assert result.exit_code == 2
    assert said in " ".join(result.stderr.split())


@pytest.mark.parametrize("words", [["plan", "-f"], ["conf", "check"], ["jobs", "--token-file"]])
def test_a_file_that_cannot_be_read_is_named_once_and_without_numbers(
    words: list[str], tmp_path: Path
) -> None:
    env = {"MUSTER_SERVER": "http://127.0.0.1:1"}
    absent, image = tmp_path / "absent", tmp_path / "image"
    image.write_bytes(b"\xff\xd8")
    for file, why in ((absent, "No such file or directory"), (image, "it is not text in UTF-8")):
        result = CliRunner().invoke(app, [*words, str(file)], env=env)
        assert result.exit_code == 1
        assert result.stderr.rstrip().endswith(f"{file}: {why}")
        assert result.stderr.count(str(file)) == 1


def test_only_what_pods_come_of_is_waited_for() -> None:
    kinds = ("ConfigMap", "Job", "Service", "Pod", "RayCluster", "Queue")
    assert [kind for kind in kinds if Thing(kind, "a", "x").starts] == ["Job", "Pod", "RayCluster"]


def test_a_job_from_flags_is_only_shown_by_a_dry_run() -> None:
    words = ["submit", "--name", "a", "-q", "b", "--image", "c", "--dry-run"]
    result = CliRunner().invoke(app, words)
    assert (result.exit_code, "kind: Job" in result.stdout) == (0, True)


@pytest.mark.parametrize("name", ["jobs", "web", "scheduler", "submit"])
def test_help_cuts_no_flag_at_eighty_columns(name: str) -> None:
    from muster.cli.commands import COMMANDS

    result = CliRunner().invoke(app, [name, "--help"], env={"COLUMNS": "80"})
    flags = [
        flag for one in COMMANDS[name].load(name).params for flag in one.opts if flag[0] == "-"
    ]
    assert len(flags) > 5
    assert [flag for flag in flags if flag not in result.output] == []
    assert max(map(len, result.output.splitlines())) <= 100


def test_kubectl_gets_words_with_their_help() -> None:
    program = (
        "import sys; sys.argv[1:] = ['rea']; from muster.cli.entry import *; kubectl_complete()"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.splitlines() == ["reasons\tWhat does this code mean, and what helps?", ":4"]


def test_a_watch_that_nobody_types_to_waits_as_long_as_it_should(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    waited: list[float] = []

    def select(_r: object, _w: object, _x: object, seconds: float) -> tuple[list[int], ...]:
        waited.append(seconds)
        return [], [], []

    monkeypatch.setattr("select.select", select)
    assert not screen.wait_or_quit(2.0)
    assert waited == [2.0]


def test_what_is_watched_is_asked_again_when_the_server_has_news() -> None:
    """At once, and not at the next of its regular looks; a stream that breaks is begun anew."""
    begun = threading.Semaphore(0)

    class Telling(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b"id: 1\nevent: beat\ndata: {}\n\nid: 2\nevent: delta\ndata: {}\n\n")
            begun.release()

        def log_message(self, *_: object) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Telling)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    news, clock = News(), SystemClock()
    follow(f"http://127.0.0.1:{server.server_port}", None, news)
    began_s = clock.monotonic_s()
    for _ in range(2):
        assert begun.acquire(timeout=60)
        assert not screen.wait_or_quit(600.0, news)
    server.shutdown()
    assert clock.monotonic_s() - began_s < 300
    assert not screen.wait_or_quit(0.01, News())
