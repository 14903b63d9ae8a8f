"""Flags that several services have, and the forms in which values of flags are written."""

import ssl
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Any, Final

import msgspec
import typer

from muster.api.duration import BadDuration, Duration
from muster.cli.service_command import Flag

SCHEDULER_NAME: Final = Flag("--scheduler-name", "schedulerName of the pods that are ours.")
KUBECONFIG: Final = {
    "kubeconfig": Flag(
        "--kubeconfig", "The cluster; without it KUBECONFIG, ~/.kube/config, or the own pod's."
    )
}
NAMESPACE: Final = {"namespace": Flag("--namespace", "Where the lease is.")}
WHOSE: Final = {**KUBECONFIG, "scheduler": SCHEDULER_NAME, **NAMESPACE}
QUEUE_LABEL: Final = {
    "queue_label": Flag("--queue-label-key", "The label by which workloads name their queue.")
}
METRICS_NAMESPACE: Final = {
    "metrics_prefix": Flag("--metrics-namespace", "What the names of metrics begin with.")
}
LEADER_ELECT: Final = {
    "leader_elect": Flag("--leader-elect", "Only lead while holding the lease.", False)
}
LIMITS: Final = {
    "qps": Flag("--qps", "Writes per second to the API server, and as many reads."),
    "burst": Flag("--burst", "Requests at once before --qps counts."),
}
LOG_JSON: Final = {"log_json": Flag("--log-json", "Log JSON, one object per line.")}
LOGGING: Final = {**LOG_JSON, "verbosity": Flag("--v", "Above 3: everything.", short="-v")}


def listen(flag: str) -> dict[str, Flag]:
    return {"listen": Flag(flag, "Where metrics and probes are served.")}


def serving(listen_flag: str) -> dict[str, Flag]:
    """The last flags of most services."""
    return listen(listen_flag) | LIMITS | LOGGING


def seconds(text: str, flag: str) -> float:
    """A duration in Kubernetes' form."""
    try:
        return Duration(text).seconds
    except BadDuration as problem:
        raise typer.BadParameter(f"{flag}: {problem}") from None


def share(text: str, flag: str) -> Decimal:
    """A part of a GPU."""
    try:
        share = Decimal(text)
    except InvalidOperation:
        share = Decimal("NaN")
    if not share.is_finite() or not 0 < share <= 1:
        raise typer.BadParameter(f"{flag}: {text!r}: write a part of a GPU, above 0 and at most 1")
    return share


def tls(certificate: Path | None, key: Path | None) -> ssl.SSLContext:
    """What the API server is answered with."""
    if certificate is None or key is None:
        raise typer.BadParameter("--tls-cert-file and --tls-key-file: the API server wants TLS")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    try:
        context.load_cert_chain(certificate, key)
    except (OSError, ssl.SSLError) as problem:
        raise typer.BadParameter(f"--tls-cert-file {certificate}: {problem}") from None
    return context


def json_object(text: str, flag: str) -> dict[str, Any]:
    """A JSON object; an empty text is an empty one."""
    try:
        return msgspec.json.decode(text or "{}", type=dict[str, Any])
    except msgspec.DecodeError as problem:
        raise typer.BadParameter(f"{flag}: not a JSON object: {problem}") from None


def labels(text: str, flag: str) -> dict[str, str]:
    """key=value,key=value."""
    pairs = [pair.split("=", 1) for pair in text.split(",") if pair]
    if any(len(pair) != 2 for pair in pairs):
        raise typer.BadParameter(f"{flag}: {text!r}: write key=value, separated by commas")
    return dict(pairs)
