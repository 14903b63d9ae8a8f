"""Draws docs/pictures/{dashboard,map,job,evictions,usage}-{light,dark}.png: a made-up cluster in a
real browser (Debian's Chromium), and beside them what is on each page in words.

Pixels are another with each version of the browser and its fonts, so a test does not compare them:
it opens the pages again and compares the words with those of the pictures, and what gives the words
their look by a hash.
"""

import asyncio
import hashlib
import shutil
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

from playwright.async_api import Page, async_playwright
from tests.support import company
from tests.support.served_web import Fixed, Unhurried

from muster.base.clock import SystemClock
from muster.base.offload import in_thread
from muster.engine.session import Session
from muster.foresight.situation import Situation, rules_of
from muster.model.records import TopologyRecord
from muster.testing import make
from muster.web.board import Board
from muster.web.handlers import Handlers
from muster.web.live import LiveCluster
from muster.web.moment import Moment
from muster.web.server import WebPart

FOLDER = Path(__file__).resolve().parents[1] / "docs" / "pictures"
_NODES, _GPUS, _RACKS = 64, 8, 4
_PAGES = {
    "dashboard": "overview",
    "map": "cluster",
    "job": "job/default/sweep-lr",
    "evictions": "evictions",
    "usage": "usage",
}
_LAST = {
    "dashboard": "text=Evicted in the last day",
    "map": "canvas",
    "job": "text=What would start it",
    "evictions": "text=One by one",
    "usage": "svg[role=img]",
}
"""What comes last on each of them."""
_PATIENCE_MS = 120_000
_STATIC = Path(__file__).resolve().parents[1] / "src" / "muster" / "web" / "static"
_FLAGS = ("--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking")
_RUNS = (
    ("llm", "pretrain-70b", 16, 8, "ana"),
    ("llm", "pretrain-7b", 8, 8, "ben"),
    ("vision", "det-r18", 12, 8, "dai"),
    ("serving", "chat", 14, 8, "eva"),
    ("batch", "etl-2", 30, 1, "chi"),
    ("vision", "notebooks", 20, 2, "dai"),
)
_WAITS = (
    ("batch", "etl-embed", 4, 8, "chi"),
    ("llm", "sweep-lr", 8, 8, "ben"),
    ("vision", "seg-huge", 1, 16, "dai"),
    ("llm", "eval-mt", 1, 8, "ana"),
    ("batch", "index", 6, 8, "chi"),
)
_QUEUES = (
    ("research", "", 256, -1),
    ("llm", "research", 160, -1),
    ("vision", "research", 96, 160),
    ("product", "", 192, -1),
    ("serving", "product", 128, 128),
    ("batch", "product", 64, -1),
)


def _parts() -> Iterator[make.Part]:
    yield TopologyRecord("default", ("rack", "kubernetes.io/hostname"))
    for at in range(_NODES):
        is_closed = at in (7, 40)
        rack = {"rack": f"r{at * _RACKS // _NODES + 1}"}
        yield make.node(f"node-{at:02}", gpu=_GPUS, labels=rack, is_unschedulable=is_closed)
    for name, parent, quota, limit in _QUEUES:
        yield make.queue(name, parent=parent, quota_gpu=quota, limit_gpu=limit)
    free = [f"node-{at:02}" for at in range(_NODES) if at not in (7, 40) for _ in range(_GPUS)]
    for queue, name, pods, gpus, user in _RUNS:
        taken, free = free[: pods * gpus], free[pods * gpus :]
        nodes = tuple(taken[::gpus])
        yield make.gang(name, pods, gpu=gpus, queue=queue, nodes=nodes, user=user)
    for queue, name, pods, gpus, user in _WAITS:
        yield make.gang(name, pods, gpu=gpus, queue=queue, user=user)


def _moment() -> Moment:
    situation = Situation.of(make.cluster(*_parts()), make.NOW_S, rules_of())
    snapshot, result = situation.snapshot, situation.result
    shares = Session(snapshot, situation.rules.policy, make.NOW_S).policy.queue_shares()
    closed_since = {"node-07": make.NOW_S - 6600, "node-40": make.NOW_S - 960}
    return Moment(
        snapshot, result.explanation, shares, make.NOW_S, cycle=1, closed_since=closed_since
    )


def drawn_from() -> str:
    """What gives the pages their look, in one line: a hash of styles, scripts and this file."""
    digest = hashlib.sha256()
    kinds = (".js", ".css", ".html", ".svg")
    for file in [Path(__file__), *sorted(one for one in _STATIC.rglob("*") if one.suffix in kinds)]:
        digest.update(file.name.encode() + b"\0" + file.read_bytes())
    return digest.hexdigest() + "\n"


@asynccontextmanager
async def _served(folder: Path) -> AsyncIterator[int]:
    """The port of a dashboard of the made-up cluster."""
    board = Board("company")
    board.show(_moment(), b"{}")
    company.write_journal(folder / "journal")
    company.write_usage(folder / "usage.db")
    source, clock = Fixed(make.cluster(*_parts())), Unhurried(company.CompanyClock())
    live = LiveCluster(source, clock, in_thread, folder / "journal", token_key=b"key")
    handlers = Handlers(live, why_budget_s=600.0, usage_store=folder / "usage.db")
    part = WebPart("127.0.0.1", 0, board, SystemClock(), questions=handlers)
    running = asyncio.create_task(part.run())
    await part.listening.wait()
    yield part.port
    part.stop()
    await running


async def said(folder: Path, pictures: Path | None = None) -> str:
    """What is on each page in words; `pictures`: where they are drawn."""
    words: list[str] = []
    async with _served(folder) as port, async_playwright() as play:
        program = shutil.which("chromium")
        browser = await play.chromium.launch(executable_path=program, args=list(_FLAGS))
        for scheme in ("light", "dark") if pictures else ("light",):
            size = {"width": 1200, "height": 680}
            page = await browser.new_page(
                viewport=size,  # type: ignore[arg-type]
                color_scheme="dark" if scheme == "dark" else "light",
                timezone_id="UTC",
            )
            await page.clock.set_fixed_time(company.NOW_S)
            for name, path in _PAGES.items():
                await page.goto(f"http://127.0.0.1:{port}/#/{path}")
                await _settled(page, name)
                if pictures:
                    await page.screenshot(path=pictures / f"{name}-{scheme}.png")
                if scheme == "light":
                    words.append(f"# {name}\n{await page.locator('#frame').aria_snapshot()}\n")
        await browser.close()
    return "\n".join(words)


async def _settled(page: Page, name: str) -> None:
    """Until all of it is there: some of a page comes later than the rest."""
    await page.locator("main .loading").wait_for(state="detached", timeout=_PATIENCE_MS)
    await page.locator(".live.on").wait_for(timeout=_PATIENCE_MS)
    await page.locator(_LAST[name]).first.wait_for(timeout=_PATIENCE_MS)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as scratch:
        text = asyncio.run(said(Path(scratch), FOLDER))
    (FOLDER / "words.txt").write_text(text)
    (FOLDER / "drawn-from.txt").write_text(drawn_from())
