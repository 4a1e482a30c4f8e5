"""What is written down holds no secret that its place or form gave away, and everything else as it was."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backends.evidence.redact import MARK, is_secret_name, redact_argv, redact_env, redact_text

SECRET = "s3cr3tValue9"


@pytest.mark.parametrize(
    ("argv", "expected"),
    [
        (["gh", f"--token={SECRET}"], ("gh", f"--token={MARK}")),
        (["gh", "--token", SECRET, "list"], ("gh", "--token", MARK, "list")),
        (["x", "-password", SECRET], ("x", "-password", MARK)),
        (["x", "--password=with some spaces"], ("x", f"--password={MARK}")),
        (["x", "--db-password", "a b"], ("x", "--db-password", MARK)),
        (["x", "--clientSecret", SECRET], ("x", "--clientSecret", MARK)),
        (["env", f"API_KEY={SECRET}", "make"], ("env", f"API_KEY={MARK}", "make")),
        (["env", f"PGPASSWORD={SECRET}", "psql"], ("env", f"PGPASSWORD={MARK}", "psql")),
        (["curl", "-H", f"Authorization: Bearer {SECRET}"], ("curl", "-H", f"Authorization: Bearer {MARK}")),
        (["curl", "-H", f"X-Api-Key: {SECRET}"], ("curl", "-H", f"X-Api-Key: {MARK}")),
        (["curl", "-H", f"Cookie: a={SECRET}; b={SECRET}"], ("curl", "-H", f"Cookie: {MARK}")),
        (["curl", "-u", f"me:{SECRET}", "http://h"], ("curl", "-u", MARK, "http://h")),
        (["curl", f"-ume:{SECRET}"], ("curl", f"-u{MARK}")),
        (["curl", f"https://me:{SECRET}@h.example/x"], ("curl", f"https://{MARK}@h.example/x")),
        (["curl", f"https://h/?token={SECRET}&page=2"], ("curl", f"https://h/?token={MARK}&page=2")),
        (["mysql", f"-p{SECRET}", "-uroot"], ("mysql", f"-p{MARK}", "-uroot")),
        (["/usr/bin/sshpass", "-p", SECRET, "ssh", "h"], ("/usr/bin/sshpass", "-p", MARK, "ssh", "h")),
        (["docker", "login", "-p", SECRET], ("docker", "login", "-p", MARK)),
        (
            ["sh", "-c", f"GH_TOKEN={SECRET} gh pr list --password '{SECRET}' | cat"],
            ("sh", "-c", f"GH_TOKEN={MARK} gh pr list --password '{MARK}' | cat"),
        ),
        (
            ["python3", "-c", f"post({{'password': '{SECRET}', 'user': 'me'}})"],
            ("python3", "-c", f"post({{'password': '{MARK}', 'user': 'me'}})"),
        ),
        (
            ["curl", "-d", f'{{"api_key":"{SECRET}","n":1}}'],
            ("curl", "-d", f'{{"api_key":"{MARK}","n":1}}'),
        ),
        (
            ["npm", "config", "set", f"//registry/:_authToken={SECRET}"],
            ("npm", "config", "set", f"//registry/:_authToken={MARK}"),
        ),
    ],
)
def test_secrets_on_a_command_line_are_replaced_where_they_stand(
    argv: list[str], expected: tuple[str, ...]
) -> None:
    assert redact_argv(argv) == expected


@pytest.mark.parametrize(
    "argv",
    [
        ["git", "commit", "--author=me", "-m", "improve token handling"],
        ["x", "--max-tokens", "100"],
        ["docker", "run", "-p", "80:80", "image"],
        ["mkdir", "-p", "a/b"],
        ["docker", "login", "--password-stdin"],
        ["x", "--token-file", "/run/t"],
        ["x", "PWD=/work", "KEYMAP=us"],
        ["sort", "--key=2", "-t", ":"],
        ["ssh", "ssh://git@host/repo"],
        ["npm", "install", "left-pad@1.3.0"],
        ["pytest", "tests/auth/test_login.py::test_basic", "-k", "basic authentication"],
        [],
    ],
)
def test_ordinary_command_lines_are_kept_as_they_are(argv: list[str]) -> None:
    assert redact_argv(argv) == tuple(argv)


@pytest.mark.parametrize(
    "token",
    [
        "ghp_" + "a1" * 18,
        "github_pat_" + "A1b2" * 10,
        "glpat-" + "x" * 20,
        "sk-ant-api03-" + "q" * 40,
        "sk_live_" + "z" * 24,
        "xoxb-123456789012-abcdef",
        "AKIA" + "ABCDEFGH12345678",
        "AIza" + "b" * 35,
        "npm_" + "c" * 36,
        "pypi-AgEIcHlwaS5vcmc" + "d" * 20,
        "hf_" + "e" * 34,
        "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2lnbmF0dXJl",
        "-----BEGIN OPENSSH PRIVATE KEY-----\nAAAA\nBBBB\n-----END OPENSSH PRIVATE KEY-----",
        "-----BEGIN PRIVATE KEY-----\nAAAA cut off",
    ],
)
def test_known_token_formats_are_found_under_any_name(token: str) -> None:
    argv = redact_argv(["x", "--innocent", token, f"pre {token} post", f"name={token}"])
    assert not any(token in a or token[-12:] in a for a in argv)
    assert redact_text(f"see {token}").startswith("see [redacted]")


def test_environment_values_go_by_name_and_by_content() -> None:
    env = {
        "AWS_SECRET_ACCESS_KEY": SECRET,
        "MYSQL_PWD": SECRET,
        "EMPTY_TOKEN": "",
        "PWD": "/work",
        "DATABASE_URL": f"postgres://app:{SECRET}@db/app",
        "PATH": "/usr/bin:/bin",
    }
    assert redact_env(env) == {
        "AWS_SECRET_ACCESS_KEY": MARK,
        "MYSQL_PWD": MARK,
        "EMPTY_TOKEN": "",
        "PWD": "/work",
        "DATABASE_URL": f"postgres://{MARK}@db/app",
        "PATH": "/usr/bin:/bin",
    }


SECRET_NAMES = st.sampled_from(
    [
        "token",
        "password",
        "GITHUB_TOKEN",
        "api-key",
        "apiKey",
        "client_secret",
        "DB_PASS",
        "auth",
        "PGPASSWORD",
    ]
)
VALUES = st.text(
    st.characters(min_codepoint=48, max_codepoint=122, categories=("L", "N")), min_size=8, max_size=40
)


@given(
    SECRET_NAMES,
    VALUES,
    st.text(max_size=30),
    st.sampled_from(["{n}={v}", "--{n}={v}", '"{n}": "{v}"', "{n}: {v}"]),
)
def test_a_value_under_a_secret_name_never_survives(name: str, value: str, around: str, form: str) -> None:
    value = "Zq" + value
    text = form.format(n=name, v=value)
    around = around.replace(value, "")
    assert is_secret_name(name)
    assert value not in " ".join(redact_argv(["x", "--" + name, value, text]))
    assert value not in redact_text(f"before {text} after")
    assert value not in redact_text(f"{around}\n{text}\n{around}")
    assert value not in redact_env({name: value})[name]


@given(st.lists(st.text(max_size=60), max_size=6))
def test_redaction_keeps_the_number_of_arguments_and_is_stable(argv: list[str]) -> None:
    once = redact_argv(argv)
    assert len(once) == len(argv)
    assert redact_argv(once) == once


@given(
    st.lists(
        st.sampled_from(
            [
                "token",
                "=",
                ":",
                " ",
                '"',
                "'",
                "\\",
                "Bearer",
                "x",
                "--",
                "-p",
                "://",
                "@",
                "cookie",
                MARK,
                "\n",
                "&",
            ]
        ),
        max_size=14,
    )
)
def test_a_second_pass_changes_nothing(parts: list[str]) -> None:
    once = redact_text("".join(parts))
    assert redact_text(once) == once


@pytest.mark.parametrize(
    "text",
    [
        "a=" * 60_000, "://" * 40_000, "a:// " * 20_000, "-----BEGIN PRIVATE KEY-----" * 4_000,
        '"' * 120_000, "sk-" * 40_000, "Bearer " * 17_000, "pass:" * 24_000, "cookie:" * 17_000,
        "--token " * 15_000, "aB" * 60_000, "token=\\\"" * 14_000, 'token="' * 20_000, "eyJ." * 30_000,
    ],
)  # fmt: skip
def test_a_hostile_argument_cannot_make_redaction_slow(text: str) -> None:
    start = time.process_time()
    redact_text(text)
    redact_argv(["x", text])
    assert time.process_time() - start < 15.0
