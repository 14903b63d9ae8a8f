"""The generated half of `deploy/chart`: the operator with its rights, and the chart's own file.

They come from the same code as `deploy/operator.yaml`. What whoever installs may choose is written
first as a mark, and the mark is then replaced by what the chart says there. `make docs` runs this
with `tools/manifests.py`; a test renders the chart and compares.
"""

from typing import Any, Final

import yaml

from muster import __version__
from muster.api.codec import from_builtins
from muster.api.config import Config
from muster.services.operator.bootstrap import OLDEST_KUBERNETES, Choices, operator_objects
from muster.services.operator.objects import DEPLOYMENT, NAMESPACE
from muster.services.operator.settings import Release

_HERE: Final = "mark-namespace"
_RESERVATION: Final = "mark-reservation"
_SCALING: Final = "mark-scaling"
_TEXTS: Final = {
    _HERE: "{{ .Release.Namespace }}",
    _RESERVATION: "{{ .Values.global.resourceReservation.namespace }}",
    _SCALING: "{{ .Values.nodescaleadjuster.scalingPodNamespace }}",
    "image: mark-registry/muster:mark-tag": 'image: {{ include "muster.image" . | quote }}',
    "imagePullPolicy: IfNotPresent": "imagePullPolicy: {{ .Values.global.imagePullPolicy }}",
    "replicas: 1": "replicas: {{ .Values.operator.replicaCount }}",
    "resources: mark-resources": "resources: {{ toJson .Values.operator.resources }}",
    "mark-container": "{{ toJson .Values.global.securityContext }}",
    "mark-pod": "{{ toJson .Values.global.podSecurityContext }}",
}
_OPTIONAL: Final = {
    "nodeSelector": "global.nodeSelector",
    "tolerations": "global.tolerations",
    "affinity": "global.affinity",
    "imagePullSecrets": "global.imagePullSecrets",
    "priorityClassName": "global.priorityClassName",
}
"""Of the operator's pod, where a value is given."""
_BEFORE: Final = "      terminationGracePeriodSeconds:"
_HEAD: Final = "{{- /* Made by tools/chart.py; do not edit. */ -}}\n"
_NAMESPACE: Final = """{{{{- /* Helm refuses to install over what is not its own. */ -}}}}
{{{{- $there := lookup "v1" "Namespace" "" {value} }}}}
{{{{- $owner := dig "metadata" "annotations" "meta.helm.sh/release-name" "" $there }}}}
{{{{- if and {switch} (or (not $there) (eq $owner .Release.Name)) }}}}
---
apiVersion: v1
kind: Namespace
metadata:
  name: {name}
  annotations:
    helm.sh/resource-policy: keep
  labels: {{{{ toJson {labels} }}}}
{{{{- end }}}}
"""


def files() -> dict[str, str]:
    """By name, below `deploy/`."""
    return {
        "chart/Chart.yaml": _chart(),
        "chart/templates/operator.yaml": _operator(),
        "chart/templates/namespaces.yaml": _namespaces(),
    }


def _chart() -> str:
    oldest = ".".join(map(str, OLDEST_KUBERNETES))
    body = {
        "apiVersion": "v2",
        "name": "muster",
        "description": "A Kubernetes scheduler for batch and AI work",
        "type": "application",
        "version": __version__,
        "appVersion": __version__,
        "kubeVersion": f">={oldest}.0-0",
    }
    return "# Made by tools/chart.py; do not edit.\n" + _yaml(body)


def _operator() -> str:
    wanted = [one for one in operator_objects(_choices()) if one.kind is not NAMESPACE]
    for one in wanted:
        if one.kind is DEPLOYMENT:
            pod = one.body["spec"]["template"]["spec"]
            pod["securityContext"] = "mark-pod"
            pod["containers"][0]["resources"] = "mark-resources"
            pod["containers"][0]["securityContext"] = "mark-container"
    return _HEAD + "".join(f"---\n{_templated(_yaml(one.body))}" for one in wanted)


def _namespaces() -> str:
    """The release's own is Helm's to make (`--create-namespace`); the others outlive it."""
    values = ".Values.global.resourceReservation"
    rows = (
        (f"{values}.createNamespace", _TEXTS[_RESERVATION], f"{values}.namespaceLabels"),
        (".Values.nodescaleadjuster.createNamespace", _TEXTS[_SCALING], "dict"),
    )
    parts = [
        _NAMESPACE.format(switch=row[0], name=row[1], value=row[1].strip("{} "), labels=row[2])
        for row in rows
    ]
    return _HEAD + "".join(parts)


def _choices() -> Choices:
    spec = {
        "namespace": _HERE,
        "binder": {"resourceReservation": {"namespace": _RESERVATION}},
        "nodeScaleAdjuster": {"args": {"nodeScaleNamespace": _SCALING}},
    }
    return Choices(Release("mark-registry", "mark-tag"), from_builtins(Config, {"spec": spec}))


def _templated(text: str) -> str:
    for mark, template in _TEXTS.items():
        text = text.replace(mark, template)
    optional = "".join(
        f"{{{{- with .Values.{value} }}}}\n      {field}: {{{{ toJson . }}}}\n{{{{- end }}}}\n"
        for field, value in _OPTIONAL.items()
    )
    return text.replace(_BEFORE, optional + _BEFORE)


class _NoAliases(yaml.SafeDumper):
    def ignore_aliases(self, data: Any) -> bool:
        return True


def _yaml(body: object) -> str:
    text: str = yaml.dump(body, Dumper=_NoAliases, sort_keys=False, width=1000)
    return text
