import ssl
from datetime import UTC, datetime
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric import ec

from muster.runtime.certificates import CertificateAuthority, KeyPair, Subject

NOW_S = 1_700_000_000.0


def _issued(subject: Subject, valid_s: float = 3600.0) -> tuple[x509.Certificate, KeyPair]:
    pair = CertificateAuthority.new("test", NOW_S).issue(subject, NOW_S, valid_s)
    return x509.load_pem_x509_certificate(pair.certificate_pem), pair


def test_a_certificate_carries_user_groups_and_hosts() -> None:
    certificate, _ = _issued(Subject("alice", ("readers",), ("127.0.0.1", "localhost")))
    assert certificate.subject.rfc4514_string() == "CN=alice,O=readers"
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert [str(name.value) for name in names] == ["127.0.0.1", "localhost"]


def test_a_certificate_is_valid_for_the_given_time_and_may_start_expired() -> None:
    now = datetime.fromtimestamp(NOW_S, UTC)
    good, _ = _issued(Subject("a"), valid_s=3600.0)
    assert good.not_valid_before_utc < now < good.not_valid_after_utc
    assert (good.not_valid_after_utc - now).total_seconds() == 3600
    expired, _ = _issued(Subject("a"), valid_s=-1.0)
    assert expired.not_valid_after_utc < now


def test_a_certificate_is_signed_by_its_authority_and_no_other() -> None:
    ours, other = CertificateAuthority.new("a", NOW_S), CertificateAuthority.new("a", NOW_S)
    certificate = x509.load_pem_x509_certificate(ours.issue(Subject("s"), NOW_S).certificate_pem)
    certificate.verify_directly_issued_by(ours.certificate)
    assert isinstance(certificate.public_key(), ec.EllipticCurvePublicKey)
    with pytest.raises(InvalidSignature):
        certificate.verify_directly_issued_by(other.certificate)


def test_a_tls_server_context_loads_the_issued_pair(tmp_path: Path) -> None:
    _, pair = _issued(Subject("server", hosts=("localhost",)))
    (tmp_path / "crt").write_bytes(pair.certificate_pem)
    (tmp_path / "key").write_bytes(pair.key_pem)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "crt", tmp_path / "key")
