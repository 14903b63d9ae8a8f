"""Each service as a command: its flags, its errors, that it starts and stops."""

import asyncio
import gc
import os
import signal
import subprocess
import sys
import urllib.error
import urllib.request
import weakref
from collections.abc import Callable
from inspect import signature
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from muster.api.meta import Key
from muster.base.clock import VirtualClock
from muster.base.log import Log
from muster.cli import service_command, serving
from muster.cli.main import app
from muster.cli.pages import address
from muster.cli.service_command import Service
from muster.cli.services import SERVICES
from muster.cli.serving import Process
from muster.client.election import LeadershipLost
from muster.client.kubeconfig import AccessSource
from muster.client.live_access import LOOK_EVERY_S
from muster.lab.programs import free_ports
from muster.runtime.supervisor import Supervisor
from muster.services.binder import wiring as binder_wiring
from muster.services.binder.settings import BinderSettings
from muster.services.queues.meters import LabelRule

_HAMI_ALONE = '{"hamicore": {"enabled": true}, "gpusharing": {"enabled": false}}'
_NO_TIME = '{"volumebinding": {"arguments": {"bindTimeoutSeconds": "soon"}}}'
_BY_NAME = {service.name: service for service in SERVICES}
NAMES = list(_BY_NAME)
_FLAGS = [
    pytest.param(service, key, id=f"{service.name} {flag.name}")
    for service in SERVICES
    for key, flag in service.flags.items()
]
_WRITTEN = {
    "usage_retention_s": "7d",
    "schedule_period_s": "7s",
    "staleness_grace_s": "7s",
    "stuck_after_s": "7s",
    "read_s": "7s",
    "metrics_auth": "none",
    "bind_requests": "always",
    "profile": "volcano",
    "debug_auth": "token",
    "max_consolidation_victims": "-1",
    "reservation_resources": '{"limits": {}}',
    "reservation_pod_security": '{"runAsNonRoot": true}',
    "reservation_container_security": '{"runAsNonRoot": true}',
    "plugins": '{"hamicore": {"enabled": true}}',
    "pod_labels": "team=a",
    "namespace_labels": "team=a",
    "metric_labels": "team=b",
    "metric_defaults": "team=nobody",
    "gpu_memory_ratio": "0.5",
    "conf_map": "team/conf",
    "namespaces_are_queues": "true",
    "decisions_s": "30d",
    "inputs_s": "2h",
    "unknown_parent": "warn",
    "unknown_queue": "refuse",
    "defaults_name": "mine",
    "defaults_namespace": "team",
}
"""What to write after flags that do not take just any number or text."""
_TOGETHER = {
    "metric_defaults": ["--queue-label-to-metric-label", "team=team"],
    "defaults_name": ["--default-priorities-configmap-namespace", "team"],
    "defaults_namespace": ["--default-priorities-configmap-name", "mine"],
    "namespace": ["--leader-elect"],
}
"""Flags that say something only beside others."""


@pytest.mark.parametrize("name", NAMES)
def test_every_service_has_help_with_the_kubeconfig_flag(name: str) -> None:
    result = CliRunner().invoke(app, [name, "--help"])
    assert result.exit_code == 0
    assert "--kubeconfig" in result.output


