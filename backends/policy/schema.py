"""Every key of a profile, in one table: its type, its default and the sentence that explains it.

The loader, the resolver, ``cloche policy explain`` and ``docs/policy.md`` all read this table; there is no
second list of keys. The resolved counterpart is :class:`backends.policy.model.Policy`.
"""

from __future__ import annotations

from backends.policy.canonical import ACCELERATORS, HISTORY, NET_MODES, OBSERVE, RUNTIMES, TREES, VMMS
from backends.policy.model import TIERS, ReviewPolicy
from backends.record import NamedTuple

K, M, G = 1 << 10, 1 << 20, 1 << 30

# How a file that came with foreign code may still change a key (rule: it may only narrow).
LESS = "less"  # to a smaller limit, to false, or to a choice further left
REMOVE = "remove"  # by taking inherited entries away
ADD = "add"  # by adding entries
NEVER = "never"


class Key(NamedTuple):
    """One key of ``[profiles.NAME]``.

    ``kind`` is the type that a person writes: ``choice`` (one of ``choices``), ``flag``, ``size`` (bytes),
    ``count``, ``duration`` (seconds), ``text``, ``filename``, the lists ``paths``, ``names`` and ``hosts``,
    and ``table`` (names to texts). ``unlimited`` permits the word "none", which resolves to ``None``.
    """

    path: str
    kind: str
    default: object
    sentence: str
    narrow: str
    choices: tuple[str, ...] = ()  # from the narrowest to the widest, where the order means anything
    unlimited: bool = False

    @property
    def is_list(self) -> bool:
        return self.kind in ("paths", "names", "hosts")


def _limit(path: str, kind: str, default: int | None, sentence: str, *, unlimited: bool = True) -> Key:
    return Key(path, kind, default, sentence, LESS, unlimited=unlimited)


