"""A change is cut into blocks that contain each changed line once. A tag becomes a claim only in the required form, and
a claim becomes a finding only if the change has its quote."""

from __future__ import annotations

import random
from dataclasses import replace
from difflib import SequenceMatcher

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from repoagent.errors import Refused
from repoagent.git.worktree import open_worktree
from repoagent.review.change import ChangedLines
from repoagent.review.checks.file_kinds import Attributes
from repoagent.review.finding import Finding, Level, Location, Suggestion
from repoagent.review.llm import chunks, claims
from repoagent.review.llm.chunks import (
    FILES,
    FileView,
    ReviewBlock,
    Versions,
    blocks_of,
    pack_blocks,
    view_of,
)
from repoagent.review.llm.claims import Claim, apply_suggestion, merge_findings, parse_finding, verify_claim
from tests.conftest import GitRepo
from tests.history.histories import partial_clone, without_a_fetch
from tests.review.builders import TOKEN, change_of, modified, read

RULES = ("correctness", "security")
ARGS = {"rule": "correctness", "path": "a.py", "lines": "4-5"}
BODY = "title: It is wrong\nquote:\n| x = 1\nwhy: It is 2.\n"


def parsed(body: str = BODY, **args: str) -> Claim:
    claim = parse_finding({**ARGS, **args}, body, RULES)
    assert isinstance(claim, Claim), claim
    return claim


@pytest.mark.parametrize(
    ("args", "body", "reason"),
    [
        ({"rule": "style"}, BODY, "rule"),
        ({"rule": ""}, BODY, "rule"),
        ({"path": " "}, BODY, "has no path"),
        ({"lines": "all"}, BODY, "line numbers"),
        ({"lines": "9-3"}, BODY, "line numbers"),
        ({"level": "fatal"}, BODY, "level"),
        ({"old": "perhaps"}, BODY, "old"),
        ({}, "", "what goes wrong"),
        ({}, "It is wrong\n", "does not begin with"),
        ({}, "title: a\nwhy: b\n", "quotes no code"),
        ({}, "title: a\nquote:\n| \n|\nwhy: b\n", "quotes no code"),
        ({}, "title: a\nquote:\n| x\n", "what goes wrong"),
        ({"lines": "4 5"}, BODY, "line numbers"),
        ({}, BODY + "why: again\n", "two `why` sections"),
        ({}, "title: a\nquote:\n| x\ny\nwhy: b\n", "begin with a bar and some do not"),
        ({}, "title: a\nquote:\n" + "| x\n" * (claims.CODE_LINES + 1) + "why: b\n", "more than"),
    ],
)
def test_invalid_tags(args: dict[str, str], body: str, reason: str) -> None:
    result = parse_finding({**ARGS, **args}, body, RULES)
    assert isinstance(result, str) and reason in result


def test_a_claim_with_everything() -> None:
    body = "title:  It  is\twrong\nquote:\n| if x:\n|     y = 1\nwhy: First.\n\nSecond.\nreplace:\n|     y = 2\n|\n"
    assert parsed(body, level="Note", old="yes") == Claim(
        "correctness", "a.py", 4, 5, "It is wrong", ("if x:", "    y = 1"), "First.\n\nSecond.",
        True, Level.NOTE, ("    y = 2", ""),
    )  # fmt: skip


def test_line_numbers_and_code_with_words_that_are_keys_or_without_bars() -> None:
    numbered = [parsed(lines=text) for text in ("7", "7-9", "", "L7", "L7-L9", "lines 7 to 9", "7..9")]
    found = [(claim.first, claim.last) for claim in numbered]
    assert found == [(7, 7), (7, 9), (0, 0), (7, 7), (7, 9), (7, 9), (7, 9)]
    assert parsed("quote:\n| x\nwhy: It is 2. It was 1.\n").title == "It is 2"
    yaml = parsed("title: t\nquote:\n| title: x\n| why: y\nwhy: w\n")
    assert yaml.quote == ("title: x", "why: y")
    assert parsed("title: t\nquote: x = 1\nwhy: w\n").quote == ("x = 1",)


@settings(max_examples=40, deadline=None)
@given(
    st.text(max_size=200),
    st.dictionaries(st.sampled_from(["rule", "path", "lines", "level"]), st.text(max_size=9)),
)
def test_any_text_can_be_parsed(body: str, args: dict[str, str]) -> None:
    assert isinstance(parse_finding(args, body, RULES), str | Claim)


OLD = "one = 1\nx = call(one)\nreturn x\n\nkeep(x)\nx = call(two)\n"
NEW = "one = 1\nx = call(one)\ny = call( other )\nreturn x\n\nkeep(x)\nx = call(two)\n\ty = call(three)\nreturn x\n"
CLAIM = Claim("correctness", "a.txt", 3, 3, "It is wrong", ("y = call( other )",), "It is 2.")


