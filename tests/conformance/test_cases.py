"""One suite, two servers: every case holds on both, and both answer alike in every detail."""

import re
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.conformance.normal import differing, normalised
from tests.conformance.play import Answered, Case, Player, cases, mismatches

from muster.client.transport import Transport

CASES = list(cases())
DIFFERENCES = yaml.safe_load((Path(__file__).parent / "differences.yaml").read_text())
each_case = pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)


@each_case
async def test_a_case_holds_on_the_embedded_server(
    case: Case, embedded: Transport, new_name: str
) -> None:
    await _check(case, embedded, new_name)


@pytest.mark.kube
@each_case
async def test_a_case_holds_on_the_real_server(case: Case, real: Transport, new_name: str) -> None:
    await _check(case, real, new_name)


@pytest.mark.kube
@each_case
async def test_both_servers_answer_alike(
    case: Case, embedded: Transport, real: Transport, new_name: str
) -> None:
    ours = await Player(embedded, new_name).play(case)
    theirs = await Player(real, new_name).play(case)
    accepted = [d for d in DIFFERENCES if d.get("case", case.id) == case.id]
    used: set[int] = set()
    found: list[str] = []
    for index, (step, one, other) in enumerate(zip(case.steps, ours, theirs, strict=True)):
        if step.get("compare", True):
            for path, left, right in differing(_plain(one, new_name), _plain(other, new_name)):
                matching = [i for i, d in enumerate(accepted) if re.fullmatch(d["path"], path)]
                used.update(matching)
                if not matching:
                    found.append(f"step {index} {path}: {left!r} here, {right!r} there")
    firm = [i for i, d in enumerate(accepted) if "case" in d and not d.get("sometimes")]
    stale = [accepted[i] for i in firm if i not in used]
    assert not found, "\n".join(found)
    assert not stale, f"these differences are gone, take them off the list: {stale}"


def test_every_accepted_difference_names_a_case_and_a_reason() -> None:
    known = {case.id for case in CASES}
    for difference in DIFFERENCES:
        assert difference.get("case", CASES[0].id) in known, difference
        assert len(difference["why"]) > 20, difference


async def _check(case: Case, transport: Transport, namespace: str) -> None:
    player = Player(transport, namespace)
    answers = await player.play(case)
    found = [
        f"step {index} {step.get('do') or step.get('watch')}: {line}"
        for index, (step, answer) in enumerate(zip(case.steps, answers, strict=True))
        for line in mismatches(step.get("expect") or {}, answer, player.saved)
    ]
    assert not found, "\n".join(found)


def _plain(answer: Answered, namespace: str) -> Any:
    return normalised(asdict(answer), namespace)