@pytest.mark.parametrize("name", [name for name in NAMES if name != "admission"])
def test_a_missing_kubeconfig_is_an_error_that_names_the_path(name: str, tmp_path: Path) -> None:
    environment = {"POD_NAME": "p", "POD_NAMESPACE": "n"}
    missing = str(tmp_path / "none")
    result = CliRunner().invoke(app, [name, "--kubeconfig", missing], env=environment)
    assert result.exit_code == 1
    assert missing in result.output
    assert "Traceback" not in result.output


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["scheduler", "--schedule-period", "soon"], "--schedule-period"),
        (["scheduler", "--bind-requests", "never"], "write needed or always"),
        (["scheduler", "--scheduler-conf-map", "conf"], "write NAMESPACE/NAME"),
        (
            ["scheduler", "--scheduler-conf-map", "a/b", "--scheduler-conf", "c"],
            "leave out the other",
        ),
        (["scheduler", "--enable-namespace-as-queue", "maybe"], "write true or false"),
        (["pod-grouper", "--pod-label-selector", "a"], "--pod-label-selector"),
        (["admission"], "--tls-cert-file"),
        (["binder", "--plugins", "[]"], "--plugins"),
        (["binder", "--plugins", '{"mine": {}}'], "no plugin 'mine'"),
        (["binder", "--plugins", '{"gpusharing": {"arguments": {"a": "b"}}}'], "arguments.a"),
        (["binder", "--plugins", _HAMI_ALONE], "needs gpusharing"),
        (["binder", "--plugins", _NO_TIME], "bindTimeoutSeconds"),
        (["binder", "--resource-reservation-pod-resources", "1"], "pod-resources"),
        (["admission", "--unknown-parent-queue", "maybe"], "--unknown-parent-queue"),
        (["queue-controller", "--queue-label-to-metric-label", "team"], "--queue-label-to-metric"),
        (["node-scale-adjuster", "--gpu-memory-to-fraction-ratio", "much"], "--gpu-memory-to-frac"),
        (["node-scale-adjuster", "--gpu-memory-to-fraction-ratio", "0"], "--gpu-memory-to-frac"),
        (["scheduler", "--scheduler-conf", "/none/such"], "/none/such"),
        (["queue-controller", "--metrics-auth", "maybe"], "write kubernetes, token, none"),
        (["queue-controller", "--debug-auth", "none"], "debug pages are not for everybody"),
        (["queue-controller", "--debug-auth", "token"], "--auth-token-file"),
        (["queue-controller", "--metrics-cert-file", "/none/such"], "one is not enough"),
    ],
)
def test_a_bad_flag_is_an_error_that_names_the_flag(
    arguments: list[str], said: str, tmp_path: Path
) -> None:
    config = tmp_path / "kubeconfig"
    config.write_text(_KUBECONFIG)
    result = CliRunner().invoke(app, [*arguments, "--kubeconfig", str(config)])
    assert result.exit_code != 0
    assert said in result.output.replace("\n", "").replace("│", "")
    assert "Traceback" not in result.output


