"""Seven products that run agents: which row of the matrix their sandbox is, as their own pages say.

A snapshot is a product's way back, or on: it is not isolation. What no page of theirs was found to say is
"unverified"; nothing here was tried on this host.
"""

from __future__ import annotations

from backends.host.matrix_words import READ
from backends.snapshots_matrix import Project, Said

UNVERIFIED = Said("unverified", "")

_SUBSTRATE = "https://github.com/agent-substrate/substrate/blob"

PROJECTS: tuple[Project, ...] = (
    Project(
        "Agent Substrate",
        Said(
            "gVisor or a microVM, inside worker pods of a Kubernetes cluster",
            f"{_SUBSTRATE}/0299ea8d3c13a6edbb2adf7e0fff61a81670b677/README.md",
        ),
        Said(
            "suspend and resume: memory and files of an actor, kept in object storage",
            "https://raw.githubusercontent.com/agent-substrate/substrate/main/docs/roadmap.md",
        ),
        ("gvisor", "kata"),
        Said(
            "in early development, with little to no security hardening (its threat model, June 2026)",
            f"{_SUBSTRATE}/23eb4ea5e6f7d22b00c5768ba1d76a60a7828351/docs/threat-model.md",
        ),
        READ,
        "its microVMs are cloud-hypervisor's",
    ),
    Project(
        "E2B",
        Said(
            "a Firecracker microVM for each sandbox",
            "https://raw.githubusercontent.com/e2b-dev/runtime/main/README.md",
        ),
        Said(
            "pause and resume: memory and files; or files alone",
            "https://e2b.dev/docs/sandbox/persistence",
        ),
        ("firecracker",),
        Said(
            "outbound access is open by default; allow and deny lists by address or name",
            "https://e2b.dev/docs/network/internet-access",
        ),
        READ,
    ),
    Project(
        "Modal",
        Said(
            "gVisor; a full virtual machine as an alpha feature",
            "https://modal.com/docs/guide/vm-sandboxes.md",
        ),
        Said(
            "files; a folder (beta); memory (alpha)",
            "https://modal.com/docs/guide/sandbox-snapshots",
        ),
        ("gvisor", "full-vm"),
        Said(
            "no inbound connections by default; outbound can be blocked or held to address ranges",
            "https://modal.com/docs/guide/sandbox-networking.md",
        ),
        READ,
    ),
    Project(
        "OpenHands",
        Said(
            "a Docker container by default; as a plain process, called unsafe; or remote",
            "https://docs.openhands.dev/openhands/usage/sandboxes/overview",
        ),
        UNVERIFIED,
        ("container-rootful", "plain-process"),
        Said(
            "what is mounted into the workspace for writing, the agent can change",
            "https://docs.openhands.dev/openhands/usage/sandboxes/docker.md",
        ),
        READ,
    ),
    Project(
        "Claude Code",
        Said(
            "its Bash tool, once turned on: bubblewrap on Linux, Seatbelt on macOS, names by a proxy outside",
            "https://code.claude.com/docs/en/sandboxing.md",
        ),
        Said(
            "checkpoints of what its own file tools change, not of what commands change",
            "https://docs.claude.com/ja/docs/claude-code/checkpointing",
        ),
        ("bubblewrap-nsjail",),
        Said(
            "file tools, tool servers (MCP) and hooks are inside only with the whole process in a sandbox",
            "https://code.claude.com/docs/de/sandbox-environments",
        ),
        READ,
    ),
    Project(
        "Codex",
        Said(
            "local: the system's own means, network off by default; in the cloud containers of OpenAI's",
            "https://developers.openai.com/codex/agent-approvals-security.md",
        ),
        UNVERIFIED,
        ("bubblewrap-nsjail",),
        Said(
            "on Linux Landlock, or bubblewrap with a seccomp filter; `--ro-bind / /`: every file is read",
            "https://github.com/openai/codex/blob/1332fd5ebdb8707e4ae9df54c8b7825ecd550f1e/"
            "codex-rs/linux-sandbox/README.md",
        ),
        READ,
        "the row of its cloud's containers: unverified",
    ),
    Project(
        "Daytona",
        Said(
            "a container that shares its host's kernel, by default; or a virtual machine",
            "https://www.daytona.io/docs/en/linux-sandboxes.md",
        ),
        Said(
            "files across stop and start; memory by pause, hot snapshot and fork",
            "https://www.daytona.io/docs/en/persistence",
        ),
        ("container-rootful", "full-vm", "firecracker"),
        Said(
            "its version 2 says otherwise: a Firecracker microVM each, egress open by default",
            "https://www.daytona.io/docs/en/v2/isolation",
        ),
        READ,
        "whether its containers are rootless: unverified",
    ),
)
