"""The graph for graphviz."""

from __future__ import annotations

import re
import shutil
import subprocess

import pytest

from repoagent.history.graph import shown
from repoagent.history.graph_output import dot
from tests.history.graph.samples import HOSTILE, graph, many

_STRING = re.compile(r'"((?:[^"\\]|\\.)*)"', re.DOTALL)


def test_every_name_is_one_quoted_string() -> None:
    text = dot(graph(HOSTILE))
    strings = {re.sub(r"\\(.)", r"\1", found) for found in _STRING.findall(text)}
    assert {shown(name) for name in HOSTILE} <= strings
    outside = _STRING.sub("", text)
    assert '"' not in outside and "<" not in outside and "\x1b" not in text
    assert outside.count("{") == outside.count("}")


def test_groups_are_subgraphs_and_links_have_their_strength() -> None:
    drawn = graph(many(12))
    text = dot(drawn)
    assert text.count("subgraph cluster_") == len(drawn.groups) > 0
    assert text.count(" -- ") == len(drawn.links)
    widths = [float(width) for width in re.findall(r"penwidth=([\d.]+)", text)]
    assert len(widths) == len(drawn.links) and max(widths) > min(widths)


@pytest.mark.skipif(not shutil.which("dot"), reason="graphviz is not here")
@pytest.mark.parametrize("paths", [[], list(HOSTILE), many(30)], ids=len)
def test_graphviz_takes_it(paths: list[bytes]) -> None:
    done = subprocess.run(
        ["dot", "-Tplain"], input=dot(graph(paths)).encode(), capture_output=True, check=True, timeout=60
    )
    assert done.stderr == b""
    assert done.stdout.count(b"\nnode ") == len(paths) + 1
