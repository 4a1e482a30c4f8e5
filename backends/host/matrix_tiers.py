"""The matrix's rows of Cloche's own tiers: what each cell says, and the claims that it rests on."""

from __future__ import annotations

from backends.host.matrix_words import Cell, Row

PORTABLE_KERNEL = (
    "Linux 5.19 (Landlock ABI 2) or later on x86-64 or aarch64, user namespaces, seccomp listeners"
)

TIERS: tuple[Row, ...] = (
    Row(
        "workspace",
        "workspace",
        "tier",
        (
            Cell(
                "filesystem",
                "all yours",
                "It reads and writes whatever you can. Edits land in a worktree of their own because it "
                "starts there, not because it has to.",
            ),
            Cell("network", "the host's", "Nothing is closed off."),
            Cell("kernel", "the host's", "Every system call that you may make."),
            Cell(
                "privilege",
                "yours",
                "It runs as you, with your credentials in reach, and can rewrite its own journal.",
            ),
            Cell("portability", "any Linux", "Git and Python; it asks nothing of the kernel."),
            Cell(
                "observability",
                "its own word",
                "What it says of itself: its keeper and journal are within its reach.",
            ),
        ),
    ),
    Row(
        "process",
        "process",
        "tier",
        (
            Cell(
                "filesystem",
                "the grants",
                "A root that holds the grants and nothing else; writes reach the box's own folders and write "
                "grants. Mounts and Landlock both hold it. A grant of `/` is refused.",
                ("write-outside", "absent", "mount", "inherited"),
                ("home-bind", "runs-later", "host-service"),
                ("denied", "landlock"),
            ),
            Cell(
                "network",
                "none or all",
                "`deny`: an empty network namespace. `host`: the host's network, whole. There is no list of "
                "destinations in between.",
                ("network", "sockets"),
                ("host-network", "host-service"),
                ("host-socket",),
            ),
            Cell(
                "kernel",
                "shared, filtered",
                "The host's kernel is shared: a fault in a call that stays open is a way out. The calls of "
                "docs/tiers.md are refused, new namespaces too. No `/proc`, `/sys` or `/dev` of the host can "
                "be granted.",
                ("filter", "user-namespace", "inherited"),
                ("host-service",),
                ("calls", "namespaces"),
            ),
            Cell(
                "privilege",
                "none",
                "No capability and no way to a new one. Started by root it is a user of its own; started by "
                "you it has your uid, within the root above. A read grant reaches no socket of the host.",
                ("capabilities", "processes", "descriptors"),
                ("credentials", "home-bind", "runs-later", "host-service"),
                ("host-process", "set-id", "tiocsti"),
            ),
            Cell(
                "portability",
                "Linux 5.19",
                f"{PORTABLE_KERNEL}; Linux 6.12 (ABI 6) with the host's network. Neither root nor image.",
            ),
            Cell(
                "observability",
                "calls, paths",
                "Refused calls and sockets are counted, refused paths as `observe` says. With the host's "
                "network, destinations are not observed.",
            ),
        ),
    ),
    Row(
        "supervised",
        "supervised",
        "tier",
        (
            Cell(
                "filesystem",
                "the grants",
                "As `process`.",
                ("write-outside", "absent", "mount", "inherited"),
                ("home-bind", "runs-later", "host-service"),
                ("denied", "landlock"),
            ),
            Cell(
                "network",
                "listed, TCP",
                "A private network: only listed destinations are reached, by pinned address and over TCP. "
                "Inside TLS a listed server may lead on to others (domain fronting).",
                ("network", "sockets"),
                ("wide-egress", "host-service"),
                ("host-socket", "listed"),
            ),
            Cell(
                "kernel",
                "shared, filtered",
                "As `process`: the host's kernel is shared.",
                ("filter", "user-namespace", "inherited"),
                ("host-service",),
                ("calls", "namespaces"),
            ),
            Cell(
                "privilege",
                "none",
                "As `process`.",
                ("capabilities", "processes", "descriptors"),
                ("credentials", "home-bind", "runs-later", "host-service"),
                ("host-process", "set-id", "tiocsti"),
            ),
            Cell(
                "portability", "Linux 5.19, nft", f"{PORTABLE_KERNEL}, nf_tables. No root, no other program."
            ),
            Cell(
                "observability",
                "each destination",
                "As `process`, and refused packets are counted exactly, by address and port.",
            ),
        ),
    ),
    Row(
        "container",
        "container",
        "tier",
        (
            Cell(
                "filesystem",
                "its mounts",
                "The image, read-only, bounded private folders and the box's own mounts: no grant of the "
                "host.",
                ("mount", "write-outside", "work-inside"),
                ("root-bind", "home-bind", "runs-later", "host-service"),
            ),
            Cell(
                "network",
                "names, L7",
                "Egress is scoped by name in an HTTP CONNECT proxy (L7). What ignores the proxy is refused "
                "where the network namespace is empty, and it always is here.",
                ("network",),
                ("wide-egress", "host-network", "host-service"),
            ),
            Cell(
                "kernel",
                "shared, filtered",
                "The host's kernel is shared, behind a system call filter made of the table of `process`.",
                ("user-namespace", "capabilities"),
                ("privileged", "kernel-trees", "engine-socket", "host-service"),
            ),
            Cell(
                "privilege",
                "your user's",
                "Rootless: no capabilities, no new privileges; root inside is nobody outside.",
                ("capabilities", "first", "device", "set-id", "processes"),
                ("rootful", "privileged", "engine-socket", "credentials", "host-service"),
            ),
            Cell("portability", "one image", "One image everywhere; a rootless engine and its OCI runtime."),
            Cell(
                "observability",
                "proxy's log",
                "What the proxy let through and refused. What is refused by absence is not counted.",
            ),
        ),
    ),
    Row(
        "microvm",
        "microvm",
        "tier",
        (
            Cell(
                "filesystem",
                "own disk",
                "The image as a read-only disk, and the box's folders, shared with attributes mapped: a link "
                "or a device of the guest is a plain file on the host.",
                (),
                ("shared-folder", "home-bind", "host-service"),
            ),
            Cell(
                "network",
                "names, L7",
                "No network card. What is listed is reached by name through the keeper's proxy, outside of "
                "the guest; nothing else has a way out.",
                (),
                ("wide-egress", "host-service"),
            ),
            Cell(
                "kernel",
                "own kernel",
                "A kernel of its own behind a hypervisor. Emulation (TCG) is not this promise: it runs only "
                'on `accelerator = "tcg"` and says "emulated: no isolation promised".',
                ("guest-kernel",),
                ("emulation", "device", "host-service"),
            ),
            Cell(
                "privilege",
                "the VMM's",
                "Who gets out of the guest has what the VMM has: your user's rights.",
                (),
                ("credentials", "host-service"),
            ),
            Cell("portability", "VM hardware", "A VMM, hardware virtualization that boots, and an image."),
            Cell(
                "observability",
                "thinner",
                "What crosses the guest's edge; processes and calls inside are the guest's own word.",
            ),
        ),
    ),
)
