"""What a page shows when not all is well: loading, empty, refused, stale, odd; and the faults that
others' dashboards had."""

import asyncio
import json
import re
from pathlib import Path
from typing import Any

import pytest
from axe_playwright_python.async_playwright import Axe
from playwright.async_api import Page, Route, expect
from tests.support import company
from tests.support.browser import DESKTOP, PHONE, browsing
from tests.support.site import Gate, served_site, team

from muster.base.clock import SystemClock
from muster.testing import make
from muster.web.shapes import Ailment

pytestmark = pytest.mark.browser

_LISTS = ("overview", "queues", "jobs", "cluster", "plan")


class _NamesGate(Gate):
    """Whoever has the word may see no names."""

    async def may_list(self, token: str, group: str, resource: str, namespace: str) -> bool:
        return False


async def _is_fine(page: Page, name: str) -> None:
    found = await Axe().run(page)
    assert found.response["violations"] == [], name
    is_wider = "document.documentElement.scrollWidth > innerWidth"
    assert not await page.evaluate(is_wider), f"{name} is wider than the screen"


@pytest.mark.parametrize("scheme", ["light", "dark"])
async def test_a_page_that_loads_says_so_and_makes_nothing_up(scheme: str) -> None:
    async with served_site() as site, browsing(DESKTOP, scheme) as page:
        site.show(*team("a", 2, 9))
        await page.route(
            re.compile(r"/api/v1/(?!stream|status|whoami)"), lambda _: asyncio.sleep(0)
        )
        for name in _LISTS:
            await page.goto(site.address(name))
            main = page.locator("main")
            await expect(main).to_contain_text(re.compile(f"Loading {name}", re.IGNORECASE))
            await expect(main).not_to_contain_text(re.compile(r"\d|\bNo\b|Nothing"))
            await _is_fine(page, name)


@pytest.mark.parametrize("size", [DESKTOP, PHONE], ids=["desktop", "phone"])
@pytest.mark.parametrize("scheme", ["light", "dark"])
async def test_an_empty_page_says_what_it_would_show_and_what_makes_one(
    size: tuple[int, int], scheme: str
) -> None:
    says = {
        "overview": "No queues yet. Work without a queue waits. kubectl apply",
        "queues": "No queues yet. Work without a queue waits. kubectl apply",
        "jobs": "No jobs. A pod with schedulerName: kai-scheduler and a queue label makes one.",
        "jobs?by=shapes": "Nothing waits that matches.",
        "jobs?state=waiting&user=ana": "No job matches state=waiting, user=ana. Clear the filters",
        "cluster": "No nodes. The map shows every GPU of the cluster.",
    }
    async with served_site() as site, browsing(size, scheme) as page:
        site.show(nodes=0)
        for name, text in says.items():
            await page.goto(site.address(name))
            await expect(page.locator("main")).to_contain_text(text)
            await _is_fine(page, name)


@pytest.mark.parametrize("scheme", ["light", "dark"])
async def test_what_failed_says_all_that_is_known_and_the_rest_stays(scheme: str) -> None:
    told = {
        "code": "Forbidden",
        "message": "You may not see queues.",
        "because": "The role muster-viewer is missing.",
        "next": "Ask for it.",
    }

    async def refuse(route: Route) -> None:
        await route.fulfill(status=403, json={"error": told})

    async with served_site() as site, browsing(DESKTOP, scheme) as page:
        site.show(*team("a", 2, 9))
        await page.route("**/api/v1/queues", refuse)
        await page.goto(site.address("queues"))
        problem = page.get_by_role("alert")
        for text in told.values():
            await expect(problem).to_contain_text(text)
        await _is_fine(page, "queues")
        await expect(page.locator(".live")).to_contain_text("live")
        await page.unroute("**/api/v1/queues")
        await page.get_by_role("button", name="Try again").click()
        await expect(page.locator("tbody tr")).to_have_count(1)


async def test_a_page_that_came_at_a_busy_moment_asks_again_by_itself() -> None:
    told = {"code": "TooBusy", "message": "8 questions of yours are waiting already."}
    refused: list[str] = []

    async def refuse_once(route: Route) -> None:
        if refused:
            await route.continue_()
            return
        refused.append(route.request.url)
        await route.fulfill(status=429, json={"error": told})

    async with served_site() as site, browsing() as page:
        site.show(*team("a", 2, 9))
        await page.goto(site.address("jobs"))
        await expect(page.locator("tbody tr")).to_have_count(2)
        await page.route("**/api/v1/queues", refuse_once)
        await page.goto(site.address("queues"))
        await expect(page.locator("tbody tr")).to_have_count(1)
        assert len(refused) == 1


