"""The dashboard in a real browser: live, by keyboard, for everybody, and to nobody else."""

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from axe_playwright_python.async_playwright import Axe
from playwright.async_api import Page, expect
from tests.support import company
from tests.support.browser import DESKTOP, PHONE, browsing
from tests.support.site import Gate, Site, served_site, team

from muster.base.clock import SystemClock
from muster.testing import make
from muster.web.board import difference

pytestmark = pytest.mark.browser

_POD = """
apiVersion: v1
kind: Pod
metadata: {name: one, labels: {kai.scheduler/queue: serving}}
spec:
  schedulerName: kai-scheduler
  containers: [{name: c, image: x, resources: {limits: {nvidia.com/gpu: "2"}}}]
"""


@asynccontextmanager
async def _open(
    page_name: str, *parts: make.Part, nodes: int = 4
) -> AsyncIterator[tuple[Site, Page]]:
    async with served_site() as site, browsing() as page:
        site.show(*parts, nodes=nodes)
        await page.goto(site.address(page_name))
        yield site, page


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("size", [DESKTOP, PHONE], ids=["desktop", "phone"])
async def test_no_page_shuts_anybody_out(size: tuple[int, int], scheme: str) -> None:
    """axe looks each page over, as it is when something is there and when nothing is."""
    pages = ("overview", "queues", "jobs", "jobs?by=shapes", "cluster", "cluster?as=list")
    things = ("job/default/llm-waits", "node/n0001", "job/default/none")
    async with served_site() as site, browsing(size, scheme) as page:
        site.show(*team("llm", 12, 6), *team("vision", 3, 0))
        for name in (*pages, *things):
            await page.goto(site.address(name))
            await expect(page.locator("main .loading")).to_have_count(0)
            found = await Axe().run(page)
            assert found.response["violations"] == [], name
            is_wider = "document.documentElement.scrollWidth > innerWidth"
            assert not await page.evaluate(is_wider), f"{name} is wider than the screen"


_ASKED = (
    "overview",
    "job/default/seg",
    "evictions",
    "usage",
    "plan",
    "queue/llm",
    "jobs?by=shapes",
)


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("size", [DESKTOP, PHONE], ids=["desktop", "phone"])
async def test_no_page_of_answers_shuts_anybody_out(
    size: tuple[int, int], scheme: str, tmp_path: Path
) -> None:
    async with served_site(tmp_path) as site, browsing(size, scheme) as page:
        await page.clock.install(time=company.NOW_S)
        for name in _ASKED:
            await page.goto(site.address(name))
            await expect(page.locator("main .loading, main .problem")).to_have_count(0)
            found = await Axe().run(page)
            assert found.response["violations"] == [], name
            is_wider = "document.documentElement.scrollWidth > innerWidth"
            assert not await page.evaluate(is_wider), f"{name} is wider than the screen"


async def test_a_job_tells_why_it_waits_what_would_help_and_what_happened(tmp_path: Path) -> None:
    async with served_site(tmp_path) as site, browsing() as page:
        await page.goto(site.address("job/default/seg"))
        await expect(page.locator(".verdict")).to_have_text("NoRoom")
        await expect(page.get_by_text("What would start it")).to_be_visible()
        await page.goto(site.address("job/default/det"))
        await expect(page.locator(".story li.refused")).to_contain_text("NoRoom. No node has 8")


async def test_a_job_that_ended_keeps_its_page(tmp_path: Path) -> None:
    async with served_site(tmp_path) as site, browsing() as page:
        await page.goto(site.address("job/default/sweep-9"))
        await expect(page.locator("main")).to_contain_text("It ended")
        await expect(page.locator(".story li.evicted")).to_contain_text("for default/chat")


async def test_evictions_say_for_whom_by_which_rule_and_what_was_lost(tmp_path: Path) -> None:
    async with served_site(tmp_path) as site, browsing() as page:
        await page.clock.install(time=company.NOW_S)
        await page.goto(site.address("evictions"))
        await expect(page.locator(".tiles")).to_contain_text("5.7 GPU-hours of work lost")
        row = page.get_by_role("row", name=re.compile("sweep-9"))
        await expect(row).to_contain_text("reclaim")
        await expect(row).to_contain_text("default/chat")
        await page.locator("select").first.select_option("1 hour")
        await expect(page.get_by_role("row", name=re.compile("etl"))).to_have_count(0)


