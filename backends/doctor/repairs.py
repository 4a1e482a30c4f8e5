"""The safe repairs by name: each takes only away what is nobody's, or puts back what the box itself proves.

Whatever could lose work or evidence, or needs a decision, is a remedy that a person runs. Every repair is
journalled: in the box's journal, and for the host in ``doctor.jsonl`` of the state folder.
"""

from __future__ import annotations

from collections.abc import Callable

from backends.boxes import names, store
from backends.boxes.layout import BoxPaths, state_dir
from backends.doctor import base, chain, examine, keeper, leftovers, owner, policy, relocation, strays
from backends.doctor.rows import HOST, Box
from backends.errors import ClocheError, NoSuchBox
from backends.evidence.journal import Journal
from backends.host import probes
from backends.snapshots import Finding
from backends.snapshots_doctor import Repair
from backends.trees.remove import remove
from backends.trees.values import Source
from backends.verbs import authority, removal

HOST_JOURNAL = "doctor.jsonl"


def _drop_probes() -> str:
    folders = probes.stale()
    for folder in folders:
        remove(folder)
    return f"removed {', '.join(map(str, folders))}"


OF_BOX: dict[str, Callable[[Box], str]] = {
    "base-ref": base.keep,
    "settle": keeper.settle,
    "torn": chain.mend,
    "policy": policy.restore,
    "unmount": leftovers.unmount,
    "cgroups": leftovers.drop_groups,
    "socket": leftovers.drop_socket,
}
OF_HOST: dict[str, Callable[[], str]] = {
    "probes": _drop_probes,
    "sockets": strays.drop_sockets,
    "stray-cgroups": strays.drop_groups,
}
# In this order: a box that is settled and private can be repaired further, one that moved is elsewhere.
ORDER = (
    "private",
    "settle",
    "torn",
    "policy",
    "unmount",
    "cgroups",
    "socket",
    "base-ref",
    "relocate",
    "unfinished",
    "probes",
    "sockets",
    "stray-cgroups",
)


def make(findings: tuple[Finding, ...], here: Source | None, who: str) -> tuple[Repair, ...]:
    """Make every repair that the findings offer, each journalled with ``who``; one that fails ends no other.

    ``Refused`` for a caller inside a box.
    """
    authority.require_outside("doctor --fix")
    wanted = {(row.subject, row.fix): row for row in findings if row.fix}
    done: list[Repair] = []
    for (subject, fix), row in sorted(wanted.items(), key=lambda one: (one[0][0], ORDER.index(one[0][1]))):
        try:
            done.append(Repair(subject, fix, row.id, True, _one(subject, fix, here, who)))
        except ClocheError as error:
            done.append(Repair(subject, fix, row.id, False, f"{error.what}: {error.why}. {error.next_step}"))
        except OSError as error:
            done.append(Repair(subject, fix, row.id, False, str(error)))
    return tuple(done)


def _one(subject: str, fix: str, here: Source | None, who: str) -> str:
    if fix in OF_HOST:
        return _host(fix, OF_HOST[fix](), who)
    key, _, name = subject.partition("/")
    if not store.valid_key(key) or names.problem(name):
        raise NoSuchBox(
            f"there is no box {subject!r}",
            "that is not a name a box can have",
            "cloche ls --all",
            code="no-such-box",
        )
    paths = BoxPaths(state_dir() / key / name)
    if fix == "unfinished":
        removal.undo(paths)
        return _host(fix, f"removed {subject}, which was never finished", who)
    if fix == "private":
        said = owner.close(paths)
    elif fix == "relocate":
        paths, said = relocation.follow(examine.opened(paths, here))
    else:
        said = OF_BOX[fix](examine.opened(paths, here))
    Journal(paths.journal).append("repair", {"fix": fix, "what": said, "who": who}, sync=True)
    return said


def _host(fix: str, said: str, who: str) -> str:
    state_dir().mkdir(mode=0o700, parents=True, exist_ok=True)
    Journal(state_dir() / HOST_JOURNAL).append(
        "repair", {"subject": HOST, "fix": fix, "what": said, "who": who}, sync=True
    )
    return said
