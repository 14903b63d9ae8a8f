"""Spans to a collector that speaks OTLP, by the SDK of OpenTelemetry.

Sent from a thread of its own, some at a time; what a collector does not take is lost, and whoever
is traced never waits for it.
"""

from typing import Any, Final

from muster.base.spans import Span

_NANO: Final = 1_000_000_000


class NoTracing(Exception):
    """Traces are asked for, and cannot be made."""


class OtlpSpans:
    """Collects spans in the name of one service."""

    def __init__(self, endpoint: str, service: str, exporter: Any = None) -> None:
        """`endpoint` is the collector's, such as http://collector:4318; `exporter` another way to
        send them."""
        try:
            from opentelemetry import trace
            from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
            from opentelemetry.sdk.resources import Resource
            from opentelemetry.sdk.trace import TracerProvider
            from opentelemetry.sdk.trace.export import BatchSpanProcessor
        except ImportError:
            wanted = "install kubemuster[tracing], or leave --otlp-endpoint out"
            raise NoTracing(f"OpenTelemetry is not installed: {wanted}") from None
        if not endpoint.startswith(("http://", "https://")):
            raise NoTracing(f"--otlp-endpoint {endpoint!r}: write http://host:4318")
        self._provider = TracerProvider(resource=Resource({"service.name": f"muster-{service}"}))
        sends = exporter or OTLPSpanExporter(endpoint=f"{endpoint.rstrip('/')}/v1/traces")
        self._provider.add_span_processor(BatchSpanProcessor(sends))
        self._tracer = self._provider.get_tracer("muster")
        self._parent = trace.set_span_in_context

    def __call__(self, span: Span) -> None:
        self._tell(span, None)

    def close(self) -> None:
        """Send what has not been sent, for at most a few seconds."""
        self._provider.shutdown()

    def _tell(self, span: Span, parent: Any) -> None:
        context = None if parent is None else self._parent(parent)
        told = self._tracer.start_span(
            span.name,
            context=context,
            attributes=dict(span.attributes),
            start_time=int(span.start_s * _NANO),
        )
        for part in span.within:
            self._tell(part, told)
        told.end(end_time=int(span.end_s * _NANO))