KEYS: tuple[Key, ...] = (
    Key(
        "tier",
        "choice",
        "auto",
        "What enforces the boundary. `auto` takes the cheapest tier proved on this host that can enforce "
        "every key of the policy, and never `workspace`.",
        NEVER,
        ("auto", *TIERS),
    ),
    Key(
        "tree",
        "choice",
        "auto",
        "Where the box's files come from: `checkout` writes them all, `overlay` lays the box's changes over "
        "one shared pristine checkout, `auto` takes what this host can do.",
        NEVER,
        TREES,
    ),
    Key(
        "history",
        "choice",
        "full",
        "What the box's own repository holds: `full` is every commit that the base reaches, `none` is the "
        "files of the base alone.",
        LESS,
        tuple(reversed(HISTORY)),
    ),
    Key(
        "observe",
        "choice",
        "writes",
        "Which refused opens are counted as denials: `none`, `writes`, or `all`. Each open that is asked "
        "about costs some tens of microseconds more (`docs/denials.md`). It changes what is seen, never what "
        "is enforced.",
        LESS,
        tuple(reversed(OBSERVE)),
    ),
    Key(
        "debug",
        "flag",
        False,
        "Permits ptrace between the box's own processes, for strace and debuggers. Without it, too, they can"
        " read each other's memory.",
        LESS,
    ),
    Key(
        "fs.read",
        "paths",
        (),
        "Host paths that exist inside, to read and to execute. Whatever is not listed here or in `fs.write` "
        "is absent. Patterns (`*`, `?`, `[...]`) are expanded once, when the box is made.",
        REMOVE,
    ),
    Key(
        "fs.write",
        "paths",
        (),
        "Host paths that the box may also change, besides its tree, home and temporary folders.",
        REMOVE,
    ),
    Key("fs.deny", "paths", (), "Host paths that stay hidden although a grant covers them.", ADD),
    Key(
        "net.mode",
        "choice",
        "deny",
        "`deny`: an empty network with loopback only. `allow`: the destinations of `net.egress` only (from "
        "the supervised tier on). `host`: the host's own network, unrestricted.",
        LESS,
        NET_MODES,
    ),
    Key(
        "net.egress",
        "hosts",
        (),
        'Destinations for `net.mode = "allow"`: `host`, `*.host`, an address or a network, each also with '
        "`:port`; without one, 443. `raw:host:port` where the protocol is neither TLS nor HTTP. What could "
        "not be enforced is an error; [egress.md](egress.md) says what each form allows.",
        REMOVE,
    ),
    Key(
        "net.repin",
        "duration",
        None,
        "How often the names of `net.egress` are looked up again while the box runs, a minute at least; each "
        "time is journalled, and live connections go on. `none`: only by `cloche egress --repin`.",
        NEVER,
        unlimited=True,
    ),
    Key(
        "net.loopback",
        "flag",
        True,
        "Processes of the box may reach each other over the box's own loopback address.",
        LESS,
    ),
    Key(
        "net.unix",
        "flag",
        True,
        "Processes of the box may use unix sockets among themselves. Sockets of the host stay out of reach.",
        LESS,
    ),
    Key(
        "env.pass",
        "names",
        (),
        "Variables copied from the caller's environment; `LC_*` stands for all that begin so. Everything "
        "else is cleared. `HOME`, `USER`, `LOGNAME` and `SHELL` are the box's own.",
        REMOVE,
    ),
    Key("env.set", "table", (), "Variables set to a fixed text inside.", NEVER),
    _limit("resources.mem", "size", 4 * G, "Memory of the whole box."),
    _limit("resources.procs", "count", 512, "Processes and threads of the box at one time."),
    _limit(
        "resources.wall",
        "duration",
        None,
        "Time that one session may take; then its tree is killed (exit 124).",
    ),
    _limit("resources.cpu", "duration", None, "Processor time of one process."),
    _limit("resources.file_size", "size", 4 * G, "Size of one file that the box writes."),
    _limit("resources.files", "count", 65536, "Open files of one process.", unlimited=False),
    _limit("resources.tmp", "size", G, "Size of the private /tmp, which is held in memory.", unlimited=False),
    _limit("resources.shm", "size", 256 * M, "Size of the private /dev/shm.", unlimited=False),
    _limit("resources.disk", "size", 20 * G, "Growth of the box's tree, repository, home and journal."),
    Key(
        "image",
        "text",
        "",
        "Image for the container and microvm tiers, by a name that `cloche image ls` shows. A box keeps the "
        "one of that name when it is made: its policy holds `NAME@sha256:DIGEST`.",
        NEVER,
    ),
    Key(
        "runtime",
        "choice",
        "auto",
        "Of the container tier, what starts its processes: `crun`, `runc`, or `gvisor`, whose kernel is a "
        "program between the box and the host's. `auto` takes crun, or runc where crun cannot run here; "
        "never gvisor.",
        NEVER,
        RUNTIMES,
    ),
    Key(
        "rootful",
        "flag",
        False,
        "Permits a box of the container tier whose engine runs as root, and says so wherever the box is "
        "shown. Without it, root cannot have that tier.",
        LESS,
    ),
    Key(
        "accelerator",
        "choice",
        "hardware",
        "Of the microvm tier: `hardware` is the processor's own virtualization, `tcg` a processor that is "
        "emulated, about 13 times slower, with no promise of isolation. It is never taken unasked.",
        LESS,
        ACCELERATORS,
    ),
    Key(
        "vmm",
        "choice",
        "auto",
        "Of the microvm tier, what runs the guest: `microsandbox` or `qemu`. `auto` takes the first that "
        "booted a guest here.",
        NEVER,
        VMMS,
    ),
    Key(
        "services",
        "table",
        (),
        "Named commands that the box keeps running, such as a development server.",
        NEVER,
    ),
    Key("secrets", "names", (), "Names of secrets that the box may use without seeing their values.", REMOVE),
    Key(
        "review.file",
        "filename",
        ReviewPolicy().file,
        "File at the top of the tree into which a reviewer's requests are written (`cloche request`). Unless "
        "the base tracks it, a file of this name is never part of a proposal.",
        NEVER,
    ),
)

BY_PATH = {key.path: key for key in KEYS}
TABLES = frozenset(key.path.rpartition(".")[0] for key in KEYS if "." in key.path)

# Keys of a profile that shape it but are not part of the resolved policy.
EXTENDS = "extends"


class FileKey(NamedTuple):
    """One key beside the profiles, at the top of a file."""

    path: str
    kind: str  # text, table
    sentence: str
    user_only: bool  # legal only in the user's own config.toml


FILE_KEYS: tuple[FileKey, ...] = (
    FileKey("profile", "text", "Profile of a box that is made without `--profile`.", False),
    FileKey("theme", "text", "Theme of the workbench.", True),
    FileKey("keymap", "table", "Keys of the workbench: the id of an action to the key that runs it.", True),
    FileKey(
        "sign", "text", "Key that signs the receipts of exports: its file, or that of the public key.", True
    ),
    FileKey("signers", "text", "File that says whose signatures of receipts count.", True),
)
