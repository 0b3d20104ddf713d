"""The splitters to compare: each returns the pieces of a file, of at most `target` bytes where possible."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from importlib import import_module
from importlib.util import find_spec

OURS = "repoagent"
Splitter = Callable[[str, str, bytes, int], "list[bytes]"]  # kind, path, data, target -> pieces
GRAMMARS = {
    "python": "python", "javascript": "javascript", "typescript": "typescript language_typescript",
    "tsx": "typescript language_tsx", "java": "java", "go": "go", "rust": "rust", "c": "c", "cpp": "cpp",
    "json": "json", "yaml": "yaml", "xml": "xml language_xml", "markdown": "markdown", "html": "html",
    "css": "css", "bash": "bash",
}  # fmt: skip
_LANGCHAIN = {
    "python": "python", "javascript": "js", "typescript": "ts", "tsx": "ts", "java": "java", "go": "go", "rust": "rust",
    "c": "c", "cpp": "cpp", "markdown": "markdown", "html": "html", "rst": "rst",
}  # fmt: skip


def grammar(kind: str) -> object:
    """The language in the grammar's wheel, a pointer in a capsule."""
    module, _, function = GRAMMARS[kind].partition(" ")
    return getattr(import_module(f"tree_sitter_{module}"), function or "language")()


def ours(kind: str, path: str, data: bytes, target: int, kept: Sequence[int] = ()) -> list[bytes]:
    from repoagent.split.splitter import cut_into_spans

    return [data[start:end] for start, end, _ in cut_into_spans(path, data, target=target, kept=kept)[0]]


def blank_lines(kind: str, path: str, data: bytes, target: int) -> list[bytes]:
    """As many whole paragraphs as fit in a piece; longer paragraphs are cut into lines."""
    paragraphs: list[bytes] = []
    blank = True
    for line in data.splitlines(keepends=True):
        if paragraphs and not (blank and line.strip()):
            paragraphs[-1] += line
        else:
            paragraphs.append(line)
        blank = not line.strip()
    parts: list[bytes] = []
    for paragraph in paragraphs:
        parts += [paragraph] if len(paragraph) <= target else paragraph.splitlines(keepends=True)
    return _packed(parts, target)


def _packed(parts: list[bytes], target: int) -> list[bytes]:
    pieces: list[bytearray] = []
    for part in parts:
        for start in range(0, len(part), target):
            piece = part[start : start + target]
            if pieces and len(pieces[-1]) + len(piece) <= target:
                pieces[-1] += piece
            else:
                pieces.append(bytearray(piece))
    return [bytes(piece) for piece in pieces]


def langchain(kind: str, path: str, data: bytes, target: int) -> list[bytes]:
    """RecursiveCharacterTextSplitter with the separators of the language, without stripping or overlap."""
    from langchain_text_splitters import Language, RecursiveCharacterTextSplitter

    text = data.decode()
    measure = len if text.isascii() else _bytes
    options = {"chunk_size": target, "chunk_overlap": 0, "length_function": measure}
    options["strip_whitespace"] = False
    if kind in _LANGCHAIN:
        splitter = RecursiveCharacterTextSplitter.from_language(Language(_LANGCHAIN[kind]), **options)
    else:
        splitter = RecursiveCharacterTextSplitter(**options)
    return [chunk.encode() for chunk in splitter.split_text(text)]


def semantic(kind: str, path: str, data: bytes, target: int) -> list[bytes]:
    """semantic-text-splitter: CodeSplitter with the same grammar, MarkdownSplitter or TextSplitter, not trimmed."""
    import semantic_text_splitter as package

    text = data.decode()
    grammars: list[object] = []
    if kind == "markdown":
        splitter_class = package.MarkdownSplitter
    elif kind in GRAMMARS:
        splitter_class, grammars = package.CodeSplitter, [grammar(kind)]
    else:
        splitter_class = package.TextSplitter
    if text.isascii():
        splitter = splitter_class(*grammars, target, trim=False)
    else:
        splitter = splitter_class.from_callback(*grammars, _bytes, target, trim=False)
    return [chunk.encode() for chunk in splitter.chunks(text)]


def _bytes(text: str) -> int:
    return len(text.encode())


SPLITTERS: dict[str, Splitter] = {
    OURS: ours,
    "LangChain recursive": langchain,
    "semantic-text-splitter": semantic,
    "blank lines": blank_lines,
}
_NEEDS = {
    "LangChain recursive": "langchain_text_splitters",
    "semantic-text-splitter": "semantic_text_splitter",
}


@cache
def available() -> dict[str, Splitter]:
    """The installed splitters, repoagent first."""
    return {name: one for name, one in SPLITTERS.items() if name not in _NEEDS or find_spec(_NEEDS[name])}