async def test_usage_is_a_chart_a_table_and_a_file(tmp_path: Path) -> None:
    async with served_site(tmp_path) as site, browsing() as page:
        await page.clock.install(time=company.NOW_S)
        await page.goto(site.address("usage"))
        picture = page.get_by_role("img", name=re.compile("GPUs held"))
        await expect(picture).to_have_attribute("aria-label", re.compile("llm up to 28"))
        await expect(page.get_by_role("row", name=re.compile("^llm"))).to_contain_text("460.5")
        await page.locator("select").nth(1).select_option("user")
        await expect(page.get_by_role("row", name=re.compile("^ana"))).to_contain_text("380")
        async with page.expect_download() as saved:
            await page.get_by_role("button", name="CSV").click()
        file = await (await saved.value).path()
        assert file.read_text().splitlines()[1].startswith('"ana"')


async def test_a_queue_shows_its_share_and_what_it_asks_for_beside_what_it_holds(
    tmp_path: Path,
) -> None:
    async with served_site(tmp_path) as site, browsing() as page:
        await page.goto(site.address("queue/llm"))
        await expect(page.locator("nav a[aria-current]")).to_have_text("Queues")
        late = page.get_by_role("img", name=re.compile("share up to"))
        await expect(late).to_have_attribute("aria-label", re.compile("GPUs: held up to 28, share"))
        await expect(page.get_by_role("img", name=re.compile("GPUs held"))).to_be_visible()
        await expect(page.get_by_text("None is next")).to_be_visible()  # its one job is on hold


async def test_a_plan_and_another_quota_are_asked_on_the_page(tmp_path: Path) -> None:
    async with served_site(tmp_path) as site, browsing() as page:
        await page.goto(site.address("plan"))
        await page.get_by_label("Manifests").fill(_POD)
        await page.get_by_role("button", name="Ask").first.click()
        await expect(page.locator(".verdict")).to_have_text("It would start now.")
        await page.get_by_label("Queue").select_option("llm")
        await page.get_by_label("GPUs").fill("64")
        await page.get_by_role("button", name="Ask").last.click()
        await expect(page.get_by_role("row", name=re.compile("^llm"))).to_be_visible()
        await page.get_by_label("Manifests").fill("kind: [")
        await page.get_by_role("button", name="Ask").first.click()
        await expect(page.get_by_role("alert")).to_contain_text("Correct the field")


async def test_without_a_journal_that_is_said_and_nothing_is_made_up() -> None:
    async with _open("evictions", *team("a", 1, 0)) as (_, page):
        await expect(page.get_by_role("alert")).to_contain_text("nothing at /api/v1/history")


async def test_amounts_change_in_place_and_rows_stay() -> None:
    async with _open("queues", *team("a", 8, 0), *team("b", 1, 0)) as (site, page):
        rows = page.locator("tbody tr")
        await expect(rows.nth(1).locator("td").nth(2)).to_have_text("1")
        first = await rows.nth(0).element_handle()
        site.show(*team("a", 8, 0), *team("b", 5, 0))
        await expect(rows.nth(1).locator("td").nth(2)).to_have_text("5")
        assert first is not None
        assert await first.evaluate("row => row.isConnected"), "the row was made anew"


async def test_jobs_stay_in_their_rows_and_new_ones_wait_until_they_are_wanted() -> None:
    async with _open("jobs", *team("b", 1, 0)) as (site, page):
        rows = page.locator("tbody tr")
        await expect(rows).to_have_count(1)
        site.show(*team("a", 2, 9), *team("b", 1, 0))
        await expect(page.get_by_role("button", name="2 new, show")).to_be_visible()
        await expect(rows).to_have_count(1)
        await page.get_by_role("button", name="2 new, show").click()
        await page.clock.set_fixed_time(make.NOW_S)  # what lit up stays so, and what is gone too
        await expect(rows.first).to_contain_text("default/a-runs")
        await expect(rows).to_have_count(3)
        site.show(*team("a", 3, 0), *team("b", 1, 0))
        await expect(rows.nth(1)).to_contain_text("gone")
        await expect(rows.nth(0).locator("td").nth(4)).to_have_class(re.compile("changed"))
        await expect(rows).to_have_count(3)


