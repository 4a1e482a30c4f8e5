"""A supervised box reaches what is listed and nothing else, and every refusal is counted by what it was."""

from __future__ import annotations

from pathlib import Path

from tests.keeper import boxes, internet
from tests.keeper.internet import ALLOWED, OTHER


def test_a_listed_name_is_reached_over_http_and_others_are_refused_and_counted(tmp_path: Path) -> None:
    (tmp_path / "index.html").write_text("hello from outside")

    def act() -> None:
        web = internet.Web(ALLOWED, 80, tmp_path)
        paths = boxes.make(policy=internet.policy("allowed.test:80"))
        with boxes.started(paths) as keeper:
            got = boxes.run(keeper, "curl", "-sS", "--noproxy", "*", "http://allowed.test/index.html")
            assert (got.exit, got.out) == (0, b"hello from outside"), got.err
            assert web.asked == ["GET /index.html HTTP/1.1"]
            for url, code in (
                (f"http://{OTHER}/", 7),
                (f"http://{ALLOWED}:8080/", 7),
                ("http://telemetry.example/", 6),
            ):
                assert boxes.run(keeper, "curl", "-sS", url).exit == code
            tally = keeper.call("tally")
            rows = {(row["kind"], row["object"], row["count"]) for row in tally["rows"]}
            assert ("net", f"{OTHER}:80", 1) in rows
            assert ("net", "allowed.test:8080", 1) in rows
            assert ("dns", "telemetry.example", 2) in rows
            assert all("curl" in row["command"] for row in tally["rows"] if row["kind"] in ("net", "dns"))
        assert internet.HOSTS["allowed.test"][0] in str(boxes.records(paths, "pins"))

    internet.inside(tmp_path, act)
