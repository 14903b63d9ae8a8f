"""Commands that ask a dashboard on another machine show it who they are."""

import urllib.request
import webbrowser
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from muster.cli.main import app

_SERVER = "https://muster.example"


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[urllib.request.Request]:
    """What was sent; all of it is answered with a code and no queues."""
    found: list[urllib.request.Request] = []

    def urlopen(request: Any, timeout: float) -> BytesIO:
        found.append(request)
        return BytesIO(b'{"code": "once", "kind": "QueueList", "items": []}')

    monkeypatch.setattr(urllib.request, "urlopen", urlopen)
    return found


def test_the_token_of_a_file_goes_with_each_question(
    asked: list[urllib.request.Request], tmp_path: Path
) -> None:
    file = tmp_path / "token"
    file.write_text("word\n")
    words = ["queues", "--server", _SERVER, "--token-file", str(file)]
    assert CliRunner().invoke(app, words).exit_code == 0
    assert [one.get_header("Authorization") for one in asked] == ["Bearer word"]


def test_a_token_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    words = ["queues", "--server", _SERVER, "--token-file", str(tmp_path / "none")]
    result = CliRunner().invoke(app, words)
    assert result.exit_code == 1
    assert "--token-file" in result.stderr


def test_a_browser_gets_a_code_and_no_token(
    asked: list[urllib.request.Request], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, opened = tmp_path / "token", list[str]()
    file.write_text("word\n")
    monkeypatch.setattr(webbrowser, "open", opened.append)
    words = ["dashboard", "--server", _SERVER, "--token-file", str(file)]
    assert CliRunner().invoke(app, words).exit_code == 0
    assert opened == [f"{_SERVER}/#code=once"]
    assert asked[-1].data == b'{"token":"word"}'
    assert asked[-1].full_url == f"{_SERVER}/api/v1/login-code"
