"""What people and tools do to files, one test each: the memory stays with its file, and no other file gets it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from repoagent.memory.identity import similarity
from tests.conftest import GitRepo
from tests.memory.conftest import edited, text
from tests.memory.identity.matrix import Stage

A, B = text("a"), text("b")
BOTH = {"a.py": "a", "b.py": "b"}


@pytest.fixture
def stage(repo: GitRepo) -> Stage:
    """`a.py` and `b.py`, committed, and both remembered."""
    repo.write("a.py", A)
    repo.write("b.py", B)
    repo.commit("two files")
    stage = Stage(repo.top)
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


# -- moves --


def test_mv(stage: Stage) -> None:
    stage.sh("mv a.py c.py")
    stage.expect({"c.py": "a", "b.py": "b"}, a="moved from a.py")


def test_git_mv(stage: Stage) -> None:
    stage.git("mv", "a.py", "c.py")
    stage.expect({"c.py": "a", "b.py": "b"}, a="moved from a.py")


def test_mv_and_edit_at_once(stage: Stage) -> None:
    stage.sh("mv a.py c.py")
    stage.write("c.py", edited(A))
    stage.expect({"c.py": "a", "b.py": "b"}, a="moved from a.py")


def test_mv_and_a_save_at_once(stage: Stage) -> None:
    """Neither the inode nor the content is known, and git has not seen the new name."""
    stage.sh("mv a.py c.py")
    stage.save("c.py", edited(A))
    stage.expect({"c.py": "a", "b.py": "b"}, a="similar to a.py, which is gone")


def test_git_mv_and_a_save_at_once(stage: Stage) -> None:
    stage.git("mv", "a.py", "c.py")
    stage.save("c.py", edited(A))
    stage.expect({"c.py": "a", "b.py": "b"}, a="renamed from a.py in git")


def test_a_renamed_folder(stage: Stage) -> None:
    stage.write("old/x.py", text("x"))
    stage.write("old/deep/y.py", text("y"))
    stage.know("x", "old/x.py")
    stage.know("y", "old/deep/y.py")
    stage.sh("mv old new")
    stage.expect({**BOTH, "new/x.py": "x", "new/deep/y.py": "y"}, x="moved from old/x.py")


def test_a_folder_renamed_and_committed_and_checked_out_again(stage: Stage) -> None:
    stage.write("old/x.py", text("x"))
    stage.repo.commit("x")
    stage.know("x", "old/x.py")
    stage.git("mv", "old", "new")
    stage.repo.commit("rename")
    stage.save("new/x.py", edited(text("x")))
    stage.expect({**BOTH, "new/x.py": "x"}, x="renamed from old/x.py in git")


def test_two_folders_change_names(stage: Stage) -> None:
    for name in ("one", "two"):
        stage.write(f"{name}/x.py", template(name))
        stage.know(name, f"{name}/x.py")
    stage.sh("mv one t; mv two one; mv t two")
    stage.expect({**BOTH, "two/x.py": "one", "one/x.py": "two"}, one="moved from one/x.py")


def test_a_swap_of_two_names(stage: Stage) -> None:
    stage.sh("mv a.py t; mv b.py a.py; mv t b.py")
    stage.expect({"a.py": "b", "b.py": "a"}, a="moved from a.py", b="moved from b.py")


def test_a_swap_with_an_edit_of_both(stage: Stage) -> None:
    stage.sh("mv a.py t; mv b.py a.py; mv t b.py")
    stage.write("a.py", edited(B))
    stage.write("b.py", edited(A))
    stage.expect({"a.py": "b", "b.py": "a"}, a="moved from a.py")


def test_a_swap_with_an_edit_of_two_files_from_one_template(stage: Stage) -> None:
    for name in ("one", "two"):
        stage.write(f"{name}.py", template(name))
        stage.know(name, f"{name}.py")
    stage.sh("mv one.py t; mv two.py one.py; mv t two.py")
    stage.write("one.py", template("two") + b"one more\n")
    stage.write("two.py", template("one") + b"one more\n")
    stage.expect({**BOTH, "one.py": "two", "two.py": "one"})


@pytest.mark.parametrize("other", ["b.py", "s.py"])
def test_a_swap_and_a_save_of_both_without_a_lookup_between(stage: Stage, other: str) -> None:
    """No inode is known any more: another memory, or git, tells that the old name has another file."""
    stage.write("s.py", text("stranger"))
    stage.repo.commit("a stranger")
    theirs = stage.repo.read(other)
    stage.sh(f"mv a.py t; mv {other} a.py; mv t {other}")
    stage.write("t", edited(theirs))
    stage.write("u", edited(A))  # both before one of the old inodes is free again
    stage.sh(f"mv t a.py; mv u {other}")
    stage.expect({"b.py": "a", "a.py": "b"} if other == "b.py" else {"s.py": "a", "b.py": "b"})


def test_a_swap_after_a_git_mv_without_a_lookup_between(stage: Stage) -> None:
    stage.git("mv", "a.py", "c.py")
    stage.sh("mv c.py t; mv b.py c.py; mv t b.py")
    stage.save("b.py", edited(A))
    stage.expect({"b.py": "a", "c.py": "b"})


def test_deleted_and_restored_at_an_unseen_path(stage: Stage) -> None:
    stage.sh("mv a.py c.py; rm c.py")
    stage.save("c.py", A)
    stage.expect({"c.py": "a", "b.py": "b"})


def test_a_copy_at_the_name_that_the_original_had(stage: Stage) -> None:
    stage.sh("mv a.py c.py")
    stage.know("a", "c.py")
    stage.sh("cp c.py a.py; mv c.py d.py")
    stage.expect({"d.py": "a", "b.py": "b"}, a="moved from c.py")


def test_three_names_in_a_ring(stage: Stage) -> None:
    stage.write("c.py", text("c"))
    stage.know("c", "c.py")
    stage.sh("mv c.py t; mv b.py c.py; mv a.py b.py; mv t a.py")
    stage.expect({"a.py": "c", "b.py": "a", "c.py": "b"})


def test_a_move_and_a_new_file_of_the_old_name_at_once(stage: Stage) -> None:
    stage.sh("mv a.py c.py")
    stage.write("a.py", text("new"))
    stage.expect({"c.py": "a", "b.py": "b"}, a="moved from a.py")


def test_a_move_and_a_new_file_of_the_old_name_pulled(stage: Stage) -> None:
    """git has written both: neither inode is known, and without a search for it git has the old name as one file."""
    stage.sh("mv a.py c.py")
    stage.write("a.py", text("new"))
    stage.repo.commit("both")
    stage.git("checkout", "-q", "HEAD~1")
    stage.know("a", "a.py")
    stage.git("checkout", "-q", "main")
    stage.save("a.py", text("new"))
    stage.save("c.py", A)
    stage.expect({"c.py": "a", "b.py": "b"})


def test_a_chain_of_renames_in_three_commits(stage: Stage) -> None:
    data = A
    for old, new in (("a.py", "k.py"), ("k.py", "l.py"), ("l.py", "m.py")):
        stage.git("mv", old, new)
        data = edited(data, 8)
        stage.save(new, data)
        stage.repo.commit(f"to {new}")
    stage.save("m.py", data + text("more", 60))
    stage.expect({"m.py": "a", "b.py": "b"}, a="renamed from a.py in git")


def test_a_chain_of_renames_of_a_file_with_no_commit_known(stage: Stage) -> None:
    for each in stage.layout.memory.glob("*/identity.json"):
        each.write_text(
            each.read_text().replace(stage.repo.head(), "").replace('"commit": ""', '"commit": null')
        )
    for old, new in (("a.py", "k.py"), ("k.py", "l.py")):
        stage.git("mv", old, new)
        stage.save(new, edited(A, 8))
        stage.repo.commit(f"to {new}")
    stage.save("l.py", edited(A, 20))
    stage.expect({"l.py": "a", "b.py": "b"}, a="renamed from a.py in git")


def test_a_move_to_the_name_of_a_file_that_was_moved_away_and_a_save(stage: Stage) -> None:
    stage.write("s.py", text("stranger"))
    stage.repo.commit("a stranger")
    stage.sh("git mv s.py t.py; git mv a.py s.py")
    stage.save("s.py", edited(A))
    stage.expect({"s.py": "a", "b.py": "b"}, a="similar to a.py, which is gone")


def test_moved_and_back(stage: Stage) -> None:
    stage.sh("mv a.py c.py")
    assert stage.answers(["c.py"]) == {"c.py": "a"}
    stage.sh("mv c.py a.py")
    stage.expect(BOTH, a="moved ")


def test_a_case_only_rename(stage: Stage) -> None:
    stage.sh("mv a.py A.py")
    stage.expect({"A.py": "a", "b.py": "b"}, a="moved from a.py")


def test_a_module_that_becomes_a_package(stage: Stage) -> None:
    stage.sh("mv a.py t; mkdir a.py; mv t a.py/__init__.py")
    stage.expect({"a.py/__init__.py": "a", "b.py": "b"}, a="moved from a.py")


def test_a_move_over_another_file_and_both_restored(stage: Stage) -> None:
    stage.sh("mv b.py a.py")
    stage.expect({"a.py": "b"}, b="moved from b.py")
    stage.git("checkout", "--", "a.py", "b.py")
    stage.expect(BOTH)


def test_moved_to_another_disk_and_back_under_another_name(stage: Stage, memory_disk: Path) -> None:
    stage.sh(f"mv a.py {memory_disk}/a.py; mv {memory_disk}/a.py c.py")
    stage.expect({"c.py": "a", "b.py": "b"}, a="")


def test_the_whole_repository_on_another_disk(stage: Stage, memory_disk: Path) -> None:
    subprocess.run(["mv", stage.top, memory_disk / "repo"], check=True)
    there = Stage(memory_disk / "repo", stage.folders)
    there.expect(BOTH, a="another inode")


# -- copies --


def test_a_copy(stage: Stage) -> None:
    stage.sh("cp a.py c.py; cp -p a.py d.py")
    stage.expect(BOTH)


def test_a_copy_of_which_one_is_edited(stage: Stage) -> None:
    stage.sh("cp a.py c.py; cp b.py d.py")
    stage.save("a.py", edited(A))
    stage.save("d.py", edited(B))
    stage.expect(BOTH, a="another inode")


def test_a_copy_after_which_the_original_is_deleted_is_a_move(stage: Stage) -> None:
    stage.sh("cp a.py c.py; rm a.py")
    stage.expect({"c.py": "a", "b.py": "b"}, a="same content as a.py, which is gone")


def test_copied_over_another_file(stage: Stage) -> None:
    stage.sh("cp b.py a.py")
    stage.expect(BOTH, a="rewritten in place")


@pytest.mark.parametrize("how", ["mv", "git mv"])
def test_a_copy_and_a_move_of_the_original(stage: Stage, how: str) -> None:
    """The copy is not mistaken for the moved file, although the original path is gone and it is looked up first."""
    stage.sh(f"cp a.py c.py; cp a.py z.py; {how} a.py m.py")
    stage.expect({"m.py": "a", "b.py": "b"}, a="moved from a.py")


def test_files_made_from_one_template(stage: Stage) -> None:
    stage.write("one.py", template("one"))
    stage.know("one", "one.py")
    stage.write("two.py", template("two"))
    stage.repo.commit("templates")
    stage.expect({**BOTH, "one.py": "one"})
    stage.git("rm", "-q", "one.py")
    stage.expect(BOTH)


@pytest.mark.soak
def test_two_licences_of_which_one_has_a_memory(stage: Stage) -> None:
    for path in ("x/LICENSE", "y/LICENSE"):
        stage.write(path, text("licence"))
    stage.repo.commit("licences")
    stage.know("x", "x/LICENSE")
    stage.expect({**BOTH, "x/LICENSE": "x"})
    stage.git("rm", "-q", "x/LICENSE")
    stage.expect(BOTH)
    stage.repo.commit("without x")
    stage.expect(BOTH)
    stage.git("checkout", "-q", "HEAD~1", "--", "x/LICENSE")
    stage.expect({**BOTH, "x/LICENSE": "x"})


def test_two_empty_files_of_which_one_has_a_memory(stage: Stage) -> None:
    for path in ("x/__init__.py", "y/__init__.py"):
        stage.write(path, b"")
    stage.know("x", "x/__init__.py")
    stage.expect({**BOTH, "x/__init__.py": "x"})
    (stage.top / "x/__init__.py").unlink()
    stage.expect(BOTH)


def test_a_file_split_into_two(stage: Stage) -> None:
    lines = text("long", 100).splitlines(keepends=True)
    stage.write("long.py", b"".join(lines))
    stage.know("long", "long.py")
    stage.save("long.py", b"".join(lines[:40]))
    stage.save("rest.py", b"".join(lines[40:]))
    stage.expect({**BOTH, "long.py": "long"}, long="another inode")


def test_a_hard_link(stage: Stage) -> None:
    """It counts as a copy: the memory stays with the name that it has, and the other name may have one of its own."""
    stage.sh("ln a.py c.py")
    stage.expect(BOTH)
    stage.know("c", "c.py")
    stage.expect({**BOTH, "c.py": "c"})
    with (stage.top / "a.py").open("ab") as both:
        both.write(b"one line more\n")
    stage.expect({**BOTH, "c.py": "c"})


def test_a_hard_link_that_a_save_has_cut(stage: Stage) -> None:
    stage.sh("ln a.py c.py")
    stage.save("a.py", edited(A))
    stage.expect(BOTH, a="another inode")


def test_a_hard_link_whose_first_name_is_gone(stage: Stage) -> None:
    stage.sh("ln a.py c.py; rm a.py")
    stage.expect({"c.py": "a", "b.py": "b"}, a="moved from a.py")


# -- editors and tools --


@pytest.mark.parametrize(
    "options", ["backup backupcopy=no", "nobackup backupcopy=no", "backup backupcopy=yes"]
)
def test_vim(stage: Stage, options: str) -> None:
    if shutil.which("vim") is None:
        pytest.skip("there is no vim")
    command = [
        "vim",
        "-es",
        "-u",
        "NONE",
        "-i",
        "NONE",
        "-c",
        f"set backupskip= backupdir=. {options}",
        "-c",
        "1,3s/says/said/",
        "-c",
        "wq",
    ]
    subprocess.run([*command, "a.py"], cwd=stage.top, check=False, capture_output=True, timeout=60)
    assert b"said" in stage.repo.read("a.py")
    assert (stage.top / "a.py~").exists() == options.startswith("backup")
    stage.expect(BOTH)


def test_a_backup_by_renaming_and_a_text_that_is_all_new(stage: Stage) -> None:
    """As emacs (backup-by-copying nil) saves: the text that the memory is about is in the backup then."""
    stage.sh("mv a.py a.py~")
    stage.write("a.py", text("new"))
    stage.expect({"a.py~": "a", "b.py": "b"}, a="moved from a.py")


@pytest.mark.parametrize("new", [edited(A), text("new")], ids=["edited", "all new"])
def test_a_backup_by_copying(stage: Stage, new: bytes) -> None:
    stage.sh("cp -p a.py a.py~")
    stage.write("a.py", new)
    stage.expect(BOTH)


def test_emacs_backs_up_twice(stage: Stage) -> None:
    for number, new in enumerate((edited(A), edited(A, 6)), 1):
        stage.sh(f"mv a.py a.py.~{number}~")
        stage.write("a.py", new)
    stage.expect(BOTH, a="another inode")


def test_an_atomic_replace(stage: Stage) -> None:
    stage.save("a.py", edited(A))
    stage.expect(BOTH, a="another inode")


@pytest.mark.parametrize("rest", [13, 6])
def test_an_atomic_replace_that_leaves_less_than_half(stage: Stage, rest: int) -> None:
    lines = A.splitlines(keepends=True)
    new = b"".join([*lines[:rest], *text("new").splitlines(keepends=True)[rest:]])
    stage.save("a.py", new)
    stage.git("add", "a.py")
    stage.expect(BOTH, a="rewritten in place")


def test_a_replaced_file_whose_text_is_elsewhere_is_another(stage: Stage) -> None:
    lines = A.splitlines(keepends=True)
    new = b"".join([*lines[:13], *text("new").splitlines(keepends=True)[13:]])
    stage.write("s.py", new)
    stage.repo.commit("a stranger")
    stage.sh("mv s.py t; mv t a.py")
    stage.expect({"b.py": "b"})
    stage.git("reset", "-q", "--hard")
    stage.expect(BOTH)
    stage.sh("mv a.py t")
    stage.save("a.py", new)
    stage.save("copy.py", edited(A))
    stage.sh("rm t")
    stage.expect({"b.py": "b"})


def test_a_safe_write_of_jetbrains(stage: Stage) -> None:
    stage.write("a.py___jb_tmp___", edited(A))
    stage.sh("mv a.py a.py___jb_old___; mv a.py___jb_tmp___ a.py; rm a.py___jb_old___")
    stage.expect(BOTH, a="another inode")


def test_sed_in_place(stage: Stage) -> None:
    stage.sh("sed -i s/square/number/ a.py; sed -i 3d b.py")
    stage.expect(BOTH)


def test_sed_indents_every_line(stage: Stage) -> None:
    stage.sh("sed 's/^/    /' a.py > t; mv t a.py")
    stage.expect(BOTH, a="another inode")


def test_other_line_endings(stage: Stage) -> None:
    stage.save("a.py", A.replace(b"\n", b"\r\n"))
    stage.expect(BOTH, a="another inode")


def test_a_formatter(stage: Stage) -> None:
    source = b"".join(
        b"def f%d( first,second ) :\n  return { 'key_%d' : first,'other':second }\n" % (n, n)
        for n in range(20)
    )
    stage.write("f.py", source)
    stage.know("f", "f.py")
    ruff = Path(sys.executable).with_name("ruff")
    subprocess.run([ruff, "format", "--isolated", "-q", "f.py"], cwd=stage.top, check=True)
    data = stage.repo.read("f.py")
    assert not set(data.splitlines()) & set(source.splitlines()) - {b""}
    stage.expect({**BOTH, "f.py": "f"})
    stage.write("f.py", source)
    stage.know("f", "f.py")
    stage.save("f.py", data)  # as one that replaces the file
    stage.expect({**BOTH, "f.py": "f"})


def test_a_stub_that_has_grown(stage: Stage) -> None:
    stage.write("s.py", text("stub", 5))
    stage.know("s", "s.py")
    stage.save("s.py", text("stub", 5) + text("body", 80))
    stage.expect({**BOTH, "s.py": "s"}, s="another inode")


def test_a_huge_file(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """For a file above the limit a sample is stored."""
    monkeypatch.setattr(similarity, "_LIMIT", 100_000)
    monkeypatch.setattr(similarity, "_SAMPLE", 20_000)
    data = text("huge", 8000)
    stage.write("h.txt", data)
    stage.know("h", "h.txt")
    stage.save("h.txt", edited(data, 500))
    stage.expect({**BOTH, "h.txt": "h"}, h="another inode")
    stage.write("later", text("other", 8000))
    stage.sh("mv later h.txt")
    stage.expect(BOTH)


def test_nothing_but_times_and_modes(stage: Stage) -> None:
    state = stage.state()
    stage.sh("touch -d '2 years ago' a.py; chmod 755 b.py")
    stage.expect(BOTH)
    assert {path: mtime for path, (_, mtime) in stage.state().items()} == {
        path: mtime for path, (_, mtime) in state.items()
    }


# -- gone and come again --


def test_deleted_and_made_again_with_the_same_text(stage: Stage) -> None:
    stage.write("later", A)
    stage.sh("rm a.py; mv later a.py")
    stage.expect(BOTH, a="another inode")


def test_deleted_and_made_again_with_another_text_and_restored(stage: Stage) -> None:
    stage.write("later", text("new"))
    stage.sh("rm a.py; mv later a.py")
    stage.expect({"b.py": "b"})
    stage.know("new", "a.py")
    stage.expect({"a.py": "new", "b.py": "b"})
    stage.git("stash")
    stage.expect(BOTH)
    stage.git("stash", "pop")
    stage.expect({"a.py": "new", "b.py": "b"})


def test_another_path_on_the_same_inode(stage: Stage) -> None:
    inode = (stage.top / "a.py").stat().st_ino
    stage.sh("rm a.py")
    for number in range(500):
        stage.write(f"n{number}.py", text(f"n{number}"))
        if (stage.top / f"n{number}.py").stat().st_ino == inode:
            break
    else:
        pytest.skip("this file system did not reuse a freed inode in 500 tries")
    stage.expect({"b.py": "b"})


def test_a_known_file_gets_the_inode_of_a_deleted_one(stage: Stage) -> None:
    inode = (stage.top / "a.py").stat().st_ino
    stage.sh("rm a.py")
    for _ in range(500):
        stage.save("b.py", edited(B))
        if (stage.top / "b.py").stat().st_ino == inode:
            break
    else:
        pytest.skip("this file system did not reuse a freed inode in 500 tries")
    stage.expect({"b.py": "b"}, b="another inode")


def test_a_link_in_the_place_of_the_file(stage: Stage) -> None:
    stage.sh("mv a.py real.py; ln -s real.py a.py")
    stage.expect({"real.py": "a", "b.py": "b"}, a="moved from a.py")


def test_a_link_to_another_file_in_the_place_of_the_file(stage: Stage) -> None:
    stage.sh("rm a.py; ln -s b.py a.py")
    stage.expect({"b.py": "b"})
    stage.git("checkout", "--", "a.py")
    stage.expect(BOTH)


def test_a_backup_is_restored(stage: Stage, tmp_path: Path) -> None:
    stage.sh(f"cp -a a.py {tmp_path}/backup")
    stage.save("a.py", edited(A, 12))
    stage.know("a", "a.py")
    stage.sh("rm a.py")
    stage.sh(f"cp -a {tmp_path}/backup a.py")
    stage.expect(BOTH)


def test_an_older_backup_that_was_never_looked_at(stage: Stage) -> None:
    stage.sh("rm a.py")
    stage.write("later", text("a", 22))
    stage.sh("mv later a.py")
    stage.expect(BOTH)


# -- git --


def test_another_branch_and_back(stage: Stage) -> None:
    stage.git("switch", "-q", "-c", "topic")
    stage.git("mv", "a.py", "c.py")
    stage.save("b.py", text("another b"))
    stage.repo.commit("topic")
    stage.git("switch", "-q", "main")
    stage.expect(BOTH)
    stage.git("switch", "-q", "topic")
    stage.expect({"c.py": "a", "b.py": "b"})
    stage.git("switch", "-q", "main")
    stage.expect(BOTH)


def test_a_branch_without_the_file_and_back(stage: Stage) -> None:
    stage.git("switch", "-q", "--orphan", "empty")
    stage.write("c.py", edited(A))
    stage.repo.commit("a stranger, alike")
    stage.know("c", "c.py")
    stage.expect({"c.py": "c"})
    stage.git("switch", "-q", "main")
    stage.expect(BOTH)


def test_stash_and_pop(stage: Stage) -> None:
    stage.write("a.py", edited(A, 20))
    stage.know("a", "a.py")
    stage.git("stash")
    stage.expect(BOTH)
    stage.git("stash", "pop")
    stage.expect(BOTH)


def test_a_rebase(stage: Stage) -> None:
    stage.git("switch", "-q", "-c", "topic")
    stage.save("a.py", edited(A))
    stage.repo.commit("topic")
    stage.know("a", "a.py")
    stage.git("switch", "-q", "main")
    stage.git("mv", "b.py", "c.py")
    stage.save("a.py", A + text("tail", 20))
    stage.repo.commit("main moves on")
    stage.git("switch", "-q", "topic")
    stage.git("rebase", "-q", "main")
    stage.expect({"a.py": "a", "c.py": "b"})


def test_reset_hard(stage: Stage) -> None:
    stage.save("a.py", text("all new"))
    stage.repo.commit("rewrite")
    stage.know("a", "a.py")
    stage.git("reset", "-q", "--hard", "HEAD~1")
    stage.expect(BOTH)


def test_reset_hard_to_a_version_that_was_never_looked_at(stage: Stage) -> None:
    stage.save("a.py", text("second"))
    stage.repo.commit("second")
    stage.save("a.py", text("third"))
    stage.repo.commit("third")
    stage.know("a", "a.py")
    stage.git("reset", "-q", "--hard", "HEAD~1")
    stage.expect(BOTH)


def test_a_conflict_and_its_end(stage: Stage) -> None:
    stage.git("switch", "-q", "-c", "topic")
    stage.save("a.py", edited(A))
    stage.repo.commit("topic")
    stage.git("switch", "-q", "main")
    stage.save("a.py", A.replace(b"a says 0", b"a shouts 0"))
    stage.repo.commit("main")
    stage.repo.git("merge", "topic", ok=False)
    assert b"<<<<<<<" in stage.repo.read("a.py")
    stage.expect(BOTH)
    stage.git("merge", "--abort")
    stage.expect(BOTH)


def test_files_stashed_and_restored_by_pre_commit(stage: Stage) -> None:
    """The real program: unstaged work is taken out and put back around the hooks."""
    config = "repos: [{repo: local, hooks: [{id: t, name: t, entry: 'true', language: system}]}]\n"
    stage.write(".pre-commit-config.yaml", config.encode())
    stage.git("add", "-A")
    stage.save("a.py", edited(A))
    stage.save("b.py", edited(B, 8))
    before = (stage.top / "a.py").stat().st_ctime_ns
    done = subprocess.run(
        [Path(sys.executable).with_name("pre-commit"), "run"], cwd=stage.top, capture_output=True, check=False
    )
    assert done.returncode == 0 and b"Unstaged files detected" in done.stderr + done.stdout, done
    assert (stage.top / "a.py").stat().st_ctime_ns != before
    assert stage.repo.read("a.py") == edited(A)
    stage.expect(BOTH)


# -- repositories --


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
    stage.expect(BOTH)


def linked(stage: Stage, place: Path) -> Stage:
    stage.git("worktree", "add", "-q", "-b", "topic", str(place))
    return Stage(place, stage.folders)


def test_linked_work_trees_in_turn(stage: Stage, tmp_path: Path) -> None:
    other = linked(stage, tmp_path / "linked")
    assert other.answers(["a.py", "b.py"]) == BOTH
    state = stage.state()
    for _ in range(2):
        assert stage.answers(["a.py", "b.py"]) == other.answers(["a.py", "b.py"]) == BOTH
    assert stage.state() == state


def test_linked_work_trees_of_other_names_and_texts_in_turn(stage: Stage, tmp_path: Path) -> None:
    other = linked(stage, tmp_path / "linked")
    other.git("mv", "a.py", "c.py")
    other.save("b.py", text("b on topic"))
    other.repo.commit("topic")
    theirs = {"c.py": "a", "b.py": "b"}
    assert other.answers(other.files()) == theirs
    assert stage.answers(stage.files()) == BOTH
    state = stage.state()
    for _ in range(2):
        assert stage.answers(stage.files()) == BOTH and other.answers(other.files()) == theirs
    assert stage.state() == state
    # and each is compared with its own text
    other.save("b.py", edited(text("b on topic"), 4))
    stage.save("b.py", edited(B, 4))
    other.save("c.py", edited(A, 4))
    for _ in range(2):
        assert other.answers(other.files()) == theirs and stage.answers(stage.files()) == BOTH


def test_another_device_number(stage: Stage) -> None:
    """A container, or a disk mounted again: the inodes are unchanged, but the device number differs."""
    device = str((stage.top / "a.py").stat().st_dev)
    for each in stage.layout.memory.glob("*/identity.json"):
        each.write_text(each.read_text().replace(f'"{device}:', '"99999:'))
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
