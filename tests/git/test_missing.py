"""A missing file: which similar names are suggested, and which one is used instead."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from repoagent.git.files import no_such_file, similar_paths
from tests.conftest import GitRepo

PATHS = [
    "README.md", "docs/api.rst", "docs/conf.py", "setup.py", "src/pkg/__init__.py", "src/pkg/adapters.py",
    "src/pkg/api.py", "src/pkg/sessions.py", "tests/__init__.py", "tests/test_api.py", "web/app.py",
]  # fmt: skip
NEAR = {
    "src/pkg/api.py": ["src/pkg/apy.py", "src/pkg/aip.py", "src/pgk/api.py", "api.py", "pkg/apy.py", "src/apy.py", "lib/v2/api.py"],
    "src/pkg/sessions.py": ["sesion.py"], "src/pkg/adapters.py": ["adaptor.py"], "README.md": ["readme.rst"],
    "setup.py": ["setup"], "docs/conf.py": ["docs/conf.p"], "tests/__init__.py src/pkg/__init__.py": ["__init__.py"],
    "": ["z.py", "settings.py", "src/pkg/models.py"],
}  # fmt: skip


def test_only_near_names_are_suggested() -> None:
    for near, names in NEAR.items():
        assert {name: similar_paths(name, PATHS) for name in names} == dict.fromkeys(names, near.split())


def test_the_sentence(repo: GitRepo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for path in ("src/pkg/api.py", "web/with space.py", "a/twin.py", "b/twin.py", "c/lost.py", "gone.py"):
        repo.write(path, "x\n")
    repo.commit("more")
    repo.write("src/new_module.py", "not tracked\n")
    repo.write(".gitignore", "*.log\n")
    repo.write("build.log", "ignored\n")
    for path in ("c/lost.py", "gone.py"):
        (repo.top / path).unlink()
    monkeypatch.chdir(repo.top)
    for name, rest in {
        "api.py": "; did you mean src/pkg/api.py?",
        "pkg/api.py": "; did you mean src/pkg/api.py?",
        "src/pkg/apy.py": "; did you mean src/pkg/api.py?",
        "web/with spaces.py": "; did you mean 'web/with space.py'?",
        "new_module.py": "; did you mean src/new_module.py?",
        "twin.py": "; did you mean a/twin.py or b/twin.py?",
        "biuld.log": "",
        "lost.py": "",
        "gone.py": ", which git still tracks; `git restore gone.py` restores it",
    }.items():
        assert str(no_such_file(name, repo.top)) == f"no such file: {name}{rest}"
    assert str(no_such_file("new.py", repo.top, remedy="use -x")) == "no such file: new.py; use -x"
    monkeypatch.chdir(repo.top / "web")
    from_top = no_such_file("src/pkg/api.py", Path.cwd())
    assert from_top.worded(os.path.relpath).endswith("did you mean ../src/pkg/api.py?")
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside/api.py").write_text("x\n")
    monkeypatch.chdir(tmp_path / "outside")
    assert str(no_such_file("apy.py", Path.cwd())) == "no such file: apy.py"


def test_fifty_thousand_files_are_compared_quickly() -> None:
    paths = [f"src/part{number % 97}/module_{number}.py" for number in range(50_000)]
    similar_paths("warm.py", ["up.py"])  # the import
    start = time.process_time()
    near = similar_paths("src/part3/modul_4853.py", paths)
    assert near[0] == "src/part3/module_4853.py"
    assert time.process_time() - start < 1.0  # 0.1 s on an idle machine; pairwise difflib takes 5 s
