from __future__ import annotations

import time

import pytest

from repoagent.syntax.parser import error_count
from repoagent.syntax.regressions import parses_worse

PYTHON = b"def f(x):\n    return x\n\n\ndef g():\n    pass\n"
# C that the grammar does not understand in two places, none of them an error.
MACROS = (
    b"int f(void)\n{\n\tFOR_EACH(a, list) {\n\t\tuse(a);\n\t}\n\treturn 0;\n}\n"
    b"int @@ odd;\n"
    b"int g(int x)\n{\n\tif (x) {\n\t\tx++;\n\t}\n\treturn x;\n}\n"
)


def test_error_count() -> None:
    assert error_count("a.py", PYTHON) == 0
    assert error_count("a.py", PYTHON.replace(b"(x)", b"(x")) != 0
    assert error_count("a.js", b"function f() { if (x) {\n}\n") == 1
    assert error_count("a.unknown", b"(((") is None
    assert error_count("a.py", b"x\0y") is None
    assert error_count("a.py", PYTHON.decode().encode("utf-16")) == 0
    assert error_count("a.py", "größe = 'ä'  # ü\n".encode("latin-1")) == 0
    assert error_count("a.py", b"\xef\xbb\xbf" + PYTHON) == 0
    assert error_count("a.py", b"") == 0


def test_a_file_in_chunks_is_the_same_tree() -> None:
    body = "def größe_%d(x):\n    return 'ü' * x\n\n"
    data = "".join(body % n for n in range(4000)).encode()
    assert len(data) > 1 << 17
    assert error_count("a.py", data) == 0
    assert error_count("a.py", data[:-30] + b"(\n") == error_count("a.py", b"x = (\n") == 1


def test_a_huge_file_is_not_checked() -> None:
    assert error_count("a.json", b"[" * (5 << 20)) is None
    assert parses_worse("a.json", b"[]", b"[" * (5 << 20)) is None


@pytest.mark.soak
def test_junk_does_not_delay_the_check() -> None:
    started = time.monotonic()
    assert error_count("a.cpp", b"{([" * 1_000_000) is None
    assert time.monotonic() - started < 10


@pytest.mark.parametrize(
    ("path", "before", "after", "message"),
    [
        ("a.py", PYTHON, PYTHON.replace(b"f(x)", b"f(x"), "line 1"),
        ("a.py", PYTHON, PYTHON.replace(b"g():", b"g()"), "line 5"),
        ("a.js", b"f=() => {\n  if (x) {\n  }\n}\ng()", b"f=() => {\n  if (x) {\n}\ng()", "`}` is missing"),
        ("a.json", b'{"a": 1}\n', b'{"a": 1,}\n', "line 1"),
        ("a.json", b'{"a": 1}\n', b'{\n"a": 1\n"b": 2}\n', "line"),
        ("a.yaml", b"a: 1\n", b"a: 1\nb: [\n", "yaml"),
        ("a.css", b"a { b: c }\n", b"a { b: c \n", "line 1"),
        ("new.go", None, b"package a\n\nfunc f( {\n}\n", "line 3"),
        ("a.c", MACROS, MACROS.replace(b"return x;", b"return (x;"), "`)` is missing on line 14"),
        ("a.c", MACROS, MACROS.replace(b"\t\tx++;\n\t}\n", b"\t\tx++;\n"), "`}` is missing"),
        ("a.c", MACROS, MACROS.replace(b"\treturn 0;\n}\n", b"\treturn 0;\n}\n}\n"), "line 8"),
        # below the change, an error moves with its line
        ("a.js", b"let = 3;\nh();\n@ x;\n", b"f();\ng(1;\nh();\n@ x;\n", "`)` is missing on line 2"),
        ("u.py", "x = 1\n".encode("utf-16"), "x = (1\n".encode("utf-16"), "line 1"),
    ],
)  # fmt: skip
def test_worse(path: str, before: bytes | None, after: bytes, message: str) -> None:
    sentence = parses_worse(path, before, after)
    assert sentence is not None
    assert sentence.startswith(f"{path} would no longer parse as ")
    assert sentence.endswith(".")
    assert message in sentence


@pytest.mark.parametrize(
    ("path", "before", "after"),
    [
        ("a.py", PYTHON, PYTHON.replace(b"return x", b"return x + 1")),
        ("a.py", PYTHON.replace(b"f(x)", b"f(x"), PYTHON),
        (
            "a.py",
            PYTHON.replace(b"f(x)", b"f(x"),
            PYTHON.replace(b"f(x)", b"f(x").replace(b"pass", b"return 2"),
        ),
        ("old.py", b"print 'a'\n", b"print 'a'\nprint 'b'\n"),
        ("a.py", PYTHON, b""),
        ("new.py", None, PYTHON),
        ("a.c", MACROS, MACROS.replace(b"return x;", b"return x + 1;")),
        ("a.c", MACROS, MACROS.replace(b"return 0;", b"x();\n\treturn 0;")),
        ("a.c", MACROS, MACROS.replace(b"int @@ odd;\n", b"")),
        ("a.c", MACROS, b"/* head */\n" + MACROS),
        ("a.json", b'{"a": 1}\n', b'// why\n{"a": 1 /* x */}\n'),
        ("tsconfig.build.json", b'{"a": [1]}\n', b'{// why\n"a": [1,],\n}\n'),
        (".vscode/settings.json", b"{}\n", b'{"a": 1,\n}\n'),
        ("deploy.yaml", b"a: 1\n", b"a: 1\n{{- if .Values.x }}\nb: [\n"),
        ("page.html", b"<p></p>\n", b"<p {% if x %}>\n"),
        ("a.unknown", b"(", b"(("),
        ("a.py", PYTHON, b"\0\0"),
    ],
)
def test_not_worse(path: str, before: bytes | None, after: bytes) -> None:
    assert parses_worse(path, before, after) is None


def test_code_that_the_interpreter_accepts_is_not_refused() -> None:
    after = b"x = 1\nprint(f'{x!r:{'>'}{10}}')\nmatch x:\n    case {'a': [1, *_]} | None if x: pass\n"
    assert parses_worse("a.py", b"x = 1\n", after) is None


def test_messages_are_printable() -> None:
    sentence = parses_worse("a.c", b"int a;\n", b"int a;\n\x1b[31m \xff " + b"@@ $$ " * 50 + b"\n")
    assert sentence is not None
    assert sentence.isprintable()
    assert len(sentence) < 250
