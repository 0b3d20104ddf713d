from __future__ import annotations

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from repoagent.syntax.languages import LANGUAGES, LONG_TAIL, guess_language, language_of, load_grammar
from repoagent.syntax.outline import outline
from tests.syntax.test_outline import TOKENS, check_ranges, shown


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
    code = "import sys, repoagent.syntax.outline, repoagent.syntax.regressions; print(*sys.modules)"
    assert "tree_sitter" not in lines_of(code)[0]


def test_no_suffix_or_name_belongs_to_two_languages() -> None:
    specs = [*LONG_TAIL.values(), *LANGUAGES.values()]
    marks = [mark for spec in specs for mark in (*spec.suffixes, *spec.names)]
    assert len(marks) == len(set(marks))


LIBRARY = pytest.mark.skipif(find_spec("tree_sitter_languages") is None, reason="the extra is not installed")
# A Python in which only the dependencies of repoagent are visible, without the extra.
WITHOUT = """
import sys
from importlib.abc import MetaPathFinder
class Hidden(MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name in ("tree_sitter_languages", "tree_sitter_language_pack"):
            raise ModuleNotFoundError(name)
import importlib.util
real = importlib.util.find_spec
hidden = ("tree_sitter_language", "tree_sitter_ruby")
importlib.util.find_spec = lambda name, package=None: None if name.startswith(hidden) else real(name, package)
"""


def lines_of(code: str, **environment: str) -> list[str]:
    """What another Python prints."""
    command, env = [sys.executable, "-c", code], {**os.environ, **environment}
    return subprocess.run(command, capture_output=True, text=True, check=True, env=env).stdout.splitlines()


def test_without_the_extra() -> None:
    code = WITHOUT + (
        "from repoagent.errors import UsageError\n"
        "from repoagent.syntax.languages import load_grammar, guess_language, language_of\n"
        "from repoagent.syntax.outline import outline\n"
        "from repoagent.syntax.parser import error_count\n"
        "from repoagent.syntax.regressions import parses_worse\n"
        "print(language_of('a.rb', b''), guess_language('a.rb', b''), outline('a.rb', b'class A; end'))\n"
        "print(error_count('a.rb', b'class'), parses_worse('a.rb', b'class A; end', b'class'))\n"
        "try: load_grammar('ruby')\n"
        "except UsageError as error: print(error)\n"
    )
    error = "the ruby grammar is not installed; pip install 'git-repoagent[languages]'"
    assert lines_of(code) == ["None ruby ()", "None None", error]


def test_the_package_of_one_grammar_is_preferred(tmp_path: Path) -> None:
    (tmp_path / "tree_sitter_zig.py").write_text("from tree_sitter_python import language\n")
    code = (
        "from repoagent.syntax.languages import load_grammar, install_hint, language_of\n"
        "print(language_of('a.zig', b''), load_grammar('zig').name, language_of('a.nim', b''))\n"
        "print(install_hint('csharp'), '|', install_hint('nim'))\n"
    )
    (tmp_path / "tree_sitter_language_pack.py").write_text("def downloaded_languages(): return []\n")
    download = "python -c 'import tree_sitter_language_pack as pack; pack.download([\"nim\"])'"
    hints = f"pip install tree-sitter-c-sharp | download it with {download}"
    assert lines_of(code, PYTHONPATH=str(tmp_path)) == ["zig python None", hints]


@LIBRARY
@pytest.mark.parametrize("language", sorted(name for name, tail in LONG_TAIL.items() if tail.library))
def test_each_grammar_of_the_library_loads_and_takes_any_bytes(language: str) -> None:
    assert load_grammar(language) is load_grammar(language)
    path = "x" + LONG_TAIL[language].suffixes[0]
    assert language_of(path, b"") == language

    @settings(max_examples=8, deadline=None, database=None)
    @given(st.lists(TOKENS, max_size=30).map(lambda parts: "".join(parts).encode()))
    def any_bytes(data: bytes) -> None:
        check_ranges(outline(path, data), data)

    any_bytes()


@LIBRARY
@pytest.mark.parametrize(
    ("path", "text", "expected"),
    [
        ("a.rb",
         "# doc\nclass A < B\n  def m(x)\n    1\n  end\n  def self.s; end\nend\nmodule M\n  def f; end\nend\n",
         "class A 1-7; method A.m 3-5; method A.s 6-6; namespace M 8-10; method M.f 9-9"),
        ("a.php",
         "<?php\nnamespace N;\nuse X\\Y;\n/** doc */\nclass A extends B {\n  public function m() { return 1; }\n}\n"
         "interface I { function n(); }\nfunction f() {}\n",
         "namespace N 2-2; class A 4-7; method A.m 6-6; interface I 8-8; method I.n 8-8; "
         "function f 9-9"),
        ("a.cs",
         "namespace N {\n  /// doc\n  public class A : B {\n    public A() {}\n    int M(int a) { return 1; }\n  }\n"
         "  enum E { X }\n  struct S { }\n}\n",
         "namespace N 1-9; class N.A 2-6; method N.A.A 4-4; method N.A.M 5-5; enum N.E 7-7; "
         "struct N.S 8-8"),
        ("a.kt",
         "package p\nclass A(val x: Int) : B() {\n  fun m(): Int = 1\n}\n// doc\nobject O {\n  fun n() {}\n}\n",
         "class A 2-4; method A.m 3-3; class O 5-8; method O.n 7-7"),
        ("b.php", "<?php\nuse X as Y;\nfunction f() {}\n", "function f 3-3"),
        ("a.ml", "let f x = 1\nlet () = f 2\nmodule M = struct let y = 1 end\ntype t = A | B\n",
         "function f 1-1; namespace M 3-3; variable M.y 3-3; type t 4-4"),
        ("a.sql", "CREATE TABLE a (b int);\nCREATE VIEW v AS SELECT 1;\n", "struct a 1-1; struct v 2-2"),
        ("a.r", "f <- function(x) 1\ng = function(y) 2\n", "function f 1-1; function g 2-2"),
        ("Makefile", "# all\nall: a\n\ttrue\n.PHONY: all\n", "rule all: a 1-3"),
        ("a.ex", "defmodule A do\n  def f(x) when x do\n    1\n  end\nend\n",
         "namespace A 1-5; function A.f 2-4"),
    ],
)  # fmt: skip
def test_golden(path: str, text: str, expected: str) -> None:
    assert shown(outline(path, text.encode())) == expected
