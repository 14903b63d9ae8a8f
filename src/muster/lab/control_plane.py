"""A real Kubernetes control plane on loopback, for tests and benchmarks: ready in seconds.

    with ControlPlane(programs, Setup(users=(User("alice"),))) as plane:
        plane.call("GET", "/api/v1/nodes")       # as the admin
        plane.kubeconfig("alice")                # a file for clients
        plane.kill("kube-apiserver"); plane.start("kube-apiserver")

RBAC, TLS and service-account tokens are on. Everything lives in one temporary folder, listens on
loopback only, and is gone when the block ends, also when this process is killed. `call` is a client
of its own with nothing of ours in it, so that a test can look at the world from outside.
"""

import asyncio
import base64
import json
import secrets
import shutil
import ssl
import subprocess
import tempfile
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from http.client import HTTPException
from pathlib import Path
from typing import Any, Self
from urllib.request import urlopen

from muster.base.clock import SystemClock
from muster.lab import control_plane_flags as flags
from muster.lab.audit import Permission, audit_events, permissions_used
from muster.lab.control_plane_files import (
    ClusterUser,
    write_client_certificate,
    write_keys,
    write_kubeconfig,
    write_tokens,
)
from muster.lab.plain_call import PlainClient, PlainResponse
from muster.lab.programs import Guard, ManagedProgram, ProgramFailed, free_ports
from muster.runtime.certificates import CertificateAuthority, Subject

ADMIN = "admin"
_READY_WITHIN_S = 180.0
_START_ATTEMPTS = 4
_POLL_S = 0.05


@dataclass(frozen=True, slots=True)
class Setup:
    """Which parts run, and how."""

    controller_manager: bool = False
    kwok: bool = False
    scheduler: bool = False
    users: Sequence[ClusterUser] = ()
    feature_gates: Mapping[str, bool] = field(default_factory=dict)
    runtime_config: Mapping[str, str] = field(default_factory=dict)
    audit: bool = False
    # More flags by program, for example {"kube-apiserver": ["--max-requests-inflight=5"]}.
    more_flags: Mapping[str, Sequence[str]] = field(default_factory=dict)


# The gang API of Kubernetes itself (alpha), beside the defaults.
GANG_API = Setup(
    feature_gates={"GenericWorkload": True, "GangScheduling": True},
    runtime_config={"scheduling.k8s.io/v1alpha2": "true"},
)


