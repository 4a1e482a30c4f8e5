"""Paths that act by being there: hooks, CI, agents' instructions, policy, lock files.

A change to one of these is never wrong in itself; it is what a reviewer must not scroll past.
"""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import NamedTuple


class Watch(NamedTuple):
    """One kind of path: the check it belongs to and the sentence for the reviewer."""

    check: str
    reason: str
    folders: frozenset[str]  # a folder of this name anywhere above the file
    prefixes: tuple[str, ...]  # a path from the top that begins so
    names: frozenset[str]  # the file's own name
    patterns: tuple[str, ...]  # the file's own name, as fnmatch


# githooks(5), without "update" and "post-update", which are ordinary names of scripts.
_GIT_HOOKS = (
    "applypatch-msg commit-msg fsmonitor-watchman post-applypatch post-checkout post-commit "
    "post-index-change post-merge post-receive post-rewrite pre-applypatch pre-auto-gc pre-commit "
    "pre-merge-commit pre-push pre-rebase pre-receive prepare-commit-msg proc-receive "
    "push-to-checkout reference-transaction sendemail-validate"
)


def _watch(
    check: str, reason: str, *, folders: str = "", prefixes: str = "", names: str = "", patterns: str = ""
) -> Watch:
    return Watch(
        check,
        reason,
        frozenset(folders.split()),
        tuple(prefixes.split()),
        frozenset(names.split()),
        tuple(patterns.split()),
    )


WATCHED: tuple[Watch, ...] = (
    _watch(
        "policy",
        "is Cloche's own policy file: it decides what later boxes may do",
        names="cloche.toml",
    ),
    _watch(
        "agent-config",
        "tells coding agents what to do or which tools (MCP servers) to start",
        folders=(
            ".claude .codex .continue .cursor .gemini .goose .kiro .opencode .roo .windsurf .augment "
            ".junie .amazonq .crush"
        ),
        prefixes=".github/copilot .github/instructions/ .github/prompts/ .github/chatmodes/",
        names=(
            "agents.md claude.md claude.local.md gemini.md copilot-instructions.md crush.json "
            ".clinerules .cursorrules .goosehints .mcp.json .roomodes .windsurfrules mcp.json "
            "opencode.json opencode.jsonc"
        ),
        patterns=".aider* mcp.*.json mcp_*.json .roorules*",
    ),
    _watch(
        "hooks",
        "is a hook, or names one: it runs on the machine of whoever installs or uses it",
        folders=".husky .githooks .git-hooks githooks git-hooks .git_hooks .lefthook",
        names=(
            ".huskyrc .pre-commit-config.yaml .pre-commit-hooks.yaml .overcommit.yml lefthook.yml "
            "lefthook.yaml .lefthook.yml lefthook.toml .simple-git-hooks.json .lintstagedrc "
            "captainhook.json " + _GIT_HOOKS
        ),
        patterns=".huskyrc.* .lintstagedrc.* simple-git-hooks.*",
    ),
    _watch(
        "ci",
        "is run by continuous integration, often with secrets",
        folders=".circleci .buildkite .woodpecker .tekton .teamcity .ci .semaphore .gitlab",
        prefixes=(
            ".github/workflows/ .github/actions/ .forgejo/workflows/ .gitea/workflows/ "
            ".github/dependabot .github/renovate .github/codeowners"
        ),
        names=(
            ".gitlab-ci.yml .travis.yml .drone.yml .drone.star .cirrus.yml .cirrus.star jenkinsfile "
            "azure-pipelines.yml azure-pipelines.yaml bitbucket-pipelines.yml appveyor.yml "
            ".appveyor.yml cloudbuild.yaml buildspec.yml codeowners .woodpecker.yml action.yml "
            "action.yaml renovate.json"
        ),
        patterns="*.gitlab-ci.yml jenkinsfile.*",
    ),
    _watch(
        "runs-by-itself",
        "is read by Git, an editor, a shell or a package manager and can start programs by itself",
        folders=".vscode .idea .devcontainer .zed .nvim .fleet .cargo .yarn",
        names=(
            ".gitattributes .gitmodules .gitconfig .lfsconfig .envrc .npmrc .yarnrc .yarnrc.yml "
            ".pnpmfile.cjs .pnp.cjs .pypirc pip.conf .bazelrc .tool-versions mise.toml .mise.toml "
            "sitecustomize.py usercustomize.py .exrc .nvimrc .vimrc .nvim.lua .lvimrc .dir-locals.el "
            ".gdbinit .lldbinit .bashrc .bash_profile .profile .zshrc .zshenv binding.gyp"
        ),
        patterns="*.code-workspace *.pth *.sublime-project",
    ),
    _watch(
        "lock-file",
        "pins what package managers install: its size hides what it brings",
        names=(
            "package-lock.json npm-shrinkwrap.json yarn.lock pnpm-lock.yaml bun.lock bun.lockb "
            "deno.lock cargo.lock poetry.lock pdm.lock uv.lock pipfile.lock pixi.lock conda-lock.yml "
            "pylock.toml go.sum go.work.sum composer.lock gemfile.lock flake.lock mix.lock "
            "pubspec.lock podfile.lock package.resolved gradle.lockfile packages.lock.json "
            "cartfile.resolved module.bazel.lock rebar.lock .terraform.lock.hcl "
            "gradle-wrapper.properties gradle-wrapper.jar maven-wrapper.properties chart.lock"
        ),
        patterns="pylock.*.toml *.lockfile",
    ),
)


# Interface code keeps functions called hooks in folders called hooks.
_INTERFACE_CODE = (".ts", ".tsx", ".js", ".jsx", ".mjs", ".vue", ".svelte", ".dart", ".kt", ".css", ".md")


def watched(path: bytes) -> tuple[Watch, ...]:
    """The kinds that a path belongs to. Names are compared without case, as some file systems do."""
    lowered = path.decode("utf-8", "surrogateescape").lower()
    *folders, name = lowered.split("/")
    above = frozenset(folders)
    return tuple(
        watch
        for watch in WATCHED
        if name in watch.names
        or watch.folders & above
        or lowered.startswith(watch.prefixes)
        or any(fnmatchcase(name, pattern) for pattern in watch.patterns)
        or (watch.check == "hooks" and "hooks" in above and not name.endswith(_INTERFACE_CODE))
    )
