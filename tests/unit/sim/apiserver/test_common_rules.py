"""Small languages of the API: quantities, selectors, paths, ages, protobuf."""

import base64

import pytest

from muster.sim.apiserver import wire
from muster.sim.apiserver.builtin import builtin_kinds
from muster.sim.apiserver.columns.times import duration
from muster.sim.apiserver.descriptions import texts
from muster.sim.apiserver.discovery import sorted_versions
from muster.sim.apiserver.jsonpath import BadPath, values
from muster.sim.apiserver.quantities import BadQuantity, canonical
from muster.sim.apiserver.refusal import ApiRefusal
from muster.sim.apiserver.selectors import field_predicate, label_predicate
from muster.sim.apiserver.types import definitions

# What `kubectl create deployment d --image=nginx` sends.
_DEPLOYMENT = base64.b64decode(
    "azhzAAoVCgdhcHBzL3YxEgpEZXBsb3ltZW50EqMBChsKAWQSABoAIgAqADIAOABCAFoICgNhcHASAWQSdggBEgoKCAoDYXBw"
    "EgFkGl4KGgoAEgAaACIAKgAyADgAQgBaCAoDYXBwEgFkEkASIgoFbmdpbngSBW5naW54KgBCAGoAcgCAAQCIAQCQAQCiAQAa"
    "ADIAQgBKAFIAWABgAGgAggEAigEAmgEAwgEAIgIKACgAOAAaDAgAEAAYACAAKAA4ABoAIgA="
)


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("1000m", "1"),
        ("1024Ki", "1Mi"),
        ("1.5Gi", "1536Mi"),
        ("0.5", "500m"),
        ("1e3", "1e3"),
        ("1500M", "1500M"),
        ("0", "0"),
        ("-1", "-1"),
        ("0.1m", "100u"),
        ("2048", "2048"),
    ],
)
def test_a_quantity_has_one_canonical_form(text: str, wanted: str) -> None:
    assert canonical(text) == wanted
    assert canonical(wanted) == wanted


@pytest.mark.parametrize("text", ["", "x", "1x", "1 Gi", "--1", "1Gi2", "1,5", "１", "1\n"])
def test_what_is_no_quantity_is_refused(text: str) -> None:
    with pytest.raises(BadQuantity):
        canonical(text)


@pytest.mark.parametrize(
    ("selector", "labels", "matches"),
    [
        ("a=b", {"a": "b"}, True),
        ("a==b", {"a": "c"}, False),
        ("a!=b", {}, True),
        ("a", {"a": ""}, True),
        ("!a", {"a": ""}, False),
        ("a in (b, c)", {"a": "c"}, True),
        ("a notin (b)", {}, True),
        ("a=b,c in (d)", {"a": "b", "c": "d"}, True),
        ("a>3", {"a": "4"}, True),
        ("a<3", {"a": "x"}, False),
        ("example.com/a=b", {"example.com/a": "b"}, True),
    ],
)
def test_a_label_selector_matches(selector: str, labels: dict[str, str], matches: bool) -> None:
    predicate = label_predicate(selector)
    assert predicate is not None
    assert predicate({"metadata": {"labels": labels}}) is matches


@pytest.mark.parametrize("selector", ["a===b", "a in b", "-a=b", "a=b c", ",", "a=/"])
def test_a_malformed_selector_is_a_bad_request(selector: str) -> None:
    with pytest.raises(ApiRefusal) as refused:
        label_predicate(selector)
    assert refused.value.code == 400


def test_unsupported_field_selectors_are_refused() -> None:
    pods = builtin_kinds().find("", "v1", "pods")
    assert pods is not None
    assert field_predicate(pods, "spec.nodeName=n,metadata.name!=x") is not None
    with pytest.raises(ApiRefusal, match="not supported"):
        field_predicate(pods, "spec.hostname=x")


@pytest.mark.parametrize(
    ("path", "wanted"),
    [
        (".a.b", [1]),
        (".list[0].x", ["p"]),
        (".list[*].x", ["p", "q"]),
        ('.list[?(@.x=="q")].y', [2]),
        (".with\\.dot", ["d"]),
        ("['with.dot']", ["d"]),
        (".nothing.here", []),
    ],
)
def test_a_json_path_finds_its_values(path: str, wanted: list[object]) -> None:
    obj = {"a": {"b": 1}, "list": [{"x": "p", "y": 1}, {"x": "q", "y": 2}], "with.dot": "d"}
    assert values(obj, path) == wanted


def test_a_malformed_json_path_is_an_error() -> None:
    with pytest.raises(BadPath):
        values({}, ".a[")


@pytest.mark.parametrize(
    ("seconds", "wanted"),
    [(0, "0s"), (119, "119s"), (125, "2m5s"), (3600, "60m"), (11000, "3h3m"), (200000, "2d7h")],
)
def test_an_age_is_printed_as_kubectl_prints_it(seconds: int, wanted: str) -> None:
    assert duration(seconds) == wanted


def test_api_versions_are_sorted_by_maturity() -> None:
    mixed = ["v1alpha1", "v2", "v1", "v1beta2", "foo", "v1beta1", "v10"]
    wanted = ["v10", "v2", "v1", "v1beta2", "v1beta1", "v1alpha1", "foo"]
    assert sorted_versions(mixed) == wanted


def test_a_protobuf_deployment_is_decoded() -> None:
    obj = wire.decoded(_DEPLOYMENT)
    assert (obj["apiVersion"], obj["kind"]) == ("apps/v1", "Deployment")
    assert obj["metadata"] == {"name": "d", "labels": {"app": "d"}}
    assert obj["spec"]["replicas"] == 1
    assert obj["spec"]["template"]["spec"]["containers"] == [
        {"name": "nginx", "image": "nginx", "resources": {}}
    ]


@pytest.mark.parametrize("size", [6, 12, 20, 33, 40, 60, 90, 120])
def test_truncated_protobuf_is_refused(size: int) -> None:
    with pytest.raises(ApiRefusal) as refused:
        wire.decoded(_DEPLOYMENT[:size])
    assert refused.value.code == 400


def test_every_description_of_explain_belongs_to_a_type_and_a_field() -> None:
    for name, field in texts():
        assert name in definitions(), name
        assert not field or field in definitions()[name]["properties"], (name, field)
