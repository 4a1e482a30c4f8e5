"""The matrix's rows of other ways to hold a program: what their own pages say, and the pages.

Nothing here is proved by this host. A sentence without a page behind it says "unverified".
"""

from __future__ import annotations

from backends.host.matrix_words import Cell, Row

DOCKER = "https://docs.docker.com/engine/security.md"
PODMAN = "https://github.com/podman-container-tools/podman/discussions/28881"
PODMAN_TUTORIAL = "https://github.com/containers/podman/blob/main/docs/tutorials/rootless_tutorial.md"
PODMAN_LIMITS = (
    "https://github.com/containers/podman/blob/05f98f03fb504d1684c933dbadd4253a5d533684/rootless.md"
)
GVISOR = "https://gvisor.dev/docs/architecture_guide/security"
GVISOR_FILES = "https://gvisor.dev/docs/user_guide/filesystem"
GVISOR_NETWORK = "https://gvisor.dev/docs/user_guide/networking/"
GVISOR_SOCKETS = "https://gvisor.dev/docs/architecture_guide/networking"
GVISOR_MONITOR = "https://gvisor.dev/docs/user_guide/runtimemonitor"
GVISOR_README = "https://raw.githubusercontent.com/google/gvisor/master/README.md"
MODAL = "https://modal.com/docs/guide/vm-sandboxes.md"
FIRECRACKER = (
    "https://github.com/firecracker-microvm/firecracker/blob/"
    "01e2f925b548154e5dc0218a1033c3069d86afeb/docs/design.md"
)
JAILER = "https://raw.githubusercontent.com/firecracker-microvm/firecracker/v1.16.1/docs/jailer.md"
KATA = (
    "https://github.com/kata-containers/kata-containers/blob/"
    "40cc39721823d3a30d5b4db3402818b31cb13b8c/docs/threat-model/threat-model.md"
)

