"""Conf files of Volcano and kube-batch are read as they are; what is unknown is said."""

import re
from pathlib import Path

import pytest

from muster.engine.config.conf import SchedulerConf
from muster.engine.config.reader import ConfigError
from muster.engine.profiles.known import parse_for, profile_of
from muster.engine.profiles.kube_batch import FLAT_CONF
from muster.engine.registry import build_actions, build_policy


def _read(text: str, profile: str = "volcano") -> SchedulerConf:
    return parse_for(profile_of(profile), text, "conf")


@pytest.mark.row(142)
def test_without_a_file_volcano_admits_allocates_and_backfills() -> None:
    conf = _read("")
    assert conf.actions == ("enqueue", "allocate", "backfill")
    assert [entry.name for entry in conf.tiers[0]] == ["priority", "gang", "conformance"]


@pytest.mark.row(143)
@pytest.mark.parametrize("profile", ["volcano", "kube-batch", "kube-batch-0.2"])
@pytest.mark.parametrize(
    "actions",
    [
        ("allocate", "backfill", "preempt", "reclaim"),
        ("reclaim", "preempt", "backfill", "allocate"),
    ],
)
def test_any_order_of_actions_is_accepted_and_kept(profile: str, actions: tuple[str, ...]) -> None:
    text = f'actions: "{", ".join(actions)}"\ntiers:\n- plugins: [{{name: gang}}]\n'
    conf = _read(text, profile)
    assert conf.actions == actions
    assert tuple(name for name, _ in build_actions(conf, profile_of(profile))) == actions


@pytest.mark.row(118, 119, 120, 126)
def test_a_switch_that_the_flat_map_does_not_name_is_off() -> None:
    conf = _read(FLAT_CONF, "kube-batch")
    silenced = build_policy(conf, None, profile_of("kube-batch")).silenced
    assert conf.actions == ("reclaim", "allocate", "preempt")
    assert "job_ready" not in silenced["gang"]
    assert "task_keys" in silenced["gang"]
    assert {"job_keys", "task_keys"}.isdisjoint(silenced["priority"])
    assert "preemptable" in silenced["priority"]
    assert "preemptable" not in silenced["drf"]


@pytest.mark.row(129)
def test_a_flat_map_without_lists_has_the_fallbacks_of_its_time() -> None:
    conf = _read('plugin.gang.jobready: "true"\n', "kube-batch")
    assert conf.actions == ("allocate", "preempt")
    assert [entry.name for entry in conf.tiers[0]] == ["gang", "priority", "drf"]


@pytest.mark.row(128)
def test_a_conf_that_cannot_be_used_is_an_error_and_never_a_scheduler_without_gangs() -> None:
    with pytest.raises(ConfigError, match="conf: is not YAML"):
        _read("actions: [", "kube-batch")
    with pytest.raises(ConfigError, match=r'no action "elect"; Volcano removed it'):
        _read("actions: elect\ntiers:\n- plugins: [{name: gang}]\n")


def test_a_conf_of_nothing_but_unknown_plugins_names_them() -> None:
    with pytest.raises(ConfigError, match=r'at least one plugin; .*no plugin "gangg" \(known are'):
        _read("actions: allocate\ntiers:\n- plugins: [{name: gangg}]\n")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("usageDBConfig: {}\n", "conf: usageDBConfig: has no effect"),
        ("colour: red\n", "known are actions, tiers, configurations"),
    ],
)
def test_unknown_keys_are_warnings_that_say_what_to_use(text: str, said: str) -> None:
    conf = _read(f"{text}actions: allocate\ntiers:\n- plugins: [{{name: gang}}]\n")
    assert said in str(conf.no_effect[0])


