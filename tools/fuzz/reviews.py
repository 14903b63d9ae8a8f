"""What a webhook answers to a body, as the server would hand it over."""

import json

import msgspec
from tools.fuzz.feeding import Refusal

from muster.services.admission.handler import AdmissionHandler


def review_refusals(asked: AdmissionHandler, path: bytes, data: bytes) -> list[Refusal]:
    """Whoever is refused is told which field is at fault."""
    try:
        document = msgspec.json.decode(data)
    except (ValueError, RecursionError):
        return []  # The server answers 400 before anything of ours sees it.
    if not isinstance(document, dict):
        return []
    answer = asked.answer(path.decode(), document)
    assert answer is not None
    response = json.loads(msgspec.json.encode(answer))["response"]
    status = response.get("status") or {}
    causes = (status.get("details") or {}).get("causes") or []
    assert response["allowed"] or causes, response
    return [Refusal(cause["field"], cause["message"]) for cause in causes]
