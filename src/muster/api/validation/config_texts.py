"""Texts of Config that go into objects of ours as they are: names, labels, images, amounts.

What no API server would take is told here, by the field that it comes from: the server would name
a field of a Deployment, and of one object after the other.
"""

import re
from collections.abc import Callable, Mapping
from typing import Any, Final

from muster.api.config import Image, PortMapping, SchedulerPorts
from muster.api.core import ResourceRequirements
from muster.api.object_names import is_subdomain
from muster.api.validation.problems import (
    Problem,
    Problems,
    given,
    is_dns_label,
    is_label_key,
    is_label_value,
    unlike,
)

_LABELS_MAX: Final = 100
"""Of a selector. It becomes one argument of a program, and those have an end."""
_SERVICE_TYPES: Final = ("ClusterIP", "NodePort", "LoadBalancer")
_METRIC: Final = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*", re.ASCII)
_IMAGE: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:/@+-]*", re.ASCII)


def _is_prefix(text: str) -> bool:
    return is_subdomain(f"{text}v1")


_NAME: Final = (is_subdomain, "no name of an object", "use lower-case letters, digits, - and .")
_LABEL: Final = (is_dns_label, "no DNS label", "use lower-case letters, digits and -")
_VALUE: Final = (is_label_value, "no label value", "use at most 63 letters, digits, -, _ and .")
_TEXTS: Final[Mapping[str, tuple[Callable[[str], bool], str, str]]] = {
    "accountingLabelKey": (is_label_key, "no label key", "write one like kai.scheduler/accounting"),
    "accountingLabelValue": _VALUE,
    "appLabel": _VALUE,
    "defaultPrioritiesConfigMapName": _NAME,
    "defaultPrioritiesConfigMapNamespace": _LABEL,
    "gpuFractionRuntimeClassName": _NAME,
    "gpuPodRuntimeClassName": _NAME,
    "imagesPullSecret": _NAME,
    "instanceName": _LABEL,
    "metricsNamespace": (
        lambda text: bool(_METRIC.fullmatch(text)),
        "no beginning of a metric's name",
        "use letters, digits and _",
    ),
    "mutatingWebhookConfigurationName": _NAME,
    "namespace": _LABEL,
    "nodeScaleNamespace": _LABEL,
    "nodeScaleServiceAccount": _NAME,
    "priorityClassName": _NAME,
    "runtimeClassName": _NAME,
    "serviceAccountName": _NAME,
    "storageClassName": _NAME,
    "validatingWebhookConfigurationName": _NAME,
    "webhookConfigurationNamePrefix": (
        _is_prefix,
        "no beginning of an object's name",
        "use lower-case letters, digits and -",
    ),
}
"""By the name of the field; an empty text leaves the default, or nothing, in its place."""
_SELECTORS: Final = frozenset({"nodeSelector", "namespaceLabelSelector", "podLabelSelector"})


def text_problems(path: str, name: str, value: Any) -> Problems:
    """Of one field, by what it is called and what it holds."""
    if isinstance(value, Image):
        yield from _image_problems(path, value)
    elif isinstance(value, ResourceRequirements):
        yield from _amount_problems(path, value)
    elif name in _SELECTORS:
        yield from _selector_problems(path, value)
    elif name == "additionalImagePullSecrets":
        for index, each in enumerate(value):
            yield from _text_problems(f"{path}[{index}]", each, *_NAME)
    elif name in _TEXTS and value:
        yield from _text_problems(path, value, *_TEXTS[name])
    elif isinstance(value, SchedulerPorts) and value.type:
        yield from unlike(f"{path}.type", value.type, _SERVICE_TYPES)
    elif isinstance(value, PortMapping) and value.name:
        yield from _text_problems(f"{path}.name", value.name, *_LABEL)


def _text_problems(
    path: str, text: str, fits: Callable[[str], bool], what: str, fix: str
) -> Problems:
    if not fits(text):
        yield Problem(path, f"{text!r} is {what}", fix)


def _image_problems(path: str, image: Image) -> Problems:
    for where, text in given(path, image, "repository", "name", "tag"):
        if text and not _IMAGE.fullmatch(text):
            fix = "write letters, digits and . _ - : / @, and no spaces"
            yield Problem(where, f"{text!r} cannot be pulled", fix)


def _amount_problems(path: str, resources: ResourceRequirements) -> Problems:
    for where, amounts in given(path, resources, "limits", "requests"):
        for name, amount in sorted(amounts.items()):
            place = f"{where}[{name}]"
            if not is_label_key(name):
                yield Problem(place, f"{name!r} is no resource", "write cpu, memory or a/b")
            elif amount.nano < 0:
                yield Problem(place, f"{amount} is negative", "write 0 or more, or leave it out")


def _selector_problems(path: str, labels: Mapping[str, str]) -> Problems:
    if len(labels) > _LABELS_MAX:
        yield Problem(path, f"it has {len(labels)} labels", f"write at most {_LABELS_MAX}")
        return
    for key, value in sorted(labels.items()):
        place = f"{path}[{key}]"
        if not is_label_key(key):
            yield Problem(place, f"{key!r} is no label key", "write one like example.com/team")
        elif not is_label_value(value):
            yield from _text_problems(place, value, *_VALUE)