class ControlPlane:
    """etcd and kube-apiserver, and on request the programs around them."""

    def __init__(self, programs: Path, setup: Setup | None = None) -> None:
        self.setup = setup or Setup()
        self._programs = programs
        self._clock = SystemClock()
        self._users = {user.name: user for user in (_ADMIN_USER, *self.setup.users)}
        self.tokens = {name: secrets.token_hex(16) for name in self._users}
        self._parts: dict[str, ManagedProgram] = {}

    def __enter__(self) -> Self:
        self.folder = Path(tempfile.mkdtemp(prefix="muster-kube-"))
        self._guard = Guard()
        self._guard.watch_folder(self.folder)
        try:
            self._prepare_folder()
            self._start_core()
            for name in self._extra_parts():
                self.add(name)
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return await asyncio.to_thread(self.__enter__)

    async def __aexit__(self, *_: object) -> None:
        await asyncio.to_thread(self.close)

    def close(self) -> None:
        # Nothing in the folder outlives this call, so nothing needs to be written down first.
        for part in reversed(self._parts.values()):
            part.kill()
        shutil.rmtree(self.folder, ignore_errors=True)
        self._guard.close()

    # What clients need.

    @property
    def server(self) -> str:
        return f"https://127.0.0.1:{self._port}"

    @property
    def store(self) -> str:
        """Where etcd answers: for those who look at, or fill, what is behind the API server."""
        return self._etcd_url

    @property
    def certificate_authority_file(self) -> Path:
        return self.folder / "ca.crt"

    def kubeconfig(self, user: str = ADMIN) -> Path:
        """A kubeconfig file in which `user` signs in with a token."""
        path = self.folder / f"{user}.kubeconfig"
        return write_kubeconfig(path, self.server, user, {"token": self.tokens[user]})

    def certificate_kubeconfig(self, user: str = ADMIN, valid_s: float = 86_400.0) -> Path:
        """The same with a client certificate; a negative `valid_s` makes an expired one."""
        path = self.folder / f"{user}.certificate.kubeconfig"
        who, now_s = self._users[user], self._clock.now_s()
        login = write_client_certificate(path, self.authority, who, now_s, valid_s)
        return write_kubeconfig(path, self.server, user, login)

    def serving_context(self, name: str) -> ssl.SSLContext:
        """What a server of ours on loopback shows to whoever trusts the plane's authority."""
        subject = Subject(name, hosts=("127.0.0.1", "localhost"))
        pair = self.authority.issue(subject, self._clock.now_s())
        certificate, key = self.folder / f"{name}.crt", self.folder / f"{name}.key"
        certificate.write_bytes(pair.certificate_pem)
        key.write_bytes(pair.key_pem)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate, key)
        return context

    def call(
        self,
        method: str,
        path: str,
        body: object = None,
        user: str = ADMIN,
        content_type: str = "application/json",
    ) -> PlainResponse:
        """One request to the API server, JSON both ways."""
        caller = PlainClient(self._port, self.certificate_authority_file, self.tokens[user])
        return caller.call(method, path, body, content_type)

    def kubectl(self, *arguments: str, given: str | None = None) -> str:
        """Run kubectl as the admin; `given` is its standard input."""
        done = subprocess.run(
            [self._programs / "kubectl", "--kubeconfig", self.kubeconfig(), *arguments],
            input=given,
            capture_output=True,
            text=True,
            timeout=120,
        )
        if done.returncode:
            raise ProgramFailed("kubectl", done.returncode, done.stderr.strip())
        return done.stdout

    def audit_events(self) -> list[dict[str, Any]]:
        """What the API server was asked, in order (needs `Setup(audit=True)`)."""
        return audit_events(self.folder / "audit.log")

    def permissions_used(self, user: str) -> set[Permission]:
        """What `user` was allowed so far: the least that its role must grant."""
        return permissions_used(self.audit_events(), user)

    # Faults: what tests do to the parts.

    def kill(self, name: str) -> None:
        """End a part at once, as a power cut would; what it stored stays."""
        self._parts[name].kill()

    def start(self, name: str) -> None:
        """Start a killed part again and wait until it is ready."""
        part = self._parts[name]
        part.start()
        self._wait_until(name, self._readiness(name))

    def restart(self, name: str) -> None:
        self.kill(name)
        self.start(name)

    def pause(self, name: str) -> None:
        """Freeze a part: its connections stay open and silent until `resume`."""
        self._parts[name].pause()

    def resume(self, name: str) -> None:
        self._parts[name].resume()

    def compact(self) -> None:
        """Make etcd forget the past: whoever asks for an older version is told that it is gone."""
        body = json.dumps({"key": base64.b64encode(b"/").decode()}).encode()
        with urlopen(f"{self._etcd_url}/v3/kv/range", data=body, timeout=10) as answer:
            revision = json.load(answer)["header"]["revision"]
        body = json.dumps({"revision": revision, "physical": True}).encode()
        with urlopen(f"{self._etcd_url}/v3/kv/compaction", data=body, timeout=10) as answer:
            answer.read()

    def log(self, name: str) -> str:
        """The end of what a part printed."""
        return self._parts[name].log_tail()

    def pids(self) -> dict[str, int]:
        return {name: part.pid for name, part in self._parts.items() if part.running()}

    # Starting.

    def _prepare_folder(self) -> None:
        now_s = self._clock.now_s()
        self.authority = CertificateAuthority.new("muster lab", now_s)
        write_keys(self.folder, self.authority, now_s)
        write_tokens(self.folder, list(self._users.values()), self.tokens)
        (self.folder / "audit-policy.json").write_text(json.dumps(flags.AUDIT_POLICY))

    def _start_core(self) -> None:
        """etcd and kube-apiserver; another process may take a free port first, so try again."""
        for attempt in range(1, _START_ATTEMPTS + 1):
            client_port, peer_port, self._port = free_ports(3)
            self._etcd_url = f"http://127.0.0.1:{client_port}"
            try:
                self.add("etcd", flags.etcd(self.folder, client_port, peer_port))
                self.add("kube-apiserver")
            except ProgramFailed as failure:
                for part in self._parts.values():
                    part.kill()
                taken = "address already in use" in failure.output
                if not taken or attempt == _START_ATTEMPTS:
                    raise
            else:
                return

    def add(self, name: str, arguments: Sequence[str] | None = None) -> None:
        """Start a part that `setup` left out, say `kube-scheduler`, and wait until it is ready."""
        chosen = [*(arguments or self._flags_of(name)), *self.setup.more_flags.get(name, ())]
        command = [str(self._programs / name), *chosen]
        self._parts[name] = ManagedProgram(name, command, self.folder / f"{name}.log", self._guard)
        self.start(name)

    def _extra_parts(self) -> list[str]:
        wanted = {
            "kube-controller-manager": self.setup.controller_manager,
            "kwok": self.setup.kwok,
            "kube-scheduler": self.setup.scheduler,
        }
        return [name for name, runs in wanted.items() if runs]

    def _flags_of(self, name: str) -> list[str]:
        if name == "kube-apiserver":
            return flags.kube_apiserver(
                self.folder,
                self._etcd_url,
                self._port,
                feature_gates=self.setup.feature_gates,
                runtime_config=self.setup.runtime_config,
                controller_manager=self.setup.controller_manager,
                audit=self.setup.audit,
            )
        if name == "kube-controller-manager":
            return flags.kube_controller_manager(self.folder, self.kubeconfig())
        if name == "kwok":
            (self._kwok_port,) = free_ports(1)
            return flags.kwok(self.kubeconfig(), self._kwok_port)
        config = self.folder / "kube-scheduler.json"
        config.write_text(json.dumps(flags.scheduler_configuration(self.kubeconfig())))
        return flags.kube_scheduler(config)

    def _readiness(self, name: str) -> Callable[[], bool]:
        return {
            "etcd": lambda: _is_healthy(f"{self._etcd_url}/health"),
            "kwok": lambda: _is_healthy(f"http://127.0.0.1:{self._kwok_port}/healthz"),
            "kube-apiserver": lambda: self.call("GET", "/readyz").status == 200,
            "kube-controller-manager": lambda: (
                self.call("GET", "/api/v1/namespaces/default/serviceaccounts/default").status == 200
            ),
        }.get(name, lambda: True)

    def _wait_until(self, name: str, is_ready: Callable[[], bool]) -> None:
        deadline_s = self._clock.monotonic_s() + _READY_WITHIN_S
        part, pause = self._parts[name], threading.Event()
        while True:
            part.require_running()
            try:
                if is_ready():
                    return
            except (OSError, HTTPException):
                pass
            if self._clock.monotonic_s() > deadline_s:
                raise ProgramFailed(name, 0, f"not ready in {_READY_WITHIN_S:.0f} s: {part.log}")
            pause.wait(_POLL_S)


_ADMIN_USER = ClusterUser(ADMIN, groups=("system:masters",))


def _is_healthy(url: str) -> bool:
    with urlopen(url, timeout=2) as answer:
        return bool(answer.status == 200)
