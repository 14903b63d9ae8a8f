"""TLS settings as Python's ssl wants them, and what its failures mean in words."""

import ssl
import tempfile
from datetime import UTC, datetime
from pathlib import Path

from cryptography import x509

from muster.base.clock import Clock
from muster.client.credentials import Credential
from muster.client.errors import BadAccess, Unreachable, Untrusted
from muster.client.kubeconfig import Access


def tls_context(access: Access, credential: Credential, clock: Clock) -> ssl.SSLContext:
    """A context that trusts the access's authority and shows the credential's certificate."""
    context = _trusting(access)
    if credential.certificate:
        check_not_expired(credential.certificate, access, clock)
        _show(context, credential, access)
    return context


def check_not_expired(certificate: bytes, access: Access, clock: Clock) -> None:
    """Say so before the server says only 'unauthorized'."""
    where = f"context {access.context!r}: client certificate"
    try:
        ends = x509.load_pem_x509_certificate(certificate).not_valid_after_utc
    except ValueError as error:
        raise BadAccess(where, f"is not a PEM certificate: {error}") from error
    if datetime.fromtimestamp(clock.now_s(), UTC) > ends:
        problem = f"expired on {ends:%Y-%m-%d %H:%M} UTC: get a new one"
        raise BadAccess(where, problem)


def explained(error: OSError, access: Access) -> Unreachable:
    """A connection that failed, in words that say what to look at."""
    cause = _root(error)
    server = access.shown_server
    if isinstance(cause, ssl.SSLCertVerificationError):
        return Untrusted(f"{server}: {_verification(cause, access)}")
    if isinstance(cause, ssl.SSLError):
        said = (cause.reason or str(cause)).lower().replace("_", " ")
        if "alert" in said and "certificate" in said:
            return Untrusted(f"{server}: the server refused our client certificate: {said}")
        if "wrong version number" in said or "record layer" in said:
            return Untrusted(f"{server}: does not speak TLS: is it http and not https?")
        return Untrusted(f"{server}: TLS failed: {said}")
    return Unreachable(f"{server}: {cause.strerror or cause or type(cause).__name__}")


def _trusting(access: Access) -> ssl.SSLContext:
    if not access.insecure and not access.ca:
        return ssl.create_default_context()
    # The authorities of the system are read for nobody else: that takes 20 ms.
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    if access.insecure:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
        return context
    try:
        context.load_verify_locations(cadata=access.ca.decode("ascii"))
    except (ssl.SSLError, ValueError) as error:
        where = f"context {access.context!r}: certificate-authority"
        raise BadAccess(where, f"is not a PEM certificate: {error}") from error
    return context


def _show(context: ssl.SSLContext, credential: Credential, access: Access) -> None:
    # ssl reads certificates from files only; these are private and gone in a moment.
    with tempfile.TemporaryDirectory(prefix="muster-") as folder:
        certificate, key = Path(folder, "certificate"), Path(folder, "key")
        certificate.write_bytes(credential.certificate)
        key.touch(mode=0o600)
        key.write_bytes(credential.key)
        try:
            context.load_cert_chain(certificate, key, password=lambda: b"")
        except (ssl.SSLError, OSError) as error:
            where = f"context {access.context!r}: client certificate"
            said = str(getattr(error, "reason", "") or error).lower().replace("_", " ")
            raise BadAccess(where, f"cannot be used with its key: {said}") from error


def _root(error: BaseException) -> OSError:
    """The error underneath the wrappers of the HTTP library."""
    inner = getattr(error, "certificate_error", None) or getattr(error, "os_error", None)
    if isinstance(inner, OSError) and inner is not error:
        return _root(inner)
    return error if isinstance(error, OSError) else OSError(str(error))


def _verification(error: ssl.SSLCertVerificationError, access: Access) -> str:
    said = error.verify_message
    if "expired" in said:
        return "the server's certificate has expired"
    if "Hostname mismatch" in said or "IP address mismatch" in said:
        return (
            f"the server's certificate is for another name ({said.rstrip('.')}): "
            "check the server's URL or set tls-server-name"
        )
    trusted = "the kubeconfig's certificate-authority" if access.ca else "the system's authorities"
    return f"the server's certificate is not signed by {trusted} ({said})"
