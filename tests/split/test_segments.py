"""For any bytes: the segments are the source, none is too long, and line numbers and characters are correct."""

from __future__ import annotations

import random
from itertools import pairwise
from time import process_time

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from repoagent.errors import UsageError
from repoagent.split.pack import Segment
from repoagent.split.splitter import describe_segments
from repoagent.syntax.outline import outline
from repoagent.syntax.symbol import Symbol
from tests.split.helpers import segments
from tests.split.test_boundaries import UNITS


def check(data: bytes, target: int, found: tuple[Segment, ...]) -> None:
    assert b"".join(data[segment.start : segment.end] for segment in found) == data
    assert [segment.start for segment in found] == [0, *(segment.end for segment in found)][:-1]
    assert all(segment.end > segment.start for segment in found)
    for segment in found:
        assert segment.oversize == (segment.end - segment.start > target)
    assert [segment.boundary for segment in found[:1]] == ["start"] * bool(data)
    for segment, after in pairwise(found):
        ended = data[after.start - 1 : after.start] == (b"\n" if b"\n" in data else b"\r")
        assert after.first_line == segment.last_line + ended


def check_lines(data: bytes, found: tuple[Segment, ...]) -> None:
    """Line numbers, for bytes with line feeds."""
    for segment in found:
        assert segment.first_line == data.count(b"\n", 0, segment.start) + 1
        assert segment.last_line == data.count(b"\n", 0, segment.end - 1) + 1


def test_a_language_without_a_grammar_is_refused() -> None:
    with pytest.raises(UsageError, match="unknown language"):
        segments("a.py", b"x = 1\n" * 100, target=50, language="klingon")


PIECES = st.sampled_from([b"\n", b"\r", b"\0", b" ", b"\xff", b"\xfe", b"ab", b"\xc3\xa4", b"{", b"}"])
ANY = st.binary(max_size=300) | st.lists(PIECES, max_size=80).map(b"".join)
PATHS = st.sampled_from(["a.txt", "a.py", "a.c", "a.yaml", "a.md", "a.html"])


@given(ANY, st.integers(1, 60), PATHS, st.booleans())
@example(b"", 1, "a.py", False)
@example(b"\xff\xfea\0\r\0\n\0", 2, "a.py", False)
@example(b"\xef\xbb\xbf", 1, "a.py", True)
@example(b"\xff\xfe\0\0", 1, "a.txt", False)
@settings(max_examples=80, deadline=None)
def test_any_bytes(data: bytes, target: int, path: str, natural: bool) -> None:
    found = segments(path, data, target=target, natural=natural)
    check(data, target, found)
    cuts = [segment.start for segment in found[1:]]
    check(data, target, segments(path, data, target=target, natural=natural, kept=cuts))
    if b"\n" in data:
        check_lines(data, found)


@given(st.sampled_from(UNITS), st.integers(0, 2**32), st.integers(30, 900))
@settings(max_examples=40, deadline=None)
def test_damaged_code(unit: tuple[str, str, int, object], seed: int, target: int) -> None:
    chance = random.Random(seed)
    path, data = unit[0], bytearray(unit[1].encode())
    for _ in range(chance.randrange(8)):
        at = chance.randrange(len(data))
        damage = chance.choice([b"", b"}", b'"', b"{(", b"\n\n", b"\xff", b"\r\n", b"  "])
        data[at : at + chance.randrange(30)] = damage
    found = segments(path, bytes(data), target=target)
    check(bytes(data), target, found)
    check_lines(bytes(data), found)


@pytest.mark.soak
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "latin-1", "gbk"])
@pytest.mark.parametrize("line_end", ["\n", "\r\n", "\r"])
def test_no_character_and_no_line_end_is_cut(encoding: str, line_end: str) -> None:
    astral = "" if encoding in ("latin-1", "gbk") else "\U0001f642" * 9
    wide = "äöü" if encoding == "latin-1" else "漢字" * 7
    text = line_end.join([f"def f{n}(a):{line_end}    return '{wide}{astral}'{line_end}" for n in range(40)])
    data = text.encode(encoding)
    for target in (8, 33, 301):
        found = segments("a.py", data, target=target)
        check(data, target, found)
        for segment in found:
            part = data[segment.start : segment.end]
            if encoding != "gbk":
                part.decode(encoding.removesuffix("-sig"))
            assert not (part.endswith(b"\r") and data[segment.end : segment.end + 1] == b"\n")