async def test_shapes_are_of_the_jobs_that_are_asked_for() -> None:
    async with _open("jobs?by=shapes", *team("a", 1, 9), *team("b", 0, 3)) as (_, page):
        await expect(page.get_by_role("row", name=re.compile("8 GPU"))).to_contain_text("a, b")
        await page.get_by_role("searchbox").fill("b-waits")
        await page.keyboard.press("Enter")
        await expect(page.get_by_role("row", name=re.compile("8 GPU"))).not_to_contain_text("a, b")


async def test_where_nothing_was_the_first_job_appears_by_itself() -> None:
    async with _open("jobs", make.queue("a")) as (site, page):
        await expect(page.get_by_text("No jobs.")).to_be_visible()
        site.show(*team("a", 1, 9))
        await expect(page.get_by_role("link", name="default/a-waits")).to_be_visible()


async def test_jobs_are_a_file_too() -> None:
    async with _open("jobs", *team("a", 1, 9)) as (_, page):
        async with page.expect_download() as saved:
            await page.get_by_role("button", name="CSV").click()
        lines = (await (await saved.value).path()).read_text().splitlines()
        assert lines[0].startswith("job,state,reason,queue")
        assert {line.split(",")[0] for line in lines[1:]} == {
            '"default/a-runs"',
            '"default/a-waits"',
        }


async def test_what_could_start_and_is_not_started_is_said() -> None:
    """By the same rules it would run: then the scheduler is down, or decides by others."""
    async with served_site() as site, browsing() as page:
        site.show(*team("a", 2, 1))
        moment = site.board.moment
        assert moment is not None
        since = SystemClock().now_s() - 120
        late = replace(moment, undone={"default/a-waits": since}, made={})
        site.board.show(late, difference(moment, late))
        await page.goto(site.address("queues"))
        said = page.get_by_role("alert")
        await expect(said).to_contain_text("1 job could start for 2m and nobody starts it")
        site.show(*team("a", 3, 0))
        await expect(said).to_have_count(0)


async def test_behind_a_proxy_that_keeps_the_stream_the_page_asks_by_itself() -> None:
    async with served_site() as site, browsing() as page:
        site.show(*team("a", 2, 0))
        await page.clock.install()
        await page.route("**/api/v1/stream", lambda _: asyncio.sleep(0))  # never answered
        await page.goto(site.address("queues"))
        await expect(page.locator("tbody tr")).to_have_count(1)
        site.show(*team("a", 2, 0), *team("b", 1, 0))
        await page.clock.fast_forward(31_000)
        await expect(page.get_by_role("alert")).to_contain_text("holds the stream back")
        await expect(page.locator("tbody tr")).to_have_count(2)


async def test_a_question_that_is_never_answered_ends_with_a_sentence() -> None:
    async with served_site() as site, browsing() as page:
        site.show(*team("a", 2, 0))
        # A minute is long for a test: the page's own patience is shortened, not its answer.
        await page.add_init_script("AbortSignal.timeout = (f => () => f(300))(AbortSignal.timeout)")
        await page.route("**/api/v1/queues", lambda _: asyncio.sleep(0))
        await page.goto(site.address("queues"))
        await expect(page.get_by_role("alert")).to_contain_text("has not answered within a minute")
        await page.unroute("**/api/v1/queues")
        await page.get_by_role("button", name="Try again").click()
        await expect(page.locator("tbody tr")).to_have_count(1)


async def test_a_page_shows_nothing_of_the_page_before_it(tmp_path: Path) -> None:
    async with served_site(tmp_path) as site, browsing() as page:
        await page.goto(site.address("job/default/seg"))
        await expect(page.get_by_text("What would start it")).to_be_visible()
        await page.goto(site.address("job/default/chat"))
        await expect(page.locator("h1")).to_have_text("default/chat")
        pods = page.locator("section:has(h2:text-is('Pods')) tbody tr")
        await expect(pods).to_have_count(4)
        await expect(page.locator("main")).not_to_contain_text("seg")
        await expect(page.get_by_text("What would start it")).to_have_count(0)


