"""What to do when a stage of a launch cannot be had on this host."""

from __future__ import annotations

REMEDIES: dict[str, str] = {
    "userns": "allow user namespaces: sysctl user.max_user_namespaces=10000; on Debian also "
    "kernel.unprivileged_userns_clone=1, on Ubuntu kernel.apparmor_restrict_unprivileged_userns=0; in Docker "
    "--security-opt seccomp=unconfined",
    "uid-map": "run as an unprivileged user, or as root of the host itself: here ids cannot be mapped",
    "mounts": "allow mounts in user namespaces: on Ubuntu sysctl "
    "kernel.apparmor_restrict_unprivileged_userns=0, in a container run it with its default seccomp and "
    "AppArmor profiles lifted",
    "proc": "run where /proc is not masked: in Docker --security-opt systempaths=unconfined, in Podman "
    "--security-opt unmask=ALL",
    "devpts": "use a kernel with CONFIG_DEVPTS (its instances may be mounted in user namespaces)",
    "overlay": "use a kernel from 5.11 with overlayfs (modprobe overlay), or grant a folder of another file "
    "system",
    "layers": "use a kernel from 5.19 and a file system with idmapped mounts for the cache, or state tree = "
    '"checkout" and make the box anew',
    "grant": "correct the grant in the profile, then make the box anew",
    "tree": "the box's folders are damaged: cloche doctor, or make the box anew",
    "landlock": "use a kernel from 5.19 with Landlock enabled: lsm=landlock,... on its command line",
    "seccomp": "use a kernel from 5.5 with CONFIG_SECCOMP_FILTER, and not under a filter that has a listener",
    "network": "allow network namespaces: sysctl user.max_net_namespaces=10000",
    "ipv6": "use a kernel with IPv6, which ipv6.disable=1 on its command line takes away; or take --tier "
    "process, which holds no list of destinations",
    "nftables": "use a kernel with nf_tables, nft_ct, nft_reject_inet, nft_redir and nft_chain_nat: as root "
    "modprobe -a nf_tables nft_ct nft_reject_inet nft_redir nft_chain_nat; or take --tier process, which "
    "holds no list of destinations",
    "capabilities": "see keeper.log, and report it: capabilities could not be dropped",
    "cgroup": "allow control group namespaces: sysctl user.max_cgroup_namespaces=10000",
    "uts": "allow UTS namespaces: sysctl user.max_uts_namespaces=10000",
    "init": "cloche probe tells which part cannot be had",
    "architecture": "use x86-64 or aarch64",
}


def remedy(stage: str) -> str:
    return REMEDIES.get(stage, REMEDIES["init"])
