"""A refused edit of several parts: those that fit are kept until the model sends the rest; then all are committed."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from repoagent.patch.apply_answer import apply_patches, read_answer
from repoagent.patch.errors import PatchRefused
from repoagent.patch.model import SourceText
from repoagent.patch.targets import Outcome
from tests.conftest import GitRepo
from tests.edit.conftest import GREET, Run, Script, diff

COMMAND = ("edit", "src/app.py", "README.md", "greet with a comma", "--yes")
README = diff("README.md", "-A small repository.", "+A small repository that greets.")
WRONG = diff("README.md", "-A large repository.", "+A small repository that greets.")


def landed(repo: GitRepo) -> bool:
    return repo.git("show", "--format=", "--name-only").split() == ["README.md", "src/app.py"]


@pytest.mark.parametrize("again", [README, README + GREET, GREET + README])
def test_the_model_may_send_the_rest_or_the_whole_edit(
    repo: GitRepo, run: Run, script: Script, again: str
) -> None:
    script.replies(GREET + WRONG, again)
    done = run(*COMMAND)
    assert done.code == 0, done.err
    assert "Kept as a draft: src/app.py. Still missing: hunk 1 of README.md." in script.prompts[1]
    assert landed(repo) and repo.read("src/app.py").count(b"hello, ") == 1


@pytest.mark.parametrize("end", ["<finish/>\n", "That is all.\n", "<reject>No.</reject>\n", GREET])
def test_a_partial_edit_is_never_committed(repo: GitRepo, run: Run, script: Script, end: str) -> None:
    script.replies(GREET + WRONG, end, end, end, end)
    head = repo.head()
    done = run(*COMMAND)
    assert done.code == 3, done.err
    assert (repo.head(), repo.status()) == (head, "")
    assert "Still missing: hunk 1 of README.md" in script.prompts[2]
    assert len(script.prompts) == (4 if end == GREET else 3)


def test_the_missing_part_is_requested_once_before_the_end(repo: GitRepo, run: Run, script: Script) -> None:
    script.replies(GREET + WRONG, "<finish/>\n", README)
    assert run(*COMMAND).code == 0 and landed(repo)


def test_a_definition_named_in_an_earlier_answer_may_be_removed(
    repo: GitRepo, run: Run, script: Script
) -> None:
    gone = diff("src/app.py", "-def greet(name):", "-    return 'hello ' + name", "+hello = 'hello '")
    script.replies(f"The function `greet` goes.\n\n{gone}{WRONG}", README)
    done = run(*COMMAND)
    assert done.code == 0, done.err
    assert landed(repo)


def test_a_hunk_that_changes_nothing_is_not_missing(repo: GitRepo, run: Run, script: Script) -> None:
    already = diff("README.md", "-A repository.", "+A small repository.")
    script.replies(GREET + already, GREET)
    assert run(*COMMAND).code == 0
    assert "README.md, hunk 1: " in script.prompts[1] and "Still missing" not in script.prompts[1]
    assert repo.git("show", "--format=", "--name-only").split() == ["src/app.py"]


def test_kept_parts_survive_a_kill(repo: GitRepo, run: Run, script: Script) -> None:
    script.replies(GREET + WRONG, "")
    script.act(1, "exit 1")
    assert run(*COMMAND).code == 4
    assert repo.status() == ""
    script.replies(README)
    done = run(*COMMAND)
    assert done.code == 0, done.err
    assert landed(repo)


FILE = "".join(f"line {number}\n" for number in range(1, 31))


def hunk(number: int, *, right: bool = True, before: int = 1, below: int = 1, add: bool = False) -> str:
    """A hunk that changes line `number`, or adds a line below it, with some context."""
    old = [f"line {n}" for n in range(number - before, number + below + 1)]
    lines = [f" {line}" for line in old]
    lines[before : before + 1] = (
        [lines[before], f"+new {number}"] if add else [f"-line {number}", f"+new {number}"]
    )
    if not right:
        lines = [line.replace("line", "no such") for line in lines]
    return "\n".join(["@@", *lines, ""])


def answer(*hunks: str) -> str:
    return f"```diff\n--- a/f.txt\n+++ b/f.txt\n{''.join(hunks)}```\n"


def _after(answers: Sequence[str]) -> bytes | None:
    """The result of the answers one after another, each with the kept parts of the earlier ones."""
    sources = {"f.txt": SourceText(FILE.encode())}
    kept: tuple[Outcome, ...] = ()
    for text in answers:
        try:
            return apply_patches(read_answer(text), sources, earlier=kept).changes[0].after
        except PatchRefused as error:
            kept = error.fits
    return None


@given(
    st.lists(
        st.tuples(st.integers(3, 27), st.booleans(), st.booleans()),
        min_size=2,
        max_size=5,
        unique_by=lambda h: h[0],
    ),
    st.lists(st.tuples(st.integers(0, 2), st.integers(1, 2)), min_size=5, max_size=5),
    st.booleans(),
)
def test_no_hunk_is_lost_or_applied_twice(
    hunks: list[tuple[int, bool, bool]], around: list[tuple[int, int]], all_again: bool
) -> None:
    hunks = [
        one
        for before, one in zip([(0, False, False), *sorted(hunks)], sorted(hunks), strict=False)
        if one[0] - before[0] > 5
    ]
    first = answer(*(hunk(n, right=right, add=add) for n, add, right in hunks))
    second = answer(
        *(
            hunk(n, add=add, before=before, below=below)
            for (n, add, right), (before, below) in zip(hunks, around, strict=False)
            if all_again or not right
        )
    )
    if all(right for _, _, right in hunks):
        return
    wanted = FILE
    for n, add, _ in hunks:
        wanted = wanted.replace(f"line {n}\n", f"line {n}\nnew {n}\n" if add else f"new {n}\n")
    assert _after([first, second]) == wanted.encode()


def test_a_partial_change_of_a_kept_part_is_refused() -> None:
    first = answer(hunk(10, add=True), hunk(20, right=False))
    other = answer("@@\n line 9\n line 10\n+another\n line 11\n", hunk(20))
    assert _after([first, other]) is None
    assert _after([first, other, answer(hunk(10, add=True), hunk(20))]) is not None


def test_changes_on_top_of_kept_parts() -> None:
    first = answer(hunk(10), hunk(20, right=False))
    on_top = answer("@@\n line 9\n-new 10\n+newer 10\n line 11\n", hunk(20))
    after = _after([first, on_top])
    assert after is not None and b"newer 10" in after and b"new 20" in after
