"""The matrix's rows that are explained and not proved: not for whole agents, not ready-made, or heavier."""

from __future__ import annotations

from backends.host.matrix_words import Cell, Row

WASMTIME = "https://docs.rs/crate/wasmtime-cli/latest/source/docs/security.md"
WORKERS = "https://developers.cloudflare.com/workers/reference/how-workers-works/index.md"
BUBBLEWRAP = (
    "https://github.com/containers/bubblewrap/blob/00ab4b3fd4a95df2ed5ccd88cf7a9a1d806c6f72/README.md"
)
NSJAIL = "https://github.com/google/nsjail/blob/031ec03331f6649aec6c632f9e9b6d40239927c0/README.md"
QEMU = "https://qemu.org/docs/master/system/security.html"

EXPLAINED: tuple[Row, ...] = (
    Row(
        "wasm-v8",
        "WASM, V8 isolates",
        "explained",
        (
            Cell("filesystem", "its imports", "No file but through what the host hands in."),
            Cell("network", "its imports", "No connection but through what the host hands in."),
            Cell(
                "kernel",
                "no syscalls",
                "There is no raw access to system calls; memory accesses are checked. Runtime and neighbours "
                "share one process, so a fault of the runtime is a way out.",
            ),
            Cell("privilege", "the runtime's", "Who gets out has what the runtime's process has."),
            Cell(
                "portability",
                "modules only",
                "Programs compiled for it, or JavaScript: no shell, package manager or browser as they are.",
            ),
            Cell("observability", "each import", "Whatever the host does in the functions that it hands in."),
        ),
        (WASMTIME, WORKERS),
    ),
    Row(
        "bubblewrap-nsjail",
        "bubblewrap, nsjail",
        "explained",
        (
            Cell(
                "filesystem",
                "as invoked",
                "A mount namespace built by arguments: with bubblewrap's `--ro-bind / /` every file is read.",
            ),
            Cell(
                "network",
                "as invoked",
                "An empty network namespace, the host's, or (nsjail) an interface lent.",
            ),
            Cell(
                "kernel",
                "shared",
                "The host's kernel, filtered as far as the caller hands in a filter.",
            ),
            Cell(
                "privilege",
                "as invoked",
                "Tools to build sandboxes with, no ready-made ones: what is mounted in, a D-Bus socket for "
                "example, can be a way out.",
            ),
            Cell("portability", "Linux", "Linux with user namespaces."),
            Cell("observability", "what one adds", "Neither page tells of a count of refusals."),
        ),
        (BUBBLEWRAP, NSJAIL),
    ),
    Row(
        "full-vm",
        "full VM",
        "explained",
        (
            Cell("filesystem", "own disk", "Its own disk, and the folders that are shared with it."),
            Cell("network", "host rules", "What the host lets its virtual network card reach."),
            Cell(
                "kernel",
                "own kernel",
                "A guest kernel behind hardware virtualization. QEMU holds its guests to be untrusted there; "
                "with emulation (TCG) nobody may rely on it for isolation.",
            ),
            Cell("privilege", "the VMM's", "Who gets out of the guest has what the VMM's process has."),
            Cell("portability", "VM hardware", "Any guest system; hardware virtualization, or slow."),
            Cell("observability", "the guest's word", "What crosses its edge; inside, the guest's own word."),
        ),
        (QEMU,),
    ),
)
