"""Which subresource is handled where: `register` fills the server's table of special calls."""

from muster.sim.apiserver.app import ApiServer
from muster.sim.apiserver.kinds import ServedKind
from muster.sim.apiserver.subresources.binding import Bindings
from muster.sim.apiserver.subresources.eviction import Evictions
from muster.sim.apiserver.subresources.others import OtherSubresources
from muster.sim.apiserver.subresources.scale import Scales


def register(server: ApiServer) -> None:
    bindings, evictions, others = Bindings(server), Evictions(server), OtherSubresources(server)
    server.special |= {
        ("pods", "binding", "create"): bindings.bind,
        ("bindings", "", "create"): bindings.bind_by_name,
        ("pods", "eviction", "create"): evictions.evict,
        ("pods", "log", "get"): others.log,
        ("namespaces", "finalize", "update"): others.finalize,
    }
    # Asked for by GET where the client upgrades to a web socket, by POST where to SPDY.
    server.special |= {
        ("pods", name, verb): others.nothing_runs
        for name in ("attach", "exec", "portforward")
        for verb in ("get", "create")
    }
    for kind in server.kinds:
        if kind.scale is not None:
            add_scale(server, kind)


def add_scale(server: ApiServer, kind: ServedKind) -> None:
    """For kinds that a definition adds, too."""
    scales = Scales(server)
    server.special |= {
        (kind.storage, "scale", "get"): scales.get_scale,
        (kind.storage, "scale", "update"): scales.update_scale,
        (kind.storage, "scale", "patch"): scales.patch_scale,
    }
