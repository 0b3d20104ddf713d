"""JSON, YAML and XML: what is large is opened, what has no name is called by its place."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from repoagent.syntax.data_formats import yaml_lines
from repoagent.syntax.outline import outline
from tests.syntax.outline.test_outline import check_ranges, names

FILLER = "x" * 1200


def test_what_is_large_is_opened_beyond_two_levels() -> None:
    rules = [{"alert": f"A{n}", "expr": FILLER} for n in range(9)]
    data = json.dumps(
        {"spec": {"groups": [{"name": "g", "rules": rules}], "small": {"a": {"b": 1}}}}, indent=1
    )
    found = [s.qualified_name for s in outline("a.json", data.encode())]
    assert found == [
        "spec",
        "spec.groups",
        "spec.groups.g",
        "spec.groups.g.rules",
        *(f"spec.groups.g.rules.A{n}" for n in range(9)),
        "spec.small",
    ]


def test_a_long_entry_without_a_name_is_called_by_its_place() -> None:
    data = json.dumps([{"cell": "code", "v": FILLER}, {"cell": 1}, [1], {"cell": 'a "b', "v": [FILLER]}])
    found = outline("a.json", data.encode())
    assert [(s.name, s.signature) for s in found] == [
        ("[0]", '[0] "cell": "code"'),
        ("[3]", '[3] "cell": "a \\"b"'),
    ]
    assert outline("a.yml", f"- run: {FILLER}\n- b\n".encode())[0].name == "[0]"


def test_heads_of_minified_files_are_short() -> None:
    data = json.dumps({"a": {"b": FILLER}, "c": [{"id": "x", "v": FILLER}], "d": {}}).encode()
    assert [s.signature for s in outline("a.json", data)][::2] == ['"a":', '"c":', '"d": {}']
    assert outline("a.json", data)[3].signature == "x"


def test_several_documents_of_yaml_are_an_entry_each() -> None:
    text = "# one\nkind: Deployment\nmetadata:\n  name: web\n---\nname: second\n---\n- a\n"
    assert names("a.yml", text) == [
        ("entry", "Deployment/web", 1, 4),
        ("key", "Deployment/web.kind", 2, 2),
        ("key", "Deployment/web.metadata", 3, 4),
        ("key", "Deployment/web.metadata.name", 4, 4),
        ("entry", "second", 5, 6),
        ("key", "second.name", 6, 6),
        ("entry", "[2]", 7, 8),
    ]


def test_yaml_that_the_grammar_gives_up_on_is_read_by_its_lines() -> None:
    text = (
        "{{- if .Values.a }}\nkind: X\nspec: {{ toYaml . }}\nlist:\n- name: one\n  b: |\n    c: no key\n"
        "  - id: odd\n# c\nlast: 'x: y'\n{{- end }}\n"
    )
    assert [(s.kind, s.qualified_name, s.first_line, s.last_line) for s in yaml_lines(text.encode())] == [
        ("key", "kind", 2, 2),
        ("key", "spec", 3, 3),
        ("key", "list", 4, 8),
        ("entry", "list.one", 5, 8),
        ("key", "last", 10, 10),
    ]
    assert "kind" in {s.name for s in outline("a.yaml", text.encode())}


@pytest.mark.soak
def test_yaml_of_more_lines_than_the_grammar_counts() -> None:
    text = "top:\n  a: 1\n  b:\n" + "    - x\n" * 33_000 + "end: 1\n"
    assert names("a.yml", text) == [
        ("key", "top", 1, 33_003),
        ("key", "top.a", 2, 2),
        ("key", "top.b", 3, 33_003),
        ("key", "end", 33_004, 33_004),
    ]


@pytest.mark.soak
def test_too_many_keys_cost_a_level_and_not_the_end_of_the_file() -> None:
    data = b"{" + b",".join(b'"k%d": {"a": 1, "b": 2}' % n for n in range(4000)) + b"}"
    assert [s.name for s in outline("a.json", data)] == [f"k{n}" for n in range(4000)]


def test_elements_are_called_by_an_attribute_or_by_what_they_hold_first() -> None:
    text = (
        '<list>\n<item\n  kind="a"\n  id="1">\n<x/></item>\n<dep>\n <name>core</name>\n</dep>\n'
        "<title>One line</title>\n</list>\n"
    )
    assert names("a.xml", text) == [
        ("element", "list", 1, 10),
        ("element", "list.item#1", 2, 5),
        ("element", "list.dep#core", 6, 8),
        ("element", "list.title", 9, 9),
    ]
    found = outline("a.xml", text.encode())
    assert [s.signature for s in found[1:]] == [
        '<item kind="a" id="1">',
        "<dep>",
        "<title>One line</title>",
    ]


def test_the_shapes_of_a_drawing_are_none() -> None:
    text = '<svg xmlns="x">\n<path d="M1"/>\n<g id="layer">\n<path/></g>\n<style>a{}</style>\n</svg>\n'
    assert [s.name for s in outline("a.svg", text.encode())] == ["svg", "g#layer", "style"]


def test_json_that_does_not_parse_has_what_does() -> None:
    assert [s.name for s in outline("a.json", b'{"a": 1, "b": {"c": 2}, ')] == ["a", "b", "c"]


LINES = [
    "a: 1\n",
    "  b:\n",
    "- c: 2\n",
    "  - d\n",
    "---\n",
    "x: |\n",
    "    t\n",
    "{{ if }}\n",
    "'q': {r: 1}\n",
    "\n",
]


@settings(max_examples=60, deadline=None)
@given(st.lists(st.sampled_from(LINES), max_size=25))
def test_any_lines(lines: list[str]) -> None:
    data = "".join(lines).encode()
    check_ranges(yaml_lines(data), data)
    check_ranges(outline("a.yml", data), data)
