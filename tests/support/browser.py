"""A real browser (marker `browser`): Debian's Chromium, driven by Playwright."""

import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from playwright.async_api import Page, async_playwright, expect

_FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
DESKTOP = (1280, 800)
PHONE = (390, 800)
_PATIENCE_MS = 60_000


def why_no_browser() -> str | None:
    """Why there is none on this machine; None: there is one."""
    return None if shutil.which("chromium") else "no chromium (apt-get install chromium)"


@asynccontextmanager
async def browsing(size: tuple[int, int] = DESKTOP, scheme: str = "light") -> AsyncIterator[Page]:
    """A page of a new browser, in which no script has failed when it is left."""
    expect.set_options(timeout=_PATIENCE_MS)
    async with async_playwright() as play:
        program = shutil.which("chromium")
        browser = await play.chromium.launch(executable_path=program, args=list(_FLAGS))
        page = await browser.new_page(
            viewport={"width": size[0], "height": size[1]},
            color_scheme="dark" if scheme == "dark" else "light",
        )
        page.set_default_timeout(_PATIENCE_MS)
        failed: list[str] = []
        page.on("pageerror", lambda error: failed.append(str(error)))
        try:
            yield page
        finally:
            await browser.close()
        assert failed == []
