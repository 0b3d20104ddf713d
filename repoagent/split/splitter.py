"""Where the outermost units of a file begin: definitions, sections, keys, elements.

A file into segments: parse it, walk the tree, pack.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Sequence
from functools import cache
from itertools import pairwise
from typing import TYPE_CHECKING

from repoagent.split.boundaries import (
    ITEM,
    LEAF,
    LINES,
    LIST,
    TOKEN,
    child_roles,
    holder_role,
    parsed_text,
    walk,
    walk_slices,
)
from repoagent.split.pack import FAIR, TARGET_BYTES, Boundary, Candidate, Segment, packed, pruned
from repoagent.split.text_boundaries import fill
from repoagent.syntax.languages import language_of
from repoagent.syntax.parser import parse_bytes

if TYPE_CHECKING:
    import tree_sitter

    from repoagent.syntax.outline.symbol import Symbol

_DATA = frozenset({"json", "yaml", "xml", "html", "css", "markdown", "toml"})
_FUNCTION = re.compile(r"function|method|constructor|lambda|closure|fn_|^(if|for|while|do|try|switch|case)_")
_MOST = (
    0.7  # what makes up so much of a file is not a unit of it, it holds them: the one class, the root element
)
_DEEPEST = 40


def unit_starts(tree: tree_sitter.Tree, text: bytes, language: str) -> list[int]:
    """The places at which the outermost units begin, with what is attached to them, in order of the text.

    Neighbours of one or two lines of code (imports, assignments) count as one unit.
    """
    root = tree.root_node
    size = _holder_size(root, language)
    found: list[Candidate] = []
    walk(tree, text, size - 1, found, (language, 0, 0, 0))
    if not found:
        return []
    most = min(cost for _, cost, _ in found) + 1.0
    places = [place for place, cost, why in found if cost < most and why != "byte"]
    if language in _DATA:
        return places
    small = [
        text[place:after].strip().count(b"\n") <= 1 for place, after in pairwise([0, *places, len(text)])
    ]
    return [place for number, place in enumerate(places) if not (small[number] and small[number + 1])]


def _holder_size(root: tree_sitter.Node, language: str) -> int:
    """The size of the innermost list that makes up most of the file."""
    roles = child_roles(language)
    node, size = root, root.end_byte - root.start_byte
    for _ in range(_DEEPEST):
        inner = max(
            (child for child in node.children if roles.get(child.kind_id, ITEM) != TOKEN),
            key=lambda child: child.end_byte - child.start_byte,
            default=None,
        )
        if inner is None or _FUNCTION.search(inner.type) or holder_role(inner.type) == LEAF:
            break
        if inner.end_byte - inner.start_byte < _MOST * size:
            break
        node = inner
        if holder_role(node.type) == LIST:
            size = node.end_byte - node.start_byte
    return size


PARSED_BYTES = 32 << 20  # a file larger than this is cut by its lines
_SLICE = 4 << 20
_POOR = 9.0  # what a cut costs more where the tree gave none
_PARAGRAPH = 1.0  # a paragraph in text that is not inside of something costs less
_MARK = b"\xef\xbb\xbf"
_HIGH = bytes(range(128)) + b"_" * 128  # a letter, so that a name stays a name


def segments(
    path: str,
    data: bytes,
    *,
    target: int = TARGET_BYTES,
    natural: bool = False,
    language: str | None = None,
    kept: Sequence[int] = (),
) -> tuple[Segment, ...]:
    """The segments of `data`, at most `target` bytes each but for those marked `oversize`; () for no bytes.

    `path` (and the first lines) say what language it is in, if `language` does not. `natural` gives each outermost
    unit (a definition, a section, a key) a segment of its own instead of packing neighbours together. `kept` are the
    byte offsets at which an earlier split of an earlier text was cut, carried over to this text: those that are still
    good stay. Raises UsageError for a `language` without a grammar.
    """
    if not data:
        return ()
    text = _parsable(data)
    if language is None:
        language = language_of(path, data)
    places = frozenset(kept)
    tree: tree_sitter.Tree | None = None
    candidates: list[Candidate] = []
    starts: list[int] = []
    if len(text) > target or natural:
        parsed = parsed_text(text, language)
        sliced = (
            language == "yaml" and len(data) <= PARSED_BYTES and parsed.count(b"\n") > LINES and not natural
        )
        if language and len(data) <= PARSED_BYTES and not sliced:
            tree = parse_bytes(parsed, language)
        if sliced and walk_slices(parsed, target, candidates):
            candidates = _closed(candidates, text, target)
        elif tree is not None and language is not None:
            walk(tree, text, target, candidates, (language, 0, 0, 0))
            if places and tree.root_node.has_error:
                candidates = _with_kept(candidates, places, text)
            candidates = _closed(candidates, text, target)
            starts = unit_starts(tree, text, language) if natural else []
            if parsed is not data or data.startswith(_MARK):
                tree = None  # its offsets are not those of the outline
        else:
            candidates = []
            _fill_all(text, target, candidates)
            starts = [place for place, cost, why in candidates if why == "blank" and cost < _PARAGRAPH]
    if natural:
        cuts = _packed_apart(candidates, [0, *starts, len(text)], target, places)
    else:
        cuts = packed(candidates, 0, len(text), target, places)
    return _made(text, cuts, places, (target, _outline(path, data, language, tree)))


def _parsable(data: bytes) -> bytes:
    """`data` with a line feed at the end of every line, and a letter for each byte beyond ASCII where it is not UTF-8.

    A file without a line feed has its lone carriage returns (old Mac) made into such.
    """
    text = data
    if not data.isascii():
        try:
            data.decode()
        except UnicodeDecodeError:
            text = data.translate(_HIGH)
    return text.replace(b"\r", b"\n") if b"\r" in text and b"\n" not in text else text


def _fill_all(text: bytes, limit: int, candidates: list[Candidate]) -> None:
    """Candidates by the lines, slice by slice, as those of all lines at once would take much memory."""
    start = 0
    while start < len(text):
        end = min(start + _SLICE, len(text))
        if end < len(text):
            end = text.rfind(b"\n", start, end) + 1 or text.find(b"\n", end) + 1 or len(text)
        found: list[Candidate] = []
        fill(text, (start, end), limit, found)
        if start:
            found.insert(0, (start, _POOR, "line"))
        candidates.extend(found if len(text) <= _SLICE else pruned(found, start, end, limit))
        start = end


def _with_kept(candidates: list[Candidate], kept: Collection[int], text: bytes) -> list[Candidate]:
    """The candidates, and those of an earlier split at line starts: where a syntax error hides what the text is made
    of, they know better."""
    by_place = {candidate[0]: candidate for candidate in candidates}
    for place in kept:
        if 0 < place < len(text) and text[place - 1] == 10 and text[place] not in b"\r\n":
            _, cost, why = by_place.get(place, (place, FAIR, "line"))
            by_place[place] = (place, min(cost, FAIR), why)
    return [by_place[place] for place in sorted(by_place)]


def _closed(candidates: list[Candidate], text: bytes, limit: int) -> list[Candidate]:
    """The candidates, with more of them wherever two neighbours are farther apart than a segment may be long."""
    places = [0, *(candidate[0] for candidate in candidates), len(text)]
    gaps = [n for n in range(len(places) - 1) if places[n + 1] - places[n] > limit]
    if not gaps:
        return candidates
    found: list[Candidate] = []
    done = 0
    for n in gaps:
        found.extend(candidates[done:n])
        done = n
        more: list[Candidate] = []
        fill(text, (places[n], places[n + 1]), limit, more, _POOR)
        found.extend(candidate for candidate in more if places[n] < candidate[0] < places[n + 1])
    found.extend(candidates[done:])
    return found


def _packed_apart(
    candidates: Sequence[Candidate], bounds: Sequence[int], limit: int, kept: Collection[int]
) -> list[Candidate]:
    """A cut at every one of `bounds` but the ends, and those within that are needed."""
    cuts: list[Candidate] = []
    number = 0
    why = {place: reason for place, _, reason in candidates}
    for first, last in pairwise(bounds):
        if first != bounds[0]:
            cuts.append((first, 0.0, why.get(first, "node")))
        while number < len(candidates) and candidates[number][0] <= first:
            number += 1
        begin = number
        while number < len(candidates) and candidates[number][0] < last:
            number += 1
        cuts.extend(packed(candidates[begin:number], first, last, limit, kept))
    return cuts


def _made(
    text: bytes,
    cuts: Sequence[Candidate],
    kept: Collection[int],
    how: tuple[int, Callable[[], Sequence[Symbol]]],
) -> tuple[Segment, ...]:
    target, outline = how
    places = [0, *(place for place, _, _ in cuts), len(text)]
    reasons: list[Boundary] = ["start", *("kept" if place in kept else why for place, _, why in cuts)]
    found: list[Segment] = []
    line, inside = 1, False
    for n, why in enumerate(reasons):
        breaks = text.count(b"\n", places[n], places[n + 1])
        whole = text[places[n + 1] - 1 : places[n + 1]] == b"\n"
        over = places[n + 1] - places[n] > target
        found.append(
            Segment(places[n], places[n + 1], line, line + breaks - whole, why, over, inside, outline)
        )
        line, inside = line + breaks, not whole
    return tuple(found)


def _outline(
    path: str, data: bytes, language: str | None, tree: tree_sitter.Tree | None
) -> Callable[[], Sequence[Symbol]]:
    """The symbols of the file when they are asked for, from the tree where that is at hand."""
    at_hand = [tree] if tree is not None else []

    @cache
    def found() -> Sequence[Symbol]:
        from repoagent.syntax.outline.outline import read_outline, symbols_of

        if at_hand and language is not None:
            return symbols_of(at_hand.pop(), data, language)
        read = read_outline(path, data, language)
        return read[0] if read is not None else ()

    return found
