"""Colours are for terminals, say nothing that words do not say, and are left out when told so."""

import re
import sys
from collections.abc import Iterator

import pytest
from tests.support.served_web import served
from typer.testing import CliRunner

from muster.cli.main import app
from muster.cli.reading import wants_colours
from muster.cli.screen import Screen
from muster.cli.tables import Column, table_lines
from muster.testing import make

_ESCAPE = re.compile(r"\x1b\[\d*m")


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    records = make.cluster(
        make.node("n1", gpu=8),
        make.node("n2", gpu=4, is_unschedulable=True),
        make.queue("a", quota_gpu=8),
        make.gang("runs", 4, gpu=1, queue="a", nodes=("n1",) * 4),
        make.gang("waits", 9, gpu=1, queue="a"),
    )
    with served(records, "laptop") as address:
        yield address


@pytest.mark.parametrize("words", ["jobs -A", "jobs -A -o wide", "nodes", "nodes --each", "queues"])
def test_what_colours_say_stands_in_words_too(server: str, words: str) -> None:
    run = [*words.split(), "--server", server]
    coloured = CliRunner().invoke(app, [*run, "--color", "always"], color=True).stdout
    plain = CliRunner().invoke(app, run, color=True).stdout
    assert "\x1b[" in coloured
    assert "\x1b[" not in plain
    assert _ESCAPE.sub("", coloured) == plain


@pytest.mark.parametrize(
    ("wanted", "is_terminal", "environment", "coloured"),
    [
        ("auto", True, {}, True),
        ("auto", False, {}, False),
        ("auto", True, {"NO_COLOR": "1"}, False),
        ("auto", True, {"NO_COLOR": ""}, True),
        ("auto", True, {"TERM": "dumb"}, False),
        ("always", False, {"NO_COLOR": "1"}, True),
        ("never", True, {}, False),
    ],
)
def test_a_flag_counts_before_the_environment_and_that_before_the_terminal(
    monkeypatch: pytest.MonkeyPatch,
    wanted: str,
    is_terminal: bool,
    environment: dict[str, str],
    coloured: bool,
) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(sys.stdout, "isatty", lambda: is_terminal, raising=False)
    assert wants_colours(wanted) is coloured


def test_another_word_is_refused_with_those_there_are() -> None:
    result = CliRunner().invoke(app, ["jobs", "--color", "pink"])
    assert result.exit_code == 2
    assert "auto, always, never" in result.stderr


def test_a_line_that_is_cut_stays_as_long_as_the_screen() -> None:
    columns = [
        Column("NAME", lambda row: row["a"]),
        Column("TEXT", lambda row: row["b"], tone=lambda row: "bad"),
    ]
    (line,) = table_lines(columns, [{"a": "x", "b": "y" * 90}], False, 40, colours=True)
    assert line.endswith("…\x1b[0m")
    assert len(_ESCAPE.sub("", line)) == 40


def test_a_row_that_is_gone_says_so_without_colours(capsys: pytest.CaptureFixture[str]) -> None:
    Screen(9, 20, colours=False).draw(["\x1b[32mRunning\x1b[0m and so on and on"], frozenset({0}))
    shown = capsys.readouterr().out.replace("\x1b[2K", "").replace("\x1b[J", "")
    assert shown == "Running and … (gone)\n"
