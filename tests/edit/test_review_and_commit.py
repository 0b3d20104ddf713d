"""The shown diff is exactly the written change, a selection of it is what git would apply, to the byte, and the commit
message loses no text, has the layout of git, and claims nothing for a model."""

from __future__ import annotations

import re
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from repoagent.edit.commit import SUBJECT_WIDTH, compose_message, with_trailers
from repoagent.edit.review_and_commit import ChangePiece, read_back, select_pieces, split_changes, split_piece
from repoagent.edit.ui import DiffStat
from repoagent.errors import Refused
from repoagent.git.files import EXECUTABLE, SYMLINK, Content, FileChange
from repoagent.patch.render import RenderedHunk, canonical_diff, header_of
from tests.conftest import GitRepo


def modified(before: bytes, after: bytes) -> FileChange:
    return FileChange.at("a b", Content(before), Content(after))


def numbered(count: int, **changed: str) -> bytes:
    """Lines `1` to `count`; `l5="x"` replaces line 5."""
    return "".join(changed.get(f"l{n}", str(n)) + "\n" for n in range(1, count + 1)).encode()


def apply(folder: Path, change: FileChange, hunks: list[RenderedHunk]) -> bytes:
    """What `git apply` makes of the text before with only `hunks`.

    One at a time, the last first: parts of one hunk share their context, which git does not take in a single patch.
    """
    target = folder / "a b"
    target.write_bytes(change.before or b"")
    for hunk in reversed(hunks):
        here = re.sub(r"-(\d+)(.*?) \+\d+", r"-\1\2 +\1", hunk.text, count=1)
        command = ["git", "apply", "--unidiff-zero", "--whitespace=nowarn", "-"]
        patch = (header_of(change) + here).encode("utf-8", "surrogateescape")
        subprocess.run(command, cwd=folder, input=patch, check=True)
    return target.read_bytes()


LINES = st.sampled_from(
    [b"a", b"b", b"", b"-- x", b"++ y", b"@@ -1 +1 @@", b"\\ No", b"\xff\xfe", b"c\r", b"\t", "é".encode()]
)


@st.composite
def texts(draw: st.DrawFn) -> tuple[bytes, bytes]:
    before = draw(st.lists(LINES, min_size=1, max_size=30))
    after = list(before)
    for _ in range(draw(st.integers(1, 4))):
        start = draw(st.integers(0, len(after)))
        end = min(len(after), start + draw(st.integers(0, 2)))
        after[start:end] = draw(st.lists(LINES, max_size=2))
    return joined(before, draw(st.booleans())), joined(after, draw(st.booleans()))


def joined(lines: list[bytes], ended: bool) -> bytes:
    return b"\n".join(lines) + (b"\n" if ended and lines else b"")


