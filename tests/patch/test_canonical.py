"""The canonical diff is that of git: git applies it to the same bytes, and unidiff reads all of it."""

from __future__ import annotations

import random
import time
import zlib

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from repoagent.git.files import Content, FileChange
from repoagent.patch.render import Range, canonical_diff, diff_ranges, quoted
from tests.conftest import GitRepo

ROWS = b"".join(b"row %d\n" % number for number in range(40))
ODD = [
    "plain", "with space", "ü\u2028.txt", 'quote".txt', "back\\slash", "tab\there", "a/deep/er", "\udcff\udcfe",
]  # fmt: skip


def change(
    old: str | None, new: str | None, before: bytes | None, result: bytes | None, *modes: str
) -> FileChange:
    sides = zip((before, result), modes or ("100644", "100644"), strict=True)
    return FileChange(old, new, *(None if data is None else Content(data, mode) for data, mode in sides))


CHANGES = [
    change("f", "f", ROWS, ROWS.replace(b"row 3\n", b"ROW\n").replace(b"row 30\n", b"")),
    change("f", "f", b"a\nb", b"a\nb\n"),
    change("f", "f", b"a\nb\n", b"a\nc"),
    change("f", "f", b"", b"new\n"),
    change("f", "f", b"x\r\ny\r\n", b"x\r\nz\r\n"),
    change("f", "f", b"caf\xe9\n", b"caf\xe9!\n"),
    change("f", "f", b"a\n", b"a\n", "100644", "100755"),
    change("f", "f", b"a\n", b"b\n", "100755", "100644"),
    change("f", "f", b"\0\1\2" * 40, b"\0\1\3" * 50),
    change("f", "f", "one\ntwo\n".encode("utf-16"), "one\nzwei\n".encode("utf-16")),
    change(None, "f", None, b"new\nfile"),
    change(None, "f", None, b""),
    change(None, "f", None, b"x\n", "", "100755"),
    change("f", None, b"gone\n", None),
    change("f", None, b"", None),
    change("f", "dir/g", ROWS, ROWS),
    change("f", "dir/g", ROWS, ROWS.replace(b"row 5\n", b"")),
    *(change(path, path, b"one\n", b"two\n") for path in ODD),
    *(change(path, f"{path}.new", ROWS, ROWS + b"x\n") for path in ODD),
]


@pytest.mark.soak
@pytest.mark.parametrize("number", range(len(CHANGES)))
def test_git_applies_it_forward_and_back(repo: GitRepo, number: int) -> None:
    case = CHANGES[number]
    if case.old_path is not None and case.before is not None:
        repo.write(case.old_path, case.before).chmod(0o755 if case.old_mode == "100755" else 0o644)
    diff = canonical_diff([case]).encode("utf-8", "surrogateescape")
    repo.git("apply", "--check", "-", stdin=diff)
    repo.git("apply", "-", stdin=diff)
    if case.path is None:
        assert not (repo.top / case.name).exists()
    else:
        assert repo.read(case.path) == case.after
        assert bool((repo.top / case.path).stat().st_mode & 0o100) == (case.mode == "100755")
    repo.git("apply", "-R", "--check", "-", stdin=diff)


NUMBERS = [b"%d\n" % number for number in range(20)]
PLACED = [  # most have several positions
    (b"a\nx\nx\nb\n", b"a\nx\nx\nx\nb\n"),
    (b"a\nx\nx\nx\nb\n", b"a\nx\nx\nb\n"),
    (b"f\n\ng\n\nh\n", b"f\n\ng\n\ng\n\nh\n"),
    (b"{\n1\n}\n{\n2\n}\n", b"{\n1\n}\n{\n3\n}\n{\n2\n}\n"),
    (b"".join(NUMBERS), b"".join(NUMBERS[:8] + NUMBERS[9:])),
    (b"a\n" * 9 + b"b\n", b"a\n" * 12 + b"b\n"),
    (b"1\n2\n3\n4\n5\nx\nx\nb\n", b"1\n2\n3\n4\n5\nx\nx\nx\nb\n"),
    (b"1\n2\n3\n4\n5\nx\nx\nx\nb\n", b"1\n2\n3\n4\n5\nx\nx\nb\n"),
    (b"b\n\n", b"\nb\n\n\n"),  # the second insertion moves down to the end
    (ROWS, ROWS.replace(b"row 2\n", b"").replace(b"row 20\n", b"ROW\nmore\n").replace(b"row 35\n", b"")),
    (ROWS, ROWS.replace(b"row 2\n", b"").replace(b"row 9\n", b"")),  # six lines of context join two changes
    *((head + b"\n 1" * 9 + b"\n", head + b"\n 1" * 9 + b"\n 2\n") for head in (b"$f", b"_f", b"h" * 100)),
]


