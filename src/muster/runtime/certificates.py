"""A private certificate authority: serving and client certificates for servers of our own.

Values in, values out: nothing here reads a clock or a file, so that tests can issue certificates
that are expired, not yet valid or for another host.
"""

import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

TEN_YEARS_S = 10 * 365 * 24 * 3600.0
# Clocks of two machines differ a little; a certificate is valid from slightly before it was made.
_CLOCK_SKEW_S = 300.0


@dataclass(frozen=True, slots=True)
class KeyPair:
    """A certificate with its private key, both PEM."""

    certificate_pem: bytes
    key_pem: bytes


@dataclass(frozen=True, slots=True)
class Subject:
    """Whom a certificate is for: Kubernetes reads user and groups from the names."""

    common_name: str
    organizations: Sequence[str] = ()
    hosts: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class CertificateAuthority:
    """Signs certificates that trust `certificate_pem`."""

    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey

    @classmethod
    def new(cls, name: str, now_s: float) -> "CertificateAuthority":
        key = ec.generate_private_key(ec.SECP256R1())
        subject = _distinguished_name(Subject(name))
        unsigned = _builder(subject, subject, key.public_key(), now_s, TEN_YEARS_S).add_extension(
            x509.BasicConstraints(ca=True, path_length=None), critical=True
        )
        return cls(unsigned.sign(key, hashes.SHA256()), key)

    @property
    def certificate_pem(self) -> bytes:
        return self.certificate.public_bytes(serialization.Encoding.PEM)

    def issue(self, subject: Subject, now_s: float, valid_s: float = TEN_YEARS_S) -> KeyPair:
        """A certificate good for both ends of a connection, valid from `now_s` for `valid_s`."""
        key = ec.generate_private_key(ec.SECP256R1())
        unsigned = _builder(
            _distinguished_name(subject), self.certificate.subject, key.public_key(), now_s, valid_s
        ).add_extension(
            x509.ExtendedKeyUsage(
                [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
            ),
            critical=False,
        )
        if subject.hosts:
            names = x509.SubjectAlternativeName([_general_name(host) for host in subject.hosts])
            unsigned = unsigned.add_extension(names, critical=False)
        signed = unsigned.sign(self.key, hashes.SHA256())
        return KeyPair(signed.public_bytes(serialization.Encoding.PEM), key_pem(key))


def key_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    """A private key as PEM that OpenSSL, Go and Python read."""
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )


def _builder(
    subject: x509.Name,
    issuer: x509.Name,
    public_key: ec.EllipticCurvePublicKey,
    now_s: float,
    valid_s: float,
) -> x509.CertificateBuilder:
    start = datetime.fromtimestamp(now_s - _CLOCK_SKEW_S, UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(public_key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(start)
        .not_valid_after(start + timedelta(seconds=valid_s + _CLOCK_SKEW_S))
    )


def _distinguished_name(subject: Subject) -> x509.Name:
    groups = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, name) for name in subject.organizations]
    return x509.Name([*groups, x509.NameAttribute(NameOID.COMMON_NAME, subject.common_name)])


def _general_name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)
