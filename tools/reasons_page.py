"""Write docs/reference/reasons.md: every public reason, and what a job says in the scenario for it.

`python tools/reasons_page.py` writes it; a test fails when it is stale. The sentences are not
written here: each is what the engine says of the job `waits` in the scenario that bears the code's
name.
"""

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "src"))

from muster.model.public_reasons import PublicReason, public_reason  # noqa: E402
from muster.model.reason_codes import CODE_OF, CODES, EVICT_TIER, Category, Code  # noqa: E402
from muster.model.reasons import Reason, Refusal  # noqa: E402
from muster.testing.run_scenario import decide  # noqa: E402
from muster.testing.scenario import read_scenario  # noqa: E402

PAGE = ROOT / "docs" / "reference" / "reasons.md"
SCENARIOS = ROOT / "tests" / "scenarios" / "reasons"

ELSEWHERE: dict[Code, tuple[str, Refusal]] = {
    Code.UNSUPPORTED: ("tests/unit/engine/plugins/test_predicates.py", Refusal(Reason.LEGACY_MIG)),
    Code.PLUGIN_FAILED: (
        "tests/unit/engine/test_plugin_guard.py",
        Refusal(Reason.PLUGIN_FAILED, subject="quota-of-ours (fits: KeyError: 'team')"),
    ),
    Code.REFUSED_BY_PLUGIN: (
        "tests/unit/engine/test_plugin_guard.py",
        Refusal(Reason.REFUSED_BY_PLUGIN, subject="quota-of-ours"),
    ),
    Code.HELD_FOR_OTHERS: (
        "tests/unit/engine/test_public_reasons.py",
        Refusal(Reason.ROOM_HELD, names=("team/owed",)),
    ),
    Code.BINDING: ("tests/unit/web/test_views.py", Refusal(Reason.BINDS)),
}
"""Codes that no page of YAML can bring about: where they are shown, and what is said."""

_HEAD = """# Reasons

Why a job waits, as one word: the closed list, made from `src/muster/model/reason_codes.py` by
`make docs`. The word is in the column Waiting of `kubectl get podgroups`, in
`status.schedulingConditions[].reasons[0].code` of the PodGroup, and in the texts of its conditions
and events, with the sentence and the next step. Codes are never renamed; new ones may be added.

The quoted sentences are what the job `waits` says in the scenario of the same name
(`tests/scenarios/reasons`), word for word.

| category | means |
|---|---|
| broken | somebody must mend an object |
| never | not on this cluster, even if it were empty |
| policy | a rule says not now |
| now | there is no room now |
| soon | decided, and on its way |

**Which one dominates.** A job may have several reasons; the one of the lowest tier is shown first,
then the one that concerns most of what is missing, then the order of this page. About nodes: where
some node could run the pod but for the room, the reason is what those nodes lack, however many
others do not match at all; where none could, it is the requirement without which most nodes would
pass. Reasons of the last tier only say why nobody makes way; they follow the others. A search that
was not made, or was cut short, counts among them too.

**What is written.** A condition is written at once when its code or its subject changes. Where only
its numbers do, or the reasons behind the first, it is written when it has been outdated for five
minutes, and without an event; likewise where codes follow each other as others start and end
(NoRoom, Fragmented, TopologyFull, BehindOthers, NotLookedAt). With very many jobs that wait this
may take longer: twenty are written anew after each cycle, the longest outdated first.
"""


def said_in_scenario(code: Code) -> PublicReason:
    """The dominant reason of the job `waits` in the scenario of the code."""
    scenario = read_scenario(SCENARIOS / f"{code}.yaml")
    result = decide(scenario, scenario.records)
    why = result.explanation.why("default/waits")
    assert why is not None, f"{code}.yaml: nothing is said of the job"
    return why.dominant


def page() -> str:
    tiers = [_tier(tier) for tier in range(1, EVICT_TIER + 1)]
    return "\n".join([_HEAD, *tiers, _internal()]).rstrip() + "\n"


def _tier(tier: int) -> str:
    title = "Why nobody makes way" if tier == EVICT_TIER else f"Tier {tier}"
    lines = [f"## {title}", ""]
    for code, meaning in CODES.items():
        if meaning.tier == tier:
            lines += [f"### {code}", "", f"*{meaning.category}.* {meaning.cause}", ""]
            lines += [f"> {_sentence(code)}", "", f"{meaning.next_step} ({_where(code)})", ""]
    return "\n".join(lines)


def _sentence(code: Code) -> str:
    if code in ELSEWHERE:
        return public_reason(ELSEWHERE[code][1]).sentence
    return said_in_scenario(code).sentence


def _where(code: Code) -> str:
    return f"`{ELSEWHERE[code][0]}`" if code in ELSEWHERE else f"scenario `{code}`"


def _internal() -> str:
    """What the engine tells apart, and under which code it is shown."""
    lines = ["## What stands behind a code", "", "| of the engine | code |", "|---|---|"]
    by_code = sorted(CODE_OF.items(), key=lambda pair: (list(CODES).index(pair[1]), pair[0]))
    lines += [f"| {reason.name.lower()} | {code} |" for reason, code in by_code]
    lines += [
        "",
        "Numbers decide where they tell never from not now: `no_node` is TooLarge, NoMatchingNode, "
        "BehindOthers or Fragmented",
        "where they say so, `topology_full` TopologyTooSmall, `over_limit` and `over_quota` "
        "AboveLimit.",
    ]
    return "\n".join(lines)


def main() -> None:
    assert set(Category) == {code.category for code in Code}
    PAGE.write_text(page())


if __name__ == "__main__":
    main()