def view(old: str | bytes = OLD, new: str | bytes = NEW, path: str = "a.txt") -> FileView:
    before, after = (text.encode() if isinstance(text, str) else text for text in (old, new))
    a, b = before.splitlines(keepends=True), after.splitlines(keepends=True)
    hunks = [
        ChangedLines(i1 + (i2 > i1), tuple(a[i1:i2]), j1 + (j2 > j1), tuple(b[j1:j2]))
        for tag, i1, i2, j1, j2 in SequenceMatcher(a=a, b=b, autojunk=False).get_opcodes()
        if tag != "equal"
    ]
    change = change_of(modified(path), before, after, *hunks)
    result = view_of(change, change.files[0])
    assert result is not None
    return result


def check(claim: Claim, view_: FileView | None = None) -> Finding | str:
    view_ = view_ or view()
    return verify_claim(claim, {view_.path: view_}, Level.WARNING)


def verified(claim: Claim, view_: FileView | None = None) -> Finding:
    finding = check(claim, view_)
    assert isinstance(finding, Finding), finding
    return finding


def lines_of(claim: Claim, view_: FileView | None = None) -> tuple[int, int]:
    location = verified(claim, view_).location
    return location.start, location.end


def quoting(*lines: str, first: int = 0, last: int = 0, **more: object) -> Claim:
    return replace(CLAIM, quote=lines, first=first, last=last or first, **more)


@pytest.mark.parametrize(
    ("claim", "expected"),
    [
        (CLAIM, (3, 3)),
        (quoting("y  =  call( other )", first=900), (3, 3)),  # whatever the number and the spaces
        (quoting("y = call(three)", "return x"), (8, 9)),
        # unchanged lines around it
        (quoting("x = call(one)", "y = call( other )", "return x", first=2, last=4), (3, 3)),
        (replace(CLAIM, path="b.txt"), claims.OTHER_FILE),
        (quoting("y = call(other, more)", first=3), claims.NOT_THERE),
        (quoting("y = call( other )", "...", "keep(x)", first=3), claims.NOT_THERE),
        (quoting("x = call(one)", first=2), claims.NOT_CHANGED),
        (quoting("x = call(one)", first=3), claims.NOT_CHANGED),
        (quoting("keep(x)", first=3), claims.NOT_CHANGED),
        (quoting("return x", first=4), claims.NOT_CHANGED),  # it means the unchanged one, not that of line 9
        (quoting(")", "{", first=3), claims.UNTELLING),
        (quoting("y = call( other )", first=3, old=True), claims.NOT_THERE),
        (quoting("y = call( other", first=3), claims.NOT_THERE),  # part of a line
    ],
)
def test_locations_of_quotes(claim: Claim, expected: tuple[int, int] | str) -> None:
    if isinstance(expected, str):
        assert check(claim) == expected
    else:
        assert lines_of(claim) == expected
        assert verified(claim).quote == "".join(NEW.splitlines(keepends=True)[expected[0] - 1 : expected[1]])


def test_equal_lines_need_the_number() -> None:
    twice = view("a = 1\n", "a = 1\nsame()\nb = 2\nsame()\n")
    for first, last, line in ((4, 4, 4), (1, 2, 2), (2, 4, 2)):
        assert lines_of(quoting("same()", first=first, last=last), twice) == (line, line)
    for first, last in ((0, 0), (30, 30), (1, 4)):
        assert check(quoting("same()", first=first, last=last), twice) == claims.UNSURE


def test_a_removed_line_is_quoted_as_an_old_one() -> None:
    shorter = view("a()\nguard(x)\nb()\n", "a()\nb()\n")
    finding = verified(quoting("guard(x)", first=2, old=True, replace=("guard(y)",)), shorter)
    assert (finding.location, finding.suggestion) == (Location("a.txt", 2, 2, old=True), None)
    assert check(quoting("guard(x)", first=2), shorter) == claims.NOT_THERE


def test_levels_are_only_lowered_and_texts_are_plain() -> None:
    levels = [verified(replace(CLAIM, level=level)).level for level in (Level.ERROR, Level.NOTE, None)]
    assert levels == [Level.WARNING, Level.NOTE, Level.WARNING]
    finding = verified(replace(CLAIM, title="a\x1b[31mred\u202e", why="b\x07\tc\nd"))
    assert (finding.title, finding.body) == ("a�[31mred�", "b� c\nd")


