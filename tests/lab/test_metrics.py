"""What running services really show to Prometheus, held against the page and the alerts."""

from tests.support.lab import Lab, in_lab
from tools import monitoring


def test_the_page_has_every_metric_of_every_running_service() -> None:
    known = {row.name for row in monitoring.metrics()}

    async def scenario(lab: Lab) -> None:
        await lab.pod("plain", gpus=1)
        await lab.until_running("plain", 1)
        shown = {
            f"{family.name}_total" if family.type == "counter" else family.name
            for supervisor in lab.cluster.supervisors.values()
            for family in supervisor.registry.collect()
        }
        assert shown - known == set()

    in_lab(scenario)
