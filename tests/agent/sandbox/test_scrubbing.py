"""The environment of a command."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from repoagent.agent.sandbox.policy import Policy, scrubbed

POLICY = Policy(Path("/work/tree"), Path("/work/scratch"))


DROPPED = """
ANTHROPIC_API_KEY OPENAI_API_KEY AWS_PROFILE AWS_ACCESS_KEY_ID GITHUB_TOKEN GH_HOST NPM_TOKEN MY_SERVICE_KEY
DB_PASSWORD SOME_SECRET X_TOKEN mytoken CI_JOB_TOKEN SESSION_COOKIE SENTRY_DSN GIT_DIR GIT_INDEX_FILE
GIT_SSH_COMMAND SSH_AUTH_SOCK SSH_AGENT_PID DBUS_SESSION_BUS_ADDRESS REPOAGENT_MODEL LD_PRELOAD LD_AUDIT
DYLD_INSERT_LIBRARIES BASH_ENV ENV DISPLAY TMUX XDG_RUNTIME_DIR DOCKER_HOST KUBECONFIG PYTHONSTARTUP MAKEFLAGS
BASH_FUNC_git%% SUDO_USER VSCODE_GIT_IPC_HANDLE
"""
KEPT = """
PATH HOME USER SHELL TERM LANG LC_ALL TZ PWD VIRTUAL_ENV CONDA_PREFIX JAVA_HOME GOPATH GOROOT GOFLAGS CARGO_HOME
RUSTUP_HOME RUSTFLAGS NODE_PATH NODE_OPTIONS NVM_DIR PYTHONPATH PYENV_ROOT LD_LIBRARY_PATH CC CFLAGS MAKE
PKG_CONFIG_PATH CI COLUMNS NO_COLOR ENVIRONMENT KEYBOARD MONKEY_PATCH GHC_HOME DISPLAYED STYLE GITEA
"""


@pytest.mark.parametrize(("names", "expected"), [(DROPPED, None), (KEPT, "short")], ids=["dropped", "kept"])
def test_variables_by_name(names: str, expected: str | None) -> None:
    assert {
        name for name in names.split() if scrubbed({name: "short"}, POLICY).get(name) != expected
    } == set()


def test_dropped_by_value() -> None:
    secret = "correct horse battery"
    env = scrubbed(
        {
            "MY_PASSWORD": secret,
            "COPY": f"--login={secret}",
            "DATABASE_URL": "postgres://ada:lovelace@db/x",
            "OTHER": "sk-ant-REDACTED"[:14] + "0123456789abcdef",
            "PATH": f"/bin:/{secret}",
            "FINE": "https://example.com/x?y=z",
        },
        POLICY,
    )
    assert "FINE" in env and not {"MY_PASSWORD", "COPY", "DATABASE_URL", "OTHER"} & env.keys()
    assert env["PATH"] == f"/bin:/{secret}"


def test_caches_go_to_the_scratch_folder() -> None:
    ours = dict.fromkeys(("TMPDIR", "XDG_CACHE_HOME", "GOCACHE"), "/elsewhere")
    env = scrubbed({**ours, "HOME": "/home/ada"}, POLICY)
    assert env["HOME"] == "/home/ada"
    assert {env[name] for name in ("TMPDIR", "TMP", "TEMP")} == {"/work/scratch"}
    assert not any("/elsewhere" in value for value in env.values())


def test_tools_are_offline_without_network() -> None:
    assert scrubbed({}, POLICY)["CARGO_NET_OFFLINE"] == "true"
    allowed = Policy(POLICY.top, POLICY.scratch, network=True)
    assert "CARGO_NET_OFFLINE" not in scrubbed({}, allowed)


def test_downloads_of_gradle_are_readable(tmp_path: Path) -> None:
    (tmp_path / ".gradle" / "caches").mkdir(parents=True)
    env = scrubbed({"HOME": str(tmp_path)}, POLICY)
    assert env["GRADLE_RO_DEP_CACHE"] == str(tmp_path / ".gradle" / "caches")
    assert env["GRADLE_USER_HOME"] == "/work/scratch/cache/gradle"


@given(st.dictionaries(st.text(min_size=1), st.text()))
def test_other_variables_are_unchanged(environment: dict[str, str]) -> None:
    ours = scrubbed({}, POLICY)
    for name, value in scrubbed(environment, POLICY).items():
        assert value == ours.get(name, environment.get(name))
