"""When the configuration is read: at start, and when it says something new."""

from pathlib import Path

import pytest
from tests.support.virtual_time import virtually

from muster.base.log import Log, MemorySink
from muster.engine.config.conf import parse_conf
from muster.engine.config.reader import ConfigError
from muster.services.scheduler.conf_file import ConfFile
from muster.services.scheduler.loop import ActivePolicy
from muster.services.scheduler.options import Options
from muster.services.scheduler.wiring import active_policy


class Parsing:
    """Makes policies, and remembers of which texts."""

    def __init__(self) -> None:
        self.texts: list[str] = []

    def __call__(self, text: str, file: str) -> ActivePolicy:
        self.texts.append(text)
        return active_policy(parse_conf(text, file), Options())


def actions(conf: ConfFile) -> list[str]:
    virtually(conf.look())
    return [name for name, _ in conf.current().actions]


@pytest.mark.row(127)
def test_a_configuration_is_parsed_at_start_and_again_only_when_it_has_changed(
    tmp_path: Path,
) -> None:
    file, parsing, sink = tmp_path / "conf.yaml", Parsing(), MemorySink()
    file.write_text("actions: allocate\n")
    conf = ConfFile(file, parsing, Log("test", sink))
    for _ in range(5):
        assert actions(conf) == ["allocate"]
    file.write_text("actions: allocate, reclaim\n")
    for _ in range(5):
        assert actions(conf) == ["allocate", "reclaim"]
    assert parsing.texts == ["actions: allocate\n", "actions: allocate, reclaim\n"]
    assert sink.messages() == ["configuration loaded"]


def test_a_changed_configuration_that_is_wrong_is_logged_once_and_the_old_one_decides(
    tmp_path: Path,
) -> None:
    file, parsing, sink = tmp_path / "conf.yaml", Parsing(), MemorySink()
    file.write_text("actions: allocate\n")
    conf = ConfFile(file, parsing, Log("test", sink))
    file.write_text("actions: allocate, dance\n")
    for _ in range(5):
        assert actions(conf) == ["allocate"]
    assert sink.messages() == ["configuration rejected"]
    assert conf.text == "actions: allocate\n"
    file.unlink()
    assert actions(conf) == ["allocate"], "a mounted file is missing for an instant"


def test_a_scheduler_does_not_start_with_a_configuration_that_is_wrong(tmp_path: Path) -> None:
    file = tmp_path / "conf.yaml"
    with pytest.raises(ConfigError, match="cannot be read"):
        ConfFile(file, Parsing(), Log("test"))
    file.write_text("actions: dance\n")
    with pytest.raises(ConfigError, match="dance"):
        ConfFile(file, Parsing(), Log("test"))
