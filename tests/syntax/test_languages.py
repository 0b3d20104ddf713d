from __future__ import annotations

import subprocess
import sys

import pytest

from repoagent.syntax.languages import LANGUAGES, LONG_TAIL, guess_language, language_of


@pytest.mark.parametrize(
    ("path", "data", "language"),
    [
        ("a/b.py", b"", "python"),
        ("a/B.PY", b"", "python"),
        ("x.tsx", b"", "tsx"),
        ("bin/tool", b"#!/usr/bin/env -S FOO=1 python3.12 -u\n", "python"),
        ("bin/tool", b"\xef\xbb\xbf#!/bin/sh -e\n", "bash"),
        ("run.sh", b"#!/bin/zsh\n", None),
        ("run.sh", b"echo\n", "bash"),
        ("a.py", b"#!/bin/sh\n", "python"),
        ("a.h", b"#include <stdio.h>\nstruct class_info *f(void);\n", "c"),
        ("a.h", b"#pragma once\nnamespace a {\n}\n", "cpp"),
        ("a.h", b"class Foo;\nclass Bar : public Foo {\n};\n", "cpp"),
        ("strings.ts", b"<?xml version='1.0'?><TS></TS>", "xml"),
        ("movie.ts", b"G\0\0\0binary", None),
        ("a.py", "x = 1\n".encode("utf-16"), "python"),
        ("README", b"# not markdown by name\n", None),
        (".bashrc", b"", "bash"),
        (".py", b"", None),
        ("a.rb", b"\0", None),
    ],
)
def test_language_of(path: str, data: bytes, language: str | None) -> None:
    assert language_of(path, data) == guess_language(path, data) == language


def test_guess_language_needs_no_grammar() -> None:
    assert guess_language("lib/a.rb", b"") == guess_language("bin/tool", b"#!/usr/bin/env ruby\n") == "ruby"
    assert (guess_language("Makefile", b"all:\n"), guess_language("CMakeLists.txt", b"")) == ("make", "cmake")


def test_an_import_loads_no_grammar() -> None:
    code = (
        "import sys, repoagent.syntax.outline, repoagent.syntax.regressions;"
        "assert not [m for m in sys.modules if m.startswith('tree_sitter')]"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_no_suffix_or_name_belongs_to_two_languages() -> None:
    specs = [*LONG_TAIL.values(), *LANGUAGES.values()]
    marks = [mark for spec in specs for mark in (*spec.suffixes, *spec.names)]
    assert len(marks) == len(set(marks))
