from __future__ import annotations

import itertools
import time

import pytest

from repoagent.syntax.parser import error_count
from repoagent.syntax.regressions import parses_worse

PYTHON = b"def f(x):\n    return x\n\n\ndef g():\n    pass\n"
LONG = b"f=() => {\n" + b"  a()\n" * 8 + b"}\ng()\n"
BROKEN = PYTHON.replace(b"f(x)", b"f(x")
# C that the grammar does not understand in two places, none of them an error.
MACROS = (
    b"int f(void)\n{\n\tFOR_EACH(a, list) {\n\t\tuse(a);\n\t}\n\treturn 0;\n}\n"
    b"int @@ odd;\n"
    b"int g(int x)\n{\n\tif (x) {\n\t\tx++;\n\t}\n\treturn x;\n}\n"
)


BODIES = "".join(f"def größe_{n}(x):\n    return 'ü' * x\n\n" for n in range(4000)).encode()


@pytest.mark.parametrize(
    ("path", "data", "count"),
    [
        ("a.py", PYTHON, 0),
        ("a.py", BROKEN, 1),
        ("a.py", b"x = (\n", 1),
        ("a.js", b"function f() { if (x) {\n}\n", 1),
        ("a.unknown", b"(((", None),
        ("a.py", b"x\0y", None),
        ("a.py", PYTHON.decode().encode("utf-16"), 0),
        ("a.py", "größe = 'ä'  # ü\n".encode("latin-1"), 0),
        ("a.py", b"\xef\xbb\xbf" + PYTHON, 0),
        ("a.py", b"", 0),
        # a file that is parsed in chunks of 64 KiB
        ("a.py", BODIES, 0),
        ("a.py", BODIES[:-30] + b"(\n", 1),
        # a huge file is not checked
        ("a.json", b"[" * (5 << 20), None),
    ],
    ids=itertools.count(),
)
def test_error_count(path: str, data: bytes, count: int | None) -> None:
    assert error_count(path, data) == count


@pytest.mark.soak
def test_junk_does_not_delay_the_check() -> None:
    started = time.monotonic()
    assert error_count("a.cpp", b"{([" * 1_000_000) is None
    assert time.monotonic() - started < 10


@pytest.mark.parametrize(
    ("path", "before", "after", "message"),
    [
        ("a.py", PYTHON, BROKEN, "line 1"),
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
        # the parser reports the end of the file
        ("a.js", LONG, LONG.replace(b"{\n", b"{\n  if (x) {\n"), "on line 12, in the construct that starts on line 1 (the change is around line 2)"),
        # below the change, an error moves with its line
        ("a.js", b"let = 3;\nh();\n@ x;\n", b"f();\ng(1;\nh();\n@ x;\n", "`)` is missing on line 2"),
        ("u.py", "x = 1\n".encode("utf-16"), "x = (1\n".encode("utf-16"), "line 1"),
    ],
)  # fmt: skip
def test_worse(path: str, before: bytes | None, after: bytes, message: str) -> None:
    sentence = parses_worse(path, before, after)
    assert sentence is not None and message in sentence
    assert sentence.startswith(f"{path} would no longer parse as ") and sentence.endswith(".")


@pytest.mark.parametrize(
    ("path", "before", "after"),
    [
        ("a.py", PYTHON, PYTHON.replace(b"return x", b"return x + 1")),
        ("a.py", BROKEN, PYTHON),
        ("a.py", BROKEN, BROKEN.replace(b"pass", b"return 2")),
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
        ("a.json", b"[]", b"[" * (5 << 20)),  # too large to be checked
        # the interpreter accepts what the grammar does not
        ("a.py", b"", b"print(f'{x!r:{'>'}{10}}')\nmatch x:\n    case {'a': [1, *_]} | None if x: pass\n"),
    ],
    ids=itertools.count(),
)
def test_not_worse(path: str, before: bytes | None, after: bytes) -> None:
    assert parses_worse(path, before, after) is None


def test_messages_are_printable() -> None:
    sentence = parses_worse("a.c", b"int a;\n", b"int a;\n\x1b[31m \xff " + b"@@ $$ " * 50 + b"\n")
    assert sentence is not None and sentence.isprintable() and len(sentence) < 250
