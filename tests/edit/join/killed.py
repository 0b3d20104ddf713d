"""Kill a join at each of its changes on disk; the next join must find the source either old or new, and finish.

    python -m tests.edit.join.killed FOLDER EVERY

in the environment of tests/crash/fault_library.py. Prints the number of kills, and a line for each failure.
"""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

from repoagent.split.folder_index import edited_segments, read_index
from tests.conftest import GitRepo
from tests.crash.fault_library import ALL, COUNT, SELF, Faults
from tests.crash.scenes import in_child, run
from tests.edit.join.conftest import SOURCE

JOIN = ("split", "--join", "parts")


def prepare(template: GitRepo) -> bytes:
    """Split a file, edit two segments (one needs a repair), and change the source. Returns the bytes of the join."""
    template.top.mkdir(parents=True)
    template.git("init", "-q")
    template.commit("the file", **{"big.py": SOURCE})
    template.write(".git/info/exclude", "parts\n.repoagent\n")
    os.chdir(template.top)
    assert in_child(lambda: run("split", "big.py", "-o", "parts", "--target-bytes", "110")) == 0
    second, fourth = template.read("parts/002.py"), template.read("parts/004.py")
    template.write("parts/002.py", second.replace(b"second = first", b"second = 2").rstrip(b"\n"))
    template.write("parts/004.py", fourth.replace(b"third = second", b"third = 4"))
    moved = SOURCE.replace(b"def load(value):", b"def load(value, more):")
    template.commit("moved on", **{"big.py": moved})
    wanted = moved.replace(second, second.replace(b"second = first", b"second = 2"))
    return wanted.replace(fourth, fourth.replace(b"third = second", b"third = 4"))


def wrong(repo: GitRepo, old: bytes, new: bytes) -> str:
    """What is wrong after a kill and two more joins; "" if nothing."""
    if repo.read("big.py") not in (old, new):
        return "the source is neither old nor new"
    codes = [in_child(lambda: run(*JOIN)), in_child(lambda: run(*JOIN))]
    if codes not in ([0, 1], [1, 1]):
        return f"the next joins end with {codes}"
    if repo.read("big.py") != new or repo.git("show", "HEAD:big.py").encode() != new:
        return "it is not joined"
    if repo.git("rev-list", "--count", "HEAD").strip() != "3" or repo.status():
        return "not one commit, or something is left"
    index = read_index(repo.top / "parts")
    files = b"".join((index.folder / segment.file).read_bytes() for segment in index.segments)
    if edited_segments(index) or index.pending or files != new or repo.read("parts/base") != new:
        return "the folder is not up to date"
    return ""


def main(folder: Path, every: int) -> None:
    template, repo = GitRepo(folder / "template"), GitRepo(folder / "repo")
    new = prepare(template)
    old = template.read("big.py")

    def fresh() -> None:
        shutil.rmtree(repo.top, ignore_errors=True)
        shutil.copytree(template.top, repo.top, symlinks=True)
        repo.git("status")
        os.chdir(repo.top)

    faults = Faults()
    fresh()
    run(*JOIN)  # import the lazily imported modules now
    fresh()
    whole = faults.run(lambda: run(*JOIN), COUNT)
    assert whole.code == 0, whole.code
    kills = 0
    for event in whole.events[::every]:
        for mode in (SELF, ALL):
            fresh()
            kills += faults.run(lambda: run(*JOIN), mode, event.number).fired
            if said := wrong(repo, old, new):
                print("wrong:", event, mode, said, flush=True)
    print("kills:", kills, "of", len(whole.events), "events")


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
