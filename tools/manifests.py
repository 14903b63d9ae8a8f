"""Writes `deploy/`: what `kubectl apply --server-side -k deploy/` applies, from the code.

`make docs` runs this; a test compares. The files hold what `muster install` would write, except
for the first Config, shard and queues: their kinds do not exist until the files are applied, so the
operator makes those (`--make-defaults`). The chart has them: Helm makes its kinds first.
"""

from pathlib import Path
from typing import Final

import yaml
from tools import chart

from muster import __version__
from muster.api.crds import DEFINITIONS
from muster.services.operator.bootstrap import Choices, operator_objects
from muster.services.operator.settings import Release

ROOT: Final = Path(__file__).resolve().parents[1]
FOLDER: Final = ROOT / "deploy"
OPERATOR: Final = "operator.yaml"
KUSTOMIZATION: Final = "kustomization.yaml"


def files() -> dict[str, str]:
    """By name, below `deploy/`."""
    choices = Choices(Release(tag=__version__), makes_defaults=True)
    return {OPERATOR: _operator(choices), KUSTOMIZATION: _kustomization(), **chart.files()}


def _operator(choices: Choices) -> str:
    head = "# Made by tools/manifests.py; do not edit.\n"
    documents = (_yaml(want.body) for want in operator_objects(choices))
    return head + "---\n" + "---\n".join(documents)


def _kustomization() -> str:
    crds = [
        f"crds/{each.kind.group}_{each.kind.plural}.yaml"
        for each in sorted(DEFINITIONS, key=lambda one: (one.kind.group, one.kind.plural))
    ]
    body = {
        "apiVersion": "kustomize.config.k8s.io/v1beta1",
        "kind": "Kustomization",
        "resources": [*crds, OPERATOR],
        # All services run from the operator's image: a mirror is named here, and nowhere else.
        "images": [{"name": "muster", "newName": "muster", "newTag": __version__}],
    }
    return "# Made by tools/manifests.py; do not edit. Use it as a base of your own.\n" + _yaml(
        body
    )


def _yaml(body: object) -> str:
    text: str = yaml.safe_dump(body, sort_keys=False, width=1000)
    return text


def main() -> None:
    for name, text in files().items():
        (FOLDER / name).write_text(text)


if __name__ == "__main__":
    main()
