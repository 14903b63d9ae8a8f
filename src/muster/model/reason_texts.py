"""The sentence of each public reason, with its subject and its numbers."""

from collections.abc import Mapping
from typing import Any

from muster.model.reason_codes import Code
from muster.model.reasons import Refusal


def sentence_of(code: Code, refusal: Refusal) -> tuple[str, str, Mapping[str, Any]]:
    """(what it is about, a sentence about it, the numbers for programs)."""
    return refusal.subject, f"{refusal.sentence().capitalize()}.", {}