def test_the_diff_equals_that_of_git_which_applies_it(repo: GitRepo) -> None:
    changes = [change(f"f{n:02}", f"f{n:02}", before, after) for n, (before, after) in enumerate(PLACED)]
    changes.append(change("\u00fc b", "\u00fc b", b"1\n", b"2\n"))
    repo.commit("before", **{one.name: one.before or b"" for one in changes})
    for one in changes:
        repo.write(one.name, one.after or b"")
    diff = repo.git("-c", "diff.indentHeuristic=false", "diff").split("\n")
    assert canonical_diff(changes).split("\n") == [line for line in diff if not line.startswith("index ")]
    repo.git("checkout", ".")
    # The last line of base85 has 26 bytes of the second one.
    before, after = (b"\0" + random.Random(size).randbytes(size) for size in (500, 66))
    assert len(zlib.compress(after)) % 52 == 26
    repo.write("f.bin", before)
    repo.write("g", b"text\n")
    changes += [
        change("f.bin", "f.bin", before, after),
        change("g", "g", b"text\n", b"\0"),
        change("a.txt", "b.txt", repo.read("a.txt"), b"x\n" + repo.read("a.txt")),
        change(None, "n", None, b"1\n"),
    ]
    repo.git("apply", "-", stdin=canonical_diff(changes).encode())
    assert [repo.read(one.name) for one in changes] == [one.after for one in changes]


def test_a_file_without_changed_lines() -> None:
    assert canonical_diff([change("f", "f", ROWS, ROWS)]) == ""
    for before, after, similarity in (
        (ROWS, ROWS, 100),
        (b"", b"", 100),
        (b"x\n" * 9, b"x\n" * 9 + b"y\n", 90),
    ):
        diff = canonical_diff([change("a", "b", before, after)])
        assert f"similarity index {similarity}%\nrename from a\nrename to b\n" in diff


def test_an_added_function_is_shown_as_one_block() -> None:
    before = b"def a():\n    return 1\n\n\ndef c():\n    return 1\n"
    result = b"def a():\n    return 1\n\n\ndef b():\n    return 1\n\n\ndef c():\n    return 1\n"
    assert "+def b():\n+    return 1\n+\n+\n def c()" in canonical_diff([change("f", "f", before, result)])
    # down, but only below a blank line
    moved = canonical_diff([change("f", "f", b"a\nb\n", b"\na\nb\n\nb\n")])
    assert moved.endswith("\n+\n a\n+b\n+\n b\n")


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("a b~", b"a b~"),
        ("\u00fc b~", b'"\\303\\274 b~"'),
        ("\x1f", b'"\\037"'),
        ("\x7f", b'"\\177"'),
        ('"\\\t', b'"\\"\\\\\\t"'),
    ],
)
def test_a_path_with_other_bytes_than_printable_ones_is_quoted(path: str, expected: bytes) -> None:
    assert quoted(path) == expected


def test_equal_lines_of_small_and_dissimilar_texts_are_kept() -> None:
    random.seed(1)
    old, new = ([str(random.randrange(50)) for _ in range(400)] for _ in range(2))
    assert sum(i2 - i1 for i1, i2, _, _ in diff_ranges(old, new)) < 390


def rebuilt(old: list[str], new: list[str], ranges: list[Range]) -> list[str]:
    made, at = [], 0
    for i1, i2, j1, j2 in ranges:
        made += old[at:i1] + new[j1:j2]
        at = i2
    return made + old[at:]


@pytest.mark.parametrize("anchors", [0, 20])
def test_large_and_dissimilar_texts_are_compared_quickly(anchors: int) -> None:
    random.seed(1)
    pool = [str(number) for number in range(50)]
    old, new = ([random.choice(pool) for _ in range(4000)] for _ in range(2))
    for number in range(anchors):  # lines that are unique on both sides stay
        old[200 * number] = new[200 * number + 7] = f"anchor {number}"
    start = time.process_time()
    ranges = diff_ranges(old, new)
    assert time.process_time() - start < 3
    assert not any(line.startswith("anchor") for i1, i2, _, _ in ranges for line in old[i1:i2])
    assert rebuilt(old, new, ranges) == new


@settings(max_examples=150, deadline=None)
@given(st.lists(st.sampled_from("abcd"), max_size=30), st.lists(st.sampled_from("abcd"), max_size=30))
@example([], ["a"])
@example(["a"], [])
def test_line_differences_rebuild_the_new_side(old: list[str], new: list[str]) -> None:
    ranges = diff_ranges(old, new)
    assert all(i2 > i1 or j2 > j1 for i1, i2, j1, j2 in ranges)
    assert rebuilt(old, new, ranges) == new
