"""``docs/tiers.md``, written from the tiers, the table of refused calls and the list of proofs.

``python -m backends.tiers.reference > docs/tiers.md`` writes it anew.
"""

from __future__ import annotations

import errno
import sys

from backends import tiers
from backends.egress.ruleset import DENIED_SIZE
from backends.keeper.init_proofs import CLAIMS
from backends.kernel.denied import ARGUED, DENIED
from backends.kernel.landlock import FS_RIGHTS, SCOPES
from backends.kernel.nftables import RELAY_PORT
from backends.policy.fit import AUTO_ORDER
from backends.tiers import differences, root
from backends.tiers.process import LANDLOCK_HOST_NETWORK, LANDLOCK_MINIMUM

HEAD = """\
# Tiers

<!-- Written by backends/tiers/reference.py from the code's own tables. Change those, then run:
     python -m backends.tiers.reference > docs/tiers.md -->

A **tier** is what enforces a box's boundary. Tiers are different promises, not steps of one ladder: choose by
the first failure that you could not accept.

| unacceptable | tier |
|---|---|
| two agents edit the same checkout | `workspace` |
| a dependency roams the file system | `process` |
| something talks to a host that nobody listed | `supervised` |
| the toolchain differs from CI's | `container` |
| the kernel is shared | `microvm` |

`cloche probe` starts a minimal box of each tier and shows what was proved in it on this host
([probe.md](probe.md));
`cloche status BOX` shows what one box received, value by value. A tier that cannot be had here is refused
by name, with the remedy: nothing is ever weaker in silence.
"""

PROCESS = """
## How `process` is built

1. User, mount, process, IPC and UTS namespaces, and an empty network namespace when `net.mode` is `deny`.
2. The box's root starts as an empty tmpfs. Each granted folder becomes a read-only overlay in it, each
   granted file a read-only bind, each link a link; `fs.write` grants are binds. What was not granted is
   absent, not forbidden. Then pivot_root(2), and the host's tree is gone.
3. A second user and mount namespace locks every mount. All capabilities are dropped, the bounding set
   included; no_new_privs is set.
4. Landlock handles every right that the kernel's level knows, and its scopes.
5. One seccomp filter with a listener: the keeper answers and counts what the table below refuses.
6. The box's init (pid 1 inside) proves the claims below in this state, by a process two forks below itself.
   Only then it starts what you asked for. It is not dumpable: its memory, descriptors and environment are
   closed to the box. It forks every session, so that sessions share one boundary and can signal each other.

Started by root, the payload runs as an unprivileged user that belongs to this box alone; root exists in the
first namespace only while the box is built. Started by you, it runs as your uid, without capabilities.

### What a box sees

| place | what it is |
|---|---|
| `/work` | the tree; `.git` in it is the box's private repository, which on disk lies elsewhere (below) |
| `/home/box` | the box's own home folder, kept between launches |
| `/tmp`, `/var/tmp` | one private tmpfs, `resources.tmp` |
| `/dev/shm` | a private tmpfs, `resources.shm` |
| `/run` | a private tmpfs of 16 MiB |
| `/proc` | a fresh one: the box's own processes; kernel tables masked, `sys` and `pressure` read-only |
| `/dev` | `null zero full random urandom tty`, and terminals of the box's own devpts |
| `/etc` | made for the box: passwd, group, hosts, hostname, nsswitch.conf, resolv.conf; more by grant |
| `/sys` | absent |

### Sockets of the host

connect(2) reaches a socket through a read-only bind mount, and Landlock does not stop it. Grants are overlays
for that reason: an overlay has inodes of its own, on which nobody listens, also for sockets that are made
later. A write grant is a real bind; it is refused while a host process listens anywhere below it, and a
socket that is bound there later is reachable. Abstract sockets are closed off by the network namespace and by
Landlock's scope.

### Git on the host, in a box's files

On disk, `.git` in the tree is a repository of nothing that the host owns. A Git that your prompt or editor
starts anywhere in the tree finds it, says `On branch box`, and looks no further: not at the tree's root as a
bare repository, not at folders above. What it does not cover is a folder in which the box made a repository
of its own (`sub/.git`, or `HEAD`, `objects` and `refs` in `sub`): Git obeys the nearest one, and its
configuration can name programs. The same holds for the box's folders `home` and `repo` beside the tree.
`cloche diff` and `cloche propose` name such folders in the tree, and the gate refuses them.
Set `git config --global safe.bareRepository explicit`, and look at a box's files with `cloche diff`, which
starts no Git in them.

### Between processes of a box

All sessions of a box trust each other: they run as one user, see each other in `/proc`, and read and write
each other's memory through `/proc/PID/mem`, with `debug = false` too. `debug = true` adds the debuggers'
calls. So an agent can read what you type into a program of `cloche shell` in its box: type no password there.
Only the box's init is closed to them: its memory, descriptors, signals, limits and priority.

### Limits

| key | by root, or with a delegated control group | otherwise |
|---|---|---|
| `procs` | control group, and RLIMIT_NPROC in the box's user namespace | RLIMIT_NPROC there |
| `mem` | control group | soft: RLIMIT_DATA in each process; the keeper watches the sum |
| `cpu`, `file_size`, `files` | RLIMIT_CPU, RLIMIT_FSIZE, RLIMIT_NOFILE in each process | the same |
| `tmp`, `shm` | size of a private tmpfs, files counted too | the same |
| `wall`, `disk` | the keeper measures and ends what passes them | the same |

Where memory runs out the kernel ends a session's process and not the box's init.

What the kernel counts for a user as a whole, a box gets a share of: a quarter of the inotify instances and
watches, of the queued signals and of the bytes in POSIX message queues; half of the hard limit of open files,
so that descriptors in flight leave you room; 256 terminals. System V memory is bounded by `resources.shm`
(Linux 6.9; the row `shares` of `cloche status` says what an older kernel does not hold).

### What is not counted

Refusals are counted where the filter can ask: refused calls and sockets, opens as `observe` says, connect(2),
and sendto(2) with an address. Datagrams sent by sendmsg(2) are refused by the network namespace and not
counted (`supervised` counts packets, so these too). The first exec of a session started by an unprivileged
keeper is told by its session record only.

### What is lost

- No user namespaces inside: the inner sandboxes of Chromium and bubblewrap do not start
  (`chromium --no-sandbox`).
- No set-user-id or set-group-id bit can be left on a file.
- `openat2` and `clone3` say that they do not exist; programs and libraries fall back.
- io_uring and the older `io_setup` are refused; programs fall back to epoll and threads.
- Memory is not placed on NUMA nodes (`mbind`, `set_mempolicy`, `move_pages`), and `renice -u` is
  refused.
- Started by you, a box shares with you what the kernel counts by user and lets nobody divide: pipe buffers
  (`fs.pipe-user-pages-soft`), epoll watches, and descriptors in flight against programs with a soft limit of
  1024 open files. A box that uses these up makes your programs slow or fail until it is stopped; started by
  root, a box has a user of its own. Any box can start `sync`, which is the host's.
- Extended views of the kernel (`/sys`, perf, BPF) are absent.
- A folder with another file system mounted below it is granted entry by entry, as it is at launch: a name
  that the host makes in it later does not appear.
- An unprivileged user's supplementary groups cannot be given up: they still count for files below a grant.
- `/proc/self/mountinfo` tells the host paths of the tree and of write grants.
- Memory, in sum, is limited by a control group only; without one `resources.mem` holds each process, and the
  keeper watches the sum.
"""

