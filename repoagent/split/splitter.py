"""Split a file into segments: parse it, collect candidates from the tree, and pack them.

`_unit_starts` finds where the outermost units begin: definitions, sections, keys, elements.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Collection, Iterable, Sequence
from hashlib import sha256
from itertools import pairwise
from typing import TYPE_CHECKING

from repoagent.split import boundaries
from repoagent.split.pack import (
    FAIR,
    TARGET_BYTES,
    Boundary,
    Candidate,
    Segment,
    pack_segments,
    prune_candidates,
)
from repoagent.split.text_boundaries import add_text_candidates
from repoagent.syntax.languages import language_of
from repoagent.syntax.parser import UTF8_MARK, parse_bytes

if TYPE_CHECKING:
    import tree_sitter

    from repoagent.syntax.symbol import Symbol

Span = tuple[int, int, Boundary]  # the start and end of a segment, and why it starts there
PARSED_BYTES = 32 << 20  # a larger file is not parsed, but split by its lines
_YAML_LINES = 30_000  # the grammar counts them with 16 bits
_SLICE = 4 << 20
_POOR = 9.0  # added to the cost of a cut that is not in the tree
_PARAGRAPH = 1.0  # an outermost paragraph of a text costs less
_HIGH = bytes(range(128)) + b"_" * 128  # a letter, so that a name stays a name
_DATA = frozenset({"json", "yaml", "xml", "html", "css", "markdown", "toml"})
_FUNCTION = re.compile(r"function|method|constructor|lambda|closure|fn_|^(if|for|while|do|try|switch|case)_")
_MOST = 0.7  # a node with this share of the file contains its units: the only class, the root element
_DEEPEST = 40


def cut_into_spans(
    path: str,
    data: bytes,
    *,
    target: int = TARGET_BYTES,
    natural: bool = False,
    language: str | None = None,
    kept: Sequence[int] = (),
) -> tuple[list[Span], Callable[[], Sequence[Symbol]]]:
    """The spans of the segments of `data`, in order, and a function that computes the symbols of the file, because
    that takes longer. Pass the spans and the symbols to `describe_segments`. A span has at most `target` bytes unless
    it cannot be cut.

    Without `language`, `path` and the first lines determine it. `natural` gives each outermost unit (a definition, a
    section, a key) its own segment. `kept` has the offsets of an earlier split's cuts, relocated to this text. Raises
    UsageError for a `language` without a grammar.
    """
    if not data:
        return [], tuple
    # The parser gets a text with the same offsets: if it is not UTF-8, with a letter instead of each byte beyond ASCII.
    text = data
    if not data.isascii():
        try:
            data.decode()
        except UnicodeDecodeError:
            text = data.translate(_HIGH)
    if language is None:
        language = language_of(path, data)
    earlier = frozenset(kept)
    tree: tree_sitter.Tree | None = None
    candidates: list[Candidate] = []
    starts: list[int] = []
    if len(text) > target or natural:
        parsed = boundaries.parsed_text(text, language)
        long = language == "yaml" and parsed.count(b"\n") > _YAML_LINES
        if language is not None and len(data) <= PARSED_BYTES and not long:
            tree = parse_bytes(parsed, language)
        if tree is not None and language is not None:
            boundaries.walk(tree, text, target, candidates, (language, 0, 0, 0))
            if earlier and tree.root_node.has_error:
                # After a syntax error, cuts of an earlier split at line starts are better than the tree.
                by_offset = {candidate[0]: candidate for candidate in candidates}
                for offset in earlier:
                    if 0 < offset < len(text) and text[offset - 1] == 10 and text[offset] not in b"\r\n":
                        _, cost, why = by_offset.get(offset, (offset, FAIR, "line"))
                        by_offset[offset] = (offset, min(cost, FAIR), why)
                candidates = [by_offset[offset] for offset in sorted(by_offset)]
            candidates = _closed(candidates, text, target)
            starts = _unit_starts(tree, text, language) if natural else []
            if parsed is not data or data.startswith(UTF8_MARK):
                tree = None  # its offsets are not those of the outline
        else:
            candidates = _line_candidates(text, target)
            starts = [offset for offset, cost, why in candidates if why == "blank" and cost < _PARAGRAPH]
    if natural:
        cuts = _packed_apart(candidates, [0, *starts, len(text)], target, earlier)
    else:
        cuts = pack_segments(candidates, 0, len(text), target, earlier)
    edges = [0, *(offset for offset, _, _ in cuts), len(text)]
    reasons: list[Boundary] = ["start", *("kept" if offset in earlier else why for offset, _, why in cuts)]

    def symbols() -> Sequence[Symbol]:
        from repoagent.syntax.outline import read_outline, symbols_of

        if tree is not None and language is not None:
            return symbols_of(tree, data, language)
        result = read_outline(path, data, language)
        return result[0] if result is not None else ()

    return [(*edge, why) for edge, why in zip(pairwise(edges), reasons, strict=True)], symbols


def describe_segments(
    data: bytes, spans: Iterable[Span], target: int, symbols: Sequence[Symbol]
) -> tuple[Segment, ...]:
    """The segments, still without names, for `spans`, which together make up `data`; some may be empty."""
    result: list[Segment] = []
    line, inside = 1, False  # whether the segment begins inside its first line
    for start, end, why in spans:
        breaks, whole = data.count(b"\n", start, end), start == end or data[end - 1 : end] == b"\n"
        last = line + breaks - whole
        first = bisect_left(symbols, line + inside, key=_first_line)
        own = tuple(symbols[first : bisect_right(symbols, last, lo=first, key=_first_line)])
        scope: list[str] = []  # the symbols that begin before the segment and contain its first line
        depth = None
        for symbol in reversed(symbols[:first]):
            if depth == 0:
                break
            if depth is None or symbol.depth < depth:
                depth = symbol.depth
                if symbol.last_line >= line:
                    scope.insert(0, symbol.name)
        oversize, hashed = end - start > target, sha256(data[start:end]).hexdigest()
        result.append(Segment("", start, end, line, last, why, hashed, tuple(scope), oversize, own))
        line, inside = line + breaks, inside if start == end else not whole
    return tuple(result)


def _first_line(symbol: Symbol) -> int:
    return symbol.first_line


def _unit_starts(tree: tree_sitter.Tree, text: bytes, language: str) -> list[int]:
    """Where the outermost units begin, including their comments, in order. Neighbors of one or two lines of code
    (imports, assignments) count as one unit."""
    roles = boundaries.child_roles(language)
    node, size = tree.root_node, tree.root_node.end_byte - tree.root_node.start_byte
    for _ in range(_DEEPEST):  # into the innermost list that makes up most of the file
        children = [
            child for child in node.children if roles.get(child.kind_id, boundaries.ITEM) != boundaries.TOKEN
        ]
        node = max(children, key=lambda child: child.end_byte - child.start_byte, default=node)
        holder = boundaries.holder_role(node.type)
        if not children or _FUNCTION.search(node.type) or holder == boundaries.LEAF:
            break
        if node.end_byte - node.start_byte < _MOST * size:
            break
        if holder == boundaries.LIST:
            size = node.end_byte - node.start_byte
    candidates: list[Candidate] = []
    boundaries.walk(tree, text, size - 1, candidates, (language, 0, 0, 0))
    if not candidates:
        return []
    most = min(cost for _, cost, _ in candidates) + 1.0
    starts = [offset for offset, cost, why in candidates if cost < most and why != "byte"]
    if language in _DATA:
        return starts
    small = [text[start:end].strip().count(b"\n") <= 1 for start, end in pairwise([0, *starts, len(text)])]
    return [start for number, start in enumerate(starts) if not (small[number] and small[number + 1])]


def _line_candidates(text: bytes, limit: int) -> list[Candidate]:
    """Candidates by lines, slice by slice to save memory."""
    candidates: list[Candidate] = []
    start = 0
    while start < len(text):
        end = min(start + _SLICE, len(text))
        if end < len(text):
            end = text.rfind(b"\n", start, end) + 1 or text.find(b"\n", end) + 1 or len(text)
        in_slice: list[Candidate] = []
        add_text_candidates(text, (start, end), limit, in_slice)
        if start:
            in_slice.insert(0, (start, _POOR, "line"))
        candidates.extend(in_slice if len(text) <= _SLICE else prune_candidates(in_slice, start, end, limit))
        start = end
    return candidates


def _closed(candidates: list[Candidate], text: bytes, limit: int) -> list[Candidate]:
    """Add candidates by lines between neighbors that are more than `limit` apart."""
    offsets = [0, *(candidate[0] for candidate in candidates), len(text)]
    closed: list[Candidate] = []
    done = 0
    for number, (start, end) in enumerate(pairwise(offsets)):
        if end - start > limit:
            closed.extend(candidates[done:number])
            done = number
            more: list[Candidate] = []
            add_text_candidates(text, (start, end), limit, more, _POOR)
            closed.extend(candidate for candidate in more if start < candidate[0] < end)
    return [*closed, *candidates[done:]]


def _packed_apart(
    candidates: Sequence[Candidate], bounds: Sequence[int], limit: int, earlier: Collection[int]
) -> list[Candidate]:
    """A cut at each of `bounds` except the ends, and the necessary cuts between them."""
    cuts: list[Candidate] = []
    number = 0
    why = {offset: reason for offset, _, reason in candidates}
    for first, last in pairwise(bounds):
        if first != bounds[0]:
            cuts.append((first, 0.0, why.get(first, "node")))
        while number < len(candidates) and candidates[number][0] <= first:
            number += 1
        begin = number
        while number < len(candidates) and candidates[number][0] < last:
            number += 1
        cuts.extend(pack_segments(candidates[begin:number], first, last, limit, earlier))
    return cuts
