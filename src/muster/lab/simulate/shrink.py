"""A shorter story in which the same invariant does not hold."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import msgspec

from muster.lab.simulate.story import AnyStep, Freeze, Kill, Story, Strike, Submit
from muster.services.scheduler.options import BindRequests

Breaks = Callable[[Story], bool]


def shrunk(story: Story, breaks: Breaks, tries_max: int = 150) -> Story:
    """Leave out what does not matter: halves of the steps, then ever smaller parts, then details.

    `breaks` tells a story and says whether it ends as this one did.
    """
    tries = _Tries(breaks, tries_max)
    while True:
        shorter = _with_fewer_steps(story, tries)
        for simpler in _simpler(shorter):
            if tries.still_break(candidate := simpler(shorter)):
                shorter = candidate
        if shorter == story or tries.are_used_up:
            return shorter
        story = shorter


class _Tries:
    """Counts how often a story was told."""

    def __init__(self, breaks: Breaks, most: int) -> None:
        self._breaks = breaks
        self._left = most
        self._known: dict[bytes, bool] = {}

    @property
    def are_used_up(self) -> bool:
        return self._left <= 0

    def still_break(self, story: Story) -> bool:
        told = msgspec.json.encode(story)
        if told not in self._known:
            if self.are_used_up:
                return False
            self._left -= 1
            self._known[told] = self._breaks(story)
        return self._known[told]


def _with_fewer_steps(story: Story, tries: _Tries) -> Story:
    size = max(len(story.steps) // 2, 1)
    while True:
        at = 0
        while at < len(story.steps):
            fewer = msgspec.structs.replace(
                story, steps=[*story.steps[:at], *story.steps[at + size :]]
            )
            if tries.still_break(fewer):
                story = fewer
            else:
                at += size
        if size == 1:
            return story
        size //= 2


Change = Callable[[Story], Story]


def _simpler(story: Story) -> Iterator[Change]:
    """Changes that make a story easier to read."""
    yield lambda one: msgspec.structs.replace(one, skews_s={})
    yield lambda one: msgspec.structs.replace(one, bind_requests=BindRequests.ALWAYS)
    for name in [group.name for group in story.nodes]:
        yield lambda one, name=name: msgspec.structs.replace(  # type: ignore[misc]
            one, nodes=[group for group in one.nodes if group.name != name]
        )
    for name in [queue.name for queue in story.queues]:
        yield lambda one, name=name: msgspec.structs.replace(  # type: ignore[misc]
            one, queues=[queue for queue in one.queues if queue.name != name]
        )
    for place, step in enumerate(story.steps):
        for change in _plainer(step):
            yield lambda one, place=place, change=change: msgspec.structs.replace(  # type: ignore[misc]
                one, steps=_changed(one.steps, place, change)
            )


def _changed(steps: Sequence[AnyStep], place: int, change: dict[str, Any]) -> Sequence[AnyStep]:
    if place >= len(steps):
        return steps
    return [*steps[:place], msgspec.structs.replace(steps[place], **change), *steps[place + 1 :]]


def _plainer(step: AnyStep) -> Iterator[dict[str, Any]]:
    match step:
        case Submit():
            plain: dict[str, Any] = {"priority": "", "preemptibility": "", "volume": ""}
            plain |= {"rack": False, "runs_s": 0.0, "asks": "gpu:1", "minimum": 0}
            for name, value in plain.items():
                if getattr(step, name) != value:
                    yield {name: value}
            if step.pods > 2:
                yield {"pods": 2}
        case Strike():
            if step.times > 1:
                yield {"times": 1}
            if step.skip:
                yield {"skip": 0}
        case Kill() | Freeze():
            if step.after:
                yield {"after": 0}
