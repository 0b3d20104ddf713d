"""A missing file: which similar names are suggested, and which one is used instead."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from repoagent.git.similar_paths import no_such_file, similar
from tests.conftest import GitRepo

PATHS = [
    "README.md",
    "docs/api.rst",
    "docs/conf.py",
    "setup.py",
    "src/pkg/__init__.py",
    "src/pkg/adapters.py",
    "src/pkg/api.py",
    "src/pkg/sessions.py",
    "tests/__init__.py",
    "tests/test_api.py",
    "web/app.py",
]


@pytest.mark.parametrize(
    ("written", "near"),
    [
        ("src/pkg/apy.py", ["src/pkg/api.py"]),
        ("src/pkg/aip.py", ["src/pkg/api.py"]),  # swapped
        ("src/pgk/api.py", ["src/pkg/api.py"]),
        ("api.py", ["src/pkg/api.py"]),
        ("pkg/apy.py", ["src/pkg/api.py"]),
        ("src/apy.py", ["src/pkg/api.py"]),  # a folder left out
        ("lib/v2/api.py", ["src/pkg/api.py"]),  # the right name in another folder
        ("sesion.py", ["src/pkg/sessions.py"]),
        ("adaptor.py", ["src/pkg/adapters.py"]),
        ("readme.rst", ["README.md"]),
        ("setup", ["setup.py"]),
        ("docs/conf.p", ["docs/conf.py"]),
        ("__init__.py", ["tests/__init__.py", "src/pkg/__init__.py"]),
        ("z.py", []),
        ("settings.py", []),
        ("src/pkg/models.py", []),
    ],
)
def test_only_near_names_are_suggested(written: str, near: list[str]) -> None:
    assert similar(written, PATHS) == near


def test_the_sentence(repo: GitRepo, monkeypatch: pytest.MonkeyPatch) -> None:
    repo.write("src/pkg/api.py", "x\n")
    repo.write("web/with space.py", "x\n")
    repo.commit("more")
    repo.write("src/new_module.py", "not tracked\n")
    repo.write(".gitignore", "*.log\n")
    repo.write("build.log", "ignored\n")
    repo.write("gone.py", "x\n")
    repo.git("add", "gone.py")
    (repo.top / "gone.py").unlink()
    monkeypatch.chdir(repo.top)
    for name, sentence in [
        ("api.py", "no such file: api.py; did you mean src/pkg/api.py?"),
        ("pkg/api.py", "no such file: pkg/api.py; did you mean src/pkg/api.py?"),
        ("src/pkg/apy.py", "no such file: src/pkg/apy.py; did you mean src/pkg/api.py?"),
        ("web/with spaces.py", "no such file: web/with spaces.py; did you mean 'web/with space.py'?"),
        (
            "new_module.py",
            "no such file: new_module.py; did you mean src/new_module.py?",
        ),
        ("biuld.log", "no such file: biuld.log"),
        (
            "gone.py",
            "no such file: gone.py, which git still tracks; `git restore gone.py` restores it",
        ),
    ]:
        error = no_such_file(name, repo.top)
        assert str(error) == sentence
    assert (
        str(no_such_file("new.py", repo.top, remedy="use --create")) == "no such file: new.py; use --create"
    )
    monkeypatch.chdir(repo.top / "web")
    from_top = no_such_file("src/pkg/api.py", Path.cwd())
    assert from_top.worded(os.path.relpath) == (
        "no such file: src/pkg/api.py; did you mean ../src/pkg/api.py?"
    )


def test_several_files_of_a_name_are_suggested_and_no_missing_ones(
    repo: GitRepo, monkeypatch: pytest.MonkeyPatch
) -> None:
    for folder in ("a", "b"):
        repo.write(f"{folder}/api.py", "x\n")
    repo.write("c/lost.py", "x\n")
    repo.commit("more")
    (repo.top / "c/lost.py").unlink()
    monkeypatch.chdir(repo.top)
    several = no_such_file("api.py", repo.top)
    assert "did you mean a/api.py or b/api.py?" in str(several)
    assert no_such_file("lost.py", repo.top).near == ()


def test_outside_of_a_repository_there_is_no_suggestion(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "api.py").write_text("x\n")
    monkeypatch.chdir(tmp_path)
    assert str(no_such_file("apy.py", tmp_path)) == "no such file: apy.py"


def test_fifty_thousand_files_are_compared_quickly() -> None:
    paths = [f"src/part{number % 97}/module_{number}.py" for number in range(50_000)]
    similar("warm.py", ["up.py"])  # the import
    start = time.process_time()
    near = similar("src/part3/modul_4853.py", paths)
    assert near[0] == "src/part3/module_4853.py"
    assert time.process_time() - start < 1.0  # 0.1 s on an idle machine; pairwise difflib takes 5 s
