"""The command lines of a small control plane: values in, arguments out."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

# Everything that was asked, once each, without bodies: enough to list the verbs a service uses.
AUDIT_POLICY: Mapping[str, Any] = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    # A watch is answered for as long as it goes on: that it began is logged, too.
    "omitStages": ["RequestReceived"],
    "rules": [{"level": "Metadata"}],
}


def etcd(folder: Path, client_port: int, peer_port: int) -> list[str]:
    client, peer = f"http://127.0.0.1:{client_port}", f"http://127.0.0.1:{peer_port}"
    return [
        f"--data-dir={folder / 'etcd'}",
        f"--listen-client-urls={client}",
        f"--advertise-client-urls={client}",
        f"--listen-peer-urls={peer}",
        f"--initial-advertise-peer-urls={peer}",
        f"--initial-cluster=default={peer}",
        # The data live as long as the test; a crash of the machine may lose them.
        "--unsafe-no-fsync",
        "--log-level=error",
    ]


def kube_apiserver(
    folder: Path,
    etcd_url: str,
    port: int,
    *,
    feature_gates: Mapping[str, bool],
    runtime_config: Mapping[str, str],
    controller_manager: bool,
    audit: bool,
) -> list[str]:
    arguments = [
        f"--etcd-servers={etcd_url}",
        f"--secure-port={port}",
        "--bind-address=127.0.0.1",
        f"--tls-cert-file={folder / 'server.crt'}",
        f"--tls-private-key-file={folder / 'server.key'}",
        f"--client-ca-file={folder / 'ca.crt'}",
        f"--token-auth-file={folder / 'tokens.csv'}",
        "--authorization-mode=RBAC",
        "--service-account-issuer=https://kubernetes.default.svc",
        f"--service-account-key-file={folder / 'accounts.pub'}",
        f"--service-account-signing-key-file={folder / 'accounts.key'}",
        "--service-cluster-ip-range=10.0.0.0/16",
        # The published address of the server must not be a real interface of this machine.
        "--advertise-address=127.0.0.1",
        "--endpoint-reconciler-type=none",
    ]
    if feature_gates:
        pairs = [f"{name}={str(on).lower()}" for name, on in sorted(feature_gates.items())]
        arguments.append("--feature-gates=" + ",".join(pairs))
    if runtime_config:
        pairs = [f"{name}={value}" for name, value in sorted(runtime_config.items())]
        arguments.append("--runtime-config=" + ",".join(pairs))
    if not controller_manager:
        # Nobody makes the service account that pods wait for, nor takes the taint off new nodes.
        arguments.append("--disable-admission-plugins=ServiceAccount,TaintNodesByCondition")
    if audit:
        arguments.append(f"--audit-policy-file={folder / 'audit-policy.json'}")
        arguments.append(f"--audit-log-path={folder / 'audit.log'}")
    return arguments


def kube_controller_manager(folder: Path, kubeconfig: Path) -> list[str]:
    return [
        f"--kubeconfig={kubeconfig}",
        "--leader-elect=false",
        "--secure-port=0",
        "--use-service-account-credentials=false",
        f"--service-account-private-key-file={folder / 'accounts.key'}",
        f"--root-ca-file={folder / 'ca.crt'}",
        "--kube-api-qps=1000",
        "--kube-api-burst=2000",
    ]


def kwok(kubeconfig: Path, port: int) -> list[str]:
    return [
        f"--kubeconfig={kubeconfig}",
        f"--config={Path(__file__).with_name('kwok_stages.yaml')}",
        "--manage-all-nodes=true",
        "--node-lease-duration-seconds=40",
        f"--server-address=127.0.0.1:{port}",
    ]


def kube_scheduler(config: Path) -> list[str]:
    return [f"--config={config}", "--secure-port=0"]


def scheduler_configuration(kubeconfig: Path) -> Mapping[str, Any]:
    """Its client limits raised: by default 50 requests a second is all that it may do."""
    return {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "clientConnection": {"kubeconfig": str(kubeconfig), "qps": 5000, "burst": 5000},
        "leaderElection": {"leaderElect": False},
    }
