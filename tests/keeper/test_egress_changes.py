"""A person widens a running box or has its names looked up again: at once, journalled, and nothing breaks."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from backends.errors import ClocheError, Refused
from backends.keeper.client import KeeperClient
from tests.keeper import boxes, internet
from tests.keeper.internet import ALLOWED, HOSTS, OTHER, Web
from tests.support import wait_until

pytestmark = pytest.mark.boundary


def fetched(keeper: KeeperClient, url: str) -> bytes | int:
    """What curl got, or its exit code."""
    got = boxes.run(keeper, "curl", "-4", "-ksS", url)
    return got.exit or got.out


def test_a_running_box_takes_a_rule_at_once_and_it_is_journalled(tmp_path: Path) -> None:
    (tmp_path / "index.html").write_text("hello")

    def act() -> None:
        Web(OTHER, 80, tmp_path)
        paths = boxes.make(policy=internet.policy("allowed.test:80"))
        with boxes.started(paths) as keeper:
            assert fetched(keeper, "http://other.test/index.html") == 6
            assert fetched(keeper, f"http://{OTHER}/") == 7
            reply = keeper.call("allow", rule="Other.test:80", who="ada")
            assert reply == {"rule": "other.test:80", "pins": {"other.test": [OTHER]}, "known": False}
            assert fetched(keeper, "http://other.test/index.html") == b"hello"
            assert fetched(keeper, f"http://{OTHER}/") == 56  # the address alone says no listed name
            assert fetched(keeper, f"http://{OTHER}:81/") == 7
            assert keeper.call("allow", rule="other.test:80", who="eve")["known"] is True
            keeper.call("allow", rule=f"{OTHER}:80", who="ada")
            assert fetched(keeper, f"http://{OTHER}/index.html") == b"hello"
            rows = {(row["object"], row["count"]) for row in keeper.call("tally")["rows"]}
            assert (f"{OTHER}:80", 1) in rows  # from before: what it was called then
            assert ("other.test:81", 1) in rows
        assert boxes.records(paths, "egress-rule") == [
            {"rule": "other.test:80", "who": "ada", "pins": {"other.test": [OTHER]}},
            {"rule": f"{OTHER}:80", "who": "ada", "pins": {}},
        ]

    internet.inside(tmp_path, act)


@pytest.mark.parametrize(
    ("rule", "why"),
    [
        ("nowhere.test", "the host knows no such name|no answer"),
        ("inner.test", "10.1.2.3 is a private network"),
        ("*.com", "whoever registers a name"),
        ("127.0.0.1:80", "loopback"),
    ],
)
def test_a_rule_that_leads_nowhere_or_too_far_is_not_taken(tmp_path: Path, rule: str, why: str) -> None:
    def act() -> None:
        paths = boxes.make(policy=internet.policy("allowed.test:80"))
        with boxes.started(paths) as keeper:
            before = keeper.call("egress")
            with pytest.raises(ClocheError, match=why) as error:
                keeper.call("allow", rule=rule, who="ada", timeout=30)
            assert error.value.exit_code in (2, 3)
            assert keeper.call("egress") == before
        assert boxes.records(paths, "egress-rule") == []

    internet.inside(tmp_path, act)


HELD = """
import http.client, sys
c = http.client.HTTPConnection("allowed.test", 80, timeout=20)
for _ in range(2):
    c.request("GET", "/index.html")
    print(c.getresponse().read().decode(), flush=True)
    sys.stdin.readline()
