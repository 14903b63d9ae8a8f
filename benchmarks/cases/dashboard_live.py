"""The dashboard as people meet it: pages in a browser, and the process beside a large cluster."""

import asyncio
import time
import urllib.error
import urllib.request
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

from playwright.async_api import Page, async_playwright

from benchmarks import load, processes, services
from benchmarks.cases.apiserver import control_plane
from benchmarks.cases.dashboard import moments, serving
from benchmarks.cases.start import ROOMY, fill, until_calm
from benchmarks.registry import Measured, case
from muster.web.board import difference

_CHROMIUM = "/usr/bin/chromium"
_SIZE = {"width": 1440, "height": 900}
_ANSWERS_WITHIN_S = 300.0


@case("w5", why="web: first paint and use of pages in Chromium at 5,000 nodes, and one update")
def painted() -> Measured:
    return asyncio.run(_painted())


async def _painted() -> Measured:
    """Needs Debian's chromium. The last page stays open while 500 GPUs change hands."""
    before, after = moments()
    told = difference(before, after)
    found: list[dict[str, Any]] = []
    async with serving(before) as (board, url), _browser() as page:
        await page.add_init_script(_LONG_TASKS)
        meter = await page.context.new_cdp_session(page)
        for slower in (6, 1):
            await meter.send("Emulation.setCPUThrottlingRate", {"rate": slower})
            found += [{**await _opened(page, url, *one), "slower": slower} for one in _READY]
        drawn_ms = await page.evaluate(_DRAWN)
        nodes = await page.evaluate("document.querySelectorAll('*').length")
        heap = await page.evaluate("performance.memory.usedJSHeapSize")
        await page.evaluate("window.longest = 0")
        board.show(after, told)
        label = page.get_by_text(f"cycle {after.cycle}")
        await label.wait_for()
        longest_ms = await page.evaluate("window.longest")
    plain = [one for one in found if one["slower"] == 1]
    return {
        "seconds": max(one["first_ms"] for one in plain) / 1000,
        "usable_ms": max(one["usable_ms"] for one in plain),
        "slow_usable_ms": max(one["usable_ms"] for one in found if one["slower"] > 1),
        "map_drawn_ms": round(drawn_ms),
        "pages": found,
        "elements": nodes,
        "heap_mib": round(heap / (1 << 20), 1),
        # Tasks shorter than 50 ms are not told by the browser: 0 is "less than that".
        "longest_task_of_an_update_ms": round(longest_ms),
    }


_READY = (("overview", ".tiles"), ("jobs", "tbody tr"), ("cluster", "canvas"))
"""Pages, and what is on them once they can be used."""


async def _opened(page: Page, url: str, name: str, ready: str) -> dict[str, Any]:
    """By the browser's own clock, from when it was asked for."""
    await page.goto("about:blank")
    await page.goto(f"{url}/#/{name}")
    await page.locator(f"main {ready}").first.wait_for()
    usable_ms = await page.evaluate("performance.now()")
    paint = "performance.getEntriesByName('first-contentful-paint')[0].startTime"
    first_ms = await page.evaluate(paint)
    return {"page": name, "first_ms": round(first_ms), "usable_ms": round(usable_ms)}


_DRAWN = """async () => {
  const { Layout, paint } = await import("./map.js");
  const map = await (await fetch("api/v1/map")).json();
  const sheet = document.createElement("canvas");
  const how = { isLit: null, at: -1, hue: () => "#3b6fd4", letter: () => "" };
  const began = performance.now();
  paint(sheet, new Layout(map, 1380), map, how);
  sheet.getContext("2d").getImageData(0, 0, 1, 1);  // until it is there
  return performance.now() - began;
}"""
_LONG_TASKS = """
window.longest = 0;
new PerformanceObserver((found) => {
  for (const one of found.getEntries()) window.longest = Math.max(window.longest, one.duration);
}).observe({ type: "longtask" });
"""


@asynccontextmanager
async def _browser() -> AsyncIterator[Page]:
    async with async_playwright() as play:
        flags = ["--no-sandbox", "--disable-gpu", "--enable-precise-memory-info"]
        browser = await play.chromium.launch(executable_path=_CHROMIUM, args=flags)
        yield await browser.new_page(viewport=_SIZE)  # type: ignore[arg-type]
        await browser.close()


@case("w6", why="web: start to first answer, and its memory: 140,000 pods on 5,000 nodes")
def live() -> Measured:
    return asyncio.run(_live(nodes=5_000, pods=140_000))


@case("w6-tenth", why="the same with a tenth of everything")
def live_tenth() -> Measured:
    return asyncio.run(_live(nodes=500, pods=14_000))


async def _live(nodes: int, pods: int) -> Measured:
    await asyncio.to_thread(services.compile_kernels)
    async with control_plane(ROOMY) as plane, load.load_on(plane) as writer:
        await fill(plane, writer, nodes, pods, alike=True)
        await until_calm(plane)
        began_s = time.perf_counter()
        with services.dashboard(plane) as (pid, url):
            answered_s = await asyncio.to_thread(_until_answered, url, began_s)
            used_s, memory = processes.cpu_s(pid), processes.memory_mib(pid)
    return {
        "seconds": round(answered_s, 2),
        "cpu_s": round(used_s, 2),
        "pods": pods,
        "nodes": nodes,
        "resident_mib": round(memory["VmRSS"]),
        "resident_peak_mib": round(memory["VmHWM"]),
    }


def _until_answered(url: str, began_s: float) -> float:
    """Seconds until the queues are told."""
    while time.perf_counter() - began_s < _ANSWERS_WITHIN_S:
        with suppress(OSError), urllib.request.urlopen(f"{url}/api/v1/queues", timeout=30) as told:
            told.read()
            return time.perf_counter() - began_s
        time.sleep(0.1)
    raise TimeoutError(f"no answer within {_ANSWERS_WITHIN_S:g} s")
