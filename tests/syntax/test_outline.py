"""The outline of a file in each language."""

from __future__ import annotations

import json
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from repoagent.syntax.languages import LANGUAGES
from repoagent.syntax.outline import outline
from repoagent.syntax.symbol import Symbol, render_outline


def shown(symbols: tuple[Symbol, ...]) -> str:
    return "; ".join(f"{s.kind} {s.qualified_name} {s.first_line}-{s.last_line}" for s in symbols)


# paths, text, outline
CASES = [
    # prototypes, typedefs, K&R pointers
    ("a.c",
     "/* doc\n * more */\nstatic int f(int a)\n{\n\tint local(void);\n\treturn 1;\n}\n"
     "char **g(void);\nint (*pointer)(int);\nstruct S {\n\tint a;\n};\n/* t */\n"
     "typedef struct { int b; } Anon;\ntypedef struct T { int b; } T_t;\n"
     "int (*h(int a))(int) { return 0; }\n#define M(a) a\n",
     "function f 1-7; declaration g 8-8; struct S 10-12; struct Anon 13-14; struct T 15-15; "
     "function h 16-16; macro M 17-17"),
    # comments of keys and elements
    ("a.yml",
     "# top\na:\n  # one\n  # two\n  b: 1\n  # three\n  c: 2\n",
     "key a 1-7; key a.b 3-5; key a.c 6-7"),
    # constants and variables
    ("a.go",
     "package a\nconst (\n\tA = 1\n\t// b\n\tB\n)\nvar C = func() {}\nfunc f() {\n\tvar local int\n"
     "\ttype T int\n}\n",
     "constant A 3-3; constant B 4-5; function C 7-7; function f 8-11; type f.T 10-10"),
    # scopes, templates, operators
    ("a.cpp",
     "namespace a::b {\n// doc\ntemplate <typename T>\nclass C : public D {\n public:\n  C();\n"
     "  ~C() {}\n  T &ref() const;\n  bool operator==(const C& o) const { return true; }\n};\n"
     "template <> int C<int>::p() { return 1; }\n}\nenum class E { A };\n"
     "int& Foo::operator[](int i) { return i; }\n",
     "namespace a.b 1-12; class a.b.C 2-10; declaration a.b.C.C 6-6; method a.b.C.~C 7-7; "
     "declaration a.b.C.ref 8-8; method a.b.C.operator== 9-9; function a.b.C.p 11-11; enum E 13-13; "
     "function Foo.operator[] 14-14"),
    # two levels of keys
    ("a.go",
     "package a\n\n// M does.\nfunc (s *Server[T]) M() error { return nil }\nfunc F() {}\n// S is.\n"
     "type S struct {\n\ta int\n}\ntype (\n\t// I is.\n\tI interface {\n\t\tN()\n\t}\n\tX int\n)\n",
     "method Server.M 3-4; function F 5-5; struct S 6-9; interface I 11-14; declaration I.N 13-13; "
     "type X 15-15"),
    ("a.sh", "#!/bin/sh\n# doc\nf() {\n  :\n}\nfunction g { :; }\n", "function f 2-5; function g 6-6"),
    # items in the braces of a macro
    ("a.rs",
     "cfg_net! {\n    /// doc\n    pub fn bind(a: u8) {\n    }\n    impl S {\n        fn m(&self) {}\n"
     "    }\n}\nvec_of! { fn => 1 }\nfn last() { call! { fn inner() {} } }\n",
     "function bind 2-4; impl impl S 5-7; method S.m 6-6; function last 10-10"),
    ("A.java",
     "package p;\n/** doc */\n@Ann\npublic class A {\n  A() {}\n  // m\n  @Override\n"
     "  public void m() {}\n  enum E { X; void p() {} }\n  record R(int a) {}\n}\n",
     "class A 2-11; method A.A 5-5; method A.m 6-8; enum A.E 9-9; method A.E.p 9-9; class A.R 10-10"),
    # functions as values, methods, types
    ("a.js a.ts",
     "/** doc */\nexport default class A extends B {\n  @dec()\n  m() { el.onclick = () => {} }\n"
     "  get = () => 1;\n}\nexport const f = async (a) => {\n  return 1\n};\n"
     "Foo.prototype.bar = function () {};\nexports.q = function () {};\n"
     "const api = { get() {}, x: 1 };\nfunction* gen() {}\n",
     "class A 1-6; method A.m 3-4; method A.get 5-5; function f 7-9; function Foo.bar 10-10; "
     "function q 11-11; object api 12-12; method api.get 12-12; function gen 13-13"),
    ("a.tsx",
     "export interface I {\n  m(): void\n}\nenum E { A }\n"
     "namespace N.M { export function g(): void {} }\ntype T = string | number;\n"
     "abstract class Q { abstract m(): void }\ndeclare function d(a: T): void;\n",
     "interface I 1-3; declaration I.m 2-2; enum E 4-4; namespace N.M 5-5; function N.M.g 5-5; "
     "type T 6-6; class Q 7-7; declaration Q.m 7-7; declaration d 8-8"),
    # named list entries
    ("a.json",
     '{"a": [{"name": "x", "v": {"name": "no"}},\n {"v": 1, "id": 3}, {"q": {"id": 4}}, 5]}',
     "key a 1-2; entry a.x 1-1; entry a.3 2-2"),
    ("a.yml",
     "jobs:\n  # about x\n  - name: x\n    run: y\n  - {id: 2}\n  - plain\n",
     "key jobs 1-6; entry jobs.x 2-4; entry jobs.2 5-5"),
    # unknown macros
    ("a.h",
     '#ifdef __cplusplus\nextern "C" {\n#endif\nAPI_CALL struct a * first(int x);\n'
     'API_CALL void last(void);\n'
     "#ifdef __cplusplus\n}\n#endif\n",
     "declaration first 4-4; declaration last 5-5"),
    ("a.hpp",
     "LIB_NAMESPACE_BEGIN\nnamespace detail\n{\nint f() { return 1; }\nnamespace\n{\n"
     "int g() { return 1; }\n}\n}\nLIB_NAMESPACE_END\n",
     "namespace detail 2-9; function detail.f 4-4; function detail.g 7-7"),
    ("a.cpp",
     "class EXPORT Foo : public Bar {\n public:\n  int m() { return 1; }\n  ~Foo();\n};\n",
     "class Foo 1-5; method Foo.m 3-3; declaration Foo.~Foo 4-4"),
    ("a.c", "int kr(a, b)\nint a;\nchar *b;\n{\n\treturn a;\n}\n", "function kr 1-6"),
    # sections end at the next heading
    ("a.md",
     "---\nt: 1\n---\n# A *x* #\ntext\n## B\n```sh\n# no heading\n```\n> # quoted\n\nSet\n===\n"
     "#### C\nend",
     "heading A *x* 4-11; heading A *x*.B 6-11; heading Set 12-15; heading Set.C 14-15"),
    # objects with functions
    ("a.js",
     "module.exports = {\n  a: function () {},\n  b() {},\n  c: 1,\n};\nexport default {\n"
     "  methods: {\n    go() {\n    },\n  },\n};\nexport const N = 1;\nconst hidden = 2;\n"
     "export default function () {}\nfunction Old() {\n  this.m = function () {};\n"
     "  el.onclick = () => {};\n}\n",
     "object exports 1-5; function exports.a 2-2; method exports.b 3-3; object methods 7-10; "
     "method methods.go 8-9; constant N 12-12; function default 14-14; function Old 15-18; "
     "function Old.m 16-16"),
    # overloads, private members, ambient declarations
    ("a.ts",
     "function over(a: string): void;\nfunction over(a: any) {}\nclass Z {\n  #p() {}\n"
     "  constructor(a?: any) {}\n  f = function () {};\n  x = 1;\n}\ndeclare global {\n"
     "  interface W {\n    m(): void;\n  }\n}\n",
     "declaration over 1-1; function over 2-2; class Z 3-8; method Z.#p 4-4; "
     "method Z.constructor 5-5; method Z.f 6-6; interface W 10-12; declaration W.m 11-11"),
    # decorators, comments, nesting
    ("a.py",
     "#!/usr/bin/env python\ndef first():\n    pass\n\nx = 1  # about x\n# what A is\n# for\n@dec(1)\n"
     "class A(Base):\n    # odd place\n    def m(self, a: int = 1) -> str:  # note\n"
     "        def inner(): ...\n        return ''\n\n    @property\n    async def p(self): ...\n"
     "if x:\n    def late(): ...\n",
     "function first 2-3; class A 6-16; method A.m 10-13; function A.m.inner 12-12; method A.p 15-16; "
     "function late 18-18"),
    ("a.rs",
     "/// doc\n#[derive(Debug)]\npub struct S<T> {\n    a: T,\n}\n\nimpl<T> fmt::Display for S<T> {\n"
     "    /// one\n    fn m(&self) {}\n}\ntrait Tr { fn t(&self); }\nmod tests {\n    #[test]\n"
     "    fn t() {}\n}\nmacro_rules! mm { () => {} }\n",
     "struct S 1-5; impl impl<T> fmt::Display for S<T> 7-10; method S.m 8-9; interface Tr 11-11; "
     "declaration Tr.t 11-11; namespace tests 12-15; function tests.t 13-14; macro mm 16-16"),
    # rules, comments, nesting
    ("a.css",
     "/* far */\n\n/* near\n   two */\na,\nb /* c */ > d {\n  e: f;\n  /* in */\n  &:hover { g: h }\n"
     "}\n@media (min-width: 1px) {\n  x { y: z }\n}\n@keyframes k { from { a: b } to { a: c } }\n"
     "@layer one, two;\n",
     "selector a, b > d 3-10; selector a, b > d.&:hover 8-9; rule @media (min-width: 1px) 11-13; "
     "selector @media (min-width: 1px).x 12-12; rule @keyframes k 14-14; rule @layer one, two 15-15"),
    # interpolation as in SCSS, whose grammar is not installed
    ("a.css", ".icon-#{$name} {\n  a: b;\n}\n", "selector .icon-#{$name} 1-3"),
    # one-line functions as arguments are left out
    ("a.tsx",
     "function View() {\n  useKeys([{ key: 'a', callback: () => go() }]);\n"
     "  useThing({ long: () => {\n    more();\n  } });\n  Object.assign(View, { extra: () => 1 });\n"
     "  return { api: () => 2 };\n}\nextend({ top: () => 3 });\n",
     "function View 1-8; function View.long 3-5; function View.extra 6-6; function View.api 7-7; "
     "function top 9-9"),
    # long or exported values of a module
    ("a.js",
     "const small = 1;\n// about\nconst OPTIONS = {\n  a: 1,\n  b: 2,\n  c: 3,\n};\nvar list = [\n"
     "  1,\n  2,\n  3,\n];\nexports.N = 1;\nexports.f = f;\nexports.a = exports.b = void 0;\n"
     "module.exports = {\n  f,\n  g,\n  h,\n};\nfunction f() {\n  const local = {\n    a: 1,\n"
     "    b: 2,\n    c: 3,\n  };\n}\n",
     "constant OPTIONS 2-7; variable list 8-12; constant N 13-13; object exports 16-20; "
     "function f 21-27"),
    # sections end with the element around the heading
    ("a.html",
     '<section>\n<h2>In</h2>\n</section>\n<p>x\n<div id="d">\n<h3>Held</h3>\ntext\n</div>\n'
     '<h2>Last</h2>\n<div id="e">\n<h4>Low</h4>\n<h1>High</h1>\n</div>\n<p>end\n',
     "heading In 2-3; element #d 5-8; heading #d.Held 6-8; heading Last 9-14; element Last.#e 10-13; "
     "heading Last.#e.Low 11-11; heading Last.#e.High 12-13"),
    # sections of headings
    ("a.html",
     "<body>\n<h1>Top &amp; all</h1>\n<p>a\n<h2 id=one>One <b>two</b></h2>\n<p>b\n<h3>Deep</h3>\n"
     '<div class="head">\n<h2>Two<a href="#two">¶</a></h2>\n</div>\n<p>c\n</body>\n',
     "heading Top & all 2-11; heading Top & all.One two 4-7; heading Top & all.One two.Deep 6-7; "
     "heading Top & all.Two 8-11"),
    # an indented heading does not belong to the section above, nor do blank lines
    ("a.html",
     "<main>\n  <h2>A</h2>\n  <p>a\n\n  <h2>B</h2>\n  <p>b\n</main>\n\n",
     "element main 1-7; heading main.A 2-3; heading main.B 5-7"),
    # landmarks, but no link targets
    ("a.html",
     "<nav>\n<ul><li><a id='toc-1' href='#1'>1</a></ul>\n</nav>\n<footer>one line</footer>\n<script>\n"
     "function f() {}\n</script>\n<p><span id=x></span><input\n  id='q' name='q'>\n",
     "element nav 1-3; element script 5-7; element #q 8-9"),
    # elements by attribute or first child
    ("a.xml",
     '<list>\n<item\n  kind="a"\n  id="1">\n<x/></item>\n<dep>\n <name>core</name>\n</dep>\n'
     "<title>One line</title>\n</list>\n",
     "element list 1-10; element list.item#1 2-5; element list.dep#core 6-8; element list.title 9-9"),
    # several documents
    ("a.yml",
     "# one\nkind: Deployment\nmetadata:\n  name: web\n---\nname: second\n---\n- a\n",
     "entry Deployment/web 1-4; key Deployment/web.kind 2-2; key Deployment/web.metadata 3-4; "
     "key Deployment/web.metadata.name 4-4; entry second 5-6; key second.name 6-6; entry [2] 7-8"),
    # plain text by its name
    ("doc/a.txt", "Title\r\n=====\r\n", "heading Title 1-2"),
    # levels in order of appearance
    ("a.rst",
     "=====\nTitle\n=====\n\n.. _x:\n\nOne\n---\ntext\n\n  Quoted\n  ------\n\nSub\n~~~\n\nTwo\n---\n"
     "\n::\n\n    code\n    ----\n",
     "heading Title 1-23; heading Title.One 7-16; heading Title.One.Sub 14-16; heading Title.Two 17-23"),
]  # fmt: skip


