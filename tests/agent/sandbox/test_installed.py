"""Python environments: the folders that they make visible, but never because of a file in the work tree."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from repoagent.agent.sandbox.backends import Sandbox
from repoagent.agent.sandbox.policy import Policy, environments, scrubbed

from .world import params


def environment(folder: Path, base: Path | None = None) -> Path:
    """Create a virtual environment in `folder`, optionally with the interpreter `base`."""
    (folder / "bin").mkdir(parents=True)
    (folder / "pyvenv.cfg").write_text(f"home = {base / 'bin'}\n" if base else "include = no\n")
    return folder


def interpreter(folder: Path) -> Path:
    (folder / "lib/python3.12").mkdir(parents=True)
    (folder / "lib/python3.12/os.py").write_text("base\n")
    return folder


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "home").mkdir()
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    return tmp_path / "home"


def seen(tmp_path: Path, **env: object) -> list[str]:
    """The visible folders, relative to `tmp_path`; `top` is the work tree, and `home/.ssh` is hidden."""
    named = {name: str(value) for name, value in env.items()}
    folders = environments(named, [str(tmp_path / "top")], [str(tmp_path / "home/.ssh")])
    return [os.path.relpath(path, tmp_path) for path in folders]


def test_environment_and_its_interpreter_are_visible(tmp_path: Path) -> None:
    base = interpreter(tmp_path / "base")
    venv = environment(tmp_path / "venv", base)
    assert seen(tmp_path, PATH=f"/usr/bin:{venv}/bin/") == ["venv", "base"]
    assert seen(tmp_path, VIRTUAL_ENV=venv) == ["venv", "base"]
    (tmp_path / "conda/conda-meta").mkdir(parents=True)
    assert seen(tmp_path, CONDA_PREFIX=tmp_path / "conda") == ["conda"]
    (tmp_path / "plain/bin").mkdir(parents=True)
    assert seen(tmp_path, PATH=f"{tmp_path}/plain/bin:relative/bin:") == []


def test_environment_gives_no_access_to_secrets(tmp_path: Path, home: Path) -> None:
    base = interpreter(tmp_path / "base")
    for name in ("top", "top/venv", "home/.ssh/venv"):
        assert (
            seen(tmp_path, VIRTUAL_ENV=environment(tmp_path / name, base)) == []
        )  # a repository may contain such a file
    environment(home, base)
    environment(tmp_path, base)
    assert seen(tmp_path, VIRTUAL_ENV=home, PATH=f"{home}/bin:{tmp_path}/bin:/bin", CONDA_PREFIX="/") == []
    (tmp_path / "link").symlink_to(home / ".ssh")
    environment(tmp_path / "home/.ssh/more")
    assert seen(tmp_path, VIRTUAL_ENV=tmp_path / "link/more") == []


@pytest.mark.parametrize("base", ["home/.ssh", "home", "private", "top/base", ".."])
def test_home_of_an_environment_must_be_an_interpreter(tmp_path: Path, base: str) -> None:
    interpreter(tmp_path / "top/base")
    interpreter(tmp_path / "home/.ssh")
    (tmp_path / "private").mkdir()
    assert seen(tmp_path, VIRTUAL_ENV=environment(tmp_path / "venv", tmp_path / base)) == ["venv"]


def test_link_as_configuration_of_an_environment_is_ignored(tmp_path: Path) -> None:
    venv = environment(tmp_path / "venv")
    (venv / "pyvenv.cfg").rename(tmp_path / "cfg")
    (venv / "pyvenv.cfg").symlink_to(tmp_path / "cfg")
    assert seen(tmp_path, VIRTUAL_ENV=venv) == []


@pytest.mark.parametrize("sandbox", params())
def test_commands_read_an_environment_and_do_not_write_it(
    sandbox: Sandbox, tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    venv = environment(tmp_path / "venv", interpreter(tmp_path / "base"))
    (venv / "lib").mkdir()
    (venv / "lib/package.py").write_text("package\n")
    for name in ("top", "home/.config/tool", "home/.config/gh"):
        (tmp_path / name).mkdir(parents=True)
    (home / ".config/tool/settings").write_text("mine\n")
    (home / ".config/gh/hosts").write_text("secret\n")
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    monkeypatch.setenv("PATH", f"{venv}/bin:{os.environ['PATH']}")
    policy = Policy(tmp_path / "top", tmp_path / "scratch", hide=(home / ".config/gh",))
    script = f"""
    cat {venv}/lib/package.py {tmp_path}/base/lib/python3.12/os.py "$XDG_CONFIG_HOME"/tool/settings
    cat "$XDG_CONFIG_HOME"/gh/hosts 2>/dev/null || mkdir "$XDG_CONFIG_HOME"/new "$XDG_DATA_HOME"/new && echo made
    echo x 2>/dev/null >{venv}/lib/new || echo kept
    """
    done = subprocess.run(
        sandbox.wrap(["bash", "-c", script], policy),
        cwd=policy.top,
        env=scrubbed(os.environ, policy),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.stdout, done.stderr) == ("package\nbase\nmine\nmade\nkept\n", "")