async def test_who_cannot_see_what_moves_is_told_now_and_then() -> None:
    async with _open("queues", *team("a", 2, 0)) as (site, page):
        said = page.get_by_role("status").first
        await expect(said).to_have_text("2 of 32 GPUs used, 0 jobs waiting.")
        site.show(*team("a", 3, 0))
        await expect(page.locator("tbody td").nth(2)).to_have_text("3")
        await expect(said).to_have_text("2 of 32 GPUs used, 0 jobs waiting.")  # not each second


async def test_the_map_shows_who_holds_a_device_and_follows() -> None:
    async with _open("cluster", *team("a", 8, 0)) as (site, page):
        canvas = page.locator("canvas")
        await expect(canvas).to_have_attribute(
            "aria-label", re.compile("32 GPUs on 4 nodes, 8 held")
        )
        await canvas.focus()
        await page.keyboard.press("ArrowRight")
        await expect(page.locator(".hint")).to_contain_text("default/a-runs")
        site.show(*team("a", 0, 0))
        await expect(canvas).to_have_attribute("aria-label", re.compile("0 held"))
        await expect(page.locator(".hint")).to_contain_text("n0000, rack r0, ready: free")


async def test_the_map_is_of_one_rack_and_in_the_colours_that_are_wanted() -> None:
    async with _open("cluster", *team("a", 8, 0), nodes=40) as (_, page):
        canvas = page.locator("canvas")
        await expect(canvas).to_have_attribute("height", re.compile(r"\d+"))
        whole = await canvas.get_attribute("height") or ""
        await page.get_by_label("Rack").select_option("r1")
        await expect(page).to_have_url(re.compile("rack=r1"))
        await expect(canvas).not_to_have_attribute("height", whole)
        assert int(await canvas.get_attribute("height") or 0) < int(whole)
        await page.get_by_label("Colour").select_option("state")
        await expect(page.locator(".legend")).to_have_text(re.compile(r"\s*held\s+free\s+closed"))
        await page.get_by_role("button", name="as a list").click()
        await expect(page.locator("tbody tr")).to_have_count(20)


async def test_everything_can_be_reached_by_keyboard() -> None:
    async with _open("overview", *team("a", 2, 9)) as (_, page):
        await expect(page.get_by_role("heading", name="Overview")).to_be_visible()
        await page.keyboard.type("gj")
        await expect(page.get_by_role("heading", name="Jobs")).to_be_visible()
        await expect(page.locator("tbody tr")).to_have_count(2)
        await page.keyboard.press("j")
        await page.keyboard.press("Enter")
        await expect(page.get_by_role("heading", level=1)).to_have_text(re.compile("default/a-"))
        await page.keyboard.type("?")
        await expect(page.get_by_role("dialog")).to_be_visible()
        await page.keyboard.press("Escape")
        await expect(page.get_by_role("dialog")).to_have_count(0)
        await page.keyboard.press("/")  # a job has none: it is that of the list
        await expect(page.get_by_role("searchbox")).to_be_focused()
        await expect(page.locator("tbody tr")).to_have_count(2)
        await page.keyboard.press("Escape")
        await page.keyboard.press("f")
        await expect(page.get_by_label("State")).to_be_focused()
        await page.keyboard.press("ArrowDown")
        await expect(page).to_have_url(re.compile("state=waiting"))
        await page.keyboard.press("Escape")
        await page.get_by_role("link", name="default/a-waits").focus()
        await page.keyboard.press("Enter")
        await expect(page.get_by_role("heading", level=1)).to_have_text("default/a-waits")
        await page.keyboard.press("Escape")  # back to the list as it was left
        await expect(page).to_have_url(re.compile("jobs.*state=waiting"))


