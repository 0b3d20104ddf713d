from __future__ import annotations

import pytest

from repoagent.errors import UsageError
from repoagent.syntax.outline import defined_names, find_symbols, lost_definitions

TEXT = b"""class A:
    def run(self):
        def local(): ...

    @property
    def size(self): ...

    @size.setter
    def size(self, value): ...


class B:
    def run(self): ...

    class Inner:
        def deep(self): ...


def only(): ...
"""


LINES = {
    "A.run": 2, "A::run": 2, "B#run()": 13, "only": 19, "only(a, b)": 19, "Inner.deep": 16, "deep": 16, "A.size:6": 5,
    "size:9": 8, "run:13": 13,
}  # fmt: skip
C = b"int f(int);\nint g(void);\n\nint f(int a)\n{\n\treturn a;\n}\n"


@pytest.mark.parametrize(
    ("path", "text", "name", "line"),
    [
        *(("a.py", TEXT, name, line) for name, line in LINES.items()),
        ("a.c", C, "f", 4),  # a definition wins over declarations
        ("a.c", C, "g", 2),
        # names that look like separators
        ("a.md", b"# C# and a::b\n\ntext\n", "C# and a::b", 1),
        ("a.css", b"a:hover { b: c }\n", "a:hover", 1),
        ("a.json", b'{"a": {\n"b.c": 1}}', "a.b.c", 2),
        ("a.html", b"<h1>a</h1>\n<h2 id=one>b</h2>\n", "#one", 2),
    ],
)
def test_find_symbols(path: str, text: bytes, name: str, line: int) -> None:
    assert find_symbols(path, text, name)[0].first_line == line


def _lines(data: bytes, name: str) -> list[tuple[int, int]]:
    return [(symbol.first_line, symbol.last_line) for symbol in find_symbols("a.py", data, name)]


def test_short_definitions_of_one_name_are_all_returned() -> None:
    assert _lines(TEXT, "run") == [(2, 3), (13, 13)]
    assert _lines(TEXT, "A.size") == [(5, 6), (8, 9)]
    assert _lines(b"class f:\n    def f(self): ...\n\n\ndef f(): ...\n", "f") == [(1, 2), (5, 5)]


def test_long_definitions_of_one_name_are_listed() -> None:
    def twice(lines: int) -> bytes:
        return b"".join(b"def f():\n" + b"    x = 1\n" * (lines - 1) for _ in range(2))

    assert _lines(twice(99), "f") == [(1, 99), (100, 198)]
    with pytest.raises(UsageError, match=r"f \(1-100\), f \(101-200\).*NAME:LINE"):
        find_symbols("a.py", twice(100), "f")
    assert _lines(twice(100), "f:150") == [(101, 200)]


@pytest.mark.parametrize(
    ("path", "text", "name", "message"),
    [
        ("a.py", TEXT, "onyl", r"no symbol 'onyl'; nearest: only \(19-19\)"),
        ("a.py", TEXT, "zzzzzzzz", r"it has A \(1-9\), B"),
        ("a.py", TEXT, "run:19", r"no run on line 19; it has A\.run"),
        *(("a.py", TEXT, name, "has no symbol") for name in ("", ".", "()", ":3")),
        ("a.xyz", TEXT, "A", "is in a language without a grammar"),
        ("a.py", b"x = 1\n", "A", "has no symbols"),
    ],
)
def test_an_unknown_symbol(path: str, text: bytes, name: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        find_symbols(path, text, name)


def test_definitions_omit_locals() -> None:
    assert " ".join(defined_names("a.py", TEXT)) == "A A.run A.size B B.run B.Inner B.Inner.deep only"
    assert defined_names("a.json", b'{"a": 1}') == ()


SETTER = b"\n    @size.setter\n    def size(self, value): ...\n"


@pytest.mark.parametrize(
    ("path", "before", "after", "lost"),
    [
        ("a.py", TEXT, TEXT, ""),
        ("a.py", TEXT, TEXT.replace(b"def only", b"def other"), "only"),
        ("a.py", TEXT, TEXT.replace(b"def local", b"def other"), ""),
        ("a.py", TEXT, TEXT[: TEXT.index(b"class B")], "B B.run B.Inner B.Inner.deep only"),
        ("a.py", TEXT, TEXT.replace(SETTER, b""), ""),  # one of two definitions of a property
        ("a.unknown", TEXT, b"", ""),
        ("a.h", b"int f(int);\n", b"\n", "f"),
    ],
)
def test_lost_definitions(path: str, before: bytes, after: bytes, lost: str) -> None:
    assert " ".join(lost_definitions(path, before, after)) == lost
