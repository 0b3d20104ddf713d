"""Users and edits take turns at random: in any order, the users' content stays where they put it."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from repoagent.errors import NothingDone
from repoagent.git.transaction.results import Options
from repoagent.git.transaction.transaction import Transaction
from repoagent.git.undo import redo, undo
from repoagent.git.worktree import open_worktree
from tests.conftest import GitRepo
from tests.git.edits import change

# Blocks of lines, far enough apart to be separate: the user changes these four, edits the fifth.
BLOCKS = 4
EDITED = BLOCKS
Versions = list[int]
blocks = st.integers(0, BLOCKS - 1)


def text(versions: Versions) -> str:
    """Each block is its number and version, between constant lines."""
    return "".join(
        f"before {block}\n.\n.\nblock {block} is {version}\n.\n.\n" for block, version in enumerate(versions)
    )


class TakingTurns(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        memory = "/dev/shm" if Path("/dev/shm").is_dir() else None  # a quarter of the time is fsync elsewhere
        self.folder = tempfile.TemporaryDirectory(
            prefix="repoagent-test-", dir=memory, ignore_cleanup_errors=True
        )
        self.repo = GitRepo(Path(self.folder.name))
        self.head, self.index, self.work = ([0] * (BLOCKS + 1) for _ in range(3))
        self.stashed: tuple[Versions, Versions] | None = None
        self.count = 0
        self.done: list[tuple[bool, int, int]] = []  # committed?, from, to: edits that are not taken back
        self.undone: list[tuple[bool, int, int]] = []

    def teardown(self) -> None:
        self.folder.cleanup()

    @initialize()
    def begin(self) -> None:
        self.repo.git("init", "-q")
        self.repo.commit("first", **{"a.txt": text(self.work), "other.txt": "other\n"})
        self.repo.write("other.txt", "mine\n")

    def _write(self) -> None:
        self.repo.write("a.txt", text(self.work))

    @rule(block=blocks)
    def user_edits(self, block: int) -> None:
        self.count += 1
        self.work[block] = self.count
        self._write()

    @rule()
    def user_stages_all(self) -> None:
        self.repo.git("add", "a.txt")
        self.index = list(self.work)

    @rule(block=blocks)
    def user_stages_one_block(self, block: int) -> None:
        """With the result of `git add -p`."""
        self.index[block] = self.work[block]
        oid = self.repo.git("hash-object", "-w", "--stdin", stdin=text(self.index).encode()).strip()
        self.repo.git("update-index", "--cacheinfo", f"100644,{oid},a.txt")

    @rule(whole=st.booleans())
    def user_commits(self, whole: bool) -> None:
        if whole:
            self.user_stages_all()
        self.repo.git("commit", "-q", "--allow-empty", "-m", "the user's")
        self.head = list(self.index)

    @precondition(lambda self: self.stashed is None and self.work[EDITED] == self.head[EDITED])
    @rule()
    def user_stashes_and_takes_it_back(self) -> None:
        """With an edit in between, which the stash does not contain."""
        self.repo.git("stash", "-q")
        kept, self.work, self.index = (self.work, self.index), list(self.head), list(self.head)
        self._edit(no_commit=False)
        self.repo.git("stash", "pop", "-q", "--index")
        for block in range(BLOCKS):
            self.work[block], self.index[block] = kept[0][block], kept[1][block]

    @rule()
    def user_switches_to_a_new_branch(self) -> None:
        self.count += 1
        self.repo.git("switch", "-q", "-c", f"branch-{self.count}")

    @precondition(lambda self: self.head[EDITED] == self.index[EDITED] == self.work[EDITED])
    @rule()
    def edit(self) -> None:
        self._edit(no_commit=False)

    @rule()
    def edit_without_a_commit(self) -> None:
        self._edit(no_commit=True)

    def _edit(self, *, no_commit: bool) -> None:
        self.count += 1
        old = self.work[EDITED]
        before, after = (f"block {EDITED} is {version}\n" for version in (old, self.count))
        the_change = change(self.repo, "a.txt", before, after)
        worktree = open_worktree(self.repo.top)
        with Transaction(worktree, [the_change], Options(no_commit=no_commit)) as transaction:
            transaction.write()
            if no_commit:
                transaction.keep()
            else:
                transaction.commit("edit\n")
        self._moved(self.count, committed=not no_commit)
        self.done.append((not no_commit, old, self.count))

    def _moved(self, to: int, *, committed: bool) -> None:
        self.work[EDITED] = to
        if committed:
            self.head[EDITED] = self.index[EDITED] = to

    def _is_plain(self, committed: bool, now: int) -> bool:
        """Whether none of the edit's lines were staged or committed by the user."""
        places = (self.head, self.index, self.work) if committed else (self.work,)
        return all(place[EDITED] == now for place in places)

    @precondition(lambda self: self.done and self._is_plain(self.done[-1][0], self.done[-1][2]))
    @rule()
    def undo(self) -> None:
        committed, old, new = one = self.done.pop()
        undo(open_worktree(self.repo.top))
        self._moved(old, committed=committed)
        if not committed and self.index[EDITED] == new != self.head[EDITED]:  # the user has staged the edit
            self.index[EDITED] = old
        self.undone.append(one)

    @precondition(lambda self: self.undone and self._is_plain(self.undone[-1][0], self.undone[-1][1]))
    @rule()
    def redo(self) -> None:
        committed, _, new = one = self.undone.pop()
        redo(open_worktree(self.repo.top))
        self._moved(new, committed=committed)
        self.done.append(one)

    @precondition(lambda self: not self.done)
    @rule()
    def nothing_to_undo(self) -> None:
        with pytest.raises(NothingDone):
            undo(open_worktree(self.repo.top))

    @invariant()
    def everything_is_where_it_was_put(self) -> None:
        if not (self.repo.top / ".git/index").exists():
            return
        assert self.repo.read("a.txt").decode() == text(self.work)
        stored = self.repo.git("cat-file", "--batch=", stdin=b":a.txt\nHEAD:a.txt\n")
        assert stored == "".join(f"\n{text(versions)}\n" for versions in (self.index, self.head))
        wanted = ("M" if self.index != self.head else " ") + ("M" if self.work != self.index else " ")
        lines = [f"{wanted} a.txt\n"] if wanted.strip() else []
        assert self.repo.status() == "".join([*lines, " M other.txt\n"])
        assert self.repo.read("other.txt") == b"mine\n"
        assert sorted(path.name for path in self.repo.top.iterdir()) == [".git", "a.txt", "other.txt"]


@pytest.mark.soak
def test_users_and_edits_take_turns() -> None:
    run_state_machine_as_test(
        TakingTurns,
        settings=settings(
            max_examples=80, stateful_step_count=30, deadline=None, suppress_health_check=list(HealthCheck)
        ),
    )
