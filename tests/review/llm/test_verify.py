"""A finding stands only where the change has the code that it quotes: the bytes decide, not the number."""

from __future__ import annotations

from dataclasses import replace
from difflib import SequenceMatcher

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from repoagent.review.change import Change, ChangedFile, Lines
from repoagent.review.finding import Finding, Level, Location, Suggestion
from repoagent.review.llm import claims
from repoagent.review.llm.chunks import FileView, view_of
from repoagent.review.llm.claims import Claim, apply_suggestion, merge_findings, verify

OLD = "one = 1\nx = call(one)\nreturn x\n\nkeep(x)\nx = call(two)\n"
NEW = "one = 1\nx = call(one)\ny = call( other )\nreturn x\n\nkeep(x)\nx = call(two)\n\ty = call(three)\nreturn x\n"
CLAIM = Claim("correctness", "a.txt", 3, 3, "It is wrong", ("y = call( other )",), "It is 2.")


def hunks(old: list[bytes], new: list[bytes]) -> tuple[Lines, ...]:
    found = []
    for tag, i1, i2, j1, j2 in SequenceMatcher(a=old, b=new, autojunk=False).get_opcodes():
        if tag != "equal":
            found.append(
                Lines(i1 + (i2 > i1), tuple(old[i1:i2]), j1 + (j2 > j1), tuple(new[j1:j2]))
            )  # for no lines the number of the line before
    return tuple(found)


def view(old: str | bytes = OLD, new: str | bytes = NEW, path: str = "a.txt") -> FileView:
    before, after = (text.encode() if isinstance(text, str) else text for text in (old, new))
    file = ChangedFile(path, "modified", path, "1", "2", "100644", "100644")
    lines = hunks(before.splitlines(keepends=True), after.splitlines(keepends=True))
    change = Change(
        "diff", "", (file,), "", "", "", frozenset(), b"", lambda f: before, lambda f: after, lambda f: lines
    )
    found = view_of(change, file)
    assert found is not None
    return found


def check(claim: Claim, shown: FileView | None = None) -> Finding | str:
    shown = shown or view()
    return verify(claim, {shown.path: shown}, Level.WARNING)


def place(claim: Claim, shown: FileView | None = None) -> tuple[int, int]:
    found = check(claim, shown)
    assert isinstance(found, Finding), found
    return found.location.start, found.location.end


def quoting(*lines: str, first: int = 0, last: int = 0, **more: object) -> Claim:
    return replace(CLAIM, quote=lines, first=first, last=last or first, **more)  # type: ignore[arg-type]


def test_what_stands_there_is_found_whatever_the_number_and_the_spaces() -> None:
    assert place(CLAIM) == (3, 3)
    assert place(quoting("y  =  call( other )", first=900)) == (3, 3)
    assert place(quoting("call( other )", first=3)) == (3, 3)  # a piece of a line
    assert place(quoting("     3 +| y = call( other )")) == (3, 3)  # as it was shown
    assert place(quoting("y = call(three)", "return x")) == (8, 9)
    assert place(replace(CLAIM, path="b/a.txt")) == place(replace(CLAIM, path="./a.txt")) == (3, 3)


def test_a_quote_with_unchanged_lines_is_placed_on_the_changed_ones() -> None:
    found = check(quoting("x = call(one)", "y = call( other )", "return x", first=2, last=4))
    assert isinstance(found, Finding)
    assert (found.location, found.quote) == (Location("a.txt", 3, 3), "y = call( other )\n")


@pytest.mark.parametrize(
    ("claim", "why"),
    [
        (replace(CLAIM, path="b.txt"), claims.OTHER_FILE),
        (quoting("y = call(other, more)", first=3), claims.NOT_THERE),
        (quoting("y = call( other )", "...", "keep(x)", first=3), claims.NOT_THERE),
        (quoting("x = call(one)", first=2), claims.NOT_CHANGED),
        (quoting("x = call(one)", first=3), claims.NOT_CHANGED),
        (quoting("keep(x)", first=3), claims.NOT_CHANGED),
        (quoting("return x", first=4), claims.NOT_CHANGED),  # the unchanged one is meant, not that of line 9
        (quoting(")", "{", first=3), claims.UNTELLING),
        (quoting("y = call( other )", first=3, old=True), claims.NOT_THERE),
        (quoting("y = cal", first=3), claims.NOT_THERE),  # too short for a piece of a line
    ],
)
def test_what_is_dropped(claim: Claim, why: str) -> None:
    assert check(claim) == why


def test_equal_lines_need_the_number() -> None:
    shown = view("a = 1\n", "a = 1\nsame()\nb = 2\nsame()\n")
    assert place(quoting("same()", first=4), shown) == (4, 4)
    assert place(quoting("same()", first=1, last=2), shown) == (2, 2)
    assert check(quoting("same()", first=0), shown) == claims.UNSURE
    assert check(quoting("same()", first=30), shown) == claims.UNSURE
    assert place(quoting("same()", first=2, last=4), shown) == (2, 2)
    assert check(quoting("same()", first=1, last=4), shown) == claims.UNSURE


def test_a_removed_line_is_quoted_as_an_old_one() -> None:
    shown = view("a()\nguard(x)\nb()\n", "a()\nb()\n")
    found = check(quoting("guard(x)", first=2, old=True, replace=("guard(y)",)), shown)
    assert isinstance(found, Finding)
    assert (found.location, found.suggestion) == (Location("a.txt", 2, 2, old=True), None)
    assert check(quoting("guard(x)", first=2), shown) == claims.NOT_THERE