@pytest.mark.parametrize(("paths", "text", "expected"), CASES)
def test_outline(paths: str, text: str, expected: str) -> None:
    for path in paths.split():
        assert shown(outline(path, text.encode())) == expected


@pytest.mark.parametrize(
    ("path", "text", "signatures"),
    [
        ("a.py", "@dec(1)\nclass A(Base):\n    def m(self, a: int = 1) -> str:  # note\n        def inner(): ...\n",
         ["class A(Base)", "def m(self, a: int = 1) -> str", "def inner()"]),
        ("a.py", "def f(\n    a: int,\n    b: int = 1,\n) -> dict[\n    str, int\n]:\n    pass\n",
         ["def f(a: int, b: int = 1) -> dict[str, int]"]),
        ("a.c", "int f(int a) /* why */\n{\n}\n", ["int f(int a)"]),
        ("a.html", "<h1>Top &amp; all</h1>\n<h2 id=one>One <b>two</b></h2>\n<input\n  id='q' name='q'>\n",
         ["<h1> Top & all", '<h2 id="one"> One two', "<input id='q' name='q'>"]),
        ("a.xml", '<list>\n<item\n  kind="a"\n  id="1">\n<x/></item>\n<title>One line</title>\n</list>\n',
         ["<list>", '<item kind="a" id="1">', "<title>One line</title>"]),
        # heads of minified files are short
        ("a.json", json.dumps({"a": {"b": "x" * 1200}, "c": [{"id": "x", "v": "x" * 1200}], "d": {}}),
         ['"a":', '"b": "' + "x" * 153 + "…", '"c":', "x", '"d": {}']),
        ("a.yml", "- run: " + "x" * 1200 + "\n- b\n", ["- run: " + "x" * 112 + "…"]),
    ],
)  # fmt: skip
def test_signatures(path: str, text: str, signatures: list[str]) -> None:
    assert [symbol.signature for symbol in outline(path, text.encode())] == signatures


