"""Where a service answers probes, metrics and debug pages, and to whom."""

from dataclasses import dataclass
from pathlib import Path
from typing import Final

import typer

from muster.base.log import Log
from muster.client.connection import Connection
from muster.client.limits import Limits
from muster.runtime.httpd import Gates, Httpd, Probes
from muster.runtime.page_access import Gate, KubernetesGate, OpenGate, PageAuth, TokenGate
from muster.runtime.serving_certificate import (
    BadCertificate,
    CertificateFiles,
    ServingCertificate,
)

REVIEW_LIMITS: Final = Limits(per_s=5.0, burst=10, in_flight=4)
"""Of questions to the API server about who reads our pages: strangers cause them."""

PAGE_ADDRESSES: Final = {
    "scheduler": ":8080",
    "binder": ":8081",
    "admission": ":8082",
    "pod-grouper": ":8083",
    "podgroup-controller": ":8084",
    "queue-controller": ":8085",
    "node-scale-adjuster": ":8086",
    "operator": ":8087",
    "resource-reservation": ":8088",
    "volcano-controllers": ":8089",
}
"""Of each service where it is not told: so that all of them start on one machine."""


@dataclass(frozen=True, slots=True)
class PageSettings:
    """What the flags say about the pages of a service."""

    listen: str = ":8080"
    metrics_auth: PageAuth = PageAuth.KUBERNETES
    debug_auth: PageAuth = PageAuth.KUBERNETES
    auth_token_file: Path | None = None
    metrics_cert_file: Path | None = None
    metrics_key_file: Path | None = None


class BadPages(Exception):
    """Flags that do not go together, or a certificate that is no good."""


def pages(settings: PageSettings, probes: Probes, reviews: Connection, log: Log) -> Httpd:
    """The part that answers. `reviews` is for asking who is asking, and for nothing else."""
    host, port = address(settings.listen)
    kubernetes = KubernetesGate(reviews)
    gates = Gates(
        gate_of("--metrics-auth", settings.metrics_auth, settings.auth_token_file, kubernetes),
        gate_of("--debug-auth", settings.debug_auth, settings.auth_token_file, kubernetes),
    )
    certificate = _certificate(settings, reviews, log)
    return Httpd(host, port, probes, gates, certificate.context if certificate else None)


def address(text: str) -> tuple[str, int]:
    """`:8080`, `127.0.0.1:8080` and `[::1]:8080` as host and port."""
    host, _, port = text.rpartition(":")
    if not port.isdigit() or int(port) > 65535:
        raise typer.BadParameter(f"{text!r} is not an address; write host:port or :port")
    return host.removeprefix("[").removesuffix("]") or "0.0.0.0", int(port)


def gate_of(flag: str, auth: PageAuth, token_file: Path | None, kubernetes: Gate) -> Gate:
    """Who is let in, as a flag says it."""
    match auth:
        case PageAuth.NONE:
            return OpenGate()
        case PageAuth.KUBERNETES:
            return kubernetes
        case PageAuth.TOKEN:
            if token_file is None:
                raise BadPages(f"{flag} token: say with --auth-token-file where the token is")
            return TokenGate(token_file)


def _certificate(
    settings: PageSettings, reviews: Connection, log: Log
) -> ServingCertificate | None:
    certificate, key = settings.metrics_cert_file, settings.metrics_key_file
    if certificate is None and key is None:
        return None
    if certificate is None or key is None:
        raise BadPages("--metrics-cert-file and --metrics-key-file: one is not enough")
    try:
        return ServingCertificate(CertificateFiles(certificate, key), reviews.clock, log)
    except BadCertificate as problem:
        raise BadPages(f"--metrics-cert-file: {problem}") from None
