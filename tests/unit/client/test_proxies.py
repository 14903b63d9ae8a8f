import pytest

from muster.client.proxies import proxy_for

_P = "http://proxy:3128"


@pytest.mark.parametrize(
    ("server", "environ", "wanted"),
    [
        ("https://k8s.corp:6443", {}, ""),
        ("https://k8s.corp:6443", {"HTTPS_PROXY": _P}, _P),
        ("https://k8s.corp:6443", {"https_proxy": "proxy:3128"}, _P),
        ("https://k8s.corp:6443", {"HTTP_PROXY": _P}, ""),
        ("http://k8s.corp", {"HTTP_PROXY": _P}, _P),
        ("https://localhost:6443", {"HTTPS_PROXY": _P}, ""),
        ("https://127.0.0.9:6443", {"HTTPS_PROXY": _P}, ""),
        ("https://k8s.corp", {"HTTPS_PROXY": _P, "NO_PROXY": "*"}, ""),
        ("https://k8s.corp", {"HTTPS_PROXY": _P, "NO_PROXY": "a, corp"}, ""),
        ("https://k8s.corp", {"HTTPS_PROXY": _P, "NO_PROXY": ".corp"}, ""),
        ("https://k8s.corp", {"HTTPS_PROXY": _P, "NO_PROXY": "8s.corp"}, _P),
        ("https://k8s.corp", {"HTTPS_PROXY": _P, "NO_PROXY": "k8s.corp:443"}, ""),
        ("https://k8s.corp", {"HTTPS_PROXY": _P, "NO_PROXY": "k8s.corp:80"}, _P),
        ("https://10.1.2.3", {"HTTPS_PROXY": _P, "NO_PROXY": "10.0.0.0/8"}, ""),
        ("https://11.1.2.3", {"HTTPS_PROXY": _P, "NO_PROXY": "10.0.0.0/8"}, _P),
        ("https://10.1.2.3", {"HTTPS_PROXY": _P, "NO_PROXY": "10.1.2.3"}, ""),
        ("https://[fd00::1]", {"HTTPS_PROXY": _P, "NO_PROXY": "fd00::/8"}, ""),
        ("https://k8s.corp", {"HTTPS_PROXY": _P, "NO_PROXY": "bad/mask,x"}, _P),
    ],
)
def test_the_environment_names_the_proxy_and_the_exceptions(
    server: str, environ: dict[str, str], wanted: str
) -> None:
    assert proxy_for(server, environ) == wanted