@pytest.mark.parametrize(
    ("path", "text"),
    [
        *(("a.txt", text) for text in ("", "just words\nand more\n", "-----\n", "x\0\n====\n")),
        ("a.txt", "a running line\nthen its end\n-----\n"),  # no blank line above
        ("a.txt", "a long title of many words\n---\n"),  # the line is far too short
        ("a.txt", "=====\n-----\n"),  # lines under lines
        ("a.txt", "a  b\n=  =\n"),  # a table
        ("data.bin", "Title\n=====\n"),
        ("a.unknown", "def f(): pass"),
        ("a.py", "def f(): pass\0"),
    ],
)
def test_no_outline(path: str, text: str) -> None:
    assert outline(path, text.encode()) == ()


FILLER = "x" * 1200


def test_large_values_are_opened() -> None:
    rules = [{"alert": f"A{n}", "expr": FILLER} for n in range(9)]
    data = {"spec": {"groups": [{"name": "g", "rules": rules}], "small": {"a": {"b": 1}}}}
    assert [s.qualified_name for s in outline("a.json", json.dumps(data, indent=1).encode())] == [
        "spec", "spec.groups", "spec.groups.g", "spec.groups.g.rules",
        *(f"spec.groups.g.rules.A{n}" for n in range(9)), "spec.small",
    ]  # fmt: skip


