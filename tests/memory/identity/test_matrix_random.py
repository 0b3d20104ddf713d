"""Anything, in any order: a model that knows the truth against what the memory says."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    precondition,
    rule,
    run_state_machine_as_test,
)

from tests.memory.conftest import text
from tests.memory.identity.matrix import Stage

_NAMES = [f"{folder}{name}.py" for folder in ("", "p/", "q/") for name in ("one", "two", "three", "four")]
_LINES = 40
_UNSEEN = 4  # changes until the memory is asked again: what changes wholly in one step is another file


class Files(RuleBasedStateMachine):
    """Six files at first, three of them remembered. `truth` says which path has which memory, "" for none."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp())
        self.stage: Stage
        self.truth: dict[str, str] = {}
        self.lost: dict[str, tuple[str, bytes]] = {}
        self.copied: set[str] = set()  # memories whose text is in a second file
        self.saved = False  # by replacing it: its inode was not seen since
        self.swapped = False  # with a file that git does not have
        self.number = self.unseen = 0

    @initialize()
    def begin(self) -> None:
        top = self.folder / "repo"
        top.mkdir()
        (self.folder / "home").mkdir()
        subprocess.run(["git", "init", "-q", top], check=True)
        self.stage = Stage(top)
        for path in _NAMES[::2]:
            self._new(path)
        for path in _NAMES[:6:2]:
            self._know(path)
        self._commit()

    def teardown(self) -> None:
        if hasattr(self, "stage"):
            self.look()
        shutil.rmtree(self.folder)

    def _new(self, path: str) -> None:
        self.number += 1
        self.stage.write(path, text(f"file {self.number}", _LINES))
        self.truth[path] = ""

    def _know(self, path: str) -> None:
        self.number += 1  # no two memories of one name
        self.truth[path] = f"memory {self.number} {path}"
        self.stage.know(self.truth[path], path)

    def _commit(self) -> None:
        self.stage.git("add", "-A")
        author = ("-c", "user.name=a", "-c", "user.email=b")
        self.stage.git(*author, "commit", "-q", "--allow-empty", "-m", "so far")

    def _pick(self, data: st.DataObject, *, known: bool | None = None, free: bool = False) -> str | None:
        if free:
            names = [name for name in _NAMES if name not in self.truth and name not in self.lost]
        else:
            names = sorted(name for name, label in self.truth.items() if known in (None, bool(label)))
        return data.draw(st.sampled_from(names)) if names else None

    def _changed(self, *labels: str) -> None:
        """Two files with one text are told apart by where they are: look after each step then."""
        self.unseen += 1
        if self.unseen >= _UNSEEN or self.copied & set(labels):
            self.look()

    def _see(self) -> None:
        """With an inode and a text that nobody has seen, a file is known by its path alone."""
        if self.saved:
            self.look()

    def _order(self) -> list[str]:
        return sorted(self.truth, reverse=bool(self.number % 2))

    @rule()
    def look(self) -> None:
        expected = {path: label for path, label in self.truth.items() if label}
        got = self.stage.answers(self._order())
        assert got == expected, {path for path in {*got, *expected} if got.get(path) != expected.get(path)}
        state = self.stage.state()
        assert self.stage.answers(self._order()) == expected and self.stage.state() == state
        self.unseen, self.saved, self.swapped = 0, False, False

    @rule(data=st.data(), line=st.integers(0, _LINES - 1), atomic=st.booleans())
    def edit(self, data: st.DataObject, line: int, atomic: bool) -> None:
        path = self._pick(data)
        if path is None:
            return
        if atomic and self.swapped:
            self.look()  # a new inode, and a name that was another file's: a copy would look the same
        self.number += 1
        lines = self.stage.repo.read(path).splitlines(keepends=True)
        lines[line] = f"edit {self.number}\n".encode()
        (self.stage.save if atomic else self.stage.write)(path, b"".join(lines))
        self.saved |= atomic
        self._changed(self.truth[path])

    @rule(data=st.data(), by_git=st.booleans())
    def move(self, data: st.DataObject, by_git: bool) -> None:
        old, new = self._pick(data), self._pick(data, free=True)
        if old is None or new is None:
            return
        self._see()
        (self.stage.top / new).parent.mkdir(exist_ok=True)
        if by_git:
            self.stage.git("add", "-A")
            self.stage.git("mv", old, new)
        else:
            (self.stage.top / old).rename(self.stage.top / new)
        # git's index says where it went, whatever is done to the work tree before we look
        self.saved |= by_git
        self.truth[new] = self.truth.pop(old)
        self._changed(self.truth[new])

    @rule(data=st.data())
    def swap(self, data: st.DataObject) -> None:
        one, other = self._pick(data), self._pick(data)
        if one is None or other is None or one == other or {self.truth[one], self.truth[other]} & self.copied:
            return  # the original at another name and something like it at its own: so does an editor back up a file
        self._see()
        self.swapped |= len(self.stage.git("ls-files", "--", one, other).split()) < 2
        self.stage.sh(f"mv {one} t; mv {other} {one}; mv t {other}")
        self.truth[one], self.truth[other] = self.truth[other], self.truth[one]
        self._changed(self.truth[one], self.truth[other])

    @rule(data=st.data())
    def copy(self, data: st.DataObject) -> None:
        old, new = self._pick(data, known=True), self._pick(data, free=True)
        if old is None or new is None:
            return
        self.look()  # a copy to the name that the original just had would be the original
        self.stage.write(new, self.stage.repo.read(old))
        self.truth[new] = ""
        self.copied.add(self.truth[old])
        self._changed(self.truth[old])

    @rule(data=st.data())
    def delete(self, data: st.DataObject) -> None:
        path = self._pick(data)
        if path is None or self.truth[path] in self.copied:
            return  # a copy whose original is deleted is a move
        self.look()  # what was never seen at this path could come back to it as a copy
        label, content = self.truth.pop(path), self.stage.repo.read(path)
        (self.stage.top / path).unlink()
        if label:
            self.lost[path] = (label, content)
        self._changed()

    @rule(data=st.data())
    def restore(self, data: st.DataObject) -> None:
        if not self.lost:
            return
        path = data.draw(st.sampled_from(sorted(self.lost)))
        label, content = self.lost.pop(path)
        self.stage.save(path, content)
        self.saved, self.truth[path] = True, label
        self._changed()

    @rule(data=st.data())
    def make(self, data: st.DataObject) -> None:
        path = self._pick(data, free=True)
        if path is not None:
            self._see()
            self._new(path)
            self._changed()

    @rule(data=st.data())
    def remember(self, data: st.DataObject) -> None:
        path = self._pick(data, known=False)
        if path is not None and not self.copied:
            self.look()
            self._know(path)

    @precondition(lambda self: self.unseen == 0)
    @rule()
    def commit(self) -> None:
        self._commit()


@pytest.mark.parametrize(
    ("examples", "steps"), [(2, 12), pytest.param(150, 50, marks=pytest.mark.soak)], ids=["few", "many"]
)
def test_anything_in_any_order(examples: int, steps: int) -> None:
    limits = settings(max_examples=examples, stateful_step_count=steps, derandomize=examples == 2)
    patient = settings(limits, deadline=None, suppress_health_check=list(HealthCheck))
    run_state_machine_as_test(Files, settings=patient)
