"""Draws docs/pictures/{dashboard,map,job,evictions,usage}-{light,dark}.png: a made-up cluster in a
real browser (Debian's Chromium). NUMBA_DISABLE_JIT=1 is quicker here than compiling kernels."""

import asyncio
import hashlib
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from playwright.async_api import async_playwright
from tests.support import company
from tests.support.served_web import Fixed

from muster.base.clock import SystemClock
from muster.base.offload import in_thread
from muster.engine.config.conf import parse_conf
from muster.engine.cycle import run_cycle
from muster.engine.registry import build_actions, build_policy
from muster.engine.session import Session
from muster.model.records import TopologyRecord
from muster.model.tables import snapshot_of
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
    "job": "job/default/etl-embed",
    "evictions": "evictions",
    "usage": "usage",
}
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
    snapshot = snapshot_of(make.cluster(*_parts()))
    conf = parse_conf("actions: allocate")
    policy = build_policy(conf)
    result = run_cycle(snapshot, policy, build_actions(conf), make.NOW_S)
    shares = Session(snapshot, policy, make.NOW_S).policy.queue_shares()
    return Moment(snapshot, result.explanation, shares, make.NOW_S, cycle=1)


def drawn_from() -> str:
    """What the pictures depend on, in one line: sources of the pages, and this file."""
    digest = hashlib.sha256()
    kinds = (".js", ".css", ".html", ".svg")
    for file in [Path(__file__), *sorted(one for one in _STATIC.rglob("*") if one.suffix in kinds)]:
        digest.update(file.name.encode() + b"\0" + file.read_bytes())
    return digest.hexdigest() + "\n"


async def draw(folder: Path) -> None:
    board = Board("company")
    board.show(_moment(), b"{}")
    company.write_journal(folder / "journal")
    company.write_usage(folder / "usage.db")
    source, clock = Fixed(make.cluster(*_parts())), company.CompanyClock()
    live = LiveCluster(source, clock, in_thread, folder / "journal", token_key=b"key")
    handlers = Handlers(live, why_budget_s=30.0, usage_store=folder / "usage.db")
    part = WebPart("127.0.0.1", 0, board, SystemClock(), questions=handlers)
    running = asyncio.create_task(part.run())
    await part.listening.wait()
    async with async_playwright() as play:
        program = shutil.which("chromium")
        browser = await play.chromium.launch(executable_path=program, args=list(_FLAGS))
        for scheme in ("light", "dark"):
            size = {"width": 1200, "height": 680}
            page = await browser.new_page(viewport=size, color_scheme=scheme)  # type: ignore[arg-type]
            await page.clock.install(time=company.NOW_S)
            for name, path in _PAGES.items():
                await page.goto(f"http://127.0.0.1:{part.port}/#/{path}")
                await page.locator("main .loading").wait_for(state="detached")
                await page.locator(".live.on").wait_for()
                if name == "job":
                    looking = page.get_by_text("Looking for the smallest change")
                    await looking.wait_for(state="detached", timeout=60_000)
                await page.screenshot(path=FOLDER / f"{name}-{scheme}.png")
        await browser.close()
    part.stop()
    await running


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as scratch:
        asyncio.run(draw(Path(scratch)))
    (FOLDER / "drawn-from.txt").write_text(drawn_from())
