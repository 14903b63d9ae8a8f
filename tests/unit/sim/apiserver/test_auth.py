"""Authentication: tokens, their expiry, and impersonation."""

from typing import Any

import pytest
from tests.unit.sim.apiserver.objects import Shelf

from muster.base.clock import VirtualClock
from muster.sim.apiserver.auth import ADMIN, Tokens, impersonated, token_request
from muster.sim.apiserver.kinds import ServedKind
from muster.sim.apiserver.pipeline import ANONYMOUS, AllowAll, UserInfo
from muster.sim.apiserver.rbac import Rbac
from muster.sim.apiserver.refusal import ApiRefusal
from muster.sim.apiserver.tokens import Account, BadToken, Signer

ACCOUNTS = ServedKind("", "v1", "serviceaccounts", "ServiceAccount")
ROBOT = {"metadata": {"name": "robot", "namespace": "tools", "uid": "u1"}}


def tokens() -> tuple[Tokens, Shelf]:
    shelf = Shelf([("serviceaccounts", ROBOT)])
    return Tokens(shelf, Signer(b"secret"), VirtualClock(), {"letmein": ADMIN}), shelf


def issued(auth: Tokens, **spec: Any) -> str:
    answer = token_request(auth.signer, auth.clock, ACCOUNTS, ROBOT, {"spec": spec})
    return str(answer["status"]["token"])


def bearer(token: str) -> dict[str, str]:
    return {"authorization": f"Bearer {token}"}


def test_missing_credentials_are_anonymous_and_bad_ones_are_refused() -> None:
    auth, _ = tokens()
    assert auth.user_of({}) == ANONYMOUS
    assert auth.user_of(bearer("letmein")) == ADMIN
    assert auth.user_of(bearer("wrong")) is None
    assert auth.user_of({"authorization": "Basic x"}) is None


def test_an_issued_token_authenticates_its_account_until_it_expires() -> None:
    auth, _ = tokens()
    token = issued(auth, expirationSeconds=600)
    user = auth.user_of(bearer(token))
    assert user is not None
    assert user.name == "system:serviceaccount:tools:robot"
    assert "system:serviceaccounts:tools" in user.groups
    assert isinstance(auth.clock, VirtualClock)
    auth.clock.advance(601)
    assert auth.user_of(bearer(token)) is None


def test_a_recreated_service_account_invalidates_its_tokens() -> None:
    auth, shelf = tokens()
    token = issued(auth)
    shelf.put("serviceaccounts", {"metadata": {**ROBOT["metadata"], "uid": "u2"}})
    assert auth.user_of(bearer(token)) is None


def test_a_token_for_another_audience_is_refused() -> None:
    auth, _ = tokens()
    token = issued(auth, audiences=["elsewhere"])
    assert auth.user_of(bearer(token)) is None
    assert auth.review({"token": token, "audiences": ["elsewhere"]})["authenticated"]
    assert "error" in auth.review({"token": token})


def test_a_token_of_another_key_or_a_changed_one_is_refused() -> None:
    account = Account("tools", "robot", "u1")
    token = Signer(b"other").issue(account, [], 0, 100)
    with pytest.raises(BadToken):
        Signer(b"secret").read(token, 1)
    head, claims, signature = Signer(b"secret").issue(account, [], 0, 100).split(".")
    with pytest.raises(BadToken):
        Signer(b"secret").read(f"{head}.{claims[:-2]}.{signature}", 1)
    for nonsense in ("", "a.b", "....", "a.b.c"):
        with pytest.raises(BadToken):
            Signer(b"secret").read(nonsense, 1)


def test_a_token_lifetime_below_ten_minutes_is_refused() -> None:
    auth, _ = tokens()
    with pytest.raises(ApiRefusal) as refused:
        issued(auth, expirationSeconds=60)
    assert refused.value.code == 422


def test_impersonation_needs_the_impersonate_verb() -> None:
    headers = {"impersonate-user": "bob", "impersonate-group": "staff"}
    assert impersonated(ADMIN, headers, AllowAll()) == UserInfo(
        "bob", ("staff", "system:authenticated")
    )
    with pytest.raises(ApiRefusal) as refused:
        impersonated(UserInfo("ann"), headers, Rbac(Shelf()))
    assert refused.value.code == 403
    assert 'cannot impersonate resource "users"' in refused.value.message
    assert impersonated(ADMIN, {}, AllowAll()) == ADMIN


def test_impersonating_a_service_account_adds_its_groups() -> None:
    user = impersonated(
        ADMIN, {"impersonate-user": "system:serviceaccount:tools:robot"}, AllowAll()
    )
    assert "system:serviceaccounts:tools" in user.groups
