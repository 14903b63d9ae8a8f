"""Flags that several services have, and the forms in which values of flags are written."""

import os
import tempfile
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Any, Final

import msgspec
import typer

from muster.api.duration import BadDuration, Duration
from muster.api.meta import Key
from muster.api.profiles import ProfileName
from muster.cli.service_command import Flag
from muster.runtime.page_access import PageAuth
from muster.runtime.serving_certificate import BadCertificate, CertificateFiles
from muster.services.scheduler.options import BindRequests

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
RESERVATION_NAMESPACE: Final = {
    "reservation_namespace": Flag("--resource-reservation-namespace", "Where reservation pods run.")
}
SCALE_ADJUST_NAMESPACE: Final = {
    "scale_adjust_namespace": Flag("--scale-adjust-namespace", "Where scaling pods are made.")
}
SCALING_POD_APP: Final = {
    "scaling_pod_app": Flag("--scaling-pod-app-label", "The app label of scaling pods.")
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


def page_auth(text: str, flag: str) -> PageAuth:
    """How readers of pages show who they are."""
    if text not in tuple(PageAuth):
        raise typer.BadParameter(f"{flag}: {text!r}: write {', '.join(PageAuth)}")
    return PageAuth(text)


def debug_auth(text: str, flag: str) -> PageAuth:
    """The same, and never nothing: debug pages show what tenants run."""
    if text == PageAuth.NONE:
        raise typer.BadParameter(f"{flag}: debug pages are not for everybody; write token")
    return page_auth(text, flag)


def listen(flag: str) -> dict[str, Flag]:
    return {
        "listen": Flag(flag, "Where probes, metrics and debug pages are served."),
        "metrics_auth": Flag(
            "--metrics-auth",
            "Who may read /metrics from other machines: kubernetes (whoever the API server lets get"
            " that path), token (that of --auth-token-file) or none (everybody).",
            read=page_auth,
        ),
        "debug_auth": Flag(
            "--debug-auth", "The same for /debug: kubernetes or token.", read=debug_auth
        ),
        "auth_token_file": Flag("--auth-token-file", "The token of token; may be replaced.", None),
        "metrics_cert_file": Flag(
            "--metrics-cert-file", "Serve all of these by HTTPS with this certificate (PEM).", None
        ),
        "metrics_key_file": Flag("--metrics-key-file", "Its private key (PEM).", None),
    }


def serving(listen_flag: str) -> dict[str, Flag]:
    """The last flags of most services."""
    return listen(listen_flag) | LIMITS | LOGGING


def bind_requests(text: str, flag: str) -> BindRequests:
    """Which pods are bound by a BindRequest."""
    if text not in tuple(BindRequests):
        raise typer.BadParameter(f"{flag}: {text!r}: write {' or '.join(BindRequests)}")
    return BindRequests(text)


def profile_name(text: str, flag: str) -> ProfileName:
    """Whose objects and configuration a scheduler reads."""
    if text not in tuple(ProfileName):
        raise typer.BadParameter(f"{flag}: {text!r}: write {', '.join(ProfileName)}")
    return ProfileName(text)


def object_key(text: str, flag: str) -> Key | None:
    """NAMESPACE/NAME; nothing is none."""
    namespace, _, name = text.partition("/")
    if text and (not namespace or not name or "/" in name):
        raise typer.BadParameter(f"{flag}: {text!r}: write NAMESPACE/NAME")
    return Key(namespace, name) if text else None


def perhaps(text: str, flag: str) -> bool | None:
    """true or false; nothing leaves it open."""
    known = {"": None, "true": True, "false": False}
    if text not in known:
        raise typer.BadParameter(f"{flag}: {text!r}: write true or false")
    return known[text]


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


def certificate_files(certificate: Path | None, key: Path | None) -> CertificateFiles:
    """What the API server is answered with."""
    if certificate is None or key is None:
        raise typer.BadParameter("--tls-cert-file and --tls-key-file: the API server wants TLS")
    files = CertificateFiles(certificate, key)
    try:
        files.load()
    except BadCertificate as problem:
        raise typer.BadParameter(f"--tls-cert-file {problem}") from None
    return files


def json_object(text: str, flag: str) -> dict[str, Any]:
    """A JSON object; an empty text is an empty one."""
    try:
        return msgspec.json.decode(text or "{}", type=dict[str, Any])
    except msgspec.DecodeError as problem:
        raise typer.BadParameter(f"{flag}: not a JSON object: {problem}") from None


def words(text: str, flag: str) -> frozenset[str]:
    """Names with commas between them."""
    return frozenset(word.strip() for word in text.split(",") if word.strip())


def labels(text: str, flag: str) -> dict[str, str]:
    """key=value,key=value."""
    pairs = [pair.split("=", 1) for pair in text.split(",") if pair]
    if any(len(pair) != 2 for pair in pairs):
        raise typer.BadParameter(f"{flag}: {text!r}: write key=value, separated by commas")
    return dict(pairs)


def state_folder(text: str, flag: str) -> Path | None:
    """A folder for what is to outlive the process: `auto` is where the user's programs keep such
    things, nothing is nowhere.
    """
    if text != "auto":
        return Path(text) if text else None
    home = os.environ.get("HOME") or "/"
    wanted = Path(os.environ.get("XDG_STATE_HOME") or f"{home}/.local/state")
    existing = next(folder for folder in (wanted, *wanted.parents) if folder.is_dir())
    # A container's own file system may be read-only; its scratch space is not.
    base = wanted if os.access(existing, os.W_OK) else Path(tempfile.gettempdir())
    return base / "muster" / "journal"
