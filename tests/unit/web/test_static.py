"""What the pages are made of: nothing from elsewhere, and libraries that are as listed."""

import hashlib
import re
from importlib.resources import files
from pathlib import Path

STATIC = Path(str(files("muster.web") / "static"))
_LISTED = re.compile(r"^\| `([^`]+)` \|.*\| `([0-9a-f]{64})` \|$", re.MULTILINE)


def test_libraries_are_those_that_are_listed() -> None:
    listed = dict(_LISTED.findall((STATIC / "vendor" / "VENDOR.md").read_text()))
    vendor = STATIC / "vendor"
    found = {
        str(file.relative_to(vendor)): hashlib.sha256(file.read_bytes()).hexdigest()
        for file in vendor.rglob("*.js")
    }
    assert found == listed


def test_pages_name_no_address_elsewhere() -> None:
    own = [file for file in STATIC.rglob("*.*") if "vendor" not in file.parts]
    assert len(own) > 10
    for file in own:
        text = file.read_text().replace("http://www.w3.org/2000/svg", "")
        assert not re.search(r"https?://|//[a-z]+\.[a-z]+/", text), file


def test_scripts_and_styles_stay_small() -> None:
    """Ninety kilobytes as they travel are the budget; before that they are below twice as much."""
    size = sum(file.stat().st_size for file in STATIC.rglob("*") if file.suffix in (".js", ".css"))
    assert size < 180_000
