"""The mounts for a policy and their order, without a sandbox; the environment of a command."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from repoagent.agent.sandbox.confine import prepare_scratch
from repoagent.agent.sandbox.launch.syscalls import paths_without
from repoagent.agent.sandbox.mounts import plan_mounts, writable_roots
from repoagent.agent.sandbox.policy import Policy, default_hidden, scrub_environment


@pytest.fixture
def policy(tmp_path: Path) -> Policy:
    for folder in ("top/.git", "top/sub/deep", "home/.ssh"):
        (tmp_path / folder).mkdir(parents=True)
    top = tmp_path / "top"
    policy = Policy(top, tmp_path / "scratch", (top / ".git",), (tmp_path / "home/.ssh",))
    prepare_scratch(policy)
    return policy


def what(policy: Policy) -> dict[str, str]:
    """The kind of mount of each path below the folder of the test."""
    base = str(policy.top.parent)
    return {
        path.removeprefix(base): kind for kind, _, path in plan_mounts(policy).steps if path.startswith(base)
    }


def test_deeper_path_comes_later_and_decides(policy: Policy) -> None:
    inside = replace(policy, scratch=policy.top / ".git" / "scratch")
    prepare_scratch(inside)
    mounts = what(inside)
    targets = list(mounts)
    assert (mounts["/top/.git"], mounts["/top/.git/scratch"]) == ("keep", "write")
    assert targets.index("/top") < targets.index("/top/.git") < targets.index("/top/.git/scratch")


def test_read_only_path_cannot_be_made_writable(policy: Policy) -> None:
    wide = replace(policy, also_write=(policy.top / ".git", policy.top.parent / "home"))
    (policy.top / ".git" / "hooks").mkdir()
    wider = replace(wide, also_write=(policy.top / ".git" / "hooks",))
    assert (what(wide)["/top/.git"], what(wide)["/home"]) == ("keep", "write")
    assert "/top/.git/hooks" not in what(wider) and writable_roots(wider) == [str(policy.top)]
    read_only = replace(policy, read_only=True)
    assert writable_roots(read_only) == [] and what(read_only)["/top"] == "keep"


def test_folders_above_a_name(policy: Policy) -> None:
    """Those above a read-only name cannot be renamed; those between it and the scratch folder are read-only."""
    (policy.top / "sub/deep/.git").write_text("gitdir: elsewhere\n")
    nested = replace(policy, keep=(*policy.keep, policy.top / "sub/deep/.git"))
    steps = {target: kind for target, kind in what(nested).items() if "/sub" in target}
    assert steps == {"/top/sub": "pin", "/top/sub/deep": "pin", "/top/sub/deep/.git": "keep"}
    inside = replace(policy, scratch=policy.top / ".git" / "runs" / "one" / "scratch")
    prepare_scratch(inside)
    assert [what(inside)[f"/top/.git{below}"] for below in ("", "/runs", "/runs/one")] == ["keep"] * 3


def test_shielded_name_is_read_only_unless_allowed(policy: Policy) -> None:
    (policy.top / "AGENTS.md").write_text("x")
    (policy.top / "CLAUDE.md").symlink_to("AGENTS.md")
    (policy.top / ".idea").mkdir()
    names = tuple(policy.top / name for name in ("AGENTS.md", "CLAUDE.md", ".vscode", ".idea", ".envrc"))
    shielded = replace(policy, shield=names)
    assert what(shielded)["/top/AGENTS.md"] == what(shielded)["/top/.vscode"] == "keep"
    assert not plan_mounts(shielded).narrow and plan_mounts(shielded).missing == tuple(map(str, names[2:]))
    assert "/top/.envrc" not in what(replace(shielded, also_write=(policy.top / ".envrc",)))


def test_missing_name_gets_a_placeholder(policy: Policy) -> None:
    kept = (policy.top / ".repoagent", policy.top / "new/deep/.git", Path("/not/in/the/tree"))
    missing = (str(policy.top / ".repoagent"), str(policy.top / "new"))
    assert plan_mounts(replace(policy, keep=kept)).missing == missing


def test_read_only_link_makes_the_top_narrow(policy: Policy) -> None:
    (policy.top / ".repoagent").symlink_to("sub")
    narrow = replace(policy, keep=(*policy.keep, policy.top / ".repoagent"))
    assert plan_mounts(narrow).narrow and not plan_mounts(policy).narrow
    assert what(narrow)["/top"] == what(narrow)["/top/sub"] == "keep"


def test_target_of_a_hidden_link_is_hidden(policy: Policy) -> None:
    home = policy.top.parent / "home"
    (home / "real").write_text("key")
    (home / ".netrc").symlink_to("real")
    hidden = replace(policy, hide=(home / ".netrc", home / "missing", home / ".ssh"), also_read=(home,))
    steps = {target: kind for target, kind in what(hidden).items() if "/home" in target}
    assert steps == {"/home": "keep", "/home/.ssh": "folder", "/home/real": "file"}


def test_paths_without_excluded_ones(tmp_path: Path) -> None:
    for folder in ("a/b/c", "a/d", "e"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "link").symlink_to("e")
    base = str(tmp_path)
    assert list(paths_without(base, [])) == [base]
    assert sorted(paths_without(base, [f"{base}/a/b"])) == [f"{base}/a/d", f"{base}/e"]
    assert sorted(paths_without(base, [f"{base}/a/b", f"{base}/missing"])) == [f"{base}/a/d", f"{base}/e"]
    assert list(paths_without(f"{base}/a", [base])) == [f"{base}/a"]
    assert list(paths_without(base, [base])) == []


def test_default_paths_of_keys(tmp_path: Path) -> None:
    for name in (".ssh", ".config/repoagent", "elsewhere/gh"):
        (tmp_path / name).mkdir(parents=True)
    for name in (".netrc", "key.json", "kube1", "kube2"):
        (tmp_path / name).write_text("key")
    env = {
        "XDG_CONFIG_HOME": str(tmp_path / "elsewhere"),
        "GOOGLE_APPLICATION_CREDENTIALS": str(tmp_path / "key.json"),
        "KUBECONFIG": f"{tmp_path}/kube1:{tmp_path}/kube2:relative",
    }
    names = {".ssh", ".config/repoagent", "elsewhere/gh", ".netrc", "key.json", "kube1", "kube2"}
    paths = {path for path in default_hidden(tmp_path, env) if path.is_relative_to(tmp_path)}
    assert paths == {tmp_path / name for name in names}


# The environment of a command.

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


def test_variables_by_name() -> None:
    for names, expected in ((DROPPED, None), (KEPT, "short")):
        for name in names.split():
            assert scrub_environment({name: "short"}, POLICY).get(name) == expected, name


def test_dropped_by_value() -> None:
    secret = "correct horse battery"
    dropped = {
        "MY_PASSWORD": secret,
        "COPY": f"--login={secret}",
        "DATABASE_URL": "postgres://ada:lovelace@db/x",
        "OTHER": "sk-ant-REDACTED"[:14] + "0123456789abcdef",
    }
    kept = {"PATH": f"/bin:/{secret}", "FINE": "https://example.com/x?y=z"}
    env = scrub_environment({**dropped, **kept}, POLICY)
    assert not dropped.keys() & env.keys() and env.items() >= kept.items()


def test_caches_and_downloads_of_tools(tmp_path: Path) -> None:
    (tmp_path / ".gradle/caches").mkdir(parents=True)
    ours = dict.fromkeys(("TMPDIR", "XDG_CACHE_HOME", "GOCACHE"), "/elsewhere")
    env = scrub_environment({**ours, "HOME": str(tmp_path)}, POLICY)
    assert env["HOME"] == str(tmp_path)
    assert {env[name] for name in ("TMPDIR", "TMP", "TEMP")} == {"/work/scratch"}
    assert not any("/elsewhere" in value for value in env.values())
    assert env["GRADLE_RO_DEP_CACHE"] == str(tmp_path / ".gradle/caches")
    assert env["GRADLE_USER_HOME"] == "/work/scratch/cache/gradle"
    assert env["CARGO_NET_OFFLINE"] == "true"
    assert "CARGO_NET_OFFLINE" not in scrub_environment({}, replace(POLICY, network=True))


@given(st.dictionaries(st.text(min_size=1), st.text()))
def test_other_variables_are_unchanged(environment: dict[str, str]) -> None:
    ours = scrub_environment({}, POLICY)
    for name, value in scrub_environment(environment, POLICY).items():
        assert value == ours.get(name, environment.get(name))
