"""Which language a file is written in, and the tree-sitter grammar of a language."""

from __future__ import annotations

import re
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING

from repoagent.dataclass import dataclass
from repoagent.errors import UsageError
from repoagent.split.long_tail import LONG_TAIL, Tail, at_hand, load, tail_capsule

if TYPE_CHECKING:
    import tree_sitter


@dataclass(frozen=True)
class Spec:
    """How a language is recognised and where its grammar is: `function` of the package `module`."""

    module: str
    suffixes: tuple[str, ...]
    names: tuple[str, ...] = ()
    shebangs: tuple[str, ...] = ()
    function: str = "language"


LANGUAGES: dict[str, Spec] = {
    "python": Spec(
        "tree_sitter_python",
        (".py", ".pyi", ".pyw", ".bzl"),
        ("SConstruct", "SConscript", "wscript", "BUILD.bazel", "WORKSPACE.bazel"),
        ("python", "python2", "python3", "pypy", "pypy3"),
    ),
    "javascript": Spec(
        "tree_sitter_javascript", (".js", ".mjs", ".cjs", ".jsx"), shebangs=("node", "nodejs", "bun")
    ),
    "typescript": Spec(
        "tree_sitter_typescript",
        (".ts", ".mts", ".cts"),
        shebangs=("deno", "ts-node", "tsx"),
        function="language_typescript",
    ),
    "tsx": Spec("tree_sitter_typescript", (".tsx",), function="language_tsx"),
    "java": Spec("tree_sitter_java", (".java",)),
    "go": Spec("tree_sitter_go", (".go",)),
    "rust": Spec("tree_sitter_rust", (".rs",)),
    "c": Spec("tree_sitter_c", (".c", ".h")),
    "cpp": Spec(
        "tree_sitter_cpp",
        (
            ".cc",
            ".cpp",
            ".cxx",
            ".c++",
            ".hh",
            ".hpp",
            ".hxx",
            ".h++",
            ".ipp",
            ".tpp",
            ".inl",
            ".cu",
            ".cuh",
            ".ino",
        ),
    ),
    "json": Spec(
        "tree_sitter_json",
        (".json", ".jsonc", ".geojson", ".webmanifest", ".code-workspace", ".ipynb", ".avsc", ".har"),
        (
            ".babelrc",
            ".eslintrc",
            ".prettierrc.json",
            "composer.lock",
            "Pipfile.lock",
            "flake.lock",
            ".swcrc",
        ),
    ),
    "yaml": Spec("tree_sitter_yaml", (".yaml", ".yml"), (".clang-format", ".clang-tidy", "CITATION.cff")),
    "xml": Spec(
        "tree_sitter_xml",
        (
            ".xml",
            ".xsd",
            ".xsl",
            ".xslt",
            ".svg",
            ".rss",
            ".atom",
            ".plist",
            ".csproj",
            ".vbproj",
            ".fsproj",
            ".props",
            ".targets",
            ".nuspec",
            ".resx",
            ".xaml",
            ".wsdl",
            ".pom",
            ".xlf",
        ),
        function="language_xml",
    ),
    "markdown": Spec("tree_sitter_markdown", (".md", ".markdown", ".mkd", ".mdown")),
    "html": Spec("tree_sitter_html", (".html", ".htm", ".xhtml")),
    "css": Spec("tree_sitter_css", (".css",)),
    "bash": Spec(
        "tree_sitter_bash",
        (".sh", ".bash", ".ebuild", ".bats"),
        (
            ".bashrc",
            ".bash_profile",
            ".bash_aliases",
            ".bash_logout",
            ".profile",
            ".envrc",
            "PKGBUILD",
            "APKBUILD",
        ),
        ("sh", "bash", "dash", "ash", "ksh"),
    ),
}

# The core comes last: what is in both belongs to it.
_ALL: tuple[tuple[str, Spec | Tail], ...] = (*LONG_TAIL.items(), *LANGUAGES.items())
_BY_SUFFIX = {suffix: name for name, spec in _ALL for suffix in spec.suffixes}
_BY_NAME = {file: name for name, spec in _ALL for file in spec.names}
_BY_PROGRAM = {program: name for name, spec in _ALL for program in spec.shebangs}

