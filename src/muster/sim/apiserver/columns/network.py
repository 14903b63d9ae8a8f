"""Cells of services and other network kinds."""

from typing import Any

from muster.sim.apiserver.columns.labels import labels_text, selector_text
from muster.sim.apiserver.columns.times import age
from muster.sim.apiserver.kinds import Object


def service_cells(item: Object, now_s: float) -> list[Any]:
    spec = item.get("spec") or {}
    ports = [_port(port) for port in spec.get("ports") or ()]
    external = ",".join(spec.get("externalIPs") or ())
    if spec.get("type") == "ExternalName":
        external = spec.get("externalName", "")
    elif spec.get("type") == "LoadBalancer" and not external:
        external = "<pending>"
    return [
        item["metadata"]["name"],
        spec.get("type", ""),
        spec.get("clusterIP") or "<none>",
        external or "<none>",
        ",".join(ports) or "<none>",
        age(item["metadata"].get("creationTimestamp"), now_s),
        labels_text(spec.get("selector")),
    ]


def _port(port: Object) -> str:
    node = f":{port['nodePort']}" if port.get("nodePort") else ""
    return f"{port['port']}{node}/{port.get('protocol', 'TCP')}"


def endpoints_cells(item: Object, now_s: float) -> list[Any]:
    shown = [
        f"{address.get('ip')}:{port.get('port')}"
        for subset in item.get("subsets") or ()
        for port in subset.get("ports") or ({"port": ""},)
        for address in subset.get("addresses") or ()
    ]
    text = ",".join(shown[:3]) + (f" + {len(shown) - 3} more..." if len(shown) > 3 else "")
    made = age(item["metadata"].get("creationTimestamp"), now_s)
    return [item["metadata"]["name"], text or "<none>", made]


def endpoint_slice_cells(item: Object, now_s: float) -> list[Any]:
    ports = [str(p.get("port", "*")) for p in item.get("ports") or ()]
    addresses = [a for e in item.get("endpoints") or () for a in e.get("addresses") or ()]
    return [
        item["metadata"]["name"],
        item.get("addressType", ""),
        ",".join(ports) or "<unset>",
        ",".join(addresses) or "<unset>",
        age(item["metadata"].get("creationTimestamp"), now_s),
    ]


def ingress_cells(item: Object, now_s: float) -> list[Any]:
    spec = item.get("spec") or {}
    hosts = [rule["host"] for rule in spec.get("rules") or () if rule.get("host")]
    points = ((item.get("status") or {}).get("loadBalancer") or {}).get("ingress") or ()
    return [
        item["metadata"]["name"],
        spec.get("ingressClassName") or "<none>",
        ",".join(hosts) or "*",
        ",".join(p.get("ip") or p.get("hostname") or "" for p in points),
        "80, 443" if spec.get("tls") else "80",
        age(item["metadata"].get("creationTimestamp"), now_s),
    ]


def ingress_class_cells(item: Object, now_s: float) -> list[Any]:
    spec = item.get("spec") or {}
    parameters = spec.get("parameters")
    shown = f"{parameters['kind']}/{parameters['name']}" if parameters else "<none>"
    made = age(item["metadata"].get("creationTimestamp"), now_s)
    return [item["metadata"]["name"], spec.get("controller", ""), shown, made]


def network_policy_cells(item: Object, now_s: float) -> list[Any]:
    made = age(item["metadata"].get("creationTimestamp"), now_s)
    return [
        item["metadata"]["name"],
        selector_text((item.get("spec") or {}).get("podSelector")),
        made,
    ]