async def test_a_filter_is_an_address_and_says_when_nothing_matches() -> None:
    async with _open("jobs?queue=a&state=waiting", *team("a", 2, 9)) as (site, page):
        await expect(page.locator("tbody tr")).to_have_count(1)
        await page.get_by_role("button", name=re.compile("queue=a")).click()
        await expect(page).to_have_url(re.compile(r"jobs\?state=waiting$"))
        await page.goto(site.address("jobs?queue=none"))
        await expect(page.get_by_text("No job matches queue=none")).to_be_visible()


async def test_until_the_cluster_is_read_no_number_is_made_up() -> None:
    async with served_site() as site, browsing() as page:
        await page.goto(site.address("overview"))
        await expect(page.get_by_text("The cluster is being read.")).to_be_visible()
        await expect(page.locator(".tiles")).to_have_count(0)
        site.show(*team("a", 2, 0))
        await expect(page.locator(".tiles")).to_contain_text("2 of 32 GPUs used")


async def test_a_lost_connection_is_said_and_what_was_seen_stays() -> None:
    async with _open("queues", *team("a", 2, 0)) as (site, page):
        await expect(page.locator("tbody tr")).to_have_count(1)
        await expect(page.locator(".live")).to_contain_text("live")
        site.part.stop()
        await expect(page.get_by_role("alert")).to_contain_text("No news: the connection was lost")
        await expect(page.locator("tbody tr")).to_have_count(1)


async def test_a_name_that_does_not_exist_is_said() -> None:
    async with _open("job/default/none", *team("a", 2, 0)) as (_, page):
        await expect(page.get_by_role("alert")).to_contain_text("There is no job default/none.")


async def test_from_another_machine_a_token_is_shown_once_and_its_end_is_noticed() -> None:
    gate = Gate()
    async with served_site(gate=gate) as site, browsing() as page:
        site.show(*team("a", 2, 0))
        await page.set_extra_http_headers({"x-forwarded-for": "192.0.2.7"})
        await page.goto(site.address("queues"))
        await page.get_by_label("Token").fill("wrong")
        await page.keyboard.press("Enter")
        await expect(page.get_by_role("alert")).to_have_text("who are you?")
        assert (await Axe().run(page)).response["violations"] == []
        await page.get_by_label("Token").fill("word")
        await page.keyboard.press("Enter")
        await expect(page.locator("tbody tr")).to_have_count(1)
        kept = "JSON.stringify([{...localStorage}, {...sessionStorage}, document.cookie])"
        assert await page.evaluate(kept) == '[{},{},""]'
        await page.get_by_role("button", name="Log out").click()
        await expect(page.get_by_label("Token")).to_be_visible()
        await page.goto(f"http://127.0.0.1:{site.part.port}/#code=none")
        await page.reload()
        await expect(page.get_by_label("Token")).to_be_visible()
        assert "code" not in page.url
        await page.get_by_label("Token").fill("word")
        await page.keyboard.press("Enter")
        await expect(page.locator(".live")).to_contain_text("live")
        gate.known.clear()
        site.show(*team("a", 3, 0))
        await expect(page.get_by_label("Token")).to_be_visible()


async def test_no_request_leaves_the_origin() -> None:
    async with served_site() as site, browsing() as page:
        asked: list[str] = []
        page.on("request", lambda request: asked.append(request.url))
        site.show(*team("a", 2, 3))
        for name in ("overview", "queues", "jobs", "cluster", "node/n0000"):
            await page.goto(site.address(name))
            await expect(page.locator("main .loading")).to_have_count(0)
        origin = f"http://127.0.0.1:{site.part.port}/"
        assert len(asked) > 10
        assert [url for url in asked if not url.startswith(origin)] == []


async def test_html_in_a_script_is_refused() -> None:
    async with _open("overview", *team("a", 2, 0)) as (_, page):
        told = "try { document.body.innerHTML = '<b>x</b>'; 'taken' } catch (e) { e.name }"
        assert await page.evaluate(told) == "TypeError"


async def test_the_map_of_forty_thousand_gpus_is_drawn() -> None:
    async with _open("cluster", *team("a", 24, 0), nodes=5000) as (_, page):
        await expect(page.locator("canvas")).to_have_attribute(
            "aria-label", re.compile("40,000 GPUs on 5,000 nodes, 24 held")
        )
        assert await page.evaluate("document.querySelectorAll('*').length") < 8000
