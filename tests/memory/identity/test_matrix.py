"""What users and tools do to files: the memory stays with its file, and no other file gets it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from repoagent.memory.identity import renames
from tests.conftest import GitRepo
from tests.memory.conftest import edited, text
from tests.memory.identity.matrix import Stage

A, B, NEW, STRANGER = text("a"), text("b"), text("new"), text("stranger")
# no line is the same
UNFORMATTED = b"".join(b"def f%d( x,y ) :\n  return { 'key_%d' : x,'other':y }\n" % (n, n) for n in range(20))
FORMATTED = b"".join(
    b'def f%d(x, y):\n    return {"key_%d": x, "other": y}\n\n\n' % (n, n) for n in range(20)
)
BOTH = {"a.py": "a", "b.py": "b"}
MOVED = {"c.py": "a", "b.py": "b"}
Step = str | Callable[[Stage], object]  # a string is a shell command


@pytest.fixture
def stage(two_files: GitRepo) -> Stage:
    """`a.py` and `b.py`, committed, and both remembered."""
    stage = Stage(two_files.top)
    stage.know("a", "a.py")
    stage.know("b", "b.py")
    return stage


@pytest.fixture
def memory_disk(tmp_path: Path) -> Iterator[Path]:
    """A folder on another file system."""
    shm = Path("/dev/shm")
    if not shm.is_dir() or shm.stat().st_dev == tmp_path.stat().st_dev:
        pytest.skip("there is no second file system to write to")
    folder = shm / f"repoagent-{os.getpid()}-{tmp_path.name}"
    folder.mkdir()
    yield folder
    shutil.rmtree(folder)


def template(name: str) -> bytes:
    """Nine of ten lines are in every one of them."""
    return text("common", 36) + text(name, 4)


def first_lines(data: bytes, count: int, rest: bytes) -> bytes:
    """The first lines of `data`, then those of `rest` that follow as many."""
    return b"".join([*data.splitlines(keepends=True)[:count], *rest.splitlines(keepends=True)[count:]])


def save(path: str, data: bytes) -> Step:
    """Replace the file, as most editors do."""
    return lambda stage: stage.save(path, data)


def write(path: str, data: bytes) -> Step:
    """Write in place."""
    return lambda stage: stage.write(path, data)


def know(name: str, path: str) -> Step:
    return lambda stage: stage.know(name, path)


def add(name: str, path: str, data: bytes) -> Step:
    """A new file with a memory."""

    def step(stage: Stage) -> None:
        stage.write(path, data)
        stage.know(name, path)

    return step


def commit(stage: Stage) -> None:
    stage.repo.commit("change")


def play(stage: Stage, *steps: Step) -> None:
    for step in steps:
        stage.sh(step) if isinstance(step, str) else step(stage)


# name: steps, the files that have a memory then, and how the last re-keying of "a" begins
MOVES: dict[str, tuple[list[Step], dict[str, str], str]] = {
    "mv": (["mv a.py c.py"], MOVED, "moved from a.py"),
    "git mv": (["git mv a.py c.py"], MOVED, "moved from a.py"),
    "mv to another folder by copying": (["mkdir d; cp a.py d/c.py; rm a.py"], {"d/c.py": "a", "b.py": "b"}, "same content as a.py, which is gone"),
    "mv and an edit at once": (["mv a.py c.py", write("c.py", edited(A))], MOVED, "moved from a.py"),
    # neither the inode nor the content is known, and git has not seen the new name
    "mv and a save at once": (["mv a.py c.py", save("c.py", edited(A))], MOVED, "similar to a.py, which is gone"),
    "git mv and a save at once": (["git mv a.py c.py", save("c.py", edited(A))], MOVED, "renamed from a.py in git"),
    "git mv and much more text": (["git mv a.py c.py", save("c.py", A + text("more", 60))], MOVED, "renamed from a.py in git"),
    "git mv and rewritten in place": (["git mv a.py c.py", write("c.py", b"import os\n" * 40)], MOVED, ""),
    "git mv and replaced by another file": (["git mv a.py c.py", save("c.py", b"import os\n" * 40)], {"b.py": "b"}, ""),
    "git mv, committed, and rewritten": (["git mv a.py c.py; git commit -qm x", save("c.py", NEW), commit], MOVED, ""),
    "two folders change names": (
        [add("one", "one/x.py", template("one")), add("two", "two/x.py", template("two")), "mv one t; mv two one; mv t two"],
        {**BOTH, "two/x.py": "one", "one/x.py": "two"}, "",
    ),
    "a renamed folder": (
        [add("x", "old/x.py", text("x")), add("y", "old/deep/y.py", text("y")), "mv old new"],
        {**BOTH, "new/x.py": "x", "new/deep/y.py": "y"}, "",
    ),
    "a renamed folder, committed and checked out again": (
        [write("old/x.py", text("x")), commit, know("x", "old/x.py"), "git mv old new", commit, save("new/x.py", edited(text("x")))],
        {**BOTH, "new/x.py": "x"}, "",
    ),
    "a swap with an edit of both": (
        ["mv a.py t; mv b.py a.py; mv t b.py", write("a.py", edited(B)), write("b.py", edited(A))], {"a.py": "b", "b.py": "a"}, "moved from a.py",
    ),
    "a swap of two edited files from one template": (
        [add("one", "one.py", template("one")), add("two", "two.py", template("two")), "mv one.py t; mv two.py one.py; mv t two.py",
         write("one.py", template("two") + b"one more\n"), write("two.py", template("one") + b"one more\n")],
        {**BOTH, "one.py": "two", "two.py": "one"}, "",
    ),
    # no inode is known any more: another memory, or git, shows that another file has the old name
    "a swap and a save of both": (
        ["mv a.py t; mv b.py a.py; mv t b.py", write("t", edited(B)), write("u", edited(A)), "mv t a.py; mv u b.py"],
        {"b.py": "a", "a.py": "b"}, "",
    ),
    "a swap with a stranger and a save of both": (
        [write("s.py", STRANGER), commit, "mv a.py t; mv s.py a.py; mv t s.py", write("t", edited(STRANGER)), write("u", edited(A)),
         "mv t a.py; mv u s.py"],
        {"s.py": "a", "b.py": "b"}, "",
    ),
    "a swap after git mv": (
        ["git mv a.py c.py", "mv c.py t; mv b.py c.py; mv t b.py", save("b.py", edited(A))], {"b.py": "a", "c.py": "b"}, "",
    ),
    "three names in a ring": (
        [add("c", "c.py", text("c")), "mv c.py t; mv b.py c.py; mv a.py b.py; mv t a.py"], {"a.py": "c", "b.py": "a", "c.py": "b"}, "",
    ),
    "deleted and restored at an unseen path": (["mv a.py c.py; rm c.py", save("c.py", A)], MOVED, ""),
    "a copy at the former name": (
        ["mv a.py c.py", know("a", "c.py"), "cp c.py a.py; mv c.py d.py"], {"d.py": "a", "b.py": "b"}, "moved from c.py",
    ),
    "a new file at the old name": (["mv a.py c.py", write("a.py", NEW)], MOVED, "moved from a.py"),
    "a new file at the old name, and a save": (
        ["mv a.py c.py", write("a.py", NEW), save("c.py", edited(A))], MOVED, "similar to a.py, which is now another file",
    ),
    # git has written both: neither inode is known, and git has the old name as one file
    "a new file at the old name, pulled": (
        ["mv a.py c.py", write("a.py", NEW), commit, "git checkout -q HEAD~1", know("a", "a.py"), "git checkout -q main",
         save("a.py", NEW), save("c.py", A)],
        MOVED, "",
    ),
    "a chain of renames in three commits": (
        ["git mv a.py k.py", save("k.py", edited(A, 8)), commit, "git mv k.py l.py", save("l.py", edited(edited(A, 8), 8)), commit,
         "git mv l.py c.py", commit, save("c.py", edited(edited(A, 8), 8) + text("more", 60))],
        MOVED, "renamed from a.py in git",
    ),
    "a chain of renames without a known commit": (
        ["""sed -i 's/"commit": ".*"/"commit": null/' .repoagent/memory/*/identity.json""", "git mv a.py k.py", save("k.py", edited(A, 8)), commit,
         "git mv k.py c.py", save("c.py", edited(A, 8)), commit, save("c.py", edited(A, 20))],
        MOVED, "renamed from a.py in git",
    ),
    "a move to the name of a file that moved away": (
        [write("s.py", STRANGER), commit, "git mv s.py t.py; git mv a.py s.py", save("s.py", edited(A))],
        {"s.py": "a", "b.py": "b"}, "similar to a.py, which is gone",
    ),
    "a case-only rename": (["mv a.py A.py"], {"A.py": "a", "b.py": "b"}, "moved from a.py"),
    "a link at the old name, and a save": (
        ["mv a.py real.py; ln -s real.py a.py", save("real.py", edited(A))], {"real.py": "a", "b.py": "b"}, "similar to a.py, which is gone",
    ),
    "a module becomes a package, and a save": (
        ["mv a.py t; mkdir a.py; mv t a.py/main.py", save("a.py/main.py", edited(A))], {"a.py/main.py": "a", "b.py": "b"}, "similar to a.py, which is gone",
    ),
    "a module becomes a package": (
        ["mv a.py t; mkdir a.py; mv t a.py/__init__.py"], {"a.py/__init__.py": "a", "b.py": "b"}, "moved from a.py",
    ),
    "a link at the old name": (["mv a.py real.py; ln -s real.py a.py"], {"real.py": "a", "b.py": "b"}, "moved from a.py"),
    "a copy whose original is deleted": (["cp a.py c.py; rm a.py"], MOVED, "same content as a.py, which is gone"),
    "a hard link whose first name is gone": (["ln a.py c.py; rm a.py"], MOVED, "moved from a.py"),
    # the copy is not mistaken for the moved file, although the original path is gone and it is looked up first
    "a copy and mv": (["cp a.py c.py; cp a.py z.py; mv a.py m.py"], {"m.py": "a", "b.py": "b"}, "moved from a.py"),
    "a copy and git mv": (["cp a.py c.py; cp a.py z.py; git mv a.py m.py"], {"m.py": "a", "b.py": "b"}, "moved from a.py"),
    "a move to the name of a committed copy, which moves on": (
        ["cp a.py z.py", commit, know("a", "a.py"), "mv z.py q.py; git add -A; git mv a.py z.py"], {"z.py": "a", "b.py": "b"}, "",
    ),
    # as emacs (backup-by-copying nil) saves: the text that the memory is about is in the backup then
    "a backup by renaming and a new text": (["mv a.py a.py~", write("a.py", NEW)], {"a.py~": "a", "b.py": "b"}, "moved from a.py"),
    "a backup by copying and a new file": (
        ["cp -p a.py a.py~", save("a.py", NEW)], {"a.py~": "a", "b.py": "b"}, "similar to a.py, which is now another file",
    ),
}  # fmt: skip
STAYS: dict[str, tuple[list[Step], dict[str, str], str]] = {
    "copies of which one is edited": (["cp a.py c.py; cp -p b.py d.py", save("a.py", edited(A)), save("d.py", edited(B))], BOTH, "another inode"),
    "copied over another file": (["cp b.py a.py"], BOTH, "rewritten in place"),
    "an atomic save": ([save("a.py", edited(A))], BOTH, "another inode"),
    "a hard link cut by a save": (["ln a.py c.py", save("a.py", edited(A))], BOTH, "another inode"),
    "a backup by copying, edited": (["cp -p a.py a.py~", write("a.py", edited(A))], BOTH, ""),
    "a backup by copying, all new": (["cp -p a.py a.py~", write("a.py", NEW)], BOTH, "rewritten in place"),
    "emacs backs up twice": (["mv a.py a.py.~1~", write("a.py", edited(A)), "mv a.py a.py.~2~", write("a.py", edited(A, 6))], BOTH, "another inode"),
    "a safe write of JetBrains": (
        [write("a.py___jb_tmp___", edited(A)), "mv a.py a.py___jb_old___; mv a.py___jb_tmp___ a.py; rm a.py___jb_old___"], BOTH, "another inode",
    ),
    "sed in place": (["sed -i s/square/number/ a.py; sed -i 3d b.py"], BOTH, ""),
    "sed indents every line": (["sed 's/^/    /' a.py > t; mv t a.py"], BOTH, "another inode"),
    "other line endings": ([save("a.py", A.replace(b"\n", b"\r\n"))], BOTH, "another inode"),
    "a stub that has grown": (
        [add("s", "s.py", text("stub", 5)), save("s.py", text("stub", 5) + text("body", 80))], {**BOTH, "s.py": "s"}, "",
    ),
    "a file split into two": (
        [add("l", "l.py", text("long", 100)), save("l.py", text("long", 40)), save("r.py", text("long", 100)[len(text("long", 40)):])],
        {**BOTH, "l.py": "l"}, "",
    ),
    "other times and modes": (["touch -d '2 years ago' a.py; chmod 755 b.py"], BOTH, ""),
    "deleted and made again": ([write("later", A), "rm a.py; mv later a.py"], BOTH, "another inode"),
    "deleted and restored from an older version": (["rm a.py", write("later", text("a", 22)), "mv later a.py"], BOTH, ""),
    "stash and pop": ([write("a.py", edited(A, 20)), know("a", "a.py"), "git stash -q; git stash pop -q"], BOTH, ""),
    "a new text, committed": ([save("a.py", NEW), commit], BOTH, ""),
    "reset --hard": ([save("a.py", NEW), commit, know("a", "a.py"), "git reset -q --hard HEAD~1"], BOTH, ""),
    "reset --hard to an unseen version": (
        [save("a.py", text("second")), commit, save("a.py", text("third")), commit, know("a", "a.py"), "git reset -q --hard HEAD~1"], BOTH, "",
    ),
    # a rebase: the other file is renamed, this one grows
    "a rebase": (
        ["git switch -q -c topic", save("a.py", edited(A)), commit, know("a", "a.py"), "git switch -q main; git mv b.py c.py",
         save("a.py", A + text("tail", 20)), commit, "git switch -q topic; git rebase -q main"],
        {"a.py": "a", "c.py": "b"}, "",
    ),
    "unstaged work is taken out and put back, as by pre-commit": (
        ["git add -A", save("a.py", edited(A)), save("b.py", edited(B, 8)), "git diff >../work; git checkout -q -- .; git apply ../work"], BOTH, "",
    ),
    "a formatter": ([add("f", "f.py", UNFORMATTED), write("f.py", FORMATTED)], {**BOTH, "f.py": "f"}, ""),
    "a formatter that replaces the file": ([add("f", "f.py", UNFORMATTED), save("f.py", FORMATTED)], {**BOTH, "f.py": "f"}, ""),
    # a hook that stashes and restores may swap inodes under unchanged names
    "swapped inodes": (["mv a.py t; mv b.py a.py; mv t b.py", write("a.py", A), write("b.py", edited(B))], BOTH, ""),
}  # fmt: skip
OTHERS: dict[str, tuple[list[Step], dict[str, str], str]] = {
    "a file of the same template": ([write("two.py", template("two")), add("one", "one.py", template("one")), commit, "git rm -q one.py"], BOTH, ""),
    "an empty file": ([write("y.py", b""), add("x", "x.py", b""), "rm x.py"], BOTH, ""),
    "two gone files of equal content": ([add("x", "x.py", text("t")), add("y", "y.py", text("t")), "cp x.py z.py; rm x.py y.py"], BOTH, ""),
    "a link to another file": (["rm a.py; ln -s b.py a.py"], {"b.py": "b"}, ""),
    "removed and added again in history": ([write("t", NEW), "git rm -q a.py; git commit -qm x; mv t a.py", commit], {"b.py": "b"}, ""),
    "another text at a path with a line break": (
        [add("o", "o\n.py", text("o")), commit, know("o", "o\n.py"), save("o\n.py", NEW)], BOTH, "",
    ),
    "another text at the same path": ([write("t", NEW), "mv t a.py"], {"b.py": "b"}, ""),
    "a replaced file that git knows at another path": (
        [write("s.py", first_lines(A, 13, NEW)), commit, "mv s.py t; mv t a.py"], {"b.py": "b"}, "",
    ),
    "a file that git has rewritten, whose former text is elsewhere": (
        ["cp a.py c.py", save("a.py", NEW), "git commit -qam x"], BOTH, "another version from git's history",
    ),
    "a replaced file whose text is elsewhere": (
        ["mv a.py t", save("a.py", first_lines(A, 13, NEW)), save("copy.py", edited(A)), "rm t"], {"copy.py": "a", "b.py": "b"}, "",
    ),
    "an atomic save of another text with a third of the lines": ([save("a.py", first_lines(A, 13, NEW)), "git add a.py"], {"b.py": "b"}, ""),
    "a rename in the index of another file": (
        [write("s.py", STRANGER), commit, "git mv s.py t.py; mv a.py s.py", know("a", "s.py"), "rm s.py"], {"b.py": "b"}, "",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", [*MOVES, *STAYS, *OTHERS])
def test_each_file_has_its_own_memory(stage: Stage, name: str) -> None:
    steps, truth, reason = {**MOVES, **STAYS, **OTHERS}[name]
    play(stage, *steps)
    stage.expect(truth, **({"a": reason} if reason else {}))


# several steps with a lookup between them
TURNS: dict[str, list[tuple[Step, dict[str, str] | None]]] = {  # None: nothing is looked up in between
    "moved and back": [("mv a.py c.py", MOVED), ("mv c.py a.py", BOTH)],
    "moved over another file and both restored": [
        ("mv b.py a.py", {"a.py": "b"}), ("git checkout -q -- a.py b.py", BOTH),
    ],
    "replaced by another text and restored": [
        (write("t", NEW), None), ("mv t a.py", {"b.py": "b"}), (know("new", "a.py"), {"a.py": "new", "b.py": "b"}),
        ("git stash -q", BOTH), ("git stash pop -q", {"a.py": "new", "b.py": "b"}),
    ],
    "another branch and back": [
        ("git switch -q -c topic; git mv a.py c.py", None), (save("b.py", text("another b")), None),
        (commit, MOVED), ("git switch -q main", BOTH), ("git switch -q topic", MOVED), ("git switch -q main", BOTH),
    ],
    "a branch without the file and back": [
        (write("../later", edited(A)), None), ("git switch -q --orphan empty; mv ../later c.py", None), (commit, None),
        (know("c", "c.py"), {"c.py": "c"}), ("git switch -q main", BOTH),
    ],
    "a conflict and its end": [
        ("git switch -q -c topic", None), (save("a.py", edited(A)), None), (commit, None), ("git switch -q main", BOTH),
        (save("a.py", A.replace(b"a says 0", b"a shouts 0")), None), (commit, None),
        ("git merge topic || true", BOTH), ("git merge --abort", BOTH),
    ],
    "a hard link, which counts as a copy": [
        ("ln a.py c.py", BOTH), (know("c", "c.py"), {**BOTH, "c.py": "c"}), ("echo more >> a.py", {**BOTH, "c.py": "c"}),
    ],
    "one of two licences has a memory": [
        (write("x/LICENSE", text("licence")), None), (write("y/LICENSE", text("licence")), None), (commit, None),
        (know("x", "x/LICENSE"), {**BOTH, "x/LICENSE": "x"}), ("git rm -q x/LICENSE", BOTH), (commit, BOTH),
        ("git checkout -q HEAD~1 -- x/LICENSE", {**BOTH, "x/LICENSE": "x"}),
    ],
    "a backup is restored": [
        ("cp -a a.py ../backup", None), (save("a.py", edited(A, 12)), BOTH), ("rm a.py; cp -a ../backup a.py", BOTH),
    ],
}  # fmt: skip


@pytest.mark.parametrize("name", TURNS)
def test_step_by_step(stage: Stage, name: str) -> None:
    for step, truth in TURNS[name]:
        play(stage, step)
        if truth is not None:
            stage.expect(truth)


def test_a_file_and_then_the_whole_repository_move_to_another_disk(stage: Stage, memory_disk: Path) -> None:
    stage.sh(f"mv a.py {memory_disk}/a.py; mv {memory_disk}/a.py c.py")
    stage.expect(MOVED)
    subprocess.run(["mv", stage.top, memory_disk / "repo"], check=True)
    Stage(memory_disk / "repo", stage.folders).expect(MOVED, a="another inode")


@pytest.mark.skipif(shutil.which("vim") is None, reason="there is no vim")
@pytest.mark.parametrize(
    "backup", ["backup backupcopy=no", "nobackup backupcopy=no", "backup backupcopy=yes"]
)
def test_vim(stage: Stage, backup: str) -> None:
    commands = ["-c", f"set backupskip= backupdir=. {backup}", "-c", "1,3s/says/said/", "-c", "wq"]
    command = ["vim", "-es", "-u", "NONE", "-i", "NONE", *commands, "a.py"]
    subprocess.run(command, cwd=stage.top, check=False, capture_output=True, timeout=60)
    assert b"said" in stage.repo.read("a.py")
    assert (stage.top / "a.py~").exists() == backup.startswith("backup")
    stage.expect(BOTH)


def test_a_huge_file(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only its beginning is stored and compared."""
    monkeypatch.setattr(renames, "LIMIT", 20_000)
    data = text("huge", 1600)
    stage.write("h.txt", data)
    stage.know("h", "h.txt")
    stage.save("h.txt", edited(data, 100))
    stage.expect({**BOTH, "h.txt": "h"}, h="another inode")
    stage.write("later", text("other", 1600))
    stage.sh("mv later h.txt")
    stage.expect(BOTH)


def test_a_copy_of_the_whole_repository(stage: Stage, tmp_path: Path) -> None:
    stage.sh(f"cp -a . {tmp_path}/copy")
    stage.save("a.py", edited(A))
    Stage(tmp_path / "copy", stage.folders).expect(BOTH, a="another inode")
    stage.expect(BOTH, a="another inode")


def test_a_clone_with_the_memory_carried_over(stage: Stage, tmp_path: Path) -> None:
    stage.sh(f"git clone -q . {tmp_path}/clone; cp -r .repoagent {tmp_path}/clone/")
    there = Stage(tmp_path / "clone", stage.folders)
    there.git("mv", "b.py", "c.py")
    there.expect({"a.py": "a", "c.py": "b"}, a="another inode", b="same content as b.py, which is gone")


def test_linked_work_trees_of_other_names_and_texts_in_turn(stage: Stage, tmp_path: Path) -> None:
    stage.git("worktree", "add", "-q", "-b", "topic", str(tmp_path / "linked"))
    other = Stage(tmp_path / "linked", stage.folders)
    assert other.answers(["a.py", "b.py"]) == BOTH
    other.git("mv", "a.py", "c.py")
    other.save("b.py", text("b on topic"))
    other.repo.commit("topic")
    assert other.answers(other.files()) == MOVED
    assert stage.answers(stage.files()) == BOTH
    state = stage.state()
    for _ in range(2):
        assert stage.answers(stage.files()) == BOTH and other.answers(other.files()) == MOVED
    assert stage.state() == state
    # and each is compared with its own text
    other.save("b.py", edited(text("b on topic"), 4))
    stage.save("b.py", edited(B, 4))
    other.save("c.py", edited(A, 4))
    for _ in range(2):
        assert other.answers(other.files()) == MOVED and stage.answers(stage.files()) == BOTH


def test_another_device_number(stage: Stage) -> None:
    """A container, or a disk mounted again: the inodes are unchanged, but the device number differs."""
    device = (stage.top / "a.py").stat().st_dev
    stage.sh(f"""sed -i 's/"{device}:/"99999:/' .repoagent/memory/*/identity.json""")
    stage.save("a.py", edited(A))
    stage.expect(BOTH, a="another inode", b="another inode")


@pytest.mark.soak
def test_a_bind_mount(stage: Stage, tmp_path: Path) -> None:
    """The same files at another place, in turn."""
    place = tmp_path / "container"
    place.mkdir()
    ask = (
        "import sys; from pathlib import Path; from tests.memory.identity.matrix import Stage\n"
        "stage = Stage(Path(sys.argv[1])); stage.folders = dict(zip(sys.argv[2::2], sys.argv[3::2]))\n"
        "print(sorted(stage.answers(['a.py', 'b.py']).items()))"
    )
    names = [word for item in stage.folders.items() for word in item]
    script = 'mount --bind "$1" "$2" || exit 9; shift; exec "$PYTHON" -c "$ASK" "$@"'
    command = ["unshare", "-m", "sh", "-c", script, "sh", str(stage.top), str(place), *names]
    environment = {**os.environ, "PYTHON": sys.executable, "ASK": ask, "PYTHONPATH": str(Path.cwd())}
    for _ in range(2):
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        if done.returncode in (1, 9) and "Traceback" not in done.stderr:
            pytest.skip("mounting is not permitted here")
        assert done.stdout.strip() == str(sorted(BOTH.items())), done.stderr
        assert stage.answers(["a.py", "b.py"]) == BOTH
