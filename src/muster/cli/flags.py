"""Flags that several services have, and the forms in which values of flags are written."""

import ssl
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer

from muster.api.duration import BadDuration, Duration

Kubeconfig = Annotated[
    Path | None,
    typer.Option(help="The cluster; without it KUBECONFIG, ~/.kube/config, or the own pod's."),
]
SchedulerName = Annotated[str, typer.Option(help="schedulerName of the pods that are ours.")]
LeaderElect = Annotated[bool, typer.Option(help="Only lead while holding the lease.")]
Namespace = Annotated[str, typer.Option(help="Where the lease is.")]
Qps = Annotated[float, typer.Option(help="Requests per second to the API server.")]
Burst = Annotated[int, typer.Option(help="Requests at once before --qps counts.")]
LogJson = Annotated[bool, typer.Option(help="Log JSON, one object per line.")]
Verbosity = Annotated[int, typer.Option("-v", "--v", help="Above 3: everything.")]
Listen = Annotated[str, typer.Option(help="Where metrics and probes are served.")]


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


def failed(service: str, why: str) -> typer.Exit:
    """Say why the service ends, and end with 1."""
    typer.echo(f"muster {service}: {why}", err=True)
    return typer.Exit(1)


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