def test_a_model_may_only_lower_the_level() -> None:
    found = [check(replace(CLAIM, level=level)) for level in (Level.ERROR, Level.NOTE, None)]
    assert [one.level for one in found if isinstance(one, Finding)] == [
        Level.WARNING,
        Level.NOTE,
        Level.WARNING,
    ]


def test_texts_are_plain() -> None:
    found = check(replace(CLAIM, title="a\x1b[31mred\u202e", why="b\x07\tc\nd"))
    assert isinstance(found, Finding)
    assert (found.title, found.body) == ("a�[31mred�", "b� c\nd")


@pytest.mark.parametrize(
    ("claim", "text"),
    [
        (quoting("y = call( other )", first=3, replace=("y = call(1)", "z()")), "y = call(1)\nz()\n"),
        (
            quoting("y = call(three)", first=8, replace=("if y:", "\tz()", "")),
            "\tif y:\n\t\tz()\n\n",
        ),  # without the tab
        (quoting("\ty = call(three)", "return x", replace=()), ""),
        (quoting("call( other )", first=3, replace=("call(1)",)), None),  # of what line, is not sure
        (quoting("y = call( other )", first=3, replace=("y = call( other )",)), None),
        (
            quoting("y =  call( other )", first=3, replace=("y = 1",)),
            None,
        ),  # its spaces are not those of the file
        (quoting("y = call( other )", first=3, replace=("y = '<<secret 0123456789>>'",)), None),
    ],
)
def test_suggestions(claim: Claim, text: str | None) -> None:
    found = check(claim)
    assert isinstance(found, Finding)
    assert (found.suggestion.text if found.suggestion else None) == text


def test_a_suggestion_keeps_the_endings_and_must_parse() -> None:
    shown = view("def f():\r\n    return 1\r\n", "def f():\r\n    return 2\r\n", "a.py")
    good = check(quoting("    return 2", first=2, path="a.py", replace=("    return 3",)), shown)
    broken = check(quoting("    return 2", first=2, path="a.py", replace=("    return (3",)), shown)
    assert isinstance(good, Finding)
    assert isinstance(broken, Finding)
    assert good.suggestion == Suggestion(Location("a.py", 2, 2), "    return 3\r\n")
    assert broken.suggestion is None


@pytest.mark.soak
def test_bytes_that_are_no_utf_8_and_keys() -> None:
    latin = view(b"a\n", "a\nname = 'Käse'\n".encode("latin-1"))
    assert place(quoting("name = 'Käse'", first=2), latin) == (2, 2)
    token = "ghp_" + "x9Kq2LmN8vRt4Wz7Yb3Cd6Fg1Hj5Pk0SaEuQ"
    secret = view("a = 1\n", f'a = 1\nkey = "{token}"\n')
    assert token not in "".join(secret.new.values())
    found = check(quoting(secret.new[2], first=2, replace=("key = load()",)), secret)
    assert isinstance(found, Finding)
    assert token not in repr(found)


def test_ids_are_of_the_code_and_not_of_its_lines() -> None:
    moved = view("intro\n" + OLD, "intro\nmore\n" + NEW)
    here, there = check(CLAIM), check(replace(CLAIM, first=5, last=5, title="Other words"), moved)
    assert isinstance(here, Finding)
    assert isinstance(there, Finding)
    assert there.location.start == here.location.start + 2
    assert here.id == there.id


def test_doubles_are_merged_and_each_other_has_its_own_id() -> None:
    found = check(CLAIM)
    assert isinstance(found, Finding)
    longer = found._replace(body="Longer by far.")
    elsewhere = found._replace(location=Location("a.txt", 8, 8))
    other = found._replace(rule="security")
    kept = merge_findings([found, longer, elsewhere, other])
    assert [(one.body, one.location.start, one.rule) for one in kept] == [
        ("Longer by far.", 3, "correctness"), (found.body, 8, "correctness"), (found.body, 3, "security"),
    ]  # fmt: skip
    assert len({one.id for one in kept}) == 3


LINES = st.lists(st.sampled_from(["a = 1", "b = 2", "  a = 1", "", "c()", "call(x)"]), max_size=12)


@settings(max_examples=60, deadline=None)
@given(
    LINES,
    LINES,
    st.integers(0, 14),
    st.lists(st.sampled_from(["a = 1", "b = 2", "c()", "call(x)"]), min_size=1, max_size=3),
)
def test_what_is_accepted_is_on_the_change_and_says_what_stands_there(
    old: list[str], new: list[str], first: int, quote: list[str]
) -> None:
    before, after = ("".join(f"{line}\n" for line in lines) for lines in (old, new))
    if before == after:
        return
    shown = view(before, after)
    found = check(quoting(*quote, first=first), shown)
    if isinstance(found, Finding):
        lines = after.split("\n")
        at = range(found.location.start, found.location.end + 1)
        changed = shown.changed(old=False)
        assert at[0] in changed
        assert at[-1] in changed
        assert found.quote == "".join(f"{lines[number - 1]}\n" for number in at)
        assert set(found.quote.split()) <= set(" ".join(quote).split())


@settings(max_examples=60, deadline=None)
@given(LINES, st.integers(1, 12), st.integers(0, 3), LINES, st.booleans())
def test_a_suggestion_changes_its_lines_only(
    lines: list[str], start: int, more: int, instead: list[str], final: bool
) -> None:
    data = "\n".join(lines).encode() + (b"\n" if final and lines else b"")
    end = start + more
    after = apply_suggestion(
        data, Suggestion(Location("a", start, end), "".join(f"{line}\n" for line in instead))
    )
    count = len(data.split(b"\n"))
    if end > count:
        assert after is None
        return
    assert after is not None
    expected = [*lines[: start - 1], *instead, *lines[end:]]
    assert [line for line in after.decode().split("\n") if line] == [line for line in expected if line]
