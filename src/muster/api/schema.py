"""Rules that a field carries into the CRD schema and the reference pages.

`Annotated[int, Schema("How many ...", format="int32", minimum=0)]` says what the API server checks;
reading stays tolerant, because an object that is already stored must stay readable.
"""

from typing import Final


class Schema:
    """A sentence about a field, and the OpenAPI keywords that the API server enforces on it."""

    __slots__ = ("doc", "keywords")

    def __init__(self, doc: str = "", /, **keywords: object) -> None:
        self.doc = doc
        # x_kubernetes_list_type here is x-kubernetes-list-type there.
        self.keywords = {_spelled(name): value for name, value in keywords.items()}

    def __repr__(self) -> str:
        return f"Schema({self.doc!r}, {self.keywords!r})"


def _spelled(keyword: str) -> str:
    return keyword.replace("_", "-") if keyword.startswith("x_") else keyword


INT32: Final = Schema(format="int32")
INT64: Final = Schema(format="int64")
QUALIFIED_NAME: Final = Schema(
    maxLength=316,
    pattern=(
        r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?"
        r"(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$"
    ),
)
"""What labels and conditions are called: perhaps a domain, then a name."""
ATOMIC: Final = Schema(x_kubernetes_list_type="atomic")