LANDLOCK = """
### Landlock levels

The tier needs ABI {minimum} (below it, moving a file between folders is refused inside too), with
`net.mode = "host"` ABI {host} (below it, abstract sockets of the host could not be closed off). What a lower
level lacks is held by the mounts. `CLOCHE_LANDLOCK_ABI=N` lowers the level for a test; it cannot raise it.

| since ABI | right |
|---|---|
{rows}
"""

SUPERVISED = """
## How `supervised` is built

All of `process` above, and in place of an empty network namespace a private one:

1. The host resolves the names of `net.egress`, once, and pins them. What an answer may not be (a private,
   link-local, loopback, multicast or metadata address, one of the host's own, one without a route) is left
   out and named in `cloche status BOX`; [egress.md](egress.md) has the rules.
2. In the box's network namespace `lo` is up and every address of both versions is routed to it. No other
   interface is up: no packet leaves, whatever the packet filter says. The filter is there to refuse at once
   and to count.
3. The packet filter (nf_tables, output hook) is loaded in one transaction, the listeners are opened, and all
   are handed to the keeper. Inside, nobody holds one, and no capability is left to change any.
4. What is listed is redirected to the relay's listener, `127.0.0.1` or `::1` port {relay}. The keeper asks
   the kernel for the destination that the program named, judges it once more, and dials from the host.

| a packet of the box | what becomes of it |
|---|---|
| to `127.0.0.0/8` or `::1` | it is the box's own loopback: reachable inside and nowhere else |
| TCP to a pinned address, or a listed address or network, at a listed port | it goes to the relay |
| any other TCP | refused by a reset (`ECONNREFUSED`), counted by address and port |
| any other datagram | refused (`EPERM`), counted by address, protocol and port |
| none: sockets of other families, types and protocols (the table above) | not opened, counted by these |

Refused packets are counted exactly. {rows} destinations of each version get a row of their own; packets to
further ones are counted together as "others", which is as exact. All of it can be read after the box ended.

Names are asked of the keeper: `/etc/resolv.conf` names `127.0.0.1`, where UDP and TCP port 53 of every
loopback address are the keeper's. `/etc/hosts` has the names as they are pinned, and only
the keeper can write it.

The tier needs nf_tables with its parts nft_ct, nft_reject_inet, nft_redir and nft_chain_nat, user and network
namespaces, IPv6 in the kernel, and a listener for notifications. A launch without one of them is refused and
names it. `cloche probe` tries all of it. No other program is needed: no nft, slirp or pasta.

What is lost, beside what `process` loses: every destination over UDP (QUIC, NTP) and ICMP (ping); inside, the
ports 53 and {relay} of loopback are taken.
"""