# The program of `#!/usr/bin/env -S VAR=1 python3.12 -u` or `#!/bin/sh -e`.
_SHEBANG = re.compile(rb"#![ \t]*(?:\S*/env[ \t]+(?:-\S+[ \t]+|\w+=\S*[ \t]+)*)?(\S+)")
_CPP_IN_HEADER = re.compile(
    rb"\n[ \t]*(?:class\s+\w[^;()]*[{:]|namespace\b|template\s*<|using\s+\w|(?:public|private|protected)\s*:)"
)
_CPP_WORD = re.compile(rb"\b(?:std::|constexpr\b|noexcept\b)")
_CPP_WORDS = (b"std::", b"constexpr", b"noexcept")
_SNIFF = 8000  # bytes looked at, as git does to tell text from binary
_HEADER_SNIFF = 64_000
UTF16_MARKS = (b"\xff\xfe", b"\xfe\xff")


def language_of(path: str, data: bytes) -> str | None:
    """The language of a file, or None where its grammar is not at hand or the file is binary.

    It is a key of `LANGUAGES`, or of `LONG_TAIL` where the extra `[languages]` is installed. See `written_in` for
    what it goes by.
    """
    found = written_in(path, data)
    return found if found in LANGUAGES or (found is not None and at_hand(found)) else None


def is_binary(data: bytes) -> bool:
    """Whether a file is binary, as git has it, but for UTF-16 with a byte-order mark."""
    return b"\0" in data[:_SNIFF] and not data.startswith(UTF16_MARKS)


def written_in(path: str, data: bytes) -> str | None:
    """The language of a file, its grammar at hand or not; None where it is not known or the file is binary.

    `path` gives the suffix or the name, `data` (the content, or the first 64 kB of it) the `#!` line and what
    tells C++ headers from C ones. A `#!` line wins over the suffix: `run.sh` may be a zsh script.
    """
    if is_binary(data):
        return None
    name = path.rsplit("/", 1)[-1]
    shebang = _SHEBANG.match(data.removeprefix(b"\xef\xbb\xbf")[:200])
    dot = name.rfind(".")
    suffix = name[dot:].lower() if dot > 0 else ""
    found = _BY_NAME.get(name) or _BY_SUFFIX.get(suffix)
    if shebang and found in (None, "bash"):
        found = _by_program(shebang[1])
    if found == "c" and suffix == ".h" and _is_cpp(b"\n" + data[:_HEADER_SNIFF]):
        return "cpp"
    if found == "typescript" and data.lstrip()[:5] in (b"<?xml", b"<!DOC"):
        return "xml"  # Qt translations
    return found


def _is_cpp(head: bytes) -> bool:
    # The search for the words alone takes milliseconds.
    if any(word in head for word in _CPP_WORDS) and _CPP_WORD.search(head):
        return True
    return _CPP_IN_HEADER.search(head) is not None


def _by_program(program: bytes) -> str | None:
    name = program.rsplit(b"/", 1)[-1].decode("ascii", "replace")
    return _BY_PROGRAM.get(name) or _BY_PROGRAM.get(name.rstrip("0123456789."))


@cache
def grammar(language: str) -> tree_sitter.Language:
    """The grammar of `language` (a key of `LANGUAGES` or `LONG_TAIL`), loaded at first use: 1 to 15 ms each.

    Raises UsageError for a language without one, and says how to get it where that is possible.
    """
    import tree_sitter

    if language not in LANGUAGES and language not in LONG_TAIL:
        raise UsageError(f"there is no grammar for {language!r}; there are: {', '.join(sorted(LANGUAGES))}")
    capsule = capsule_for(language)
    return load(language) if capsule is None else tree_sitter.Language(capsule)


def capsule_for(language: str) -> object | None:
    """The grammar as its package hands it over; None where no package has it in this form."""
    if language in LONG_TAIL:
        return tail_capsule(language)
    spec = LANGUAGES[language]
    found: object = getattr(import_module(spec.module), spec.function)()
    return found
