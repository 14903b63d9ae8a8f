"""The certificate of the webhooks and the authority behind it: issued, renewed, trusted in time.

An authority that has used up two thirds of its life is followed by another one, and both are
trusted while the first is valid. The serving certificate lives for much less than the third that
is left, so by the time it is signed by the new one every API server has long known that one: no
request is ever refused for a certificate. Time is an argument; only the keys are made by chance.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from muster.runtime.certificates import CertificateAuthority, Subject, key_pem

SERVING_S: Final = 90 * 86400.0
_LIFE_USED: Final = 2 / 3
"""The part of its life after which a certificate is renewed."""
_AUTHORITY: Final = "muster webhooks"


@dataclass(frozen=True, slots=True)
class Certificates:
    """What the two secrets hold, all PEM; empty where there is nothing."""

    authority: bytes = b""
    authority_key: bytes = b""
    trusted: bytes = b""
    """Every authority by which a certificate in use may be signed."""
    serving: bytes = b""
    serving_key: bytes = b""


def renewed(held: Certificates, hosts: Sequence[str], now_s: float) -> Certificates:
    """The same, or with new ones where they are missing, due, or for other hosts."""
    authority = _authority(held)
    if authority is None or not _is_valid(authority.certificate, now_s):
        return _begun(held, hosts, now_s)
    if _is_due(authority.certificate, now_s):
        authority = CertificateAuthority.new(_AUTHORITY, now_s)
        held = replace(
            held,
            authority=authority.certificate_pem,
            authority_key=key_pem(authority.key),
            trusted=authority.certificate_pem + _still_valid(held.trusted, now_s),
        )
    if authority.certificate_pem not in held.trusted:
        held = replace(held, trusted=authority.certificate_pem + held.trusted)
    if _serves(held, hosts, now_s):
        return held
    held = replace(held, trusted=_still_valid(held.trusted, now_s, only_authorities=True))
    return _issued(held, authority, hosts, now_s)


def _begun(held: Certificates, hosts: Sequence[str], now_s: float) -> Certificates:
    """Nothing to build on. What is shown now (KAI's signs itself) is trusted until it is gone."""
    authority = CertificateAuthority.new(_AUTHORITY, now_s)
    fresh = Certificates(
        authority.certificate_pem,
        key_pem(authority.key),
        authority.certificate_pem + _still_valid(held.serving, now_s),
    )
    return _issued(fresh, authority, hosts, now_s)


def _issued(
    held: Certificates, authority: CertificateAuthority, hosts: Sequence[str], now_s: float
) -> Certificates:
    pair = authority.issue(Subject(hosts[0], hosts=hosts), now_s, SERVING_S)
    return replace(held, serving=pair.certificate_pem, serving_key=pair.key_pem)


def _serves(held: Certificates, hosts: Sequence[str], now_s: float) -> bool:
    """Whether the serving certificate is for these hosts, fresh enough, and trusted."""
    found = _loaded(held.serving)
    if not found or not _fits_key(found[0], held.serving_key):
        return False
    serving = found[0]
    try:
        names = serving.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return False
    has_names = set(hosts) <= set(names.get_values_for_type(x509.DNSName))
    signers = [one for one in _loaded(held.trusted) if _is_valid(one, now_s)]
    return (
        has_names
        and not _is_due(serving, now_s)
        and any(_is_signed_by(serving, signer) for signer in signers)
    )


def _authority(held: Certificates) -> CertificateAuthority | None:
    found = _loaded(held.authority)
    try:
        key = serialization.load_pem_private_key(held.authority_key, None)
    except (ValueError, TypeError):
        return None
    if not found or not isinstance(key, ec.EllipticCurvePrivateKey):
        return None
    return CertificateAuthority(found[0], key) if _fits_key(found[0], held.authority_key) else None


def _fits_key(certificate: x509.Certificate, key: bytes) -> bool:
    try:
        private = serialization.load_pem_private_key(key, None)
    except (ValueError, TypeError):
        return False
    return private.public_key() == certificate.public_key()


def _is_signed_by(certificate: x509.Certificate, signer: x509.Certificate) -> bool:
    try:
        certificate.verify_directly_issued_by(signer)
    except (InvalidSignature, ValueError, TypeError):
        return False
    return True


def _loaded(pem: bytes) -> list[x509.Certificate]:
    try:
        return x509.load_pem_x509_certificates(pem) if pem.strip() else []
    except ValueError:
        return []


def _still_valid(pem: bytes, now_s: float, only_authorities: bool = False) -> bytes:
    kept = [
        one
        for one in _loaded(pem)
        if _is_valid(one, now_s) and (_is_authority(one) or not only_authorities)
    ]
    return b"".join(one.public_bytes(serialization.Encoding.PEM) for one in kept)


def _is_authority(certificate: x509.Certificate) -> bool:
    try:
        found = certificate.extensions.get_extension_for_class(x509.BasicConstraints)
    except x509.ExtensionNotFound:
        return False
    return found.value.ca


def _is_valid(certificate: x509.Certificate, now_s: float) -> bool:
    return _start_s(certificate) <= now_s < _end_s(certificate)


def _is_due(certificate: x509.Certificate, now_s: float) -> bool:
    start_s, end_s = _start_s(certificate), _end_s(certificate)
    return not start_s <= now_s < start_s + _LIFE_USED * (end_s - start_s)


def _start_s(certificate: x509.Certificate) -> float:
    return certificate.not_valid_before_utc.timestamp()


def _end_s(certificate: x509.Certificate) -> float:
    return certificate.not_valid_after_utc.timestamp()
