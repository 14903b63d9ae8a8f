"""The kubeconfig of `muster up`: written, replaced and removed only where nobody else is in it."""

from pathlib import Path

import pytest
import yaml

from muster.cli.kubeconfig_file import KubeconfigFile, NotOurs
from muster.sim.apiserver.kubeconfig import ServerAccess, kubeconfig


def _config(name: str = "muster", token: str = "t") -> str:
    return kubeconfig(ServerAccess("https://127.0.0.1:1", b"ca", token, name=name))


def test_what_a_cluster_that_was_killed_left_is_replaced_and_removed(tmp_path: Path) -> None:
    file = KubeconfigFile(tmp_path / "new" / "k", "muster")
    file.check()
    file.write(_config(token="old"))
    file.check()
    file.write(_config(token="new"))
    assert "new" in file.path.read_text()
    assert file.path.stat().st_mode & 0o777 == 0o600
    file.remove()
    assert list(file.path.parent.iterdir()) == []


_OTHER = {"name": "work", "cluster": {"server": "https://work"}}


@pytest.mark.parametrize(
    "held",
    [
        "",
        "not: [a kubeconfig",
        "just text",
        yaml.safe_dump({"clusters": [_OTHER]}),
        yaml.safe_dump({**yaml.safe_load(_config()), "clusters": [_OTHER]}),
        yaml.safe_dump(
            {
                **yaml.safe_load(_config()),
                "clusters": [*yaml.safe_load(_config())["clusters"], _OTHER],
            }
        ),
        yaml.safe_dump({**yaml.safe_load(_config()), "users": [{"name": "me", "user": {}}]}),
    ],
)
def test_a_file_that_holds_anything_of_others_is_neither_replaced_nor_removed(
    held: str, tmp_path: Path
) -> None:
    path = tmp_path / "config"
    path.write_text(held)
    file = KubeconfigFile(path, "muster")
    with pytest.raises(NotOurs, match="--kubeconfig"):
        file.check()
    with pytest.raises(NotOurs):
        file.write(_config())
    file.remove()
    assert path.read_text() == held
    assert list(tmp_path.iterdir()) == [path]


def test_a_file_that_kubectl_edited_is_still_known(tmp_path: Path) -> None:
    path = tmp_path / "config"
    edited = yaml.safe_load(_config())
    edited["contexts"][0]["context"]["namespace"] = "mine"
    path.write_text(yaml.safe_dump(edited))
    KubeconfigFile(path, "muster").check()


def test_the_file_of_another_cluster_that_runs_is_left_to_it(tmp_path: Path) -> None:
    path = tmp_path / "config"
    path.write_text(_config("first"))
    file = KubeconfigFile(path, "second")
    with pytest.raises(NotOurs, match="leads to the cluster first, which runs"):
        file.check(frozenset({"first"}))
    file.check(frozenset())
    file.remove()
    assert path.exists()


def test_what_a_link_leads_to_is_judged_and_the_link_stays(tmp_path: Path) -> None:
    target, link = tmp_path / "target", tmp_path / "link"
    target.write_text("clusters: []")
    link.symlink_to(target)
    with pytest.raises(NotOurs):
        KubeconfigFile(link, "muster").check()
    target.unlink()
    file = KubeconfigFile(link, "muster")
    file.write(_config())
    assert link.is_symlink()
    assert target.exists()
