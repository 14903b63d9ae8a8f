"""The CRDs are made from the structs; the files in deploy/crds are never edited by hand."""

import json
from pathlib import Path

import pytest
import yaml

from muster.api.crds import DEFINITIONS, Definition, main, manifest, rendered, struct_schema
from muster.api.queue import QueueResource

_FOLDER = Path(__file__).parents[3] / "deploy" / "crds"
# What a client-side `kubectl apply` can remember of an object in its annotation.
_APPLY_LIMIT_BYTES = 262_144


@pytest.mark.row(81, 82, 86, 87)
@pytest.mark.parametrize("definition", DEFINITIONS, ids=lambda each: each.kind.kind)
def test_a_crd_file_is_the_rendered_struct(definition: Definition) -> None:
    file = _FOLDER / definition.file_name
    assert file.read_text() == rendered(definition), "stale: run python -m muster.api.crds"


def test_the_crd_folder_has_one_file_per_definition() -> None:
    assert {file.name for file in _FOLDER.iterdir()} == {each.file_name for each in DEFINITIONS}


def test_the_crds_command_writes_every_file(tmp_path: Path) -> None:
    main(tmp_path / "crds")
    assert len(list((tmp_path / "crds").glob("*.yaml"))) == len(DEFINITIONS)


@pytest.mark.parametrize("definition", DEFINITIONS, ids=lambda each: each.kind.kind)
def test_every_crd_is_small_enough_for_client_side_apply(definition: Definition) -> None:
    assert len(json.dumps(manifest(definition))) < _APPLY_LIMIT_BYTES


def test_a_crd_field_has_its_description_and_constraints() -> None:
    (group,) = (each for each in DEFINITIONS if each.kind.kind == "PodGroup")
    crd = yaml.safe_load(rendered(group))
    (version,) = crd["spec"]["versions"]
    spec = version["schema"]["openAPIV3Schema"]["properties"]["spec"]
    assert spec["properties"]["minMember"] == {
        "description": "The pods that start together or not at all (1); excludes minSubGroup.",
        "format": "int32",
        "minimum": 0,
        "type": "integer",
    }
    assert spec["properties"]["subGroups"]["items"]["required"] == ["name"]


def test_a_struct_becomes_an_object_with_sorted_properties() -> None:
    schema = struct_schema(QueueResource)
    assert (schema["type"], list(schema["properties"])) == (
        "object",
        ["limit", "overQuotaWeight", "quota"],
    )
