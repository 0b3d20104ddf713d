"""Which files change together: where an answer comes from, and what it says without a whole index."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from repoagent.errors import UsageError
from repoagent.git.worktree import open_worktree
from repoagent.history import neighbors as task
from repoagent.history.cochange import rank_neighbors
from repoagent.history.index import index
from repoagent.history.neighbors import Neighborhood, neighborhood
from repoagent.history.recent_commits import read_recent
from tests.conftest import GitRepo
from tests.history.histories import commit_files, partial_clone, without_a_fetch


def ask(repo: GitRepo, *paths: str, revision: str = "HEAD", picture: bool = False) -> Neighborhood:
    return neighborhood(open_worktree(repo.top), paths, revision, picture=picture)


def together(found: Neighborhood) -> dict[str, tuple[int, int]]:
    return {row.path.decode(): (row.together, row.commits) for row in found.rows if row.together}


PAIR = "core.py test_core.py"


def test_a_small_history_is_indexed_at_once(repo: GitRepo) -> None:
    commit_files(repo, *[PAIR] * 3)
    found = ask(repo, "core.py")
    assert (found.state, found.note, found.looked_at) == ("whole", "", 3)
    assert together(found) == {"test_core.py": (3, 3)}
    assert found.commit == repo.head()
    (row,) = [row for row in found.rows if row.together]
    assert [found.ids[number] for number in row.evidence] == repo.git("log", "-3", "--format=%H").split()


def test_the_index_follows_a_rename_and_says_the_present_name(repo: GitRepo) -> None:
    commit_files(repo, *[PAIR] * 3)
    repo.git("mv", "core.py", "kernel.py")
    repo.commit("rename")
    assert together(ask(repo, "kernel.py"))["test_core.py"][0] == 3
    found = ask(repo, "core.py")
    assert found.paths == (b"kernel.py",) and found.note == "core.py is now kernel.py"
    old = ask(repo, "core.py", revision="HEAD~1")
    assert old.paths == (b"core.py",) and old.note == ""


@pytest.mark.soak
def test_until_it_is_built_the_files_own_commits_answer(
    repo: GitRepo, monkeypatch: pytest.MonkeyPatch
) -> None:
    often = [f"other{number % 50}.c other.h" for number in range(1, 3001)]
    often[99::100] = ["core.c core.h"] * 30
    commit_files(repo, *often)
    monkeypatch.setattr(task, "MINING_SECONDS", 0.0)
    monkeypatch.setattr(task, "QUICK_SECONDS", 30.0)
    monkeypatch.setattr(index, "mine_in_background", lambda worktree: None)
    found = ask(repo, "core.c", picture=True)
    assert found.state == "recent"
    assert "the history index is being built a part at a time by each command (`repoagent mine`" in found.note
    assert together(found) == {"core.h": (30, 30)}
    assert len(next(iter(found.ids.values()))) == 40
    many = ask(repo, "other.h")
    assert many.state == "building" and "commits so far" in many.note
    monkeypatch.setattr(task, "QUICK_SECONDS", 0.0)  # git log finds nothing in time
    monkeypatch.setattr(index, "mine_in_background", lambda worktree: True)
    few = ask(repo, "core.c")
    assert few.state == "building" and "core.h" in together(few)
    assert "is being built (`repoagent mine`" in few.note
    monkeypatch.setattr(task, "MINING_SECONDS", 30.0)
    whole = ask(repo, "core.c")
    assert whole.state == "whole" and together(whole) == {"core.h": (30, 30)}


def test_without_a_place_for_an_index_there_is_an_answer_all_the_same(repo: GitRepo) -> None:
    commit_files(repo, *[PAIR] * 2)
    repo.write(".repoagent", "not a folder")
    found = ask(repo, "core.py")
    assert found.state == "recent" and found.note.startswith("no index: ")
    assert together(found) == {"test_core.py": (2, 2)}


def test_a_picture_has_the_edges_between_neighbors_too(repo: GitRepo) -> None:
    commit_files(repo, *["a.c b.c c.c"] * 4, *["b.c c.c"] * 4)
    found = ask(repo, "a.c", picture=True)
    edges = {(edge.one, edge.other): edge for edge in found.edges}
    assert {(b"a.c", b"b.c"), (b"a.c", b"c.c"), (b"b.c", b"c.c")} <= set(edges)
    assert edges[b"b.c", b"c.c"].together == 8
    assert all(number in found.ids for edge in found.edges for number in edge.evidence)
    assert ask(repo, "a.c").edges == ()


def test_a_folder_stands_for_its_files(repo: GitRepo, monkeypatch: pytest.MonkeyPatch) -> None:
    commit_files(repo, *["lib/a.c lib/b.c lib/c.c doc/lib.md"] * 3, "lib/a.c lib/b.c")
    found = ask(repo, "lib", picture=True)
    assert found.paths == (b"lib/",) and together(found) == {"doc/lib.md": (3, 4)}
    assert [edge.one for edge in found.edges if edge.other == b"doc/lib.md"] == [b"lib/"]
    monkeypatch.setattr(task, "FILES_OF_FOLDER", 2)
    found = ask(repo, "lib")
    assert found.note == "based on the 2 most recently changed of the 3 files in lib"
    assert found.looked_at == 4


def test_linked_work_trees_each_see_their_own_branch(repo: GitRepo, tmp_path: Path) -> None:
    repo.commit("pair", **{"core.py": "1", "main_only.py": "1"})
    repo.git("worktree", "add", "-q", "-b", "side", str(tmp_path / "side"), "HEAD~1")
    side = GitRepo(tmp_path / "side")
    side.commit("pair", **{"core.py": "2", "side_only.py": "2"})
    assert set(together(ask(repo, "core.py"))) == {"main_only.py"}
    assert set(together(ask(side, "core.py"))) == {"side_only.py"}
    assert set(together(ask(side, "core.py", revision="main"))) == {"main_only.py"}


def test_what_stands_for_nothing_is_refused(repo: GitRepo) -> None:
    for path in ("nope", "src/nope.py", "."):
        with pytest.raises(UsageError):
            ask(repo, path)
    with pytest.raises(UsageError, match="no such commit"):
        ask(repo, "a.txt", revision="nope")


def test_an_index_that_breaks_as_it_is_read(repo: GitRepo, capsys: pytest.CaptureFixture[str]) -> None:
    commit_files(repo, *[PAIR] * 3)
    ask(repo, "core.py")
    with closing(sqlite3.connect(repo.top / ".repoagent/history.db")) as connection:
        connection.execute("DROP TABLE touch")
    found = ask(repo, "core.py")
    assert found.state == "recent" and "history.db was damaged" in found.note
    assert together(found) == {"test_core.py": (3, 3)} and found.commit == repo.head()
    assert capsys.readouterr().err.count("renamed it to history.db.broken-1") == 1
    assert ask(repo, "core.py").state == "whole"


def test_a_clone_without_trees_fetches_none(repo: GitRepo) -> None:
    repo.commit("pair", **{"core.py": "1", "test_core.py": "1"})
    clone = partial_clone(repo, "tree:0")
    clone.git("config", "protocol.file.allow", "always")
    clone.git("rm", "-q", "--cached", "test_core.py")
    with without_a_fetch(clone):
        found = ask(clone, "core.py")
    assert "lacks the trees" in found.note and "no indexed commits yet" in found.note


def test_a_clone_without_blobs_answers_for_an_old_revision(repo: GitRepo) -> None:
    commit_files(repo, *[PAIR] * 4)
    clone = partial_clone(repo, "blob:none")
    assert ask(clone, "core.py").state == "whole"
    with without_a_fetch(clone):
        found = ask(clone, "core.py", revision="HEAD~1")
    assert found.state == "whole" and together(found) == {"test_core.py": (3, 3)}


def test_without_an_index_partners_are_ranked_and_deleted_files_and_floods_are_none(repo: GitRepo) -> None:
    flood = " ".join(f"many/{number}.txt" for number in range(150))
    rare = ["core.py", "core.py stray.txt", "core.py gone.py", f"core.py {flood}"]
    commit_files(repo, *[PAIR] * 4, *["core.py docs.md"] * 2, *rare)
    repo.git("rm", "-q", "gone.py")
    repo.commit("remove it")
    view = read_recent(repo.top, "core.py", seconds=10)
    file = view.file(b"core.py")
    assert file is not None
    rows = rank_neighbors(view, [file], [b"core.py"])
    found = {row.path: (row.together, row.commits) for row in rows if row.together}
    assert found == {b"test_core.py": (4, 10), b"docs.md": (2, 10), b"stray.txt": (1, 10)}
    assert rows[0].path == b"test_core.py"
