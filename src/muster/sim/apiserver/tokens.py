"""Tokens of service accounts: signed claims, issued for a while and checked without a table.

A token is a JSON web token signed with Ed25519: signing is deterministic, so a run with the same
key and clock issues the same tokens. Expiry is judged by the clock that is handed in.
"""

import base64
import binascii
import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

DEFAULT_ISSUER: Final = "https://kubernetes.default.svc"
_REMEMBERED: Final = 4096


class BadToken(ValueError):
    """The token is not one of ours, or not any more."""


@dataclass(frozen=True, slots=True)
class Account:
    """Whom a token stands for."""

    namespace: str
    name: str
    uid: str
    pod_name: str = ""
    pod_uid: str = ""


class Signer:
    """Issues and reads tokens with one key."""

    def __init__(self, secret: bytes, issuer: str = DEFAULT_ISSUER) -> None:
        """`secret` is any bytes; the same bytes make the same key."""
        self._key = Ed25519PrivateKey.from_private_bytes(hashlib.sha256(secret).digest())
        self._public = self._key.public_key()
        raw = self._public.public_bytes(serialization.Encoding.Raw, serialization.PublicFormat.Raw)
        self.key_id = _text(hashlib.sha256(raw).digest())
        self.issuer = issuer
        # Claims by token: a signature that was good once stays so, and checking takes a while.
        self._verified: dict[str, Mapping[str, Any]] = {}

    def issue(
        self, account: Account, audiences: Sequence[str], now_s: float, lifetime_s: int
    ) -> str:
        claims: dict[str, Any] = {
            "aud": list(audiences) or [self.issuer],
            "exp": int(now_s) + lifetime_s,
            "iat": int(now_s),
            "nbf": int(now_s),
            "iss": self.issuer,
            "sub": f"system:serviceaccount:{account.namespace}:{account.name}",
            "kubernetes.io": {
                "namespace": account.namespace,
                "serviceaccount": {"name": account.name, "uid": account.uid},
            },
        }
        if account.pod_name:
            claims["kubernetes.io"]["pod"] = {"name": account.pod_name, "uid": account.pod_uid}
        head = {"alg": "EdDSA", "kid": self.key_id, "typ": "JWT"}
        signed = f"{_json(head)}.{_json(claims)}"
        return f"{signed}.{_text(self._key.sign(signed.encode()))}"

    def read(self, token: str, now_s: float, audiences: Sequence[str] = ()) -> Account:
        """Whom the token stands for. Raises `BadToken`. No audiences means: the server itself."""
        claims = self._claims(token)
        if claims.get("iss") != self.issuer:
            raise BadToken("issued by somebody else")
        if not int(claims.get("nbf", 0)) <= now_s < int(claims.get("exp", 0)):
            raise BadToken("service account token has expired")
        if not set(claims.get("aud") or ()) & set(audiences or (self.issuer,)):
            raise BadToken("token audiences are not among the requested ones")
        held = claims.get("kubernetes.io") or {}
        account, pod = held.get("serviceaccount") or {}, held.get("pod") or {}
        return Account(
            str(held.get("namespace", "")),
            str(account.get("name", "")),
            str(account.get("uid", "")),
            str(pod.get("name", "")),
            str(pod.get("uid", "")),
        )

    def _claims(self, token: str) -> Mapping[str, Any]:
        known = self._verified.get(token)
        if known is None:
            known = self._verify(token)
            if len(self._verified) >= _REMEMBERED:
                self._verified.clear()
            self._verified[token] = known
        return known

    def _verify(self, token: str) -> Mapping[str, Any]:
        signed, _, signature = token.rpartition(".")
        try:
            self._public.verify(_bytes(signature), signed.encode())
            claims = json.loads(_bytes(signed.partition(".")[2]))
        except (InvalidSignature, ValueError, binascii.Error):
            raise BadToken("not a token of this server") from None
        if not isinstance(claims, dict):
            raise BadToken("not a token of this server")
        return claims


def _json(value: Mapping[str, Any]) -> str:
    return _text(json.dumps(value, separators=(",", ":"), sort_keys=True).encode())


def _text(value: bytes) -> str:
    return base64.urlsafe_b64encode(value).rstrip(b"=").decode()


def _bytes(text: str) -> bytes:
    return base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
