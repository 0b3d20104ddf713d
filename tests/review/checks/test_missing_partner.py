"""partner-missing: what it reports, and when it reports nothing."""

from __future__ import annotations

import sqlite3
from contextlib import closing

import pytest

from repoagent.review.change import ChangedLines
from repoagent.review.checks.file_kinds import only_comments
from tests.history.histories import partial_clone, without_a_fetch
from tests.review.builders import Files, change_of, history, modified, stage
from tests.review.checks.conftest import Made, answer, keys, mixed, noise, pairs

PAIR = mixed(noise(50), pairs(12, "api.py", "api.md"))


def test_missing_partners(made: Made) -> None:
    repo = made([*PAIR, *mixed(noise(50), pairs(12, "Cargo.lock", "Cargo.toml"))])
    stage(repo, {"api.py": "new\n"})
    (finding,) = answer(repo).findings
    assert (finding.key, finding.location.path, finding.level.word) == ("api.md", "api.py", "warning")
    assert [commit.subject for commit in finding.evidence] == [f"Change it {n}" for n in range(11, 6, -1)]
    assert "It changed in 12 of the last 12 commits" in finding.body
    assert "the threshold is 40%" in finding.body
    assert answer(repo, level="off").findings == ()
    assert answer(repo, level="error").findings[0].level.word == "error"
    changes: list[Files] = [
        {"api.py": "new\n", "api.md": "new\n"},
        {"api.py": "# why\n11\n"},
        {"api.py": "new\n", **{f"new/{n}": "x\n" for n in range(30)}},  # a large change
        {"Cargo.lock": "new\n"},  # its manifest
    ]
    for files in changes:
        repo.git("reset", "-q", "--hard")
        stage(repo, files)
        assert keys(repo) == [], files
    repo.git("reset", "-q", "--hard")
    stage(repo, {"api.md": None}, commit="Drop it")
    stage(repo, {"api.py": "new\n"})
    assert keys(repo) == []


def test_an_unfinished_index_is_reported(made: Made, monkeypatch: pytest.MonkeyPatch) -> None:
    repo = made(PAIR)
    stage(repo, {"api.py": "new\n"})
    monkeypatch.setattr("repoagent.review.checks.missing_partner.MINING_SECONDS", -1.0)
    monkeypatch.setattr("repoagent.history.index.miner._LOOK", 1)
    outcome = history(repo, "staged", "", {})
    assert outcome.notes == ("the history has not been indexed yet; run `repoagent mine` to index it",)


@pytest.mark.parametrize("table", ["author", "touch"])
def test_an_index_that_breaks_as_it_is_read(made: Made, table: str) -> None:
    repo = made(PAIR)
    stage(repo, {"api.py": "new\n"})
    answer(repo)
    with closing(sqlite3.connect(repo.top / ".repoagent/history.db")) as connection:
        connection.execute(f"DROP TABLE {table}")
    outcome = history(repo, "staged", "", {})
    assert outcome.findings == () and "could not look for files missing from the change: " in outcome.notes[0]
    assert "was damaged" in outcome.notes[0]
    assert keys(repo) == ["api.md"]  # it is built again


@pytest.mark.soak
def test_a_partner_that_changed_earlier_on_the_branch_is_not_missing(made: Made) -> None:
    repo = made(PAIR)
    repo.git("switch", "-qc", "topic")
    repo.commit("The page first", **{"api.md": "new\n"})
    stage(repo, {"api.py": "new\n"})
    assert keys(repo) == []
    repo.git("switch", "-qc", "other", "main")
    assert keys(repo) == ["api.md"]
    repo.git("commit", "-qm", "half")
    assert keys(repo, "range", "main..other") == ["api.md"]
    repo.commit("the other half", **{"api.md": "new\n"})
    assert keys(repo, "range", "main..other") == []
    assert keys(repo, "commit", "other") == []


@pytest.mark.soak
def test_a_renamed_file_keeps_its_history(made: Made) -> None:
    body = "".join(f"{n}\n" for n in range(30))
    repo = made(mixed(noise(50), pairs(12, "api.py", "api.md", text=body)))
    repo.git("mv", "api.py", "interface.py")
    (finding,) = answer(repo).findings
    assert (finding.key, finding.location.path) == ("api.md", "interface.py")


def test_a_clone_without_blobs(made: Made) -> None:
    repo = made(PAIR)
    repo.commit("half", **{"api.py": "new\n"})
    repo.commit("the other half", **{"api.md": "new\n"})
    clone = partial_clone(repo, "blob:none")
    with without_a_fetch(clone):
        assert keys(clone, "range", "HEAD~2..HEAD~1") == ["api.md"]


def test_a_few_unanimous_commits_are_enough(made: Made) -> None:
    repo = made(pairs(12, "api.py", "api.md"))
    stage(repo, {"api.py": "new\n"})
    (finding,) = answer(repo).findings
    assert "the threshold is 80%" in finding.body and "most relevant" not in finding.body


def test_commits_that_only_add_files_do_not_calibrate(made: Made) -> None:
    added = [(f"Add {n}", {f"new/{n}.py": f"{n}\n"}) for n in range(15)]
    repo = made([*added, *pairs(26, "api.py", "api.md")])
    stage(repo, {"api.py": "new\n"})
    (finding,) = answer(repo).findings
    assert "the threshold is 80%" in finding.body


def test_one_dominant_commit_is_not_enough(made: Made) -> None:
    wide = [[f"w/{n * 9 + k}" for k in range(9)] for n in range(9)]
    commits = [(f"Wide {n}", dict.fromkeys(("api.py", *paths), f"{n}\n")) for n, paths in enumerate(wide)]
    repo = made([*noise(80), *commits, *pairs(2, "api.py", "api.md")])
    stage(repo, {"api.py": "new\n"})
    assert keys(repo) == []
    repo.git("reset", "-q", "--hard")
    for number in range(2):
        repo.commit(f"Again {number}", **{"api.py": f"again {number}\n", "api.md": f"again {number}\n"})
    stage(repo, {"api.py": "new\n"})
    assert keys(repo) == ["api.md"]


@pytest.mark.parametrize(
    ("path", "old", "new", "expected"),
    [
        ("a.c", "int x; /* teh */\n/* one\n * two\n */\n", "int x; /* teh */\n/* one\n * too\n */\n", True),
        ("a.c", "// one\n*p = 1;\n", "// one\n*p = 2;\n", False),
        ("a.c", "#define A 1\n", "#define A 2\n", False),
        ("a.c", "/* a */ f(1);\n", "/* a */ f(2);\n", False),
        ("a.go", "//go:build linux\n", "//go:build windows\n", False),
        ("a.sh", "#!/bin/sh\nls\n", "#!/bin/bash\nls\n", False),
        ("a.py", "# teh\nx = 1\n", "# the\n\nx = 1\n", True),
        ("a.py", "x = [1,2]\n", "x = [1, 2]  # both\n", False),
        ("a.unknown", "# a\n", "# b\n", False),
    ],
)  # fmt: skip
def test_only_comments_changed(path: str, old: str, new: str, expected: bool) -> None:
    before, after = old.encode().splitlines(keepends=True), new.encode().splitlines(keepends=True)
    while before and after and before[0] == after[0]:  # a diff leaves out what is the same
        del before[0], after[0]
    while before and after and before[-1] == after[-1]:
        del before[-1], after[-1]
    change = change_of(
        modified(path), old.encode(), new.encode(), ChangedLines(1, tuple(before), 1, tuple(after))
    )
    assert only_comments(change) is expected
