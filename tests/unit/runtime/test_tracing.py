"""Spans as a collector gets them."""

from typing import Any

import pytest
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from muster.base.spans import Span
from muster.runtime.tracing import NoTracing, OtlpSpans


def _sent(*spans: Span) -> dict[str, Any]:
    exporter = InMemorySpanExporter()
    collect = OtlpSpans("http://collector:4318", "scheduler", exporter)
    for span in spans:
        collect(span)
    collect.close()
    return {one.name: one for one in exporter.get_finished_spans()}


def test_a_span_has_its_times_its_attributes_and_what_it_was_made_of() -> None:
    parts = (Span("snapshot", 10.0, 10.5), Span("decide", 10.5, 12.0, {"jobs": 3}))
    sent = _sent(Span("cycle", 10.0, 12.0, {"cycle": "7"}, parts))
    assert set(sent) == {"cycle", "snapshot", "decide"}
    whole = sent["cycle"]
    assert (whole.start_time, whole.end_time) == (10_000_000_000, 12_000_000_000)
    assert whole.attributes == {"cycle": "7"}
    assert whole.parent is None
    assert {sent[name].parent.span_id for name in ("snapshot", "decide")} == {whole.context.span_id}
    assert whole.resource.attributes["service.name"] == "muster-scheduler"


def test_what_is_told_apart_is_apart() -> None:
    sent = _sent(Span("a", 1.0, 2.0), Span("b", 1.0, 2.0))
    assert sent["a"].context.trace_id != sent["b"].context.trace_id


def test_an_address_that_is_none_is_refused_with_one_that_would_be() -> None:
    with pytest.raises(NoTracing, match="write http://host:4318"):
        OtlpSpans("collector", "scheduler")