@pytest.mark.parametrize(
    ("claim", "text"),
    [
        (quoting("y = call( other )", first=3, replace=("y = call(1)", "z()")), "y = call(1)\nz()\n"),
        (quoting("\ty = call(three)", first=8, replace=("\tif y:", "\t\tz()", "")), "\tif y:\n\t\tz()\n\n"),
        (quoting("y = call(three)", first=8, replace=("z()",)), None),  # without the tab
        (quoting("\ty = call(three)", "return x", replace=()), ""),
        (quoting("y = call( other )", first=3, replace=("y = call( other )",)), None),
        (quoting("y =  call( other )", first=3, replace=("y = 1",)), None),  # its spaces differ from the file
        (quoting("y = call( other )", first=3, replace=("y = '<<secret 0123456789>>'",)), None),
    ],
)
def test_suggestions(claim: Claim, text: str | None) -> None:
    suggestion = verified(claim).suggestion
    assert (suggestion.text if suggestion else None) == text


def test_a_suggestion_keeps_the_endings_and_must_parse() -> None:
    crlf = view("def f():\r\n    return 1\r\n", "def f():\r\n    return 2\r\n", "a.py")
    good = verified(quoting("    return 2", first=2, path="a.py", replace=("    return 3",)), crlf)
    broken = verified(quoting("    return 2", first=2, path="a.py", replace=("    return (3",)), crlf)
    assert good.suggestion == Suggestion(Location("a.py", 2, 2), "    return 3\r\n")
    assert broken.suggestion is None


@pytest.mark.soak
def test_bytes_that_are_not_utf_8_and_keys() -> None:
    latin = view(b"a\n", "a\nname = 'Käse'\n".encode("latin-1"))
    assert lines_of(quoting("name = 'Käse'", first=2), latin) == (2, 2)
    secret = view("a = 1\n", f'a = 1\nkey = "{TOKEN}"\n')
    assert TOKEN not in "".join(secret.new.values())
    assert TOKEN not in repr(verified(quoting(secret.new[2], first=2, replace=("key = load()",)), secret))


def test_ids_depend_on_the_code_and_duplicates_are_merged() -> None:
    moved = view("intro\n" + OLD, "intro\nmore\n" + NEW)
    here = verified(CLAIM)
    there = verified(replace(CLAIM, first=5, last=5, title="Other words"), moved)
    assert there.location.start == here.location.start + 2 and here.id == there.id
    longer = here._replace(body="Longer by far.")
    elsewhere = here._replace(location=Location("a.txt", 8, 8))
    merged = merge_findings([here, longer, elsewhere, here._replace(rule="security")])
    assert [(finding.body, finding.location.start, finding.rule) for finding in merged] == [
        ("Longer by far.", 3, "correctness"), (here.body, 8, "correctness"), (here.body, 3, "security"),
    ]  # fmt: skip


LINES = st.lists(st.sampled_from(["a = 1", "b = 2", "  a = 1", "", "c()", "call(x)"]), max_size=12)
QUOTE = st.lists(st.sampled_from(["a = 1", "b = 2", "c()", "call(x)"]), min_size=1, max_size=3)


@settings(max_examples=60, deadline=None)
@given(LINES, st.integers(1, 12), st.integers(0, 3), LINES, st.booleans())
def test_a_suggestion_changes_its_lines_only(
    lines: list[str], start: int, more: int, instead: list[str], final: bool
) -> None:
    data = "\n".join(lines).encode() + (b"\n" if final and lines else b"")
    end = start + more
    suggestion = Suggestion(Location("a", start, end), "".join(f"{line}\n" for line in instead))
    after = apply_suggestion(data, suggestion)
    assert (after is None) == (end > len(data.split(b"\n")))
    if after is not None:
        expected = [*lines[: start - 1], *instead, *lines[end:]]
        assert [line for line in after.decode().split("\n") if line] == [line for line in expected if line]


def test_a_suggestion_adds_no_final_newline() -> None:
    assert apply_suggestion(b"a\nb", Suggestion(Location("a", 2, 2), "c\n")) == b"a\nc"


def cut(old: str, new: str, path: str = "a.txt") -> list[ReviewBlock]:
    return blocks_of(view(old, new, path))


@pytest.mark.soak
@settings(max_examples=25, deadline=None)
@given(st.randoms(use_true_random=False), st.integers(0, 400), st.integers(0, 12))
def test_each_changed_line_is_in_one_block(rng: random.Random, size: int, edits: int) -> None:
    old = [f"def f{n}(): # {n}" if rng.random() < 0.05 else f"    line {n}" for n in range(size)]
    new = list(old)
    for _ in range(edits):
        at, removed = rng.randint(0, len(new)), rng.choice([0, 0, 1, 30])
        new[at : at + removed] = [f"    new {rng.random()}" for _ in range(rng.choice([0, 1, 3]))]
    if old == new:
        return
    shown = view(*("".join(f"{line}\n" for line in lines) for lines in (old, new)), "a.py")
    rows = [row for block in blocks_of(shown) for row in block.rows]
    assert [row.number for row in rows if row.sign == "+"] == shown.changed(old=False)
    assert [row.number for row in rows if row.sign == "-"] == shown.changed(old=True)
    assert all(row.text == shown.side(old=row.sign == "-")[row.number] for row in rows)