async def test_what_does_not_do_its_work_is_said_on_every_page() -> None:
    late = Ailment("binder", SystemClock().now_s() - 120, "1 pod has a node and nobody binds it.")
    async with served_site() as site, browsing() as page:
        site.show(*team("a", 2, 0))
        await page.goto(site.address("overview"))
        health = page.locator("section", has=page.get_by_role("heading", name="Health"))
        await expect(health).to_contain_text("Binder binds what has a node")
        site.board.ail((late,))
        await expect(page.get_by_role("alert")).to_contain_text("nobody binds it. So for 2m.")
        await expect(health).to_contain_text("Binder 1 pod has a node and nobody binds it.")
        await _is_fine(page, "overview")
        await page.goto(site.address("jobs"))
        await expect(page.get_by_role("alert")).to_have_count(1)
        site.board.ail(())
        await expect(page.get_by_role("alert")).to_have_count(0)


@pytest.mark.parametrize("size", [DESKTOP, PHONE], ids=["desktop", "phone"])
async def test_an_address_of_no_page_says_so(size: tuple[int, int]) -> None:
    async with served_site() as site, browsing(size) as page:
        site.show(*team("a", 2, 9))
        await page.goto(site.address("jbos"))
        await expect(page.get_by_role("alert")).to_contain_text("There is no page jbos.")
        await _is_fine(page, "jbos")
        await page.goto(site.address("job/default/%E0%A4%A"))  # what no letter is
        await expect(page.get_by_role("alert")).to_contain_text("There is no job")


async def test_tables_are_cards_on_a_phone_and_nothing_of_them_is_out_of_sight(
    tmp_path: Path,
) -> None:
    """Who is next, pods, shapes and what would start a job, beside the lists."""
    shown = {
        "queue/vision": "Waiting",
        "jobs?by=shapes": "Jobs",
        "job/default/seg": "What would start it",
        "job/default/sweep": "Pods",
    }
    async with served_site(tmp_path) as site, browsing(PHONE) as page:
        for name, label in shown.items():
            await page.goto(site.address(name))
            region = page.get_by_role("region", name=label, exact=True)
            await expect(region.locator("tr").last).to_be_visible()
            is_cut = "one => one.scrollWidth > one.clientWidth"
            assert not await region.evaluate(is_cut), f"{name}: {label}"


async def test_names_of_pages_are_whole_on_a_phone() -> None:
    async with served_site() as site, browsing(PHONE) as page:
        site.show(*team("a", 2, 0))
        await page.goto(site.address("plan"))
        links = page.locator("nav a")
        boxes = [await link.bounding_box() for link in await links.all()]
        heights = {box["height"] for box in boxes if box is not None}
        assert len(heights) == 1
        assert heights.pop() < 50
        await expect(page.locator("nav [aria-current]")).to_be_in_viewport()


async def test_what_is_old_turns_grey_and_never_blank() -> None:
    async with served_site() as site, browsing() as page:
        site.show(*team("a", 2, 0))
        await page.clock.install()
        await page.goto(site.address("queues"))
        await expect(page.locator(".live")).to_contain_text("live")
        site.part.stop()
        await expect(page.get_by_role("alert")).to_contain_text("No news: the connection was lost")
        await expect(page.locator("main.stale")).to_have_count(0)
        await page.clock.fast_forward(20_000)
        await expect(page.locator("main.stale")).to_contain_text("a")
        await expect(page.locator("tbody tr")).to_have_count(1)


@pytest.mark.parametrize("scheme", ["light", "dark"])
async def test_who_may_not_see_names_is_told_how_many_and_sees_the_counts(scheme: str) -> None:
    async with served_site(gate=_NamesGate()) as site, browsing(DESKTOP, scheme) as page:
        site.show(*team("a", 2, 9))
        away = {"x-forwarded-for": "192.0.2.7", "authorization": "Bearer word"}
        await page.set_extra_http_headers(away)
        await page.goto(site.address("jobs"))
        notice = page.locator(".notice")
        await expect(notice).to_contain_text("Names of 2 jobs in 1 namespace are hidden from you")
        await expect(page.locator("tbody tr")).to_have_count(2)
        await expect(page.locator("main")).not_to_contain_text("a-waits")
        await _is_fine(page, "jobs")


async def test_an_event_without_a_time_is_shown_without_one() -> None:
    event: dict[str, Any] = {
        "at": None, "kind": "evicted", "job": "default/a-runs", "queue": "a", "pods": 1, "gpus": 1,
        "ran_s": None, "lost_s": None, "by": "", "for": "", "because": "", "nodes": [],
        "moves_to": [], "code": "", "user": "", "outcome": "intended", "cycle": 0,
    }  # fmt: skip

    async def answer(route: Route) -> None:
        await route.fulfill(json={"items": [event], "total": 1})

    async with served_site() as site, browsing() as page:
        site.show(*team("a", 2, 9))
        await page.route("**/api/v1/history*", answer)
        for name in ("evictions", "job/default/a-runs", "overview", "queue/a"):
            await page.goto(site.address(name))
            await expect(page.locator("main .loading")).to_have_count(0)
            await expect(page.locator("main")).not_to_contain_text("Invalid Date")
            await expect(page.locator("main")).not_to_contain_text("NaN")
        await page.goto(site.address("evictions"))
        await expect(page.get_by_role("row", name=re.compile("a-runs"))).to_contain_text("–")