def test_large_entries_without_a_name_have_their_position() -> None:
    data = json.dumps([{"cell": "code", "v": FILLER}, {"cell": 1}, [1], {"cell": 'a "b', "v": [FILLER]}])
    shown = [(symbol.name, symbol.signature) for symbol in outline("a.json", data.encode())]
    assert shown == [("[0]", "[0]"), ("[3]", "[3]")]
    assert outline("a.yml", f"- run: {FILLER}\n- b\n".encode())[0].name == "[0]"


TEMPLATE = (
    b"{{- if .Values.a }}\nkind: X\nspec: {{ toYaml . }}\nlist:\n- name: one\n  b: |\n    c: no key\n"
    b"  - id: odd\n# c\nlast: 'x: y'\n{{- end }}\n"
)
TOO_LONG = b"top:\n  a: 1\n  b:\n" + b"    - x\n" * 33_000 + b"end: 1\n"  # for the grammar's counter


@pytest.mark.parametrize("text", [TEMPLATE, pytest.param(TOO_LONG, marks=pytest.mark.soak)], ids=len)
def test_yaml_that_does_not_parse_has_no_outline(text: bytes) -> None:
    assert outline("a.yaml", text) == ()


@pytest.mark.soak
def test_too_many_keys_omit_a_level_and_not_the_end_of_the_file() -> None:
    data = b"{" + b",".join(b'"k%d": {"a": 1, "b": 2}' % n for n in range(4000)) + b"}"
    assert [s.name for s in outline("a.json", data)] == [f"k{n}" for n in range(4000)]


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "latin-1"])
def test_encodings_keep_names_and_lines(encoding: str) -> None:
    text = "class Größe:\r\n    def ä(self):\r\n        pass\r\n"
    assert shown(outline("a.py", text.encode(encoding))) == "class Größe 1-3; method Größe.ä 2-3"