TECHNOLOGIES: tuple[Row, ...] = (
    Row(
        "plain-process",
        "a plain process",
        "technology",
        (
            Cell("filesystem", "all yours", "It reads and writes whatever its user can."),
            Cell("network", "the host's", "Every destination, and the host's loopback."),
            Cell("kernel", "the host's", "Every system call that its user may make."),
            Cell("privilege", "its user's", "Its user's, credentials and running agents of keys included."),
            Cell("portability", "everywhere", "Any host that has the program."),
            Cell("observability", "what one adds", "Nothing is refused, so nothing is counted."),
        ),
    ),
    Row(
        "container-rootful",
        "rootful container",
        "technology",
        (
            Cell(
                "filesystem",
                "its mounts",
                "Namespaces show the image and what is mounted into it.",
                (),
                ("root-bind", "home-bind", "engine-socket"),
            ),
            Cell(
                "network",
                "own stack",
                "A network stack of its own, on a bridge of the host. It is no list of destinations: that is "
                "a firewall's or a proxy's.",
                (),
                ("host-network",),
            ),
            Cell(
                "kernel",
                "shared",
                "The host's kernel, with namespaces and control groups; their own security is the first "
                "thing that Docker's page asks to consider.",
                (),
                ("privileged", "kernel-trees", "engine-socket"),
            ),
            Cell(
                "privilege",
                "root daemon",
                "The daemon needs root and, when asked, starts a container that may write to `/` of the "
                "host: only trusted users may reach it.",
                (),
                ("rootful", "privileged", "engine-socket", "credentials"),
            ),
            Cell("portability", "one image", "One image wherever an engine runs."),
            Cell("observability", "engine's events", "Unverified: which refusals an engine counts."),
        ),
        (DOCKER,),
    ),
    Row(
        "container-rootless",
        "rootless container",
        "technology",
        (
            Cell(
                "filesystem",
                "its mounts",
                "The image and what is mounted; a mount opens it with the rights of your user.",
                (),
                ("root-bind", "home-bind", "engine-socket"),
            ),
            Cell(
                "network",
                "own stack",
                "A network namespace with a user-mode stack (pasta, slirp4netns), or none. It is no list of "
                "destinations.",
                (),
                ("host-network",),
            ),
            Cell(
                "kernel",
                "shared",
                "The host's kernel, as with a rootful one.",
                (),
                ("privileged", "kernel-trees", "engine-socket"),
            ),
            Cell(
                "privilege",
                "its user's",
                "Root inside is an unprivileged uid outside: who gets out has your user's rights, no more, "
                "with `--privileged` too.",
                (),
                ("engine-socket", "credentials"),
            ),
            Cell(
                "portability",
                "one image, subuids",
                "Ranges in /etc/subuid and /etc/subgid; limits need control groups v2.",
            ),
            Cell("observability", "engine's events", "Unverified: which refusals an engine counts."),
        ),
        (PODMAN, PODMAN_TUTORIAL, PODMAN_LIMITS),
    ),
    Row(
        "gvisor",
        "gVisor",
        "technology",
        (
            Cell(
                "filesystem",
                "by a proxy",
                "Files are reached through a separate process, the gofer, as far as the container is given "
                "them; a tmpfs can be laid over.",
                (),
                ("root-bind", "home-bind", "engine-socket"),
            ),
            Cell(
                "network",
                "own stack",
                "A network stack of its own in user space; packets leave by the namespace's device. It is no "
                "list of destinations.",
                (),
                ("host-stack",),
            ),
            Cell(
                "kernel",
                "user space",
                "System calls are served by the Sentry, a kernel in user space. The host's kernel stays "
                "below it with a smaller surface.",
                (),
                ("host-stack", "device", "engine-socket"),
            ),
            Cell(
                "privilege",
                "engine's too",
                "The Sentry runs as a user-space process and cannot open host sockets of its own; the engine "
                "that starts it keeps its rights.",
                (),
                ("rootful", "engine-socket", "credentials"),
            ),
            Cell(
                "portability",
                "most of Linux",
                "A substantial part of Linux's interface; what is missing fails, loop mounts for example.",
            ),
            Cell(
                "observability",
                "trace points",
                "Trace points of all system calls can be streamed to a process outside of the sandbox.",
            ),
        ),
        (GVISOR, GVISOR_README, GVISOR_FILES, GVISOR_NETWORK, GVISOR_SOCKETS, GVISOR_MONITOR, MODAL),
    ),
    Row(
        "firecracker",
        "Firecracker",
        "technology",
        (
            Cell(
                "filesystem",
                "own disks",
                "Block devices backed by files of the host; the guest mounts them itself.",
                (),
                (),
            ),
            Cell(
                "network",
                "TAP device",
                "A TAP device: what leaves it is decided by the host's own network rules.",
                (),
                ("wide-egress",),
            ),
            Cell(
                "kernel",
                "own kernel",
                "A guest kernel behind KVM and a small device model; vCPU threads count as malicious from "
                "their start.",
                (),
                (),
            ),
            Cell(
                "privilege",
                "VMM, jailed",
                "The VMM has seccomp filters of its own; started by the jailer it is an unprivileged process "
                "in a chroot. The jailer itself needs elevated rights.",
                (),
                ("credentials",),
            ),
            Cell("portability", "Linux with KVM", "Linux hosts and guests with KVM; no emulation."),
            Cell(
                "observability",
                "logs, metrics",
                "Logs and counters of the VMM; what happens inside is the guest's own word.",
            ),
        ),
        (FIRECRACKER, JAILER),
    ),
    Row(
        "kata",
        "Kata Containers",
        "technology",
        (
            Cell(
                "filesystem",
                "virtio-fs",
                "The root and volumes reach the guest as block devices or by virtio-fs, whose daemon on the "
                "host runs as root in a namespace of its own.",
                (),
                ("shared-folder", "home-bind"),
            ),
            Cell(
                "network",
                "TAP device",
                "A TAP device for the guest; with QEMU the host kernel's vhost-net serves it by default. It "
                "is no list of destinations.",
                (),
                ("wide-egress",),
            ),
            Cell(
                "kernel",
                "own kernel",
                "A light virtual machine for each pod: its containers share a guest kernel, not the host's.",
                (),
                ("device",),
            ),
            Cell(
                "privilege",
                "engine's too",
                "A second layer below the usual container; the engine on the host keeps what it has.",
                (),
                ("engine-socket", "credentials"),
            ),
            Cell(
                "portability",
                "VM hardware",
                "Hardware virtualization, and a container engine, usually under Kubernetes.",
            ),
            Cell("observability", "engine's events", "Unverified: what is counted of a guest's refusals."),
        ),
        (KATA,),
    ),
)
