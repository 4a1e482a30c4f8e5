"""Records what the installed ``msb`` answers, for tests: ``python -m tests.microvm.msb_recorder``.

It boots what this host boots. On a host whose hypervisor boots nothing the answers are those of a boot that
failed, which is what most of them are for. Paths of the run are replaced by words.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from pathlib import Path

from backends.microvm import msb_store, msb_words
from backends.microvm.msb import asked, prepare
from backends.microvm.vmm import HARDWARE, GuestSpec, Image

FOLDER = Path(__file__).parent / "recorded" / "msb"


def spec(folder: Path) -> GuestSpec:
    return GuestSpec(
        name="recorded",
        folder=folder,
        image=Image("", "", Path()),
        shares=(),
        accelerator=HARDWARE,
        memory=256 << 20,
        cpus=1,
        procs=None,
        tmp=8 << 20,
        shm=8 << 20,
        uid=os.geteuid(),
        gid=os.getegid(),
        home="/",
        files=(("/etc/hosts", "127.0.0.1 localhost\n"),),
        proxy=None,
        egress=("198.51.100.7", "10.0.0.0/8:8080", "[2001:db8::1]:443"),
    )


def main() -> None:
    FOLDER.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="m") as name:
        place = Path(name)
        os.environ["XDG_CACHE_HOME"] = name
        folder = place / "launch"
        folder.mkdir(mode=0o700)
        prepare(folder)
        reference = msb_store.load(Image("", "", Path()), folder)
        machine = asked(spec(folder), reference)
        (folder / "orders" / "first").write_text(msb_words.first("nonce"))
        record("version", ["--version"], place)
        record("doctor", ["doctor"], place)
        record("image", msb_words.image(reference), place)
        record("image-absent", msb_words.run(machine._replace(reference="localhost/none:1")), place)
        record("boot", msb_words.run(machine), place)
        record("inspect", msb_words.inspect(machine.name), place)
        record("logs", msb_words.logs(machine.name), place)
        record("remove", msb_words.remove(machine.name), place)
        record("inspect-absent", msb_words.inspect(machine.name), place)
        record("unknown-word", [*msb_words.inspect(machine.name), "--no-such-word"], place)


def record(name: str, words: list[str], place: Path) -> None:
    answer = msb_store.call(words, patience=60)
    value = {"words": words, "code": answer.code, "out": answer.out, "said": answer.said}
    text = json.dumps(value, indent=1, ensure_ascii=False)
    text = text.replace(os.fspath(place), "/RECORDED").replace(msb_store.find(), "/WHEEL/bin/msb")
    (FOLDER / f"{name}.json").write_text(text.replace(os.path.dirname(msb_store.find()), "/WHEEL/bin") + "\n")
    sys.stdout.write(f"{name}: {answer.code}\n")


if __name__ == "__main__":
    main()
