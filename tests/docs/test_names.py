"""Strings that the cluster sees stand in one place."""

import ast
from dataclasses import fields
from pathlib import Path

from muster.api import names
from muster.api.object_names import is_subdomain

_ROOT = Path(__file__).resolve().parents[2] / "src" / "muster"
# The simulated world and the test tools must not learn names from the product that they judge.
_STRANGERS = (Path("sim"), Path("testing"), Path("lab/simulate"))


def _is_strange(path: Path) -> bool:
    return any(stranger in path.parents for stranger in _STRANGERS)


def _distinctive() -> set[str]:
    """Names that nobody writes by accident."""
    values = [value for name, value in vars(names).items() if name.isupper()]
    values += [getattr(names.DEFAULT, field.name) for field in fields(names.Names)]
    texts = [value for value in values if isinstance(value, str)]
    return {text for text in texts if "/" in text or text.startswith("kai-")}


def test_label_and_annotation_names_are_spelled_only_in_api_names() -> None:
    known = _distinctive()
    spelled = [
        f"{path.relative_to(_ROOT)}:{node.lineno}: {node.value}"
        for path in sorted(_ROOT.rglob("*.py"))
        if path != _ROOT / "api" / "names.py" and not _is_strange(path.relative_to(_ROOT))
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Constant) and node.value in known
    ]
    assert spelled == [], "use muster.api.names"


def test_leases_of_shards_are_named_after_the_scheduler() -> None:
    assert names.DEFAULT.scheduler_lease() == "kai-scheduler"
    assert names.DEFAULT.scheduler_lease("a100") == "kai-scheduler-a100"


def test_every_pool_has_a_lease_of_its_own_that_can_be() -> None:
    """Labels of nodes may be written as no object is called: `A100_80GB`."""
    pools = [
        "",
        "a100",
        "A100",
        "a_100",
        "a-100",
        "A-100",
        "a.100",
        "a..100",
        "A100_80GB",
        "x" * 63,
    ]
    leases = [names.DEFAULT.scheduler_lease(pool) for pool in pools]
    assert all(is_subdomain(lease) for lease in leases), leases
    assert len({*leases}) == len(pools)
