"""The chart gives what `muster install` gives, and every value of it reaches what it names."""

import asyncio
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.support.client import client_of
from tests.support.helm import helm_program
from tests.support.laptop import laptop

from muster import __version__
from muster.api.codec import builtins, from_builtins
from muster.api.config import Config
from muster.api.kinds import QUEUE, SCHEDULING_SHARD
from muster.api.meta import Key
from muster.api.names import DEFAULT, DEFAULT_QUEUE
from muster.client.kinds import plainly
from muster.services.operator.bootstrap import (
    OLDEST_KUBERNETES,
    Choices,
    defaults,
    operator_objects,
)
from muster.services.operator.decide import desired, usable_config
from muster.services.operator.objects import NAMESPACE
from muster.services.operator.settings import Installation, Release, Settings

_ROOT = Path(__file__).resolve().parents[2]
_CHART = _ROOT / "deploy" / "chart"
_TEMPLATES = _CHART / "templates"
_RELEASE = Release(tag=__version__)
_QUEUE, _SHARD = plainly(QUEUE), plainly(SCHEDULING_SHARD)

Object = dict[str, Any]


def _helm(*arguments: str) -> str:
    command = [str(helm_program(_ROOT)), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr or done.stdout
    return done.stdout


def _rendered(*arguments: str) -> dict[tuple[str, str, str], Object]:
    oldest = ".".join(map(str, OLDEST_KUBERNETES))
    given = ("--namespace", DEFAULT.namespace, "--kube-version", f"{oldest}.0")
    text = _helm("template", "muster", str(_CHART), *given, *arguments)
    return {_key(one): one for one in yaml.safe_load_all(text) if one}


def _key(one: Object) -> tuple[str, str, str]:
    metadata = one["metadata"]
    return one["kind"], metadata.get("namespace", ""), metadata["name"]


def _plain(one: Object) -> Object:
    """Without what only Helm reads."""
    metadata = {key: value for key, value in one["metadata"].items() if key != "annotations"}
    if not metadata.get("labels"):
        metadata.pop("labels", None)
    return {**one, "metadata": metadata}


def _config(objects: dict[tuple[str, str, str], Object]) -> Config:
    return from_builtins(Config, objects["Config", "", DEFAULT.config])


@pytest.mark.helm
def test_helm_finds_nothing_to_complain_about() -> None:
    assert "0 chart(s) failed" in _helm("lint", "--strict", str(_CHART))


@pytest.mark.helm
def test_it_makes_what_muster_install_makes() -> None:
    wanted = {
        _key(one.body): _plain(one.body)
        for one in (*operator_objects(Choices(_RELEASE)), *defaults(Config()))
        if (one.kind, one.key.name) != (NAMESPACE, DEFAULT.namespace)  # Helm's own to make
    }
    found = {key: _plain(one) for key, one in _rendered().items()}
    assert found.keys() == wanted.keys()
    config = ("Config", "", DEFAULT.config)
    assert {key: one for key, one in found.items() if key != config} == {
        key: one for key, one in wanted.items() if key != config
    }
    given = from_builtins(Config, found[config])
    assert usable_config(given) == []
    assert _operated(given) == _operated(from_builtins(Config, wanted[config]))


def _operated(config: Config) -> object:
    """All that the operator makes of a Config."""
    return desired(Installation(Settings.of(config, _RELEASE)))


def _fields() -> dict[str, str]:
    text = (_TEMPLATES / "_muster.tpl").read_text()
    return dict(re.findall(r"^([\w.]+): ([\w.]+)$", text, re.MULTILINE))


def _at(tree: Any, path: str) -> Any:
    for step in path.split("."):
        tree = tree[step]
    return tree


def _leaves(values: Any, path: str = "") -> set[str]:
    if isinstance(values, dict) and values and path not in _fields():
        return {leaf for key, value in values.items() for leaf in _leaves(value, f"{path}{key}.")}
    return {path.removesuffix(".")}


def test_every_value_is_used() -> None:
    values = yaml.safe_load((_CHART / "values.yaml").read_text())
    text = "".join(path.read_text() for path in _TEMPLATES.iterdir())
    shard = {f"scheduler.{name}" for name in re.findall(r'"(\w+)"', _shard_line(text))}
    named = {*_fields(), *re.findall(r"\.Values\.([\w.]+)", text), *shard}
    unused = {leaf for leaf in _leaves(values) if not any(_is_below(leaf, name) for name in named)}
    assert unused == set()


def _shard_line(text: str) -> str:
    (line,) = re.findall(r"range list (.*) -", text)
    return str(line)


def _is_below(leaf: str, name: str) -> bool:
    return leaf == name or leaf.startswith(f"{name}.")


def test_every_value_that_becomes_a_field_has_a_default() -> None:
    values = yaml.safe_load((_CHART / "values.yaml").read_text())
    for value in _fields():
        _at(values, value)


_OTHERS: dict[str, Any] = {
    "resources": {"requests": {"cpu": "7"}},
    "affinity": {"nodeAffinity": {}},
    "nodeSelector": {"a": "b"},
    "tolerations": [{"key": "a"}],
    "podDisruptionBudget": {"enabled": True, "maxUnavailable": 2},
    "plugins": {"hamicore": {"enabled": True}},
    "vpa": {"enabled": True},
    "podResources": {"limits": {"cpu": "1"}},
    "securityContext": {"runAsUser": 5},
    "namespaceLabelSelector": {"a": "b"},
    "podLabelSelector": {"a": "b"},
    "replicaCount": 3,
    "externalPrometheusUrl": "http://prometheus.example",
}
"""By the last word of a value, another than its default; texts and switches are found."""


@pytest.mark.helm
def test_every_value_reaches_its_field(tmp_path: Path) -> None:
    values = yaml.safe_load((_CHART / "values.yaml").read_text())
    wanted: dict[str, Any] = {}
    for value, field in _fields().items():
        *above, last = value.split(".")
        now = _at(values, value)
        other = not now if isinstance(now, bool) else _OTHERS.get(last, f"other-{last.lower()}")
        _at(values, ".".join(above))[last] = wanted[field] = other
    file = tmp_path / "values.yaml"
    file.write_text(yaml.safe_dump(values))
    config = _config(_rendered("--values", str(file)))
    spec = builtins(config.spec)
    # What is laid over a map of the chart leaves the rest of it.
    wanted["global.securityContext"] = {
        **values["global"]["securityContext"],
        **yaml.safe_load((_CHART / "values.yaml").read_text())["global"]["securityContext"],
        **_OTHERS["securityContext"],
    }
    assert {field: _at(spec, field) for field in wanted} == wanted
    assert usable_config(config) == []


@pytest.mark.helm
@pytest.mark.parametrize(
    ("given", "image"),
    [
        ([], f"muster:{__version__}"),
        (["--set", "global.registry=r.example/team"], f"r.example/team/muster:{__version__}"),
        (["--set", "global.tag=2"], "muster:2"),
        (["--set", "global.tag=sha256:ab"], "muster@sha256:ab"),
    ],
)
def test_the_image_is_the_one_that_is_named(given: list[str], image: str) -> None:
    operator = _rendered(*given)["Deployment", DEFAULT.namespace, "muster-operator"]
    (container,) = operator["spec"]["template"]["spec"]["containers"]
    assert container["image"] == image


@pytest.mark.helm
def test_what_no_value_names_is_written_in_the_words_of_the_objects() -> None:
    objects = _rendered(
        *("--set", "config.global.replicaCount=2", "--set", "shard.partitionLabelValue=a"),
        *("--set", "scheduler.placementStrategy.gpu=spread"),
        *("--set", "global.imagePullSecrets[0].name=mine"),
    )
    everywhere = builtins(_config(objects).spec)["global"]
    assert everywhere["replicaCount"] == 2
    assert everywhere["additionalImagePullSecrets"] == ["mine"]
    shard = objects["SchedulingShard", "", "default"]["spec"]
    assert shard == {"partitionLabelValue": "a", "placementStrategy": {"gpu": "spread"}}


@pytest.mark.helm
def test_an_upgrade_writes_over_no_queue() -> None:
    kinds = {kind for kind, _, _ in _rendered("--is-upgrade")}
    assert "Queue" not in kinds
    assert "Config" in kinds


@pytest.mark.helm
@pytest.mark.slow
def test_installing_where_queues_are_leaves_them_and_removing_leaves_no_shard(
    tmp_path: Path,
) -> None:
    """Helm deletes what a hook is about to make, and work in a queue that is gone waits."""
    with laptop(tmp_path) as cluster:
        kubeconfig = ("--kubeconfig", str(cluster.kubeconfig))
        install = ("install", "muster", str(_CHART), "--namespace", DEFAULT.namespace)

        async def raised() -> tuple[str, object]:
            quota = {"spec": {"resources": {"gpu": {"quota": 5}}}}
            async with client_of(cluster.kubeconfig) as client:
                queue = await client.writer.patch(_QUEUE, Key("", DEFAULT_QUEUE), quota)
            return queue["metadata"]["uid"], queue["spec"]

        async def found() -> tuple[str, object, int]:
            async with client_of(cluster.kubeconfig) as client:
                queue = await client.reader.get(_QUEUE, Key("", DEFAULT_QUEUE))
                shards = (await client.reader.list(_SHARD)).objects
            return queue["metadata"]["uid"], queue["spec"], len(shards)

        _helm(*install, "--create-namespace", *kubeconfig)
        held = asyncio.run(raised())
        _helm("uninstall", "muster", "--namespace", DEFAULT.namespace, *kubeconfig)
        assert asyncio.run(found()) == (*held, 0)
        _helm(*install, *kubeconfig)
        assert asyncio.run(found()) == (*held, 1)
