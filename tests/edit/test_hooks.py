"""The user's hooks, signature, other work, and changes during an edit."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.conftest import GitRepo
from tests.edit.conftest import GREET, Run, Script

PRE_COMMIT = """\
repos:
- repo: local
  hooks:
  - {id: polite, name: polite, language: system, entry: "sed -i s/hello,/Hello,/", types: [text]}
"""


def test_a_formatter_and_other_work_around(repo: GitRepo, edit: Run, script: Script, tmp_path: Path) -> None:
    env = {"PRE_COMMIT_HOME": str(tmp_path / "pre-commit")}
    program = Path(sys.executable).parent / "pre-commit"
    repo.write(".pre-commit-config.yaml", PRE_COMMIT)
    repo.commit("hooks")
    install = [program, "install"]
    subprocess.run(install, cwd=repo.top, env={**os.environ, **env}, check=True, capture_output=True)
    repo.write("README.md", "staged hello,\n")
    repo.git("add", "README.md")
    repo.write("README.md", "staged hello,\nand unstaged hello,\n")
    repo.write("src/app.py", repo.read("src/app.py") + b"\n# mine: hello,\n")
    repo.write("a.txt", repo.read("a.txt") + b"unstaged hello,\n")
    before = {name: repo.read(name) for name in ("README.md", "a.txt")}, repo.status()
    script.replies(GREET)
    done = edit(env=env)
    assert "src/app.py changed while hooks ran; the new version was committed" in done.err
    committed = repo.git("show", "HEAD:src/app.py")
    assert "    return f'Hello, {name}'\n" in committed and "mine" not in committed
    assert repo.git("show", "--format=", "--name-only").split() == ["src/app.py"]
    assert ({name: repo.read(name) for name in ("README.md", "a.txt")}, repo.status()) == before
    assert repo.git("diff", "--cached", "--name-only").split() == ["README.md"]
    assert repo.read("src/app.py").endswith(b"\n# mine: hello,\n") and b"Hello" in repo.read("src/app.py")
    assert len(script.prompts) == 1


def test_a_failed_signature_does_not_go_to_the_model(repo: GitRepo, edit: Run, script: Script) -> None:
    repo.git("config", "gpg.format", "ssh")
    repo.git("config", "user.signingKey", "/nowhere/key")
    script.replies(GREET)
    head = repo.head()
    assert "nowhere" in edit("-S", code=6).err
    assert (repo.head(), repo.status(), len(script.prompts)) == (head, "", 1)
    edit()
    assert len(script.prompts) == 1  # the answer was saved


def test_a_hook_that_always_fails_ends_the_run(repo: GitRepo, edit: Run, script: Script) -> None:
    repo.hook("commit-msg", "echo the subject has no ticket >&2\nexit 1\n")
    script.replies(*[f"<commit>Subject {n}</commit>\n" + GREET for n in range(9)])
    head = repo.head()
    assert "no ticket" in edit(code=6).err and "no ticket" in script.prompts[1]
    assert len(script.prompts) == 4  # the first, and three more
    assert (repo.head(), repo.status()) == (head, "")


def test_a_change_that_no_longer_fits_is_saved(repo: GitRepo, edit: Run, script: Script) -> None:
    for act in ("sed -i s/hello/bye/ src/app.py", "rm src/app.py"):
        repo.git("checkout", "-q", "--", "src/app.py")
        script.replies(GREET)
        script.act(0, act)
        head = repo.head()
        done = edit(code=3)
        assert "src/app.py changed, and the edit no longer applies" in done.err
        patch = Path(done.err.strip().rpartition("saved in ")[2])
        repo.git("apply", "--check", "--cached", str(patch))
        assert repo.head() == head and not (repo.top / ".git/index.lock").exists()