def test_a_misspelled_switch_plugin_or_argument_is_told_with_those_that_exist() -> None:
    conf = _read(
        "actions: allocate\ntiers:\n- plugins:\n"
        "  - {name: gang, enableJobRedy: false}\n"
        "  - {name: reservation}\n"
        "  - {name: binpack, arguments: {binpack.weihgt: 3}}\n"
    )
    switch, plugin, argument = map(str, conf.no_effect)
    assert "enableJobRedy: no such switch" in switch
    assert 'no plugin "reservation" (Volcano removed it; room that was made is held' in plugin
    assert "binpack.weihgt: unknown key; known are binpack.cpu" in argument
    assert [entry.name for entry in conf.tiers[0]] == ["gang", "binpack"]


@pytest.mark.parametrize("switch", ["enableJobOrder: false", "disableJobOrder: true"])
def test_a_switch_of_a_tier_is_off_in_the_words_of_every_release(switch: str) -> None:
    """kube-batch 0.4 wrote disable, later ones and Volcano write enable."""
    text = f"actions: allocate\ntiers:\n- plugins: [{{name: drf, {switch}}}, {{name: gang}}]\n"
    conf = _read(text, "kube-batch")
    silenced = build_policy(conf, None, profile_of("kube-batch")).silenced
    assert "job_keys" in silenced["drf"]
    assert "job_keys" not in silenced["gang"]
    assert not conf.no_effect


def test_a_tree_of_drf_and_proportion_exclude_each_other_in_a_tier() -> None:
    text = "actions: allocate\ntiers:\n- plugins:\n"
    text += "  - {name: drf, enableHierarchy: true}\n  - {name: proportion}\n"
    with pytest.raises(ConfigError, match="exclude each other"):
        _read(text)


@pytest.mark.parametrize("profile", ["kube-batch", "kube-batch-0.2"])
@pytest.mark.parametrize("name", ["kube-batch-conf.yaml", "flat-conf.yaml"])
@pytest.mark.row(126)
def test_the_confs_that_kube_batch_is_installed_with_are_read_without_a_word(
    profile: str, name: str
) -> None:
    """Both profiles read both formats: a file says by itself which it is."""
    examples = Path(__file__).resolve().parents[4] / "examples" / "kube-batch"
    conf = _read((examples / name).read_text(), profile)
    assert conf.no_effect == ()
    assert conf.actions[0] == "reclaim"


@pytest.mark.row(126, 128)
def test_each_kube_batch_has_the_built_in_default_of_its_time() -> None:
    assert _read("", "kube-batch-0.2") == _read(FLAT_CONF, "kube-batch-0.2")
    assert _read("", "kube-batch").actions == ("allocate", "backfill")
    assert len(_read("", "kube-batch").tiers) == 2


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("plugins: gagn", "plugins: must name at least one plugin; known are conformance"),
        ("plugins: [gang]\nplugin.gang.jobready: true", "plugins: must be a text with commas"),
        ("actions: [allocate]\nplugins: gang", "actions: must be a string"),
        ('actions: ""\nplugins: gang', "actions: must name at least one action; known are"),
        ("actions: allocate, dance\nplugins: gang", 'no action "dance"; known are allocate'),
        ("actions: enqueue\nplugins: gang", "only Volcano has it; use --profile volcano"),
        ("- gang", "must be a mapping with the keys actions and tiers"),
        ("plugins: gang\nactions: &a [*a]", "is not YAML"),
    ],
)
def test_a_malformed_flat_map_is_an_error_with_the_key_and_what_to_write(
    text: str, said: str
) -> None:
    with pytest.raises(ConfigError, match=re.escape(said)):
        _read(text, "kube-batch-0.2")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('plugin.gang.jobready: "yes"', '"yes" counts as false (write true or false)'),
        ('plugin.gang.jobredy: "true"', "write plugin.NAME.SWITCH, one of preemptable"),
        ('plugin.gnag.jobready: "true"', "write plugin.NAME.SWITCH"),
        ("plugins: gang, gagn", 'no plugin "gagn" (known are conformance'),
        ("plugins: gang", "off, so gangs may start in parts"),
    ],
)
def test_what_of_a_flat_map_does_nothing_is_said(text: str, said: str) -> None:
    assert said in " ".join(map(str, _read(text, "kube-batch-0.2").no_effect))
