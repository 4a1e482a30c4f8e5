"""The tally is a projection of the journal: nothing is counted twice, nothing is left out."""

from __future__ import annotations

from collections.abc import Mapping

from hypothesis import given
from hypothesis import strategies as st

from backends.evidence.tally import MAX_LOST, Projection, project
from backends.snapshots import JournalRecord, NotObserved


def record(kind: str, data: Mapping[str, object], when: float = 5.0) -> JournalRecord:
    return JournalRecord(1, when, kind, data, "")


def denial(
    kind: str = "net", target: str = "1.2.3.4:443", count: object = 1, **more: object
) -> JournalRecord:
    return record(
        "denial",
        {"kind": kind, "object": target, "rule": "net.mode", "lane": "keeper", "enforced_by": "seccomp",
         "pid": 7, "command": "curl", "count": count, "first": 1.0, "last": 2.0, **more},
    )  # fmt: skip


def test_records_of_one_key_are_one_row_with_the_summed_count_and_the_latest_command() -> None:
    tally = project(
        [
            denial(count=2, first=1.0, last=2.0),
            denial(count=3, first=4.0, last=9.0, pid=8, command="wget"),
            denial("fs-write", "/etc/passwd", first=3.0, last=3.0),
        ]
    )
    assert [(r.kind, r.count, r.first, r.last, r.pid, r.command) for r in tally.rows] == [
        ("net", 5, 1.0, 9.0, 8, "wget"),
        ("fs-write", 1, 3.0, 3.0, 7, "curl"),
    ]
    assert (tally.total, tally.others) == (6, 0)


def test_what_is_not_observed_is_named_and_not_a_zero_row() -> None:
    tally = project([], [NotObserved("dns", "no resolver at this tier")])
    assert tally.rows == ()
    assert tally.not_observed == (NotObserved("dns", "no resolver at this tier"),)


def test_after_the_table_is_full_new_kinds_grow_others_exactly_and_known_rows_go_on() -> None:
    flood = [denial(target=f"10.0.0.{n}") for n in range(50)]
    tally = project([*flood, denial(target="10.0.0.1", count=4), denial(target="probe", count=7)], limit=10)
    assert len(tally.rows) == 10
    assert next(r.count for r in tally.rows if r.object == "10.0.0.1") == 5
    assert tally.others == 40 + 7
    assert tally.total == 50 + 4 + 7


def test_refusals_that_were_lost_are_part_of_the_tally() -> None:
    tally = project(
        [
            denial(),
            record("lost", {"what": "denials", "count": 12}),
            record("lost", {"what": "exec", "count": 9}),
        ]
    )
    assert (tally.total, tally.others) == (13, 12)


def test_other_events_that_were_lost_are_told_and_are_no_refusals() -> None:
    lost = [("opens", 9), ("execs", 1), ("opens", 3), ("denials", 2)]
    tally = project([denial(), *(record("lost", {"what": what, "count": n}) for what, n in lost)])
    assert tally.lost == (("execs", 1), ("opens", 12))
    assert (tally.total, tally.others) == (3, 2)


def test_a_forged_journal_cannot_grow_what_is_told_as_lost() -> None:
    tally = project(record("lost", {"what": f"kind-{n}", "count": 1}) for n in range(1000))
    assert len(tally.lost) == MAX_LOST


def test_a_refusal_with_an_unreadable_count_still_counts_once() -> None:
    assert project([denial(count="many"), denial(count=-4), denial(count=True)]).total == 3


RECORDS = st.lists(
    st.one_of(
        st.builds(
            denial,
            st.sampled_from(["net", "fs-read", "exec"]),
            st.sampled_from(["a", "b", "c", "d"]),
            st.integers(0, 10_000),
            lane=st.sampled_from(["keeper", "kernel"]),
            last=st.floats(0, 1e9),
        ),
        st.builds(
            record,
            st.just("lost"),
            st.fixed_dictionaries({"what": st.just("denials"), "count": st.integers(0, 99)}),
        ),
        st.builds(record, st.sampled_from(["exec", "transition"]), st.just({"count": 5})),
    ),
    max_size=60,
)


@given(RECORDS, st.integers(0, 8))
def test_the_total_is_the_sum_of_all_rows_and_the_others(records: list[JournalRecord], limit: int) -> None:
    tally = project(records, limit=limit)
    assert len(tally.rows) <= limit
    assert tally.total == sum(r.count for r in tally.rows) + tally.others
    assert tally.total == sum(
        int(str(r.data["count"])) for r in records if r.kind == "denial" or r.kind == "lost"
    )


@given(RECORDS)
def test_a_live_projection_and_a_reading_of_the_file_say_the_same(records: list[JournalRecord]) -> None:
    live = Projection()
    for r in records:
        live.add(r)
    assert live.tally() == project(records)
