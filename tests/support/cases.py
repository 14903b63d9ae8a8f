"""The reference cases: objects and what the originals did with them, kept beside the checkout."""

import os
from pathlib import Path

_ROOT = Path(__file__).resolve().parents[2]


def cases_folder() -> Path:
    """`MUSTER_CASES`, else the folder beside the checkout; it may not exist."""
    return Path(os.environ.get("MUSTER_CASES") or _ROOT.parent / "shared" / "cases")