IMAGES = """
## The tiers that run an image

`container` and `microvm` show a box an image's files and none of the host's: what is granted in `fs.read` is
not there, and `cloche status` says so. An image comes from this host's own programs, a Containerfile or a
file, never from a network ([images.md](images.md)), and is pinned by digest when the box is made. Tree, home,
sessions, journal and gate are the same as at every tier; the tree is a checkout, not an overlay.

`container`: [containers.md](containers.md); with another kernel that is a program, [gvisor.md](gvisor.md).
`microvm`: [microvm.md](microvm.md), [microsandbox.md](microsandbox.md). What can be saved and gone on from:
[checkpoints.md](checkpoints.md).
"""

WORKSPACE = """
## `workspace` confines nothing

The agent runs as you, with your files, your network and your credentials within its reach. Its journal and
its keeper are within its reach too: it can rewrite what they say, and it can apply its own result. Limits of
one process are set. `cloche stop` ends the processes that descend from the box's launcher; one that took
pains to leave that tree is not found. While such a box is live, the records of every other box of yours are
within its reach as well: their fifth answer in `cloche status` names it.
"""


def render() -> str:
    """The whole document."""
    parts = [
        HEAD,
        _promises(),
        PROCESS,
        _proofs(),
        _landlock(),
        _calls(),
        _supervised(),
        IMAGES,
        differences.render(),
        WORKSPACE,
        _auto(),
    ]
    return "\n".join(part.strip("\n") + "\n" for part in parts)


def _promises() -> str:
    rows = [tiers.get(name) for name in tiers.MODULES]
    lines = ["## What each promises", "", "| tier | becomes true | stays false |", "|---|---|---|"]
    return "\n".join(lines + [f"| `{tier.name}` | {tier.promise} | {tier.stays_false} |" for tier in rows])


def _proofs() -> str:
    writable = ", ".join(f"`{path}`" for path in root.WRITABLE)
    lines = [
        "### What init proves before anything runs",
        "",
        f"The box's own folders are {writable} and write grants. A failed proof ends the launch.",
        "",
        "| id | claim |",
        "|---|---|",
    ]
    return "\n".join(lines + [f"| `{ident}` | {text} |" for ident, text in CLAIMS])


def _supervised() -> str:
    return SUPERVISED.format(relay=RELAY_PORT, rows=f"{DENIED_SIZE:,}")


def _landlock() -> str:
    rights = [(since, f"`{name}`") for name, _, since in FS_RIGHTS]
    rights += [(since, f"`SCOPE_{name}`") for name, _, since in SCOPES]
    levels = sorted({since for since, _ in rights})
    rows = [
        f"| {level} | {', '.join(name for since, name in rights if since == level)} |" for level in levels
    ]
    return LANDLOCK.format(minimum=LANDLOCK_MINIMUM, host=LANDLOCK_HOST_NETWORK, rows="\n".join(rows))


def _calls() -> str:
    lines = [
        "### System calls that are refused",
        "",
        "For every process of the box, on x86-64 and aarch64. 32-bit call tables end the process, the x32",
        "table says `ENOSYS`. Counted: the refusal shows in the tally.",
        "",
        "| call | answer | counted | why |",
        "|---|---|---|---|",
    ]
    for row in DENIED:
        debug = "; allowed inside with `debug = true`" if row.debug else ""
        counted = "yes" if row.counted else "no"
        lines.append(f"| `{row.name}` | `{errno.errorcode[row.errno]}` | {counted} | {row.reason}{debug} |")
    lines += ["", "### System calls that are judged by their arguments", "", "| call | refused | stays |"]
    lines.append("|---|---|---|")
    for judged in ARGUED:
        names = ", ".join(f"`{name}`" for name in judged.names)
        lines.append(f"| {names} | {judged.refused} | {judged.allowed} |")
    return "\n".join(lines)


def _auto() -> str:
    order = ", ".join(f"`{name}`" for name in AUTO_ORDER)
    have = ", ".join(f"`{name}`" for name in tiers.MODULES)
    return f"""
## `--tier auto`

The first of {order} that can enforce every key of the policy and
that this host can have. Never `workspace`: it enforces nothing. This version has {have}.
`container` and `microvm` are considered only where a profile or `--image` names an image, and an emulated
processor never.

Where a person asks for it by name (`cloche new --tier auto`, or the dialog for a new box) a tier counts only
when a box of it ran on this host: a kept answer of `cloche probe` that still holds, or one that is run now.
Each tier is then told of with the reason why it is taken or not, what would change that, and what a start
takes here. Where the profile leaves the tier to auto nothing is run first: the launch proves its claims, or
is refused."""


if __name__ == "__main__":
    sys.stdout.write(render())