def test_a_syntax_error_hides_only_symbols_near_it() -> None:
    text = b"def a():\n    pass\n\ndef b(:\n    pass\n\ndef c():\n    pass\n"
    assert {"a", "c"} <= {s.name for s in outline("a.py", text)}
    assert [s.name for s in outline("a.json", b'{"a": 1, "b": {"c": 2}, ')] == ["a", "b", "c"]


def test_names_from_files_cannot_forge_lines() -> None:
    data = '{"a\u2028b\u202e": 1, "\\u001b": 2, "x\x1b[31m": 3}'.encode()
    rendered = render_outline(outline("a.json", data))
    assert all(line.isprintable() for line in rendered.split("\n"))


def test_render() -> None:
    text = b"class A:\n    def m(self):\n        def deep(): ...\n        return 1\n\n\ndef f(): ...\n"
    symbols = outline("a.py", text)
    assert render_outline(symbols) == "1-4  class A\n2-4    def m(self)\n  3      def deep()\n  7  def f()\n"
    assert render_outline(symbols, limit=3) == "1-4  class A\n2-4    def m(self)\n  7  def f()\n(1 more)\n"
    assert render_outline(symbols, limit=1) == "1-4  class A\n(3 more)\n"
    assert render_outline(()) == ""


TOKENS = st.sampled_from(
    ["def f(x):", "class A {", "}", "{", "(", ")", "[", "]", "\n", "\n\n", "    ", "\t", "# c\n", "// c\n", "/* c */",
     '"', "'", "`", "=>", "function ", "struct S ", "impl A for B ", "fn f()", ";", ",", ":", "- a", "a: 1\n", "---\n",
     "<a id='b'>", "</a>", "<h1>x</h1>", "@media ", "#x", ".y ", "é", "\u2028", "\r\n", "=", "type T ",
     "func (s *S) M()", "namespace a::b {", "operator", "~", "template <class T>", "exports.a = function", "key: ",
     "export default ", "@dec\n", "\x00"]
)  # fmt: skip


