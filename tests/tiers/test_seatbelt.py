"""The compiler from a policy to a Seatbelt profile: word for word, and by what its rules say of paths.

Nothing of this ran on macOS: it holds the compiler, not the boundary.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from backends.errors import Refused
from backends.host import claims
from backends.policy.model import EnvPolicy, FsPolicy, NetPolicy, Policy, Resources
from backends.tiers import macos, seatbelt
from backends.tiers.seatbelt import Places, compile_profile
from tests.support import ROOT
from tests.tiers import sbpl

PROFILES = Path(__file__).parent / "profiles"
RECORDS = "/Users/ann/.local/state/cloche"
PLACES = Places(
    f"{RECORDS}/shop/b/tree", f"{RECORDS}/shop/b/home", "/private/var/folders/b/T", f"{RECORDS}/shop/b/repo",
    RECORDS,
)  # fmt: skip
PLAIN = Policy(
    1, "default", "process", "checkout", "full", "writes", False,
    FsPolicy(("/usr/bin", "/bin", "/opt/homebrew"), (), ("/Users/ann/.ssh",)),
    NetPolicy("deny", (), True, True), EnvPolicy((), ()),
    Resources(8 << 30, 512, None, None, None, 1024, 1 << 30, 1 << 28, None), "", (), (),
)  # fmt: skip
CASES = {
    "default": PLAIN,
    "host-network": PLAIN._replace(
        net=NetPolicy("host", (), True, False),
        debug=True,
        fs=FsPolicy(
            ("/usr/bin", "/etc/ssl"),
            ("/Users/ann/work",),
            ("/Users/ann/work/.env", "/Users/ann/work/a/b/keys", "/etc/ssl/private"),
        ),
    ),
    "closed": PLAIN._replace(
        observe="none",
        fs=FsPolicy((), (), ()),
        net=NetPolicy("deny", (), False, False),
        resources=PLAIN.resources._replace(mem=None, procs=None),
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_a_policy_becomes_the_profile_that_is_written_down(name: str) -> None:
    written = (PROFILES / f"{name}.sb").read_text(encoding="utf-8")
    assert compile_profile(CASES[name], PLACES).text == written


@pytest.mark.parametrize("name", CASES)
def test_everything_is_denied_but_what_a_rule_names(name: str) -> None:
    forms = sbpl.parse(compile_profile(CASES[name], PLACES).text)
    assert forms[:2] == [["version", "1"], ["deny", "default"]]
    unfiltered = {
        tuple(form[1:]) for form in forms if form[0] == "allow" and not any(isinstance(x, list) for x in form)
    }
    assert unfiltered == {("process-fork",), ("ipc-posix-sem",)}


@pytest.mark.parametrize(
    ("path", "read", "write"),
    [
        (f"{PLACES.tree}/src/a.py", True, True),
        (f"{PLACES.home}/.cache", True, True),
        (f"{PLACES.tree}/.git/config", True, False),
        (f"{PLACES.repo}/HEAD", True, True),
        (f"{RECORDS}/shop/b/policy.json", False, False),
        (f"{RECORDS}/shop/other/tree/a", False, False),
        ("/Users/ann/.ssh/id_ed25519", False, False),
        ("/Users/ann/notes", False, False),
        ("/Users/ann/work/a", True, True),
        ("/Users/ann/work/.env", False, False),
        ("/Users/ann/work/.env/x", False, False),
        ("/Users/ann/work/.envrc", True, True),
        ("/Users/ann/workshop", False, False),
        ("/usr/bin/git", True, False),
        ("/private/etc/ssl/cert.pem", True, False),
        ("/private/etc/ssl/private/key", False, False),
        ("/private/etc/passwd", False, False),
        ("/dev/ttys003", False, False),
    ],
)
def test_the_rules_say_of_each_path_what_the_policy_does(path: str, read: bool, write: bool) -> None:
    text = compile_profile(CASES["host-network"], PLACES).text
    assert sbpl.allows(text, "file-read-data", path) is read
    assert sbpl.allows(text, "file-write-create", path) is write
    assert sbpl.allows(text, "process-exec", path) is read


def test_a_folder_above_a_mask_stays_where_it_is_so_that_the_mask_does() -> None:
    text = compile_profile(CASES["host-network"], PLACES).text
    for above in ("/Users/ann/work", "/Users/ann/work/a", "/Users/ann/work/a/b"):
        assert not sbpl.allows(text, "file-write-unlink", above)
        assert sbpl.allows(text, "file-write-create", f"{above}/new")
    assert sbpl.allows(text, "file-write-unlink", "/Users/ann/work/a/c")


def test_no_set_id_bit_can_be_set_anywhere() -> None:
    text = compile_profile(CASES["host-network"], PLACES).text
    assert not sbpl.allows(text, "file-write-setugid", f"{PLACES.tree}/x")


def test_a_folder_above_the_box_can_be_asked_about_and_not_listed() -> None:
    text = compile_profile(PLAIN, PLACES).text
    for above in ("/Users", f"{RECORDS}/shop", "/private/var/folders"):
        assert sbpl.allows(text, "file-read-metadata", above)
        assert not sbpl.allows(text, "file-read-data", above)
    assert not sbpl.allows(text, "file-read-metadata", f"{RECORDS}/shop/other")


def test_sockets_of_the_host_are_out_of_reach_and_own_ones_are_not() -> None:
    text = compile_profile(PLAIN, PLACES).text
    assert sbpl.allows(text, "network-outbound", f"{PLACES.tree}/server.sock")
    assert not sbpl.allows(text, "network-outbound", "/private/var/run/docker.sock")
    assert "remote ip" not in text
    assert not sbpl.allows(compile_profile(CASES["closed"], PLACES).text, "network-bind", f"{PLACES.tree}/s")


def test_what_a_profile_cannot_hold_is_named() -> None:
    missing = {row.key: row.why for row in compile_profile(PLAIN, PLACES).missing}
    assert set(missing) == {
        "net.loopback", "resources.mem", "resources.procs", "resources.tmp", "resources.shm", "observe",
    }  # fmt: skip
    assert missing["resources.mem"].startswith("not enforced")
    assert missing["resources.procs"].startswith("not enforced")
    assert {row.key for row in compile_profile(CASES["closed"], PLACES).missing} == {
        "resources.tmp", "resources.shm",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("change", "key"),
    [
        ({"net": NetPolicy("allow", ("a.example",), False, True)}, "net.mode"),
        ({"image": "debian"}, "image"),
        ({"services": (("db", "postgres"),)}, "services"),
        ({"secrets": ("TOKEN",)}, "secrets"),
        ({"fs": FsPolicy(("usr/bin",), (), ())}, "a path"),
        ({"fs": FsPolicy(("/usr/../etc",), (), ())}, "a path"),
        ({"fs": FsPolicy(("/usr/",), (), ())}, "a path"),
        ({"fs": FsPolicy(("//usr",), (), ())}, "a path"),
        ({"fs": FsPolicy((), (), ("/a\nb",))}, "a path"),
        ({"fs": FsPolicy((), (), ("/a\x00b",))}, "a path"),
        ({"fs": FsPolicy((), (), ("/a\udcffb",))}, "a path"),
    ],
)
def test_what_would_be_left_open_is_refused(change: dict[str, Any], key: str) -> None:
    with pytest.raises(Refused) as refused:
        compile_profile(PLAIN._replace(**change), PLACES)
    assert refused.value.what == f"no Seatbelt profile can take {key}"
    assert refused.value.code == "seatbelt"
    assert refused.value.next_step


def test_links_of_the_system_are_written_as_what_they_lead_to() -> None:
    assert [seatbelt.path(one) for one in ("/tmp", "/var/x", "/etc/ssl", "/etcetera", "/usr/tmp")] == [
        "/private/tmp", "/private/var/x", "/private/etc/ssl", "/etcetera", "/usr/tmp",
    ]  # fmt: skip


names = st.text(st.characters(exclude_characters="/", exclude_categories=("C", "Z")), min_size=1, max_size=12)
paths = (
    st.lists(names.filter(lambda name: name not in (".", "..")), min_size=1, max_size=4)
    .map(lambda parts: "/g/" + "/".join(parts))
    .filter(str.isprintable)
)


@settings(max_examples=60, deadline=None)
@given(read=paths, write=paths, deny=paths, tried=paths)
def test_no_name_of_a_path_changes_what_the_other_rules_say(
    read: str, write: str, deny: str, tried: str
) -> None:
    def below(path: str, folder: str) -> bool:
        return path == folder or path.startswith(f"{folder}/")

    policy = PLAIN._replace(fs=FsPolicy((read,), (write,), (deny,)))
    text = compile_profile(policy, PLACES).text
    for one in (tried, read, write, deny, f"{deny}/x", f"{write}/x", f'/g/"{tried}'):
        hidden = below(one, deny)
        may_write = below(one, write) and not hidden
        assert sbpl.allows(text, "file-write-data", one) is may_write
        assert sbpl.allows(text, "file-read-data", one) is (may_write or (below(one, read) and not hidden))
    assert sbpl.allows(text, "file-write-data", f"{PLACES.tree}/x")
    assert not sbpl.allows(text, "file-read-data", "/Users/ann/notes")


def test_every_claim_of_the_kernel_tiers_has_its_statement_for_macos() -> None:
    stated = {row.id for tier in claims.KERNEL_TIERS for row in claims.stated(tier) if row.id}
    assert {one.id for one in macos.STATEMENTS} == stated
    assert len(macos.STATEMENTS) == len(stated)
    standings = {one.id: one.standing for one in macos.STATEMENTS}
    for limit in ("memory-limit", "memory-box", "processes-limit"):
        assert standings[limit] == macos.NOT


def test_the_document_is_made_from_the_table_and_says_that_it_is_unproved() -> None:
    written = (ROOT / "docs" / "macos.md").read_text(encoding="utf-8")
    assert written == macos.render(), "run: python -m backends.tiers.macos > docs/macos.md"
    assert "unproved until it is run there" in written