@pytest.mark.soak
@settings(max_examples=120, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(both=texts(), data=st.data())
def test_a_selection_is_what_git_applies(
    tmp_path: Path, both: tuple[bytes, bytes], data: st.DataObject
) -> None:
    before, after = both
    if before == after:
        return
    change = modified(before, after)
    parts = [part for piece in split_changes([change]) for part in split_piece(piece)]
    assert select_pieces([change], parts) == [change]
    assert select_pieces([change], []) == []
    taken = [part for part in parts if data.draw(st.booleans())]
    got = select_pieces([change], taken)
    wanted = apply(tmp_path, change, [part.hunk for part in taken if part.hunk])
    assert (got[0].after if got else before) == wanted


def test_split_needs_context_between() -> None:
    together = modified(numbered(9), numbered(9, l5="x", l6="y"))
    apart = modified(numbered(9), numbered(9, l4="x", l6="y"))
    (piece,) = split_changes([together])
    assert split_piece(piece) == (piece,)
    (piece,) = split_changes([apart])
    first, second = split_piece(piece)
    assert select_pieces([apart], [first])[0].after == numbered(9, l4="x")
    assert select_pieces([apart], [second])[0].after == numbered(9, l6="y")
    assert select_pieces([apart], [second, first]) == [apart]
    assert second.hunk is not None
    assert second.hunk.text.startswith("@@ -5,5 +5,5 @@\n 5\n-6\n+y\n")


def test_files_that_are_one_piece() -> None:
    whole = ChangePiece(0, "file")
    assert split_piece(whole) == (whole,)
    for change in (
        FileChange.at("new", None, Content(b"a\n")),
        FileChange.at("empty", None, Content(b"")),
        FileChange.at("gone", Content(b"a\n"), None),
        FileChange.at("link", Content(b"a\n"), Content(b"target", SYMLINK)),
        FileChange.at("bin", Content(b"a\0"), Content(b"b\0")),
    ):
        assert split_changes([change]) == (whole,), change.name
        assert select_pieces([change], [whole]) == [change] and select_pieces([change], []) == []


def test_rename_mode_and_text_are_separate_pieces() -> None:
    change = FileChange("old", "new", Content(numbered(9)), Content(numbered(9, l5="x"), EXECUTABLE))
    rename, mode, hunk = split_changes([change])
    assert [piece.kind for piece in (rename, mode, hunk)] == ["rename", "mode", "hunk"]
    for piece, wanted in (
        (rename, replace(change, new=change.old)),
        (mode, replace(change, path="old", new=Content(numbered(9), EXECUTABLE))),
        (hunk, replace(change, path="old", new=Content(numbered(9, l5="x")))),
    ):
        assert select_pieces([change], [piece]) == [wanted]
    assert select_pieces([change], [rename, mode, hunk]) == [change]


def test_a_file_at_the_old_path_of_a_rename_needs_the_rename() -> None:
    moved = FileChange("a", "b", Content(b"x\n"), Content(b"x\n"))
    new = FileChange.at("a", None, Content(b"y\n"))
    rename, whole = split_changes([moved, new])
    assert select_pieces([moved, new], [rename, whole]) == [moved, new]
    with pytest.raises(Refused, match="cannot create a: "):
        select_pieces([moved, new], [whole])


TEXT_LINES = (
    b"a\n", b"b\n", b"-- x\n", b"++ y\n", b"@@ -1 +1 @@\n", b"\r\n", b"f\x0cf\n", "\u2028\n".encode(), b"\xff\n",
    b" \n", b"\\ No newline at end of file\n",
)  # fmt: skip
TEXT = st.tuples(
    st.lists(st.sampled_from(TEXT_LINES), max_size=30), st.sampled_from([b"", b"end", b"-- end"])
)


@given(TEXT, TEXT)
def test_the_parsed_diff_produces_the_written_bytes(
    old: tuple[list[bytes], bytes], new: tuple[list[bytes], bytes]
) -> None:
    before, after = (b"".join([*lines, end]) for lines, end in (old, new))
    if before != after:
        changes = [modified(before, after)]
        stat = read_back(canonical_diff(changes), changes)
        assert stat.added + stat.removed > 0


def test_a_diff_that_differs_from_the_bytes_is_an_error() -> None:
    changes = [modified(b"1\n2\n3\n", b"1\nzwei\n3\n")]
    diff = canonical_diff(changes)
    assert str(read_back(diff, changes)) == "1 file +1 -1"
    for old, new in (("zwei", "drei"), ("@@ -1,3 +1,3 @@", "@@ -1,2 +1,3 @@"), (" 3\n", ""), (diff, "")):
        with pytest.raises(ValueError):
            read_back(diff.replace(old, new), changes)


def test_new_deleted_and_renamed_files() -> None:
    changes = [
        FileChange.at("n", None, Content(b"x\n")),
        FileChange.at("d", Content(b"y\n"), None),
        FileChange("o", "p", Content(b"z\n"), Content(b"z\n")),
    ]
    assert read_back(canonical_diff(changes), changes) == DiffStat(3, 1, 1)


ITEM = "- a list item that is much longer than seventy-two columns and stays one line as it was\n\n    code = 1\n# text\n"
DESCRIBED = "Fix it\n\nsort-by: the name of a column\nIt skips [a list].\n\nFixes: 1234567 (x)\nCloses: #12\n"


@pytest.mark.parametrize(
    ("account", "request_", "message"),
    [
        ("handle a missing file.\n\nIt raised.", "x", "handle a missing file\n\nIt raised.\n"),
        ("", "return a default when the file is missing", "Return a default when the file is missing\n"),
        # code and markup in a subject
        ("fix: close the file", "", "fix: close the file\n"),
        ("foo_bar returns early", "", "foo_bar returns early\n"),
        ("The docstring says **tries**:", "x", "The docstring says **tries**\n"),
        ("**Fix the parser.**", "x", "Fix the parser\n"),
        ("Pass **kwargs on to **options", "x", "Pass **kwargs on to **options\n"),
        ("Compute 2**3**4 in __init__", "x", "Compute 2**3**4 in __init__\n"),
        # prose is wrapped, lists and code are not
        (f"Subject\n\n{ITEM}", "", f"Subject\n\n{ITEM}"),
        ("Subject\n\n" + "words " * 20, "", "Subject\n\n" + "words " * 11 + "words\n" + "words " * 7 + "words\n"),
        # trailers of a model, and the user's own
        ("Fix it\n\nReviewed-by: A,\n\tB <b@x>\n  and C\nMore.", "", "Fix it\n\nMore.\n"),
        ("Reviewed-by: R\nReview-Ignore: *", "Fix it\n\nReviewed-by: Ada <ada@x>", "Fix it\n\nReviewed-by: Ada <ada@x>\n"),
        (DESCRIBED, "", DESCRIBED),
        *(
            (f"Fix it {token}\n\nAll {token} of it.", "", "Fix it\n\nAll of it.\n")
            for token in ("[skip ci]", "[CI skip]", "[no ci]", "[skip actions]", "***NO_CI***")
        ),
    ],
)  # fmt: skip
def test_the_summary_of_the_model_becomes_the_message(account: str, request_: str, message: str) -> None:
    assert compose_message(account, request_) == message


def test_a_long_subject_continues_in_the_body() -> None:
    words = "replace the handwritten parser with a table driven one because nobody could follow the old one"
    subject, _, body = compose_message(words, "").partition("\n\n")
    assert len(subject) <= SUBJECT_WIDTH
    assert subject.endswith("…") and body.startswith("…")
    assert (subject[:-1] + " " + body[1:].replace("\n", " ").strip()).lower() == words


@given(st.text(max_size=400))
def test_no_word_of_the_summary_is_lost(account: str) -> None:
    message = compose_message(account, "Do it")
    for word in account.split()[5:]:
        assert word.strip("#*.…") in message


def test_trailers_follow_a_body_with_dashes_and_comment_lines(repo: GitRepo) -> None:
    message = "Subject\n\nbefore\n---\n# after\n"
    done = with_trailers(message, [("Assisted-by", "repoagent:m"), ("Repoagent-Edit", "1")], repo.top)
    assert done == "Subject\n\nbefore\n---\n# after\n\nAssisted-by: repoagent:m\nRepoagent-Edit: 1\n"


CLAIMS = [
    "Signed-off-by: Root <r@x>", "reviewed-BY : Root <r@x>", "Acked-by: R", "Tested-by: R", "Approved-by: R",
    "Co-authored-by: R <r@x>", "Reported-by: R", "Cc: stable@x", "Review-Ignore: *", "  review-ignore: security",
    "Repoagent-Edit: 1", "Source-Blob: 1", "Assisted-by: nobody", "Made-With: nothing", "Change-Id: I1",
    "skip-checks: true", "(cherry picked from commit 1234567)",
]  # fmt: skip


@pytest.mark.parametrize(
    "account",
    [
        "Fix it\n\n{}\n", "{}\nFix it\n", "# {}\n\nFix it\n", "Fix it\n\nWhy.\n\n{}\n\nMore words.",
        "Fix it\n\n" + "It was seen by all who work on this part of it, ok " * 4 + "{}", "Fix it\u2028{}\u2028", "Fix it\r\n\r\n{}\r\n",
    ],
)  # fmt: skip
def test_trailers_by_a_model_are_removed(account: str) -> None:
    for claim in CLAIMS:
        message = compose_message(account.format(claim), "Do it", "Made-With")
        assert message.startswith("Fix it\n") or "# " in account
        name = claim.strip().split(":")[0].strip().lower()
        assert not any(line.strip().lower().startswith(name) for line in message.splitlines()), message