@pytest.mark.parametrize(
    ("path", "line"),
    [
        ("a.txt", b"".join(b"var a%d=function(){return %d};" % (n, n) for n in range(400))),
        ("a.txt", "漢字".encode() * 4000),
        ("a.js", b"".join(b"function a%d(b,c){var d=[1,2,3];return b+c*%d}" % (n, n) for n in range(300))),
        ("a.json", b"[" + b"},".join(b'{"a": %d' % n for n in range(2000)) + b"}]"),
        ("a.html", b"<dl>" + b"<dt>a</dt><dd>b</dd>" * 1000 + b"</dl>"),
        ("a.css", b"".join(b"p.a%d{color:red}" % n for n in range(900))),
    ],
)
@pytest.mark.parametrize("natural", [False, True])
def test_one_long_line_is_one_segment(path: str, line: bytes, natural: bool) -> None:
    for end in (b"", b"\n"):
        (only,) = segments(path, line + end, target=1000, natural=natural)
        assert (only.first_line, only.last_line, only.oversize) == (1, 1, True)
    around = b"/**/\n" * 300 + line + b"\n" + b"/**/\n" * 300
    found = segments(path, around, target=1000, natural=natural)
    check(around, 1000, found)
    assert sum(segment.oversize for segment in found) == 1
    assert all(around[segment.end - 1 : segment.end] == b"\n" for segment in found)


def test_a_symbol_whose_line_is_cut_is_the_scope_of_the_rest() -> None:
    data = b"def f(): return [1, 2]\n"
    symbols, spans = outline("a.py", data), [(0, 18, "start"), (18, len(data), "byte")]
    first, second = describe_segments(data, spans, 100, symbols)
    assert [[symbol.name for symbol in part.symbols] for part in (first, second)] == [["f"], []]
    assert (first.scope, second.scope, second.first_line) == ((), ("f",), 1)


def test_the_scope_has_one_symbol_of_each_depth() -> None:
    names = (("a", 1, 0), ("b", 2, 1), ("c", 3, 1))
    symbols = [Symbol(name, "function", name, first, 9, "", depth) for name, first, depth in names]
    _, second = describe_segments(b"x\n" * 9, [(0, 8, "start"), (8, 18, "node")], 100, symbols)
    assert second.scope == ("a", "c")


def test_a_line_of_many_megabytes_is_not_cut_where_a_slice_ends() -> None:
    data = b"a;" * (5 << 20) + b"\nend\n" * 9
    found = segments("a.txt", data, target=16_384)
    assert len(found) == 2 and data[: found[0].end].count(b"\n") == 1


@pytest.mark.soak
@pytest.mark.parametrize(
    ("path", "opening", "closing"),
    [("a.json", b"[", b"]"), ("a.js", b"(", b")"), ("a.py", b"(", b")"), ("a.c", b"{\n", b"}\n"), ("a.yaml", b"[", b"]")],
)  # fmt: skip
def test_very_deep(path: str, opening: bytes, closing: bytes) -> None:
    data = opening * 50_000 + closing * 50_000
    check(data, 4096, segments(path, data, target=4096))


@pytest.mark.soak
@pytest.mark.parametrize(
    ("path", "line"),
    [
        ("a.json", b'{"a": 1},\n'), ("a.c", b"int a;\n"), ("a.yaml", b"- a\n"), ("a.xml", b"<a/>\n"),
        ("a.md", b"- a\n"), ("a.txt", b"some words\n"),
    ],
)  # fmt: skip
def test_very_wide_takes_linear_time(path: str, line: bytes) -> None:
    def spent(count: int) -> float:
        data = (b"[\n" if path == "a.json" else b"") + line * count
        start = process_time()
        check(data, 16_384, segments(path, data))
        return process_time() - start

    spent(1000)
    small, large = spent(20_000), spent(100_000)
    assert large < 12 * small + 0.2


@pytest.mark.soak
def test_huge() -> None:
    data = b"one line of a log with words and numbers 1234567890\n" * 2_000_000
    check(data, 16_384, segments("a.log", data))
    line = b"x" * 1000 + b";"
    check(line * 10_000, 16_384, segments("a.js", line * 10_000))


def test_symbols_and_scope_are_those_of_the_outline() -> None:
    code = b"class A:\n" + b"".join(b"    def m%d(self):\n        return %d\n\n" % (n, n) for n in range(40))
    found = segments("a.py", code, target=600)
    names = [symbol.name for segment in found for symbol in segment.symbols]
    assert names == ["A", *(f"m{n}" for n in range(40))]
    assert found[0].scope == ()
    assert {segment.scope for segment in found[1:]} == {("A",)}
