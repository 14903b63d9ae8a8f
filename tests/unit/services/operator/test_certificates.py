"""Certificates of the webhooks: issued, renewed in time, always trusted."""

from dataclasses import replace

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from hypothesis import given, settings
from hypothesis import strategies as st

from muster.runtime.certificates import TEN_YEARS_S, CertificateAuthority, Subject
from muster.services.operator.certificates import SERVING_S, Certificates, renewed

HOSTS = ["admission.kai-scheduler.svc", "admission.kai-scheduler.svc.cluster.local"]
NOW_S = 1_800_000_000.0
DAY_S = 86400.0


def is_trusted(shown: bytes, trusted: bytes, now_s: float) -> bool:
    """As an API server would judge it."""
    (serving,) = x509.load_pem_x509_certificates(shown)
    if (
        not serving.not_valid_before_utc.timestamp()
        <= now_s
        < serving.not_valid_after_utc.timestamp()
    ):
        return False
    for authority in x509.load_pem_x509_certificates(trusted):
        try:
            serving.verify_directly_issued_by(authority)
        except (InvalidSignature, ValueError, TypeError):
            continue
        return now_s < authority.not_valid_after_utc.timestamp()
    return False


def test_the_first_certificate_is_for_the_service_and_trusted() -> None:
    held = renewed(Certificates(), HOSTS, NOW_S)
    assert is_trusted(held.serving, held.trusted, NOW_S)
    (serving,) = x509.load_pem_x509_certificates(held.serving)
    names = serving.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == HOSTS


def test_a_fresh_certificate_is_kept_as_it_is() -> None:
    held = renewed(Certificates(), HOSTS, NOW_S)
    assert renewed(held, HOSTS, NOW_S + 30 * DAY_S) == held


def test_a_certificate_is_renewed_long_before_it_ends() -> None:
    held = renewed(Certificates(), HOSTS, NOW_S)
    later_s = NOW_S + 0.7 * SERVING_S
    after = renewed(held, HOSTS, later_s)
    assert after.serving != held.serving
    assert after.trusted == held.trusted
    assert is_trusted(held.serving, after.trusted, later_s), "who still shows the old one is heard"


@settings(max_examples=5, deadline=None)
@given(step_days=st.integers(1, 25))
def test_over_the_years_whoever_is_a_month_behind_is_still_trusted(step_days: int) -> None:
    """Secrets reach pods late and caches of API servers live on: neither refuses a request."""
    shown: list[bytes] = []
    trusted: list[bytes] = []
    held, now_s = Certificates(), NOW_S
    behind = max(1, 25 // step_days)
    for _ in range(365 // step_days):
        held = renewed(held, HOSTS, now_s)
        shown.append(held.serving)
        trusted.append(held.trusted)
        assert is_trusted(shown[-1], trusted[max(0, len(trusted) - 1 - behind)], now_s)
        assert is_trusted(shown[max(0, len(shown) - 1 - behind)], trusted[-1], now_s)
        now_s += step_days * DAY_S


def test_the_next_authority_is_trusted_before_it_signs_anything() -> None:
    held = renewed(Certificates(), HOSTS, NOW_S)
    due_s = NOW_S + 0.67 * TEN_YEARS_S
    held = replace(renewed(held, HOSTS, due_s - SERVING_S / 2))
    after = renewed(held, HOSTS, due_s)
    assert after.authority != held.authority
    assert after.serving == held.serving, "it is fresh: the new authority signs the next one"
    assert len(x509.load_pem_x509_certificates(after.trusted)) == 2
    assert is_trusted(after.serving, after.trusted, due_s)


def test_what_kai_signed_is_trusted_until_it_is_replaced_everywhere() -> None:
    itself = CertificateAuthority.new("admission.kai-scheduler.svc", NOW_S)
    held = renewed(Certificates(serving=itself.certificate_pem), HOSTS, NOW_S)
    assert is_trusted(itself.certificate_pem, held.trusted, NOW_S)
    assert is_trusted(held.serving, held.trusted, NOW_S)


def test_a_certificate_for_another_namespace_is_replaced() -> None:
    held = renewed(Certificates(), ["admission.old.svc"], NOW_S)
    after = renewed(held, HOSTS, NOW_S)
    assert after.serving != held.serving
    assert after.authority == held.authority


def test_broken_secrets_are_begun_anew() -> None:
    good = renewed(Certificates(), HOSTS, NOW_S)
    for broken in (
        replace(good, authority=b"rubbish"),
        replace(good, authority_key=b""),
        replace(good, serving=b"-----BEGIN CERTIFICATE-----"),
        replace(good, serving_key=renewed(Certificates(), HOSTS, NOW_S).serving_key),
        replace(good, trusted=b""),
    ):
        after = renewed(broken, HOSTS, NOW_S)
        assert after != broken
        assert is_trusted(after.serving, after.trusted, NOW_S)


def test_an_expired_authority_is_followed_by_a_new_one() -> None:
    old = CertificateAuthority.new("old", NOW_S)
    pair = old.issue(Subject(HOSTS[0], hosts=HOSTS), NOW_S)
    held = Certificates(old.certificate_pem, b"", old.certificate_pem, *_pair(pair))
    later_s = NOW_S + TEN_YEARS_S + 2 * DAY_S
    after = renewed(held, HOSTS, later_s)
    assert old.certificate_pem not in after.trusted
    assert is_trusted(after.serving, after.trusted, later_s)


def test_a_certificate_that_somebody_else_signed_is_replaced() -> None:
    """Of two secrets one may have been put back from another day."""
    ours, other = (renewed(Certificates(), HOSTS, NOW_S) for _ in range(2))
    mixed = replace(ours, serving=other.serving, serving_key=other.serving_key)
    after = renewed(mixed, HOSTS, NOW_S)
    assert after.serving != other.serving
    assert is_trusted(after.serving, after.trusted, NOW_S)


def test_a_certificate_that_was_trusted_by_itself_is_so_no_more_when_the_next_is_issued() -> None:
    pair = CertificateAuthority.new("other", NOW_S).issue(Subject(HOSTS[0], hosts=HOSTS), NOW_S)
    held = renewed(Certificates(serving=pair.certificate_pem), HOSTS, NOW_S)
    assert pair.certificate_pem in held.trusted
    after = renewed(held, HOSTS, NOW_S + SERVING_S * 0.9)
    assert after.serving != held.serving
    assert pair.certificate_pem not in after.trusted
    assert is_trusted(after.serving, after.trusted, NOW_S + SERVING_S * 0.9)


def _pair(pair: object) -> tuple[bytes, bytes]:
    return pair.certificate_pem, pair.key_pem  # type: ignore[attr-defined]
