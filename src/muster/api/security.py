"""Security contexts of pods and containers, as the install-wide Config carries them."""

from typing import Annotated

from muster.api.meta import Struct
from muster.api.schema import ATOMIC, INT64, Schema


class Profile(Struct):
    """An AppArmor or seccomp profile."""

    localhost_profile: str | None = None
    type: Annotated[str, Schema("Localhost, RuntimeDefault or Unconfined.")]


class Capabilities(Struct):
    add: Annotated[tuple[str, ...], ATOMIC] = ()
    drop: Annotated[tuple[str, ...], ATOMIC] = ()


class SELinuxOptions(Struct):
    level: str = ""
    role: str = ""
    type: str = ""
    user: str = ""


class WindowsOptions(Struct):
    gmsa_credential_spec: str | None = None
    gmsa_credential_spec_name: str | None = None
    host_process: bool | None = None
    run_as_user_name: str | None = None


class Sysctl(Struct):
    name: str
    value: str


class SecurityContext(Struct):
    """Of a container."""

    allow_privilege_escalation: bool | None = None
    app_armor_profile: Profile | None = None
    capabilities: Capabilities | None = None
    privileged: bool | None = None
    proc_mount: str | None = None
    read_only_root_filesystem: bool | None = None
    run_as_group: Annotated[int | None, INT64] = None
    run_as_non_root: bool | None = None
    run_as_user: Annotated[int | None, INT64] = None
    se_linux_options: SELinuxOptions | None = None
    seccomp_profile: Profile | None = None
    windows_options: WindowsOptions | None = None


class PodSecurityContext(Struct):
    app_armor_profile: Profile | None = None
    fs_group: Annotated[int | None, INT64] = None
    fs_group_change_policy: str | None = None
    run_as_group: Annotated[int | None, INT64] = None
    run_as_non_root: bool | None = None
    run_as_user: Annotated[int | None, INT64] = None
    se_linux_change_policy: str | None = None
    se_linux_options: SELinuxOptions | None = None
    seccomp_profile: Profile | None = None
    supplemental_groups: Annotated[tuple[Annotated[int, INT64], ...], ATOMIC] = ()
    supplemental_groups_policy: str | None = None
    sysctls: Annotated[tuple[Sysctl, ...], ATOMIC] = ()
    windows_options: WindowsOptions | None = None
