"""A name in a syntax tree: its definitions, its uses, and text that only looks like it."""

from __future__ import annotations

import pytest

from repoagent.syntax.occurrences import MOST, find_occurrences

PYTHON = """\
from .utils import load
import utils
# load in a comment
TEXT = "load"; DOC = f"{load()} load"
def load(load=None):
    return load
def own():
    load = [load for load in ()]
class A:
    load: int
    def load(self): return self.load(load=1)
utils.load(); value.load(); load()
"""
JAVASCRIPT = """\
import * as lib from "./lib";
function load(load) { return load; } // load
const f = (load) => load;
function g() { let load = "load"; return load; }
lib.load(); value.load(); load({ load: 1 });
class A { load() {} }
"""
GO = """\
package main
import cfg "example.com/config"
func load(n int) int { return n } // load
type T struct { load int }
func f(load string) string { return load + "load" }
func g() { load := 1; _ = load }
var x = load(cfg.load(1))
func h(t T) { t.load = 2; _ = T{load: 1} }
"""
RUST = """\
use crate::cfg::load;
/// load
fn load(n: i32) -> i32 { n }
struct S { load: i32 }
impl S { fn load(&self) -> i32 { self.load } }
fn f(load: i32) -> i32 { let load = load; load }
fn g() { println!("load"); load(cfg::load(1)); }
"""
C = """\
int load(int n);
int load(int n) { return n; } /* load */
struct s { int load; };
static int f(int load) { int x = load; return x; }
static int g(struct s *p) { int *load = 0; return p->load + *load; }
#define CALL(x) load(x)
int (*fp)(int) = load; const char *t = "load";
"""
JAVA = """\
class A {
  int load;
  /** load */
  int load(int load) { return load; }
  void f() { int load = 1; g(load); load(2); other.load(3); }
  String s = "load";
}
"""
TYPESCRIPT = """\
export function load(n: number): number { return n; }
export interface I { load: string; run(load: number): void }
const f = (load: string): string => load;
load(1); value.load(`load ${load(2)}`);
namespace N { export function load() {} }
"""
# For each line the roles of the name, in order.
ROLES = [
    ("a.py", PYTHON,
     "1 name, 4 name, 5 definition, 5 local, 6 local, 8 local, 8 local, 8 local, 10 field, 11 field, 11 member, "
     "11 key, 12 qualified, 12 member, 12 name"),
    ("a.js", JAVASCRIPT,
     "2 definition, 2 local, 2 local, 3 local, 3 local, 4 local, 4 local, 5 qualified, 5 member, 5 name, 5 key, 6 field"),
    ("a.go", GO, "3 definition, 4 field, 5 local, 5 local, 6 local, 6 local, 7 name, 7 qualified, 8 member, 8 key"),
    ("a.rs", RUST,
     "1 qualified, 3 definition, 4 field, 5 field, 5 member, 6 local, 6 local, 6 local, 6 local, 7 name, 7 qualified"),
    ("a.c", C, "1 declaration, 2 definition, 3 field, 4 local, 4 local, 5 local, 5 member, 5 local, 6 name, 7 name"),
    ("A.java", JAVA, "2 field, 4 field, 4 local, 4 local, 5 local, 5 local, 5 member, 5 member"),
    ("a.ts", TYPESCRIPT, "1 definition, 2 field, 2 local, 3 local, 3 local, 4 name, 4 member, 4 name, 5 definition"),
]  # fmt: skip


def lines(path: str, text: bytes, name: str = "load") -> list[int]:
    return [occurrence.line for occurrence in find_occurrences(path, text, [name]).found]


@pytest.mark.parametrize(("path", "text", "expected"), ROLES)
def test_roles(path: str, text: str, expected: str) -> None:
    seen = find_occurrences(path, text.encode(), ["load"])
    assert (
        seen.parsed
        and ", ".join(f"{occurrence.line} {occurrence.role}" for occurrence in seen.found) == expected
    )


def test_a_qualified_name_has_the_words_of_its_import() -> None:
    seen = find_occurrences("a.py", PYTHON.encode(), ["load"])
    (qualified,) = [occurrence for occurrence in seen.found if occurrence.role == "qualified"]
    assert "utils" in qualified.through


def test_words_without_a_grammar() -> None:
    seen = find_occurrences("a.unknown", b"load # load\n'load' reload load_it load-it\n", ["load"])
    assert not seen.parsed
    assert [(one.line, one.role) for one in seen.found] == [(1, "text")] * 2 + [(2, "text")] * 2


def test_plain_words_of_documents_are_not_names() -> None:
    text = b"We load what\nyou `load`, x.load, load() or load_it.\n"
    for path in ("README.md", "a.rst", "a.txt", "a.yml"):
        assert lines(path, text) == [2, 2, 2] and lines(path, text, "load_it") == [2]


def test_other_encodings_and_binary_files() -> None:
    assert lines("a.py", "# é\nload()\n".encode("latin-1")) == [2]
    assert lines("a.py", "x\nload()\n".encode("utf-16")) == [2]
    assert lines("a.py", b"load()\0") == []
    (found,) = find_occurrences("a.py", "größe = größer\n".encode(), ["größe"]).found
    assert found.name == "größe"


def test_hostile_text_is_bounded() -> None:
    line = b"load " * (MOST + 1)
    assert {occurrence.role for occurrence in find_occurrences("a.py", line, ["load"]).found} == {"text"}
    deep = b"f(" * 8_000 + b"load" + b")" * 8_000
    for path in ("a.py", "a.js", "a.c", "a.go", "a.rs", "A.java"):
        assert lines(path, deep) in ([1], [])