"""


def test_a_repin_moves_a_name_and_leaves_live_connections_alone(tmp_path: Path) -> None:
    (tmp_path / "index.html").write_text("hello")

    def act() -> None:
        internet.show(tmp_path, {**HOSTS, "allowed.test": (ALLOWED,)})
        old, new = Web(ALLOWED, 80, tmp_path), Web(OTHER, 80, tmp_path)
        paths = boxes.make(policy=internet.policy("allowed.test:80", "inner.test", "10.9.0.0/16:5432"))
        with boxes.started(paths) as keeper:
            held = boxes.Running(keeper, ["/usr/bin/python3", "-I", "-S", "-c", HELD])
            assert held.read(b"hello\n") == b"hello\n"
            internet.show(tmp_path, {**HOSTS, "allowed.test": (OTHER,)})
            reply = keeper.call("repin", who="ada")
            assert reply["names"] == 2
            assert reply["changed"] == [{"name": "allowed.test", "old": [ALLOWED], "new": [OTHER]}]
            assert [one["name"] for one in reply["kept"]] == ["inner.test"]
            assert fetched(keeper, "http://allowed.test/index.html") == b"hello"
            assert (old.asked, new.asked) == (["GET /index.html HTTP/1.1"], ["GET /index.html HTTP/1.1"])
            assert fetched(keeper, f"http://{ALLOWED}/") == 7
            hosts = boxes.sh(keeper, "cat /etc/hosts; echo x >> /etc/hosts").out.decode().splitlines()
            assert hosts[2:] == [f"{OTHER} allowed.test"]
            os.write(held.stdin, b"\n\n")
            assert held.finish().exit == 0
            assert (len(old.asked), len(new.asked)) == (2, 1)
            assert keeper.call("repin", who="ada")["changed"] == []
        told = boxes.records(paths, "repin")
        assert [one["who"] for one in told] == ["ada", "ada"]
        assert told[0]["changed"] == reply["changed"]
        (pins,) = boxes.records(paths, "pins")
        refused = {pin["name"]: pin["refused"] for pin in pins["pins"]}
        assert refused["inner.test"] == [["10.1.2.3", "a private network"]]

    internet.inside(tmp_path, act)


def test_a_profile_can_have_names_looked_up_again_by_itself(tmp_path: Path) -> None:
    def act() -> None:
        policy = internet.policy("other.test:80")
        paths = boxes.make(policy=policy._replace(net=policy.net._replace(repin=1)))
        with boxes.started(paths) as keeper:
            internet.show(tmp_path, {"other.test": (ALLOWED,)})
            wait_until(lambda: bool(boxes.records(paths, "repin")), "they are looked up again")
            assert keeper.call("egress")["rows"][0][2] == [ALLOWED]
        (first, *_) = boxes.records(paths, "repin")
        assert (first["who"], first["changed"]) == (
            "net.repin",
            [{"name": "other.test", "old": [OTHER], "new": [ALLOWED]}],
        )

    internet.inside(tmp_path, act)


def test_a_refusal_can_be_explained_and_accepted_by_its_name(tmp_path: Path) -> None:
    """From ``telemetry.example`` in the tally to the rule in the person's file, while the box runs."""
    (tmp_path / "index.html").write_text("hello")
    config = tmp_path / "config"
    config.mkdir()

    def act() -> None:
        from backends.engine import Engine, NewBox

        Web(OTHER, 443, tmp_path, internet.tls(tmp_path, "other.test"))
        os.environ["XDG_CONFIG_HOME"] = os.fspath(config)
        (config / "cloche").mkdir()
        text = '[profiles.net]\nnet.mode = "allow"\nnet.egress = ["allowed.test:80"]\n'
        (config / "cloche" / "config.toml").write_text(text)
        engine = Engine(tmp_path)
        row = engine.create(NewBox(name="b", empty=True, profile="net"))
        assert row.tier == "supervised"
        try:
            paths = engine.find(row.key)
            with boxes.started(paths) as keeper:
                assert fetched(keeper, "https://other.test/index.html") == 6
                denied = {one.object: one for one in engine.tally(row.key).rows}["other.test"]
                found = engine.explain_denial(row.key, denied.kind, denied.object, denied.rule)
                assert found.proposal is not None, found.why_not
                assert (found.proposal.value, found.proposal.live) == ("other.test", True)
                engine.accept_rule(row.key, found.proposal, "ada", scripted=True)
                assert fetched(keeper, "https://other.test/index.html") == b"hello"
                assert [one.state for one in engine.egress(row.key)] == ["pinned", "pinned"]
                assert engine.repin(row.key, "ada").names == 2
            assert '"other.test"' in Path(found.proposal.file).read_text()
            with pytest.raises(ClocheError, match="not live"):
                engine.egress(row.key)
        finally:
            engine.remove(row.key, force=True)

    internet.inside(tmp_path, act)


def test_a_box_without_a_list_says_so(tmp_path: Path) -> None:
    with boxes.started(boxes.make()) as keeper:
        for operation in ("egress", "repin", "allow"):
            with pytest.raises(Refused, match="no list of destinations"):
                keeper.call(operation, rule="a.test", who="t")


def test_what_went_through_is_journalled_while_it_runs(tmp_path: Path) -> None:
    (tmp_path / "index.html").write_text("x" * 100_000)

    def act() -> None:
        Web(ALLOWED, 80, tmp_path)
        paths = boxes.make(policy=internet.policy("allowed.test:80"))
        with boxes.started(paths) as keeper:
            for _ in range(2):
                assert len(fetched(keeper, "http://allowed.test/index.html")) == 100_000  # type: ignore[arg-type]
                keeper.call("flush")
                keeper.call("flush")
            told = boxes.records(paths, "traffic")
            assert [(one["address"], one["name"], one["connections"]) for one in told] == [
                (ALLOWED, "allowed.test", 1)
            ] * 2
            assert all(one["received"] > 100_000 for one in told)

    internet.inside(tmp_path, act)