def test_a_short_definition_is_shown_whole_and_a_long_one_is_not() -> None:
    def source(body: int, number: int) -> str:
        lines = "".join(f"        x{n} = {n}\n" for n in range(body))
        return f"import os\n\n\nclass A:\n    def f(self):\n        y = {number}\n{lines}"

    short = cut(source(30, 1), source(30, 2), "a.py")
    assert (short[0].rows[0].number, short[0].rows[-1].number) == (4, 36)
    long = cut(source(300, 1), source(300, 2), "a.py")
    assert (long[0].rows[-1].number, long[0].scope) == (14, "def f(self)")


@pytest.mark.soak
def test_a_large_new_file_is_cut_before_definitions() -> None:
    blocks = cut("", "".join(f"def f{n}():\n" + f"    return {n}\n" * 20 for n in range(60)), "a.py")
    assert len(blocks) > 3
    assert all(len(block.rows) <= chunks.MOST_LINES for block in blocks)
    assert all(block.rows[0].text.startswith("def ") for block in blocks)
    wide = cut("", "".join(f"{n:05}{'x' * 390}\n" for n in range(200)))
    assert all(len(block.text) <= chunks.MOST_CHARACTERS + 500 for block in wide)
    assert len(cut("", "y" * 2_000_000 + "\n")[0].text) < 500


def test_a_key_depends_on_the_lines_but_not_on_their_numbers() -> None:
    (here,) = cut("a\nb\n" * 20, "a\nb\n" * 19 + "a\nc\n")
    (moved,) = cut("z\n" * 9 + "a\nb\n" * 20, "z\n" * 9 + "a\nb\n" * 19 + "a\nc\n")
    (other,) = cut("a\nb\n" * 20, "a\nb\n" * 19 + "a\nd\n")
    assert here.key("x") == moved.key("x")
    assert len({here.key("x"), here.key("y"), other.key("x")}) == 3


def test_blocks_are_packed_by_file_within_the_budget() -> None:
    def new_file(path: str, lines: int) -> ReviewBlock:
        return cut("", f"{'word ' * 11}\n" * lines, path)[0]

    blocks = [new_file(*entry) for entry in (("a", 20), ("b", 20), ("c", 20), ("c", 20), ("d", 120))]
    parts = pack_blocks(blocks, blocks[0].tokens * 3)
    paths = [[block.path for block in part] for part in parts]
    assert paths == [["a", "b"], ["c", "c"], ["d"]]
    assert [block for part in parts for block in part] == blocks
    assert pack_blocks([], 100) == []
    many = pack_blocks([new_file(str(n), 1) for n in range(FILES + 1)], 10**6)
    assert [len(part) for part in many] == [FILES, 1]


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("web/package-lock.json", "a lock file"),
        ("vendor/x/y.go", "vendored"),
        ("static/app.min.js", "generated"),
        ("api.pb.go", "generated"),
        ("made.go", "generated"),
        ("copied.go", "vendored"),
        (".env", "listed in .repoagentignore"),
        ("src/vendor.py", None),
    ],
)
def test_files_that_are_skipped_by_name(path: str, expected: str | None) -> None:
    attributes = Attributes(frozenset({"made.go"}), frozenset({"copied.go"}))
    reason = chunks.why_skipped(modified(path), attributes, lambda name: "no" if name == ".env" else None)
    assert (reason or "").startswith(expected) if expected else reason is None


def test_files_that_are_skipped_by_content() -> None:
    for data, expected in (
        (b"// Code generated by protoc. DO NOT EDIT.\n", "generated"),
        (b"version https://git-lfs.github.com/spec/v1\n", "a Git LFS pointer"),
        (b"x" * 9000, "minified, or data in very long lines"),
        (b"print('DO NOT')\n" * 1000, None),
    ):
        assert chunks.why_content_skipped(data) == expected


def test_a_file_that_a_partial_clone_lacks_is_not_fetched(repo: GitRepo) -> None:
    repo.commit("change", **{"b.txt": "1\n"})
    repo.commit("later", **{"a.txt": "new\n"})
    clone = partial_clone(repo, "blob:none")
    versions = Versions(open_worktree(clone.top), read(clone.top, "commit", "HEAD~1"))
    with without_a_fetch(clone), pytest.raises(Refused, match="this partial clone lacks"):
        versions.read("a.txt")
    assert versions.read("b.txt").data == b"1\n"
