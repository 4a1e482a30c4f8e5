"""Whether an export is what was exported: files by hash, signature by key, journal by chain, count and head.

It may come from anywhere, so it is read as hostile (:mod:`backends.evidence.packed`).
"""

from __future__ import annotations

import hashlib
import itertools
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from backends.errors import ClocheError, UsageError
from backends.evidence import journal as journals
from backends.evidence import sshsig
from backends.evidence.chain import canonical
from backends.evidence.packed import Bundle, opened
from backends.evidence.receipts import tally_value
from backends.evidence.tally import project
from backends.snapshots import Finding, NotObserved

RECEIPT = "receipt.json"
SIGNATURE = sshsig.SIGNATURE
ARTEFACTS = ("patch.diff", "report.md")
SERIES = re.compile(r"[0-9]{4,6}-[A-Za-z0-9._-]{1,60}\.patch")  # of backends.gate.commits.mail
RECEIPT_LIMIT = 64 << 20  # bytes
MOST_VALUES = 4_000_000  # in it: each takes a hundred bytes of memory or so


def read_receipt(bundle: Bundle) -> tuple[dict[str, Any], bytes]:
    """The receipt of an export, and its bytes. ``UsageError`` when there is none that can be read."""
    try:
        text = bundle.read(RECEIPT, RECEIPT_LIMIT)
        if sum(map(text.count, (b"[", b"{", b","))) > MOST_VALUES:
            raise ValueError("it holds too many values")
        value = json.loads(text, object_pairs_hook=_once, parse_constant=_no_number)
    except FileNotFoundError as error:
        raise _unusable(bundle, f"there is no {RECEIPT} in it", "cloche export BOX --out DIR") from error
    except (ValueError, RecursionError) as error:
        raise _unusable(bundle, f"its {RECEIPT} is not JSON: {error}"[:300], "export it again") from error
    if not isinstance(value, dict) or value.get("version") != 1 or value.get("kind") != "export":
        raise _unusable(bundle, f"its {RECEIPT} is not an export receipt of version 1", "use a newer Cloche")
    return value, text


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object whose names are there once: of two, readers would disagree about which one counts."""
    value = dict(pairs)
    if len(value) != len(pairs):
        raise ValueError("a name is there twice")
    return value


def _no_number(text: str) -> Any:
    raise ValueError(f"{text} is no number of JSON")


def series_of(receipt: Mapping[str, Any]) -> tuple[str, ...]:
    """The names of the mails with commits that a receipt lists, in their order."""
    listed = receipt.get("artefacts")
    return tuple(sorted(filter(SERIES.fullmatch, listed))) if isinstance(listed, dict) else ()


def earlier_series(folder: Path) -> set[str]:
    """The same of what was exported into a folder before, as far as it says so."""
    try:
        with opened(folder) as bundle:
            return set(series_of(read_receipt(bundle)[0]))
    except ClocheError:
        return set()


def box_of(path: Path) -> str:
    """The key of the box that an export says it came from: a claim, to look for the journal by."""
    with opened(path) as bundle:
        box = read_receipt(bundle)[0].get("box")
    return str(box.get("key", "")) if isinstance(box, dict) else ""


def verify_bundle(
    path: Path,
    journal: Path | None = None,
    anchors: Iterable[tuple[str, int, str]] = (),
    signers: Path | None = None,
) -> tuple[Finding, ...]:
    """Check an export again, a folder or a single file, one row for each thing looked at.

    ``journal`` is the box's journal where this host has it. ``anchors`` are other records of how far that
    journal reached (where from, count, head): the manifest's and the source repository's. ``signers`` is a
    file that says whose keys count (ssh-keygen(1), ALLOWED SIGNERS); then the receipt has to be signed.
    """
    with opened(path) as bundle:
        return check_bundle(bundle, journal, anchors, signers)


def check_bundle(
    bundle: Bundle,
    journal: Path | None = None,
    anchors: Iterable[tuple[str, int, str]] = (),
    signers: Path | None = None,
) -> tuple[Finding, ...]:
    """As :func:`verify_bundle`, of an export that is open."""
    receipt, text = read_receipt(bundle)
    rows = [*_artefacts(bundle, receipt), _policy(receipt), *_signature(bundle, text, signers)]
    if journal is None or not journal.exists():
        rows.append(
            Finding(
                "journal", "warn", "the journal was not checked",
                "the box that this came from is not on this host",
                "run cloche verify on the host that made the export",
            )
        )  # fmt: skip
        return tuple(rows)
    own = hashlib.sha256(text).hexdigest()
    return (*rows, *_journal(receipt, own, journal, anchors))


def _signature(bundle: Bundle, receipt: bytes, signers: Path | None) -> Iterator[Finding]:
    try:
        signature = bundle.read(SIGNATURE, sshsig.LARGEST)
    except FileNotFoundError:
        if signers is None:
            return
        signature = None
    except ClocheError as error:
        why = "the signature cannot be read"
        yield Finding("signature", "fail", why, error.why, "ask for the export again")
        return
    from backends.evidence import signing  # an export without a signature needs none of it

    yield from signing.findings(receipt, signature, signers)


def _artefacts(bundle: Bundle, receipt: Mapping[str, Any]) -> Iterator[Finding]:
    listed = receipt.get("artefacts")
    listed = listed if isinstance(listed, dict) else {}
    series = series_of(receipt)
    for name in (*ARTEFACTS, *series):
        facts = listed.get(name)
        wanted = facts.get("sha256") if isinstance(facts, dict) else None
        found = bundle.hash(name)
        if wanted is None:
            yield _fail(name, "the receipt names no hash for it")
        elif found != wanted:
            yield _fail(name, f"its SHA-256 is {found}, the receipt says {str(wanted)[:80]}")
        else:
            yield Finding(name, "ok", f"{name} is what the receipt names", f"SHA-256 {found}", "")
    extra = sorted(set(bundle.names()) - {RECEIPT, SIGNATURE, *ARTEFACTS, *series})
    if extra:
        said = ", ".join(extra[:5])
        yield Finding(
            "other-files", "warn", f"{len(extra)} files here belong to no export", said, "do not trust them"
        )


def _policy(receipt: Mapping[str, Any]) -> Finding:
    policy = receipt.get("policy")
    policy = policy if isinstance(policy, dict) else {}
    digest = policy.get("digest")
    # The bytes of policy.json: canonical JSON and a line end.
    found = hashlib.sha256(canonical(policy.get("resolved")) + b"\n").hexdigest()
    if digest != found:
        return _fail("policy", f"the policy in the receipt has the digest {found}, not {str(digest)[:80]}")
    return Finding("policy", "ok", "the policy has the digest that the receipt names", f"SHA-256 {found}", "")


def _journal(
    receipt: Mapping[str, Any], own: str, journal: Path, anchors: Iterable[tuple[str, int, str]]
) -> Iterator[Finding]:
    said = receipt.get("journal")
    said = said if isinstance(said, dict) else {}
    count, head = said.get("count"), said.get("head")
    if type(count) is not int or not isinstance(head, str):
        yield _fail("journal", "the receipt does not say how far the journal reached")
        return
    for source, reached, last in (("receipt", count, head), *anchors):
        result = journals.verify(journal, (reached, last))
        if result.problems:
            yield _fail("journal", f"against the {source}: " + "; ".join(result.problems[:5]))
        else:
            yield Finding(
                "journal", "ok", f"the journal is whole and reaches the {reached} records of the {source}",
                f"{result.count} records, head {result.head}", "",
            )  # fmt: skip
    yield _tally(receipt, journal, count)
    if own in set(_exported(journal)):
        yield Finding(RECEIPT, "ok", "the journal recorded this very receipt", f"SHA-256 {own}", "")
    else:
        yield _fail(RECEIPT, f"the journal recorded no export of a receipt with SHA-256 {own}")


def _tally(receipt: Mapping[str, Any], journal: Path, count: int) -> Finding:
    said = receipt.get("tally")
    said = said if isinstance(said, dict) else {}
    counted = tally_value(project(itertools.islice(journals.read(journal), count), _not_observed(said)))
    if json.loads(json.dumps(counted)) != said:
        return _fail("tally", "the denials in the receipt are not those of the journal")
    return Finding("tally", "ok", "the denials are those of the journal", f"{counted['total']} refusals", "")


def _not_observed(said: Mapping[str, Any]) -> list[NotObserved]:
    rows = said.get("not_observed")
    rows = rows if isinstance(rows, list) else []
    return [NotObserved(str(r.get("kind")), str(r.get("reason"))) for r in rows if isinstance(r, dict)]


def _exported(journal: Path) -> Iterator[str]:
    for record in journals.read(journal):
        files = record.data.get("files") if record.kind == "export" else None
        facts = files.get(RECEIPT) if isinstance(files, dict) else None
        if isinstance(facts, dict):
            yield str(facts.get("sha256"))


def _fail(what: str, why: str) -> Finding:
    return Finding(
        what,
        "fail",
        f"{what} is not what was exported",
        why,
        "do not use this folder: export again and compare",
    )


def _unusable(bundle: Bundle, why: str, remedy: str) -> ClocheError:
    return UsageError(f"{bundle.shown} cannot be verified", why, remedy, code="no-export")
