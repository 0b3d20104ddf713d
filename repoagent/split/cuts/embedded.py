"""Which language the text of a leaf is in: scripts and styles in HTML, fences and front matter in Markdown."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from repoagent.split.languages import LANGUAGES, language_of

if TYPE_CHECKING:
    import tree_sitter

_NAMES = {
    "js": "javascript",
    "jsx": "javascript",
    "mjs": "javascript",
    "node": "javascript",
    "ts": "typescript",
    "py": "python",
    "python3": "python",
    "pycon": "python",
    "golang": "go",
    "rs": "rust",
    "c++": "cpp",
    "cc": "cpp",
    "hpp": "cpp",
    "h": "c",
    "sh": "bash",
    "shell": "bash",
    "console": "bash",
    "zsh": "bash",
    "yml": "yaml",
    "jsonc": "json",
    "json5": "json",
    "svg": "xml",
    "htm": "html",
    "vue": "html",
    "md": "markdown",
}
_TYPE = re.compile(rb"\b(?:type|lang)\s*=\s*[\"']?([\w/+.-]+)", re.IGNORECASE)
_WHOLE = {"html_block": "html", "minus_metadata": "yaml"}


def embedded_language(node: tree_sitter.Node, text: bytes) -> str | None:
    """The language of a leaf that holds text of another one, or None. `text` is what was parsed."""
    kind = node.type
    if kind in _WHOLE:
        return _WHOLE[kind]
    if kind not in ("raw_text", "code_fence_content"):
        return None
    parent = node.parent
    if parent is None:
        return None
    head = text[parent.start_byte : node.start_byte][:400]
    if kind == "code_fence_content":
        words = head.strip(b"`~ \t\r\n{.").split()
        return _named(re.split(rb"[^\w+#-]", words[0])[0]) if words else None
    named = _TYPE.search(head)
    if parent.type == "style_element":
        return "css" if named is None or b"css" in named[1] else None
    if named is None or re.search(rb"(?i)javascript|module|ecmascript|babel|jsx?$", named[1]):
        return "javascript"
    if b"json" in named[1] or named[1] == b"importmap":
        return "json"
    return "typescript" if named[1] in (b"ts", b"tsx") else "html" if b"html" in named[1] else None


def _named(name: bytes) -> str | None:
    word = name.decode("ascii", "replace").lower()
    word = _NAMES.get(word, word)
    if word in LANGUAGES:
        return word
    return language_of(f"x.{word}", b"") if word else None