@pytest.mark.parametrize(("service", "key"), _FLAGS)
def test_no_flag_is_accepted_and_then_ignored(
    service: Service, key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("muster.cli.services.certificate_files", lambda *files: files)
    monkeypatch.setenv("POD_NAME", "p")
    monkeypatch.setenv("POD_NAMESPACE", "n")
    beside = _TOGETHER.get(key, ())
    plainly = _started(monkeypatch, service, *beside)
    assert _started(monkeypatch, service, *beside, *_other(service, key)) != plainly


def _started(monkeypatch: pytest.MonkeyPatch, service: Service, *flags: str) -> list[Any]:
    """As which process a service would run, and what it would be built with."""
    seen: list[Any] = []

    def serve(process: Process, build: Callable[[None], object]) -> None:
        seen.append(process)
        build(None)

    monkeypatch.setattr(service_command, "serve", serve)
    monkeypatch.setattr(service.wiring, "build", lambda supervisor, config: seen.append(config))
    result = CliRunner().invoke(app, [service.name, *flags])
    assert result.exit_code == 0, result.output
    return seen


def _other(service: Service, key: str) -> list[str]:
    """The flag with something else than its default."""
    flag = service.flags[key].name
    default = signature(service.command()).parameters[key].default
    if isinstance(default, bool):
        return [flag.replace("--", "--no-") if default else flag]
    return [flag, _WRITTEN.get(key, "7" if isinstance(default, int | float) else "another")]


@pytest.mark.parametrize(
    ("text", "host", "port"),
    [(":8080", "0.0.0.0", 8080), ("127.0.0.1:1", "127.0.0.1", 1), ("[::1]:80", "::1", 80)],
)
def test_an_address_is_a_host_and_a_port(text: str, host: str, port: int) -> None:
    assert address(text) == (host, port)


def test_flags_set_the_config_map_of_grouping_rules(monkeypatch: pytest.MonkeyPatch) -> None:
    def rules_at(*arguments: str) -> tuple[str, str]:
        _, config = _started(monkeypatch, _BY_NAME["pod-grouper"], *arguments)
        return config.rules_namespace or config.names.namespace, config.rules_config_map

    assert rules_at() == ("kai-scheduler", "grouping-rules")
    name, namespace = "--grouping-rules-configmap-name", "--grouping-rules-configmap-namespace"
    assert rules_at(name, "mine", namespace, "team") == ("team", "mine")
    assert rules_at("--namespace", "elsewhere", name, "")[1] == "", "no rules at all"


def test_flags_map_queue_labels_to_metric_labels(monkeypatch: pytest.MonkeyPatch) -> None:
    flags = ["--queue-label-to-metric-label", "example.com/team=team,b=b"]
    flags += ["--queue-label-to-default-metric-value", "example.com/team=nobody"]
    _, config = _started(monkeypatch, _BY_NAME["queue-controller"], *flags)
    assert list(config.label_rules) == [
        LabelRule("b", "b"),
        LabelRule("example.com/team", "team", "nobody"),
    ]


def test_the_plugins_flag_enables_and_configures_binder_plugins(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def settings(plugins: str, *more: str) -> BinderSettings:
        flags = ["--plugins", plugins, *more]
        _, config = _started(monkeypatch, _BY_NAME["binder"], *flags)
        found: BinderSettings = config.settings
        return found

    plain = settings("")
    assert not plain.hami_core
    assert (plain.bind_timeout_s, plain.uses_cdi) == (120.0, False)
    assert settings('{"hamicore": {"enabled": true}}').hami_core
    assert not settings('{"hamicore": {"priority": 40}}').hami_core
    assert settings('{"gpusharing": {"arguments": {"cdiEnabled": "true"}}}').uses_cdi
    patient = settings('{"volumebinding": {"arguments": {"bindTimeoutSeconds": "300"}}}')
    assert patient.bind_timeout_s == 300.0
    off = settings('{"dynamicresources": {"enabled": false}}')
    steps = [type(step).__name__ for step in binder_wiring.preparations(off)]
    assert steps == ["BindVolumes", "ReserveGpu", "ShareGpu"]
    flag = "--resource-reservation-pod-security-context"
    secured = settings("", flag, '{"runAsNonRoot": true}')
    assert secured.reservation_pod_security == {"runAsNonRoot": True}


def test_resource_reservation_outside_a_pod_is_an_error() -> None:
    result = CliRunner().invoke(app, ["resource-reservation"], env={"POD_NAME": ""})
    assert result.exit_code == 1
    assert "POD_NAMESPACE" in result.output


@pytest.mark.slow
@pytest.mark.processes
def test_a_service_runs_against_a_cluster_and_stops_on_a_signal(tmp_path: Path) -> None:
    muster = str(Path(sys.executable).with_name("muster"))
    config = tmp_path / "kubeconfig"
    up = [muster, "up", "--nodes", "1", "--stay", "--no-story", "--kubeconfig", str(config)]
    (port,) = free_ports(1)
    listen = f"127.0.0.1:{port}"
    command = [muster, "queue-controller", "--kubeconfig", str(config)]
    with subprocess.Popen(up, stdout=subprocess.PIPE, text=True) as cluster:
        try:
            assert cluster.stdout is not None
            assert "is up at" in cluster.stdout.readline()
            with subprocess.Popen(
                [*command, "--metrics-listen-address", listen],
                stderr=subprocess.PIPE,
                text=True,
                env=os.environ,
            ) as service:
                assert service.stderr is not None
                while "started" not in service.stderr.readline():
                    assert service.poll() is None
                with urllib.request.urlopen(f"http://{listen}/readyz") as answer:
                    assert answer.status == 200
                with urllib.request.urlopen(f"http://{listen}/metrics") as answer:
                    assert b"kai_queue_info" in answer.read()
                through_a_proxy = {"x-forwarded-for": "10.1.2.3"}
                request = urllib.request.Request(f"http://{listen}/metrics", None, through_a_proxy)
                with pytest.raises(urllib.error.HTTPError, match="401"):
                    urllib.request.urlopen(request)
                service.send_signal(signal.SIGTERM)
                assert service.wait(timeout=30) == 0
        finally:
            cluster.send_signal(signal.SIGINT)
            cluster.wait(timeout=30)


_KUBECONFIG = """
apiVersion: v1
kind: Config
current-context: c
clusters: [{name: c, cluster: {server: "https://127.0.0.1:1"}}]
users: [{name: u, user: {token: t}}]
contexts: [{name: c, context: {cluster: c, user: u}}]
"""


def test_a_service_that_loses_its_lease_begins_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    ends: list[Exception] = [LeadershipLost("lease a/b: another leads"), LeadershipLost("again")]
    begun = []

    async def once(process: Process, build: Callable[[Supervisor], object], log: Log) -> None:
        begun.append(process.name)
        if ends:
            raise ends.pop()

    monkeypatch.setattr(serving, "_serve", once)
    serving.serve(Process("binder"), lambda _: None)
    assert begun == ["binder"] * 3


class _Copies:
    """What a service knows: parts that know each other."""

    def __init__(self) -> None:
        self.of_each_other = [self]


def test_a_service_that_begins_anew_holds_nothing_of_what_it_knew(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Else a scheduler of a large cluster would double with each lease that it loses."""
    known: list[weakref.ref[_Copies]] = []
    held = list[bool]()

    async def once(process: Process, build: Callable[[Supervisor], object], log: Log) -> None:
        held.append(any(copies() is not None for copies in known))
        copies = _Copies()
        known.append(weakref.ref(copies))
        settling = asyncio.create_task(serving._settle())
        await asyncio.sleep(0)
        settling.cancel()
        if len(known) < 3:
            raise LeadershipLost("lease a/b: another leads")

    before = gc.get_threshold()
    monkeypatch.setattr(serving, "_serve", once)
    try:
        serving.serve(Process("binder"), lambda _: None)
    finally:
        gc.unfreeze()
    assert held == [False, False, False]
    assert gc.get_threshold() == before


class _Begun(Exception):
    """As far as a test needs a service."""


def test_a_service_takes_over_a_kubeconfig_that_changes_while_it_runs(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    shown: list[AccessSource] = []
    clock = VirtualClock()

    def begin(access: AccessSource, _: object) -> None:
        shown.append(access)
        raise _Begun

    monkeypatch.setattr(serving, "SystemClock", lambda: clock)
    monkeypatch.setattr(serving, "HttpsTransport", begin)
    path = tmp_path / "config"
    path.write_text(_KUBECONFIG)
    with pytest.raises(_Begun):
        serving.serve(Process("binder", kubeconfig=path), lambda _: None)
    (access,) = shown
    assert access.current().server == "https://127.0.0.1:1"
    path.write_text(_KUBECONFIG.replace("127.0.0.1:1", "127.0.0.1:22"))
    clock.advance(LOOK_EVERY_S)
    assert access.current().server == "https://127.0.0.1:22"


def test_every_service_has_a_port_of_its_own_where_it_is_not_told() -> None:
    serving = [service for service in SERVICES if "listen" in service.flags]
    ports = [signature(service.command()).parameters["listen"].default for service in serving]
    assert len(ports) > 5
    assert len(set(ports)) == len(ports)


@pytest.mark.row(37)
@pytest.mark.parametrize(
    ("profile", "written", "file", "conf_map"),
    [
        ("kube-batch-0.2", "kube-system/conf", None, Key("kube-system", "conf")),
        ("kube-batch", "kube-system/conf", None, Key("kube-system", "conf")),
        ("kube-batch", "there/conf", Path("there/conf"), None),
        ("kube-batch", "a/b/conf", Path("a/b/conf"), None),
        ("volcano", "kube-system/conf", Path("kube-system/conf"), None),
    ],
)
def test_the_conf_of_kube_batch_may_be_a_config_map_where_no_file_has_its_name(
    profile: str,
    written: str,
    file: Path | None,
    conf_map: Key | None,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    (tmp_path / "there").mkdir()
    (tmp_path / "there" / "conf").write_text("")
    monkeypatch.chdir(tmp_path)
    (service,) = (one for one in SERVICES if one.name == "scheduler")
    flags = ["--profile", profile, "--scheduler-conf", written]
    _, config = _started(monkeypatch, service, *flags)
    assert (config.conf_file, config.conf_map) == (file, conf_map)
