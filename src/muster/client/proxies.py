"""Which proxy the environment asks for, by the rules that curl, Go and kubectl share."""

import ipaddress
from collections.abc import Mapping
from urllib.parse import urlsplit


def proxy_for(server: str, environ: Mapping[str, str]) -> str:
    """The proxy for a server's URL: empty when there is none or `NO_PROXY` exempts the server."""
    url = urlsplit(server)
    host = url.hostname or ""
    proxy = _either(environ, f"{url.scheme}_proxy")
    if not proxy or _is_loopback(host):
        return ""
    port = url.port or (443 if url.scheme == "https" else 80)
    exempt = (entry.strip() for entry in _either(environ, "no_proxy").split(","))
    if any(_matches(entry, host, port) for entry in exempt if entry):
        return ""
    return proxy if "://" in proxy else f"http://{proxy}"


def _either(environ: Mapping[str, str], name: str) -> str:
    return environ.get(name.upper(), "") or environ.get(name.lower(), "")


def _address(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None


def _is_loopback(host: str) -> bool:
    address = _address(host)
    return host == "localhost" or (address is not None and address.is_loopback)


def _matches(entry: str, host: str, port: int) -> bool:
    """One entry: `*`, a network, an address or a domain (with its subdomains), maybe a port."""
    if entry == "*":
        return True
    address = _address(host)
    if "/" in entry:
        try:
            return address is not None and address in ipaddress.ip_network(entry, strict=False)
        except ValueError:
            return False
    name, _, wanted_port = entry.rpartition(":") if entry.count(":") == 1 else (entry, "", "")
    if wanted_port and wanted_port != str(port):
        return False
    if address is not None:
        return _address(name.strip("[]")) == address
    domain = name.lower().removeprefix("*").removeprefix(".")
    return host == domain or host.endswith(f".{domain}")
