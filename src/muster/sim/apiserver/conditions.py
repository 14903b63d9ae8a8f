"""What a write must satisfy before the pipeline sees it, and what it comes to afterwards. Pure."""

from dataclasses import replace

from muster.sim.apiserver.kinds import Cause, Object, ServedKind
from muster.sim.apiserver.objects import (
    metadata_causes,
)
from muster.sim.apiserver.pipeline import WriteRequest
from muster.sim.apiserver.refusal import (
    bad_request,
    conflict,
    invalid,
    invalid_options,
)
from muster.sim.apiserver.routes import ApiCall
from muster.sim.apiserver.store import StoredEntry

JSON_PATCH = "application/json-patch+json"
MERGE_PATCH = "application/merge-patch+json"
STRATEGIC_PATCH = "application/strategic-merge-patch+json"
APPLY_PATCH = "application/apply-patch+yaml"


def report_unknown(request: WriteRequest, unknown: list[str]) -> None:
    mode = request.options.get("fieldValidation", "") or "Warn"
    if mode == "Strict":
        listed = ", ".join(f'unknown field "{path}"' for path in unknown)
        raise bad_request(unreadable(request.kind, f"strict decoding error: {listed}"))
    if mode == "Warn":
        for path in unknown:
            request.warn(f'unknown field "{path}"')
    elif mode != "Ignore":
        cause = Cause.unsupported("fieldValidation", mode, ("Ignore", "Strict", "Warn"))
        raise invalid_options("PatchOptions", cause)


def unreadable(kind: ServedKind, why: str) -> str:
    return f'{kind.kind} in version "{kind.version}" cannot be handled as a {kind.kind}: {why}'


def patch_types(kind: ServedKind) -> tuple[str, ...]:
    if kind.is_custom:
        return (JSON_PATCH, MERGE_PATCH, APPLY_PATCH)
    return (JSON_PATCH, MERGE_PATCH, STRATEGIC_PATCH, APPLY_PATCH)


def check_name(call: ApiCall, obj: Object) -> None:
    named = obj["metadata"].get("name")
    if named != call.name:
        raise bad_request(
            f"the name of the object ({named}) does not match the name on the URL ({call.name})"
        )


def check_namespace(call: ApiCall, obj: Object) -> None:
    named = obj["metadata"].get("namespace")
    if call.kind.namespaced and named and named != call.namespace:
        raise bad_request(
            "the namespace of the provided object does not match the namespace sent on the request"
        )


def check_applied(call: ApiCall, config: Object) -> None:
    if not config.get("apiVersion") or not config.get("kind"):
        group, _, version = str(config.get("apiVersion", "")).rpartition("/")
        raise bad_request(f"invalid object type: {group}/{version}, Kind={config.get('kind', '')}")
    if config["apiVersion"] != call.kind.api_version:
        raise bad_request(
            "Incorrect version specified in apply patch. Specified patch version: "
            f"{config['apiVersion']}, expected: {call.kind.api_version}"
        )


def names_version(call: ApiCall, obj: Object, current: StoredEntry) -> bool:
    """Whether the write names a version; raises when it is not the current one."""
    sent, live = obj["metadata"], current.obj["metadata"]
    # A patch that names another is refused later, as any change of the field.
    if call.verb == "update" and sent.get("uid") and sent["uid"] != live.get("uid"):
        place = "/".join(part for part in (call.namespace, call.name) if part)
        why = (
            f"StorageError: invalid object, Code: 4, Key: /registry/{call.kind.plural}/{place}, "
            "ResourceVersion: 0, AdditionalErrorMsg: Precondition failed: UID in precondition: "
            f"{sent['uid']}, UID in object meta: {live.get('uid')}"
        )
        raise conflict(call.kind, call.name, why)
    version = sent.get("resourceVersion")
    if not version:
        if call.verb == "update" and not call.kind.unconditional_update:
            text = "must be specified for an update"
            cause = Cause.invalid("metadata.resourceVersion", 0, text)
            raise invalid(replace(call.kind, kind=call.kind.plural), call.name, [cause])
        return False
    if version != live["resourceVersion"]:
        raise conflict(call.kind, call.name)
    # A patch that carries the version it was computed from is pinned only if it says so itself.
    return call.verb == "update"


def is_same(new: Object, old: Object) -> bool:
    if new == old:
        return True
    ignored = ("resourceVersion", "managedFields")
    if {k: v for k, v in new.items() if k != "metadata"} != {
        k: v for k, v in old.items() if k != "metadata"
    }:
        return False
    meta, was = new["metadata"], old["metadata"]
    if {k: v for k, v in meta.items() if k not in ignored} != {
        k: v for k, v in was.items() if k not in ignored
    }:
        return False
    return _without_times(meta) == _without_times(was)


def _without_times(meta: Object) -> list[Object]:
    return [
        {k: v for k, v in entry.items() if k != "time"} for entry in meta.get("managedFields") or ()
    ]


def is_finished(obj: Object) -> bool:
    """Whether an update removed the last thing that a deletion waited for."""
    meta = obj["metadata"]
    if not meta.get("deletionTimestamp") or meta.get("finalizers"):
        return False
    if (obj.get("spec") or {}).get("finalizers") and "phase" in (obj.get("status") or {}):
        return False  # a namespace: its own finalizers are in its spec
    return not meta.get("deletionGracePeriodSeconds")


def has_status_subresource(call: ApiCall) -> bool:
    return not call.subresource and "status" in call.kind.subresources


def writes_subresource(call: ApiCall, config: Object) -> Object:
    """The part of an applied configuration that this subresource takes."""
    if call.subresource == "status":
        meta = {k: v for k, v in config["metadata"].items() if k in ("name", "namespace", "uid")}
        return {"metadata": meta, **({"status": config["status"]} if "status" in config else {})}
    if has_status_subresource(call):
        return {key: value for key, value in config.items() if key != "status"}
    return config


async def check_metadata(
    request: WriteRequest, old: Object | None, new: Object | None
) -> list[Cause]:
    """The first VALIDATE step: names, labels, owners, finalizers, what may not change."""
    return metadata_causes(request.kind, new, old) if new is not None else []
