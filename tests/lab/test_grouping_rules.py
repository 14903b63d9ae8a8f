"""A custom kind, grouped by a rule in a ConfigMap, as in the guide."""

import re
from dataclasses import replace
from pathlib import Path

import yaml
from tests.support.apply import any_shape, apply, apply_one, owner_of
from tests.support.lab import CONFIG_MAP, POD, POD_GROUP, Lab, Setting, in_lab, pod_body

from muster.api.meta import Key
from muster.api.names import DEFAULT
from muster.client.kinds import Plain
from muster.lab.install import Installation
from muster.services.podgrouper import roles as podgrouper_roles
from muster.services.podgrouper import wiring as podgrouper

_GUIDE = Path(__file__).resolve().parents[2] / "docs" / "guides" / "group-your-own-kind.md"
_MAP = Key("kai-scheduler", "grouping-rules")


def test_the_rule_of_the_guide_makes_gangs_of_a_custom_kind() -> None:
    rule, rights, workload = re.findall(r"```yaml\n(.*?)```", _GUIDE.read_text(), re.DOTALL)

    async def scenario(lab: Lab) -> None:
        await apply_one(lab, any_shape("example.com/v1", "TrainingRun"))
        await apply(lab, rights)
        (run,) = await apply(lab, workload)
        await _start_pods(lab, run, workers=2)
        # Without the rule nothing holds them back.
        await lab.until_running("bert", 3)
        for pod in await lab.all(POD, "default"):
            await lab.cluster.writer.delete(POD, Key("default", pod["metadata"]["name"]))

        async def gone() -> bool:
            return not await lab.all(POD, "default")

        await lab.until(gone)
        await apply(lab, rule)
        await _start_pods(lab, run, workers=2)
        await lab.clock.sleep(30.0)
        assert await lab.running("bert") == {}
        await lab.create(POD, _pod(run, "bert-worker-2", "worker"))
        await lab.until_running("bert", 4)
        (group,) = await lab.all(POD_GROUP)
        assert group["spec"]["minSubGroup"] == 2
        assert [part["minMember"] for part in group["spec"]["subGroups"]] == [1, 3]

    in_lab(scenario)


def test_a_pod_whose_owner_may_not_be_read_is_told_which_queue_pays_for_it() -> None:
    _, _, workload = re.findall(r"```yaml\n(.*?)```", _GUIDE.read_text(), re.DOTALL)

    async def scenario(lab: Lab) -> None:
        await apply_one(lab, any_shape("example.com/v1", "TrainingRun"))
        (run,) = await apply(lab, workload)
        pod = _pod(run, "bert-leader", "leader")
        pod["metadata"]["labels"].pop("kai.scheduler/queue")
        await lab.create(POD, pod)
        await lab.laptop.settled()
        (said,) = await lab.messages("PodGrouperWarning", "bert-leader")
        assert said.startswith(
            "it is charged to queue default-queue: the pod grouper may not read TrainingRun bert"
        )

    in_lab(scenario)


def test_a_bad_rule_is_an_event_on_the_config_map_and_the_other_rules_apply() -> None:
    async def scenario(lab: Lab) -> None:
        await apply_one(lab, any_shape("example.com/v1", "TrainingRun"))
        rule, rights, workload = re.findall(r"```yaml\n(.*?)```", _GUIDE.read_text(), re.DOTALL)
        await apply(lab, rights)
        thing = yaml.safe_load(rule)
        bad = "  - {kind: Other, minMember: many}\n"
        thing["data"]["rules.yaml"] += bad
        await apply_one(lab, thing)
        (run,) = await apply(lab, workload)
        await _start_pods(lab, run, workers=3)
        await lab.until_running("bert", 4)
        (message,) = await lab.messages("BadGroupingRule")
        assert message.startswith(
            "rules.yaml: rules[1].minMember: 'many' is of no known form (write a n"
        )
        # A changed rule reaches the pods that are there.
        mended = thing["data"]["rules.yaml"].replace(bad, "").replace("workers\n", "helpers\n")
        await lab.cluster.writer.patch(CONFIG_MAP, _MAP, {"data": {"rules.yaml": mended}})

        async def renamed() -> bool:
            (group,) = await lab.all(POD_GROUP)
            return bool(group["spec"]["subGroups"][1]["name"] == "helpers")

        await lab.until(renamed)

    in_lab(scenario)


def test_rules_are_read_from_the_configured_config_map() -> None:
    rule, rights, workload = re.findall(r"```yaml\n(.*?)```", _GUIDE.read_text(), re.DOTALL)

    async def scenario(lab: Lab) -> None:
        config = podgrouper.PodGrouperServiceConfig(
            rules_config_map="mine", rules_namespace="default"
        )
        service = next(one for one in Installation().services if one.name == "podgrouper")
        build = lambda supervisor: podgrouper.build(supervisor, config)  # noqa: E731
        may_read = podgrouper_roles.rights(DEFAULT, [Key("default", "mine")])
        await lab.cluster.start(replace(service, build=build, rights=may_read))
        await apply_one(lab, any_shape("example.com/v1", "TrainingRun"))
        await apply(lab, rights)
        thing = yaml.safe_load(rule)
        thing["metadata"] = {"name": "mine", "namespace": "default"}
        await apply_one(lab, thing)
        (run,) = await apply(lab, workload)
        await _start_pods(lab, run, workers=3)
        await lab.until_running("bert", 4)
        (group,) = await lab.all(POD_GROUP)
        assert [part["name"] for part in group["spec"]["subGroups"]] == ["leader", "workers"]

    in_lab(scenario, Setting(without=("podgrouper",)))


async def _start_pods(lab: Lab, run: Plain, workers: int) -> None:
    await lab.create(POD, _pod(run, "bert-leader", "leader"))
    for number in range(workers):
        await lab.create(POD, _pod(run, f"bert-worker-{number}", "worker"))


def _pod(run: Plain, name: str, role: str) -> Plain:
    body = pod_body(name, gpus=1, labels={"example.com/role": role})
    body["metadata"]["ownerReferences"] = [owner_of(run)]
    return body
