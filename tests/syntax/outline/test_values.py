"""JavaScript and TypeScript: values of a module, chains, and functions that are handed over."""

from __future__ import annotations

from repoagent.syntax.outline import outline
from tests.syntax.outline.test_outline import names


def test_values_of_a_module_that_are_long_or_exported() -> None:
    text = (
        "const small = 1;\n// about\nconst OPTIONS = {\n  a: 1,\n  b: 2,\n  c: 3,\n};\nvar list = [\n  1,\n  2,\n  3,\n];\n"
        "exports.N = 1;\nexports.f = f;\nexports.a = exports.b = void 0;\nmodule.exports = {\n  f,\n  g,\n  h,\n};\n"
        "function f() {\n  const local = {\n    a: 1,\n    b: 2,\n    c: 3,\n  };\n}\n"
    )
    assert names("a.js", text) == [
        ("constant", "OPTIONS", 2, 7),
        ("variable", "list", 8, 12),
        ("constant", "N", 13, 13),
        ("object", "exports", 16, 20),
        ("function", "f", 21, 27),
    ]


def test_a_large_value_is_opened() -> None:
    filler = "x" * 3000
    keys = "".join(f"  k{n}: {{\n    v: '{filler}',\n  }},\n" for n in range(3))
    assert [s[1] for s in names("a.js", f"var data = {{\n{keys}}};\n")] == [
        "data",
        "data.k0",
        "data.k1",
        "data.k2",
    ]
    rows = "".join(f"  {{\n    id: 'r{n}',\n    v: '{filler}',\n  }},\n" for n in range(3))
    assert [s[:2] for s in names("a.ts", f"export const rows: Row[] = [\n{rows}];\n")] == [
        ("constant", "rows"),
        ("entry", "rows.r0"),
        ("entry", "rows.r1"),
        ("entry", "rows.r2"),
    ]


def test_a_chain_of_assignments_gives_each_name() -> None:
    text = "exports.a = exports.b = function () {};\n$.fn = $.prototype = {\n  m() {\n  },\n};\n"
    assert names("a.js", text) == [
        ("function", "a", 1, 1),
        ("function", "b", 1, 1),
        ("object", "$.fn", 2, 5),
        ("object", "$.prototype", 2, 5),
        ("method", "$.prototype.m", 3, 4),
    ]
    assert [s.depth for s in outline("a.js", text.encode())] == [0, 0, 0, 0, 1]


def test_functions_of_one_line_that_are_handed_over_are_none() -> None:
    text = (
        "function View() {\n  useKeys([{ key: 'a', callback: () => go() }]);\n"
        "  useThing({ long: () => {\n    more();\n  } });\n  Object.assign(View, { extra: () => 1 });\n"
        "  return { api: () => 2 };\n}\nextend({ top: () => 3 });\n"
    )
    assert [s[1] for s in names("a.tsx", text)] == ["View", "View.long", "View.extra", "View.api", "top"]


def test_a_type_with_parameters_on_lines_of_their_own_reads_as_one() -> None:
    text = b"export type Pair<\n  A,\n  B,\n> = { a: A };\n"
    assert outline("a.ts", text)[0].signature == "export type Pair<A, B> ="
