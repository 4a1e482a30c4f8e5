"""Why a host cannot keep a promise: one table, so that every place says the same sentence.

A launch that fails names its stage (:class:`backends.tiers.launcher.LaunchError`); :func:`diagnose` finds the
cause behind it by the error and by the host's own switches. ``cloche new`` and ``run``, the dialog, ``probe``
and ``doctor`` all take ``why`` and ``remedy`` from here.
"""

from __future__ import annotations

import errno
import os

from backends.errors import ClocheError
from backends.host import switches
from backends.record import NamedTuple

KERNEL = ("process", "supervised")
ALL = (*KERNEL, "container", "microvm")


class Cause(NamedTuple):
    """One cause. ``why`` is what it means, ``remedy`` what ends it: with a command where there is one."""

    id: str
    what: str
    why: str
    remedy: str
    tiers: tuple[str, ...]
    narrows: bool = False  # the tiers can be had, with a promise less
    passing: bool = False  # it may be over at the next look, though nothing was changed


_NFT = "nf_tables nft_ct nft_reject_inet nft_redir nft_chain_nat"

CAUSES: tuple[Cause, ...] = (
    Cause(
        "userns",
        "user namespaces cannot be made",
        "the kernel refuses new user namespaces to this user",
        "allow user namespaces: sysctl user.max_user_namespaces=10000; on Debian also "
        "kernel.unprivileged_userns_clone=1, on Ubuntu kernel.apparmor_restrict_unprivileged_userns=0; in "
        "Docker --security-opt seccomp=unconfined",
        KERNEL,
    ),
    Cause(
        "userns-limit",
        "no further user namespace can be made",
        "user.max_user_namespaces is used up, or 0, here or in a namespace above",
        "as root: sysctl -w user.max_user_namespaces=10000",
        KERNEL,
    ),
    Cause(
        "userns-clone",
        "user namespaces are shut off for unprivileged users",
        "kernel.unprivileged_userns_clone is 0",
        "as root: sysctl -w kernel.unprivileged_userns_clone=1; or run cloche as root",
        KERNEL,
    ),
    Cause(
        "apparmor-userns",
        "AppArmor takes the rights of a user namespace away",
        "kernel.apparmor_restrict_unprivileged_userns is 1: a namespace can be made, and nothing be mounted "
        "in it",
        "as root: sysctl -w kernel.apparmor_restrict_unprivileged_userns=0; or run cloche as root",
        KERNEL,
    ),
    Cause(
        "uid-map",
        "user ids cannot be mapped",
        "a container or a policy of the host takes this right away",
        "run as an unprivileged user, or as root of the host itself: here ids cannot be mapped",
        KERNEL,
    ),
    Cause(
        "mounts",
        "nothing can be mounted in a user namespace",
        "a security module or the container that this runs in refuses mounts",
        "allow mounts in user namespaces: on Ubuntu sysctl kernel.apparmor_restrict_unprivileged_userns=0, "
        "in a container run it with its default seccomp and AppArmor profiles lifted",
        KERNEL,
    ),
    Cause(
        "proc",
        "no fresh /proc can be mounted",
        "parts of the host's /proc are masked, as containers do; the kernel gives no full one then",
        "run where /proc is not masked: in Docker --security-opt systempaths=unconfined, in Podman "
        "--security-opt unmask=ALL",
        KERNEL,
    ),
    Cause(
        "devpts",
        "a box cannot have terminals of its own",
        "devpts cannot be mounted anew",
        "use a kernel with CONFIG_DEVPTS (its instances may be mounted in user namespaces)",
        KERNEL,
    ),
    Cause(
        "overlay",
        "overlays cannot be mounted in a user namespace",
        "overlayfs is absent, or the file system of a grant cannot lie below one",
        "use a kernel from 5.11 with overlayfs (modprobe overlay), or grant a folder of another file system",
        KERNEL,
    ),
    Cause(
        "layers",
        "shared layers cannot be shown as the payload's own",
        "the file system of the cache has no idmapped mounts",
        "use a kernel from 5.19 and a file system with idmapped mounts for the cache, or state tree = "
        '"checkout" and make the box anew',
        KERNEL,
    ),
    Cause(
        "landlock",
        "Landlock cannot be had",
        "the kernel was built or booted without it, or is too old",
        "use a kernel from 5.19 with Landlock enabled: lsm=landlock,... on its command line",
        KERNEL,
    ),
    Cause(
        "lsm-list",
        "the list of security modules cannot be read",
        "/sys/kernel/security is not mounted, or lsm= is not told; what works is told by the proofs alone",
        "as root: mount -t securityfs securityfs /sys/kernel/security; nothing depends on it",
        (),
        True,
    ),
    Cause(
        "seccomp",
        "the system call filter cannot be installed",
        "the kernel has no seccomp filter with a listener",
        "use a kernel from 5.5 with CONFIG_SECCOMP_FILTER, and not under a filter that has a listener",
        KERNEL,
    ),
    Cause(
        "seccomp-busy",
        "a system call filter with a listener stands above this one",
        "a process can have one listener only, and this one runs below a sandbox that has it (a container "
        "engine, another box)",
        "start cloche outside that sandbox, and not under a filter that has a listener",
        KERNEL,
    ),
    Cause(
        "network",
        "a network namespace cannot be had",
        "the kernel refuses new network namespaces, or what belongs into them",
        "allow network namespaces: sysctl user.max_net_namespaces=10000",
        KERNEL,
    ),
    Cause(
        "ipv6",
        "the private network has no IPv6",
        "ipv6.disable=1 is on the kernel's command line",
        "use a kernel with IPv6, which ipv6.disable=1 on its command line takes away; or take --tier "
        "process, which holds no list of destinations",
        ("supervised",),
    ),
    Cause(
        "nftables",
        "the packet filter cannot be loaded",
        "parts of nf_tables are absent from this kernel, or not loaded",
        f"use a kernel with nf_tables, nft_ct, nft_reject_inet, nft_redir and nft_chain_nat: as root "
        f"modprobe -a {_NFT}; or take --tier process, which holds no list of destinations",
        ("supervised",),
    ),
    Cause(
        "capabilities",
        "capabilities could not be dropped",
        "the kernel refused to give a privilege up",
        "see keeper.log, and report it: capabilities could not be dropped",
        KERNEL,
    ),
    Cause(
        "cgroup",
        "control groups cannot be hidden or entered",
        "the kernel refuses new control group namespaces, or the box's group",
        "allow control group namespaces: sysctl user.max_cgroup_namespaces=10000",
        KERNEL,
        passing=True,
    ),
    Cause(
        "uts",
        "a box cannot have a name of its own",
        "the kernel refuses new UTS namespaces",
        "allow UTS namespaces: sysctl user.max_uts_namespaces=10000",
        KERNEL,
    ),
    Cause(
        "delegation",
        "no control group is handed to this user",
        "memory is limited for each process and not for the box, which is said as not enforced",
        "as root: systemctl set-property user@$UID.service Delegate='memory pids', then log in anew; or run "
        "cloche as root",
        (*KERNEL, "container"),
        True,
    ),
    Cause(
        "architecture",
        "there is no system call table for this processor",
        "which calls are refused is known by number for x86-64 and aarch64 only",
        "use x86-64 or aarch64",
        KERNEL,
    ),
    Cause(
        "grant",
        "a grant cannot be shown in the box",
        "the path is gone, or cannot be mounted",
        "correct the grant in the profile, then make the box anew",
        (),
        passing=True,
    ),
    Cause(
        "tree",
        "the box's own folders are damaged",
        "they are not what they were made as",
        "the box's folders are damaged: cloche doctor, or make the box anew",
        (),
        passing=True,
    ),
    Cause(
        "podman-absent",
        "there is no Podman",
        "the container tier starts containers with it",
        "as root: apt-get install podman runc uidmap",
        ("container",),
    ),
    Cause(
        "image-none",
        "no image is here",
        "the tiers that run an image have nothing to run, so nothing of them was tried",
        "cloche image build --from-host python3 git --name tools",
        ("container", "microvm"),
    ),
    Cause(
        "podman-rootful",
        "Podman runs as root",
        "root in a container is root of the host if it gets out; rootless needs an unprivileged user",
        "start cloche as an unprivileged user with ranges in /etc/subuid and /etc/subgid",
        ("container",),
        True,
    ),
    Cause(
        "podman-hung",
        "Podman gives no answer",
        "its store is locked or damaged",
        "podman system check, or as a last resort podman system reset, which removes all containers",
        ("container",),
        passing=True,
    ),
    Cause(
        "kvm-absent",
        "there is no /dev/kvm",
        "the processor's virtualization is off, hidden by a virtual machine, or its module is not loaded",
        "as root: modprobe kvm_intel || modprobe kvm_amd; in a virtual machine allow nested virtualization",
        ("microvm",),
    ),
    Cause(
        "kvm-refused",
        "/dev/kvm cannot be opened",
        "its group is not one of this user's",
        "as root: usermod -aG kvm $USER, then log in anew",
        ("microvm",),
    ),
    Cause(
        "kvm-boots-nothing",
        "/dev/kvm opens and boots no guest",
        "nested virtualization of this host lacks what a real kernel needs; that the device opens proves "
        "nothing",
        "use a host whose processor can be virtualized, or one level less of virtual machines",
        ("microvm",),
    ),
    Cause(
        "host-lacks",
        "this host lacks what a tier needs",
        "the tier was not started: it says itself what is absent, and how it can be had",
        "cloche probe tells what is absent beside the tier",
        ("container", "microvm"),
    ),
    Cause(
        "proof-failed",
        "a promise was tried and does not hold",
        "the boundary stands, and something went through that it must refuse",
        "do not work around it: cloche doctor --bundle FILE, and report it",
        ALL,
        passing=True,
    ),
    Cause(
        "proof-hung",
        "a proof gave no answer",
        "what gives no answer in time counts as failed",
        "cloche probe --fresh; if it hangs again, see what the host does: dmesg, and the load",
        ALL,
        passing=True,
    ),
    Cause(
        "init",
        "the box's first process does not start",
        "the host ended it, or it met an error of its own",
        "cloche probe tells which part cannot be had",
        KERNEL,
        passing=True,
    ),
)
BY_ID = {cause.id: cause for cause in CAUSES}


def diagnose(stage: str, why: str) -> Cause:
    """The cause behind the ``stage`` of a launch that failed with ``why``, the error's own words."""
    if stage == "userns":
        if os.strerror(errno.ENOSPC) in why:
            return BY_ID["userns-limit"]
        for switch in switches.forbidding():
            return BY_ID[switch.cause]
    elif stage == "mounts" and any(one.cause == "apparmor-userns" for one in switches.forbidding()):
        return BY_ID["apparmor-userns"]
    elif stage == "seccomp" and os.strerror(errno.EBUSY) in why:
        return BY_ID["seccomp-busy"]
    return BY_ID.get(stage, BY_ID["init"])


def of_error(error: ClocheError) -> Cause | None:
    """The cause that a refusal was made of; None for one about the policy and not about the host."""
    by_remedy = next((cause for cause in CAUSES if cause.remedy == error.next_step), None)
    if by_remedy is None and error.code.startswith("launch-"):
        return diagnose(error.code.removeprefix("launch-"), error.why)
    return by_remedy