def check_ranges(symbols: tuple[Symbol, ...], data: bytes) -> None:
    """Check that lines are in the file and in those of the enclosing symbol."""
    open_: list[Symbol] = []
    for symbol in symbols:
        assert 1 <= symbol.first_line <= symbol.last_line <= data.count(b"\n") + 1
        assert symbol.depth <= len(open_) and symbol.signature.isprintable()
        del open_[symbol.depth :]
        for outer in open_[-1:]:
            assert outer.first_line <= symbol.first_line and symbol.last_line <= outer.last_line
        open_.append(symbol)


@pytest.mark.soak
@pytest.mark.parametrize("language", sorted(LANGUAGES))
@settings(max_examples=60, deadline=None)
@given(
    data=st.binary(max_size=300) | st.lists(TOKENS, max_size=40).map(lambda parts: "".join(parts).encode())
)
def test_any_bytes(language: str, data: bytes) -> None:
    symbols = outline("x" + LANGUAGES[language].suffixes[0], data)
    check_ranges(symbols, data)
    render_outline(symbols, limit=5)


@pytest.mark.soak
def test_large_files_stay_quick_and_do_not_overflow() -> None:
    wide = b"".join(b"def f%d(a):\n    return a\n\n" % n for n in range(8000))
    deep = b"".join(b"%sclass C%d:\n" % (b" " * n, n) for n in range(400)) + b" " * 400 + b"x = 1\n"
    keys = b"{" + b",\n".join(b'"k%d": {"a": 1, "b": [2]}' % n for n in range(20_000)) + b"}"
    started = time.process_time()
    assert len(outline("a.py", wide)) == 8000
    assert len(outline("a.py", deep)) == 400
    assert outline("a.js", b"(" * 20_000 + b"function f() {}") is not None
    assert outline("a.html", b"<p id=x>" * 3000)[0].name == "#x"
    assert len(outline("a.json", keys)) == 10_000
    assert time.process_time() - started < 8  # each of these is quadratic in a naive walk