async def test_a_thousand_failures_are_said_once() -> None:
    async with served_site() as site, browsing() as page:
        site.show(*team("a", 2, 0))
        await page.goto(site.address("queues"))
        await expect(page.locator("tbody tr")).to_have_count(1)
        await page.route("**/api/v1/queues", lambda route: route.abort())
        asked = []
        page.on("requestfailed", lambda request: asked.append(request.url))
        await page.clock.install()
        moment = site.board.moment
        assert moment is not None
        for at in range(1_000):
            site.board.show(moment, json.dumps(_told(at)).encode())
            if not at % 100:
                await page.clock.fast_forward(2_100)
                await asyncio.sleep(0)
        while not asked:
            await page.clock.fast_forward(2_100)
        assert await page.get_by_role("alert").count() <= 1
        await expect(page.locator("tbody tr")).to_have_count(1)


def _told(rev: int) -> dict[str, Any]:
    gpus = {"all": 32, "used": rev, "free": 0, "out": 0}
    jobs = {"running": 1, "waiting": 0, "asked": 0, "by_code": {}, "by_category": {}}
    cycle = {"number": rev, "at": 0, "took_ms": 0}
    status = {"cluster": "", "gpus": gpus, "jobs": jobs, "cycle": cycle}
    return {"rev": rev, "at": 0, "status": status, "queues": []}


async def test_news_that_cannot_be_read_is_asked_for_instead() -> None:
    broken = 'id: 7\nevent: delta\ndata: {"rev": 7, "stat\n\n'

    async def tell(route: Route) -> None:
        await route.fulfill(headers={"content-type": "text/event-stream"}, body=broken)

    async with served_site() as site, browsing() as page:
        site.show(*team("a", 2, 0))
        await page.route("**/api/v1/stream", tell)
        await page.goto(site.address("queues"))
        await expect(page.locator("tbody tr")).to_have_count(1)
        site.show(*team("a", 2, 0), *team("b", 1, 0))
        await expect(page.locator("tbody tr")).to_have_count(2)


_LONG = "x" * 62 + "-" + "y" * 60 + "." + "z" * 60
_ODD = "<img src=x onerror=alert(1)> \u202eevil\u202c \U0001f525 " + "w" * 60


@pytest.mark.parametrize("size", [DESKTOP, PHONE], ids=["desktop", "phone"])
async def test_odd_names_and_texts_are_text_and_break_no_page(size: tuple[int, int]) -> None:
    held = make.gang(_LONG, 1, gpu=1, queue=_LONG, user=_LONG[:60], on_hold=_ODD)
    async with served_site() as site, browsing(size) as page:
        site.board.cluster = _ODD
        site.show(make.queue(_LONG, quota_gpu=8), held)
        things = (f"job/default/{_LONG}", f"queue/{_LONG}", f"job/{_ODD}", f"queue/{_ODD}", _ODD)
        for name in (*_LISTS, *things):
            await page.goto(site.address(name))
            await expect(page.locator("main .loading")).to_have_count(0)
            assert await page.locator("img[src=x]").count() == 0, name
            await _is_fine(page, name)
        await page.goto(site.address("jobs"))
        await expect(page.get_by_role("row", name=re.compile(_LONG))).to_contain_text("Held")


@pytest.mark.parametrize("size", [DESKTOP, PHONE], ids=["desktop", "phone"])
async def test_queues_six_deep_and_a_cluster_without_nodes_are_shown(size: tuple[int, int]) -> None:
    names = [f"level-{at}" for at in range(6)]
    parents = ["", *names]
    queues = [make.queue(name, parent=above) for name, above in zip(names, parents, strict=False)]
    async with served_site() as site, browsing(size) as page:
        site.show(*queues, make.gang("work", 1, gpu=1, queue="level-5"), nodes=0)
        for name in (*_LISTS, "queue/level-0", "queue/level-5", "job/default/work"):
            await page.goto(site.address(name))
            await expect(page.locator("main .loading")).to_have_count(0)
            await _is_fine(page, name)
        await page.goto(site.address("queues"))
        await expect(page.locator("tbody tr")).to_have_count(6)


async def test_every_page_is_left_and_reached_by_keys_and_they_can_be_turned_off() -> None:
    keys = {"o": "Overview", "q": "Queues", "j": "Jobs", "c": "Cluster", "e": "Evictions"}
    keys |= {"u": "Usage", "p": "Plan"}
    async with served_site() as site, browsing() as page:
        site.show(*team("a", 2, 9))
        await page.clock.install(time=company.NOW_S)
        await page.goto(site.address("queues"))
        for key, title in keys.items():
            await page.keyboard.type(f"g{key}")
            await expect(page.get_by_role("heading", level=1)).to_have_text(title)
        await page.keyboard.press("?")
        await page.get_by_label("Keys are on").press("Space")
        await page.keyboard.press("Escape")
        await page.keyboard.type("gq")
        await expect(page.get_by_role("heading", level=1)).to_have_text("Plan")
