"""What a test run could not run, said by name; never counted as passed.

Some things may be missing on a machine: a kube-apiserver (marker `kube`), that of a certain minor
(marker `minor`), a Prometheus (marker `prometheus`), Helm (marker `helm`), a browser (marker
`browser`) and the reference cases beside the checkout (marker `cases`, or a table of cases that
came out empty). Such tests are deselected, and the summary lists them with the reason, and says how
many tests did run against a real API server.
"""

from collections.abc import Generator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from tests.support.browser import why_no_browser
from tests.support.cases import cases_folder
from tests.support.helm import helm_program
from tests.support.prometheus import why_no_prometheus

from muster.lab.kube_programs import NotHere, kube_programs

_ROOT = Path(__file__).resolve().parents[2]
_KEY = "muster_not_run"


class NotRun:
    """Collects the tests that cannot run here, and counts those that met a real API server."""

    def __init__(self) -> None:
        self.reasons: dict[str, str] = {}
        self.kube_tests: set[str] = set()

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(
        self, config: pytest.Config, items: list[pytest.Item]
    ) -> None:
        missing = [(item, reason) for item in items if (reason := reason_not_to_run(item))]
        if not missing:
            return
        self.reasons.update((item.nodeid, reason) for item, reason in missing)
        left_out = {id(item) for item, _ in missing}
        items[:] = [item for item in items if id(item) not in left_out]
        config.hook.pytest_deselected(items=[item for item, _ in missing])

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        # Keywords of a report also hold folder names; the marker travels as a property.
        report = yield
        if item.get_closest_marker("kube"):
            report.user_properties.append((_KEY, "kube"))
        return report

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "call" and (_KEY, "kube") in map(tuple, report.user_properties):
            self.kube_tests.add(report.nodeid)

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        # A worker of pytest-xdist tells the process that prints the summary.
        worker_output: dict[str, Any] | None = getattr(session.config, "workeroutput", None)
        if worker_output is not None:
            worker_output[_KEY] = self.reasons

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any, error: object) -> None:
        self.reasons.update(getattr(node, "workeroutput", {}).get(_KEY, {}))

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        by_reason: dict[str, list[str]] = {}
        for test, reason in sorted(self.reasons.items()):
            by_reason.setdefault(reason, []).append(test)
        for reason, tests in by_reason.items():
            terminalreporter.section(f"{len(tests)} tests not run: {reason}", sep="-")
            for test in tests:
                terminalreporter.line(f"NOT RUN {test}")
        terminalreporter.line(f"real API server: {len(self.kube_tests)} tests ran against it")


def reason_not_to_run(item: pytest.Item) -> str | None:
    """Why this machine cannot run the test, or None when it can."""
    if item.get_closest_marker("kube") and (reason := _why_no_kube()):
        return reason
    for marker in item.iter_markers("minor"):
        if reason := _why_no_kube(*marker.args):
            return reason
    if item.get_closest_marker("helm") and isinstance(found := helm_program(_ROOT), NotHere):
        return f"{found.reason} (tools/helm/build.sh)"
    if item.get_closest_marker("prometheus") and (reason := why_no_prometheus()):
        return reason
    if item.get_closest_marker("browser") and (reason := why_no_browser()):
        return reason
    for marker in item.iter_markers("cases"):
        folders: Sequence[str] = marker.args
        lacking = [name for name in folders if not (cases_folder() / name).is_dir()]
        if lacking:
            return f"the reference cases {', '.join(lacking)} are not beside this checkout"
    if _has_no_cases(item):
        return "its table of cases is empty: the reference cases are not beside this checkout"
    return None


def _has_no_cases(item: pytest.Item) -> bool:
    return any(
        "empty parameter set" in str(marker.kwargs.get("reason", ""))
        for marker in item.iter_markers("skip")
    )


@cache
def _why_no_kube(minor: str = "") -> str | None:
    found = kube_programs(_ROOT, minor)
    how = f"make kube KUBE={minor}" if minor else "make kube"
    return f"{found.reason} ({how})" if isinstance(found, NotHere) else None
