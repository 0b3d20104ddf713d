"""Neighborhoods made by hand."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from repoagent.history.cochange.score import Neighbor
from repoagent.history.graph import Graph, build
from repoagent.history.neighbors import Edge, Neighborhood
from repoagent.history.render import CommitHeader

HOSTILE = (
    b"</script><img src=x onerror=alert(1)>.py",
    b"\"><svg onload=alert(2)>&amp;'.c",
    b"line\nbreak\tand \x1b[31mcolour\\n.txt",
    b"not-utf8-\xff\xfe.bin",
    "naïve/ünï/文件名非常长的一个例子.md".encode(),
    "dir/\u202egnp.exe\u200b".encode(),
    b"]]><!--.xml",
    b"-dash --> n0 [label=x].dot",
)


def row(number: int, path: bytes, score: float, together: int = 3) -> Neighbor:
    return Neighbor(number, path, score, together, 10, 1_700_000_000, (1, 2), ("together", "folder"))


def neighborhood(
    paths: Sequence[bytes], *, asked: Sequence[bytes] = (b"src/asked.py",), chain: bool = True
) -> Neighborhood:
    """Each path is a neighbor, surer than the next; with `chain` each third pair has changed together."""
    rows = tuple(row(number, path, 0.9 / (1 + number)) for number, path in enumerate(paths))
    edges = [Edge(one, other.path, other.score, 3, 10, (1,)) for one in asked for other in rows]
    if chain:
        pairs = pairwise(paths)
        edges += [
            Edge(one, other, 0.3, 2, 5, (2,)) for number, (one, other) in enumerate(pairs) if number % 3
        ]
    return Neighborhood(
        tuple(asked), "HEAD", "a" * 40, rows, "whole", "a note", 10, {1: "a" * 40, 2: "b" * 40}, tuple(edges)
    )


TOLD = {
    "a" * 40: CommitHeader(
        "a" * 40, "aaaaaaa", "Ada </script>", "2026-01-02T03:04:05Z", "Fix <b>&</b> \x1b[0m \u202e it"
    ),
    "b" * 40: CommitHeader("b" * 40, "bbbbbbb", "Bob", "2026-01-01T03:04:05Z", ""),
}


def graph(
    paths: Sequence[bytes], *, asked: Sequence[bytes] = (b"src/asked.py",), chain: bool = True
) -> Graph:
    return build(neighborhood(paths, asked=asked, chain=chain), TOLD)


def many(count: int) -> list[bytes]:
    return [f"some/folder{number % 4}/file_number_{number}.py".encode() for number in range(count)]
