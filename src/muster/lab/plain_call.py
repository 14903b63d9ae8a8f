"""One request to an API server with nothing but the standard library.

A test looks at the world through it: there is none of our client in it, so that a mistake of the
client cannot hide itself.
"""

import json
import ssl
from dataclasses import dataclass
from http.client import HTTPSConnection
from pathlib import Path
from typing import Any, NamedTuple

_TIMEOUT_S = 30.0


class PlainResponse(NamedTuple):
    """What the API server said."""

    status: int
    body: dict[str, Any]


@dataclass(frozen=True, slots=True)
class PlainClient:
    """Somebody with a token at a server on loopback."""

    port: int
    certificate_authority_file: Path
    token: str

    def call(
        self, method: str, path: str, body: object = None, content_type: str = "application/json"
    ) -> PlainResponse:
        """Send JSON, get JSON; an answer that is no JSON comes as {"text": ...}."""
        context = ssl.create_default_context(cafile=str(self.certificate_authority_file))
        connection = HTTPSConnection("127.0.0.1", self.port, timeout=_TIMEOUT_S, context=context)
        headers = {
            "Authorization": f"Bearer {self.token}",
            "Content-Type": content_type,
            "Accept": "application/json",
        }
        payload = None if body is None else json.dumps(body)
        try:
            connection.request(method, path, body=payload, headers=headers)
            answer = connection.getresponse()
            return PlainResponse(answer.status, _parsed(answer.read()))
        finally:
            connection.close()


def _parsed(raw: bytes) -> dict[str, Any]:
    try:
        content = json.loads(raw or b"{}")
    except ValueError:
        return {"text": raw.decode(errors="replace")}
    return content if isinstance(content, dict) else {"items": content}
