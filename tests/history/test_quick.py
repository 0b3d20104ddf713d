"""What a file's own last commits say, without an index."""

from __future__ import annotations

import os

from repoagent.history.cochange.score import neighbors
from repoagent.history.recent_commits import QuickLook
from tests.conftest import GitRepo


def together(repo: GitRepo, path: str) -> dict[str, tuple[int, int]]:
    with QuickLook(repo.top, path, seconds=10) as running:
        view = running.view()
    name = os.fsencode(path)
    file = view.file(name)
    rows = neighbors(view, [] if file is None else [file], [name])
    return {os.fsdecode(row.path): (row.together, row.commits) for row in rows if row.together}


def test_partners_are_ranked_and_counted(repo: GitRepo) -> None:
    for n in range(4):
        repo.commit("pair", **{"core.py": f"{n}", "test_core.py": f"{n}"})
    for n in range(2):
        repo.commit("other pair", **{"core.py": f"x{n}", "docs.md": f"{n}"})
    repo.commit("alone", **{"core.py": "alone"})
    repo.commit("once", **{"core.py": "once", "stray.txt": "1"})
    found = together(repo, "core.py")
    assert found == {"test_core.py": (4, 8), "docs.md": (2, 8), "stray.txt": (1, 8)}
    assert next(iter(found)) == "test_core.py"


def test_deleted_files_and_floods_are_no_partners(repo: GitRepo) -> None:
    for n in range(3):
        repo.commit("pair", **{"core.py": f"{n}", "gone.py": f"{n}"})
        repo.commit("flood", **{f"many/{k}.txt": f"{n}" for k in range(150)}, **{"core.py": f"flood {n}"})
    repo.git("rm", "-q", "gone.py")
    repo.commit("remove it")
    assert together(repo, "core.py") == {}


def test_odd_names_survive(repo: GitRepo) -> None:
    odd = 'naïve "x"\n.py'
    for n in range(2):
        repo.commit("pair", **{"core.py": f"{n}", odd: f"{n}"})
    assert together(repo, "core.py") == {odd: (2, 2)}


def test_no_commit_and_no_file(repo: GitRepo, make_repo) -> None:  # type: ignore[no-untyped-def]
    assert together(make_repo("empty"), "a.py") == {}
    assert together(repo, "never.py") == {}
