"""Every page at full size: 5,000 nodes, 40,000 GPUs, 500 queues, 12,000 jobs that wait."""

import re
from dataclasses import replace
from pathlib import Path

import pytest
from playwright.async_api import Page, expect
from tests.support import company, large_cluster
from tests.support.browser import PHONE, browsing
from tests.support.site import Site, served_site

from muster.web.board import difference

pytestmark = pytest.mark.browser

_ELEMENTS_MAX = 25_000
_PAGES = {
    "overview": "39,600 of 40,000 GPUs used",
    "queues": "team-19",
    "jobs": "200 of 21,900; narrow it, or go on",
    "jobs?state=waiting&queue=team-03": "200 of 600",
    "jobs?by=shapes": "12,000",
    "cluster": "free closed",
    "cluster?as=list": "1,000 of 5,000 nodes shown: choose a rack",
    "cluster?as=list&rack=r007": "node-0299",
    "node/node-4999": "node-4999",
    "queue/q007": "25 wait",
    "job/default/wait-7": "wait-7",
    "evictions": "500 shown: take a shorter time",
    "usage": "200 of 480; take CSV for all of them",
    "plan": "q479",
}


async def _is_wider(page: Page) -> bool:
    return bool(await page.evaluate("document.documentElement.scrollWidth > innerWidth"))


def _shown(site: Site, gone: int = 0) -> None:
    site.cycle += 1
    moment = replace(large_cluster.moment(gone), cycle=site.cycle, made={})
    site.board.show(moment, difference(site.board.moment, moment))


@pytest.mark.parametrize("size", [(1440, 900), PHONE], ids=["desktop", "phone"])
async def test_every_page_shows_a_large_cluster_and_what_it_leaves_out(
    size: tuple[int, int], tmp_path: Path
) -> None:
    async with (
        served_site(tmp_path, write_past=large_cluster.write_past) as site,
        browsing(size) as page,
    ):
        _shown(site)
        await page.clock.set_fixed_time(company.NOW_S)
        for name, says in _PAGES.items():
            await page.goto(site.address(name))
            await expect(page.locator("main")).to_contain_text(says)
            assert not await _is_wider(page), f"{name} is wider than the screen"
            elements = await page.evaluate("document.querySelectorAll('*').length")
            assert elements < _ELEMENTS_MAX, name


async def test_a_file_of_usage_has_the_lines_that_the_page_leaves_out(tmp_path: Path) -> None:
    async with (
        served_site(tmp_path, write_past=large_cluster.write_past) as site,
        browsing() as page,
    ):
        _shown(site)
        await page.clock.set_fixed_time(company.NOW_S)
        await page.goto(site.address("usage?by=job"))
        await expect(page.locator("main")).to_contain_text("200 of 1,440")
        async with page.expect_download() as saved:
            await page.get_by_role("button", name="CSV").click()
        lines = (await (await saved.value).path()).read_text().splitlines()
        assert len(lines) == 1 + 1440


async def test_every_page_follows_a_large_cluster_as_it_changes(tmp_path: Path) -> None:
    follows = {
        "overview": ("39,600 of 40,000 GPUs used", "39,200 of 40,000 GPUs used"),
        "queues": ("team-00.*7,920", "team-00.*7,840"),
        "jobs": ("of 21,900", "of 21,800"),
        "node/node-0000": ("8 of 8 GPUs used", "0 of 8 GPUs used"),
        "queue/q000": ("332 GPUs used", "328 GPUs used"),
    }
    async with served_site() as site, browsing((1440, 900)) as page:
        for name, (before, after) in follows.items():
            _shown(site)
            await page.goto(site.address(name))
            main = page.locator("main")
            await expect(main).to_contain_text(re.compile(before, re.DOTALL))
            _shown(site, gone=100)
            await expect(main).to_contain_text(re.compile(after, re.DOTALL))


async def test_the_whole_map_fits_one_screen_and_is_followed_in_place() -> None:
    async with served_site() as site, browsing((1440, 900)) as page:
        _shown(site)
        await page.goto(site.address("cluster"))
        canvas = page.locator("canvas")
        await expect(canvas).to_have_attribute("aria-label", re.compile("5,000 nodes, 39,600 held"))
        box = await canvas.bounding_box()
        assert box is not None
        assert box["y"] + box["height"] <= 900
        assert await page.evaluate("document.querySelectorAll('*').length") < 8_000
        _shown(site, gone=100)
        await expect(canvas).to_have_attribute("aria-label", re.compile("39,200 held"))
