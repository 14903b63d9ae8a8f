"""What guides tell people to write is what muster reads."""

import re
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.support.code_names import ROOT

from muster.api.codec import from_builtins
from muster.api.core import Pod
from muster.api.queue import Queue
from muster.api.validation.objects import problems
from muster.engine.config.conf import parse_conf
from muster.engine.registry import build_policy
from muster.model.reason_codes import Code
from muster.model.reason_texts import node_counts, told
from muster.model.reasons import NodeCount, Reason, Refusal
from muster.model.records import GpuKind
from muster.model.requests import request_of
from muster.services.podgrouper.groupers.rule_book import rule_book

_GUIDES = ROOT / "docs" / "guides"


def _blocks(page: Path) -> list[str]:
    found = re.findall(r"^ *```yaml\n(.*?)^ *```", page.read_text(), re.DOTALL | re.MULTILINE)
    return [textwrap.dedent(block) for block in found]


def _configurations() -> Iterator[Any]:
    for page in sorted(_GUIDES.glob("*.md")):
        for block in _blocks(page):
            if {"tiers", "actions"} & set(next(yaml.safe_load_all(block))):
                yield pytest.param(block, id=page.stem)


@pytest.mark.parametrize("text", list(_configurations()))
def test_a_scheduler_configuration_of_a_guide_is_read_to_the_last_key(text: str) -> None:
    whole = text if "actions" in yaml.safe_load(text) else f"actions: allocate\n{text}"
    read = parse_conf(whole)
    build_policy(read)
    assert read.no_effect == ()


def test_at_least_two_guides_show_a_scheduler_configuration() -> None:
    assert len(list(_configurations())) >= 2


def test_the_pod_of_the_guide_about_sharing_asks_for_half_a_gpu() -> None:
    (block,) = _blocks(_GUIDES / "share-a-gpu.md")
    gpu = request_of(from_builtins(Pod, yaml.safe_load(block)))[1]
    assert (gpu.kind, gpu.devices, gpu.portion) == (GpuKind.FRACTION, 1, 500)


def test_the_queues_of_the_guide_about_queues_have_no_problems() -> None:
    (block,) = _blocks(_GUIDES / "queues-and-fairness.md")
    queues = [from_builtins(Queue, body) for body in yaml.safe_load_all(block)]
    assert queues
    assert [str(one) for queue in queues for one in problems(queue)] == []


@pytest.mark.parametrize(
    ("guide", "said"),
    [
        (
            "group-your-own-kind",
            rule_book("rules: [{kind: A, minMember: many}]").problems[0],
        ),
        (
            "limit-disruption",
            told(
                Code.DISRUPTION_BUDGET_SPENT, Refusal(Reason.DISRUPTION_BUDGET, "research")
            ).sentence,
        ),
        ("align-to-numa-zones", node_counts((NodeCount(Reason.NUMA, 2),))),
    ],
)
def test_what_a_guide_says_that_muster_says_is_what_it_says(guide: str, said: str) -> None:
    assert f"{said}`" in (_GUIDES / f"{guide}.md").read_text()
