"""A condition of an object's status, as it is written."""


def condition(kind: str, holds: bool, reason: str, message: str, since: str) -> dict[str, str]:
    return {
        "type": kind,
        "status": "True" if holds else "False",
        "reason": reason,
        "message": message,
        "lastTransitionTime": since,
    }
