"""GPUs of made-up nodes: every reservation pod gets a device of its own."""

from tests.support.lab import POD, Lab, in_lab


def test_shares_that_start_together_never_get_one_device_twice() -> None:
    async def scenario(lab: Lab) -> None:
        for number in range(6):
            await lab.pod(f"share-{number}", annotations={"gpu-fraction": "0.9"})
        await lab.until_running("share", 6)
        pods = await lab.all(POD, "kai-resource-reservation")
        devices = [pod["metadata"]["annotations"]["run.ai/reserve_for_gpu_index"] for pod in pods]
        assert len(set(devices)) == len(devices) == 6

    in_lab(scenario)
