"""Which language a file is in, and the tree-sitter grammar of a language.

The grammars of `LANGUAGES` are dependencies. Those of `LONG_TAIL` come with the extra `[languages]`, from three kinds
of packages: one per language, such as `tree-sitter-ruby`, which is used first; `tree-sitter-languages` (Python before
3.13), a shared library that is opened here because its own loader fails with today's tree-sitter; and
`tree-sitter-language-pack`, of which only grammars are used that the user has downloaded.
"""

from __future__ import annotations

import ctypes
import re
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from repoagent.dataclass import dataclass
from repoagent.errors import UsageError, install_extra, install_package

if TYPE_CHECKING:
    import tree_sitter

LIBRARY = "tree_sitter_languages"
PACK = "tree_sitter_language_pack"
CAPSULE = b"tree_sitter.Language"


# The languages with a package of their own that works, `tree_sitter_` and the name, and the function that returns the
# grammar.
OWN = {
    **dict.fromkeys(
        (
            "ruby", "kotlin", "scala", "swift", "lua", "perl", "elixir", "haskell", "dart", "sql", "toml", "make",
            "cmake", "dockerfile", "hcl", "graphql", "svelte", "scss", "zig", "julia", "groovy", "csharp",
        ),
        "language",
    ),
    "php": "language_php",
    "ocaml": "language_ocaml",
}  # fmt: skip
_OWN_NAMES = {"csharp": "c_sharp"}


class TailLanguage(NamedTuple):
    """A language by its suffixes, file names and `#!` programs. `pack` is its name in tree-sitter-language-pack,
    `library` that in tree-sitter-languages: "" if it is missing there, and for Scala and Julia, whose old scanners
    overflow their buffer or end the process."""

    suffixes: tuple[str, ...]
    library: str
    pack: str
    names: tuple[str, ...] = ()
    shebangs: tuple[str, ...] = ()


def _tail(
    name: str,
    suffixes: str,
    library: str | None = None,
    *,
    pack: str = "",
    names: str = "",
    shebangs: str = "",
) -> tuple[str, TailLanguage]:
    """`library` is None for the name of the language, "" if it is missing there."""
    inside = name if library is None else library
    return name, TailLanguage(
        tuple(suffixes.split()), inside, pack or name, tuple(names.split()), tuple(shebangs.split())
    )


LONG_TAIL: dict[str, TailLanguage] = dict(
    (
        _tail("ruby", ".rb .rake .gemspec .ru .podspec", shebangs="ruby",
              names="Rakefile Gemfile Podfile Vagrantfile Fastfile Guardfile"),
        _tail("php", ".php .phtml .php5", shebangs="php"),
        _tail("csharp", ".cs .csx", "c_sharp"),
        _tail("kotlin", ".kt .kts", shebangs="kotlin"),
        _tail("scala", ".scala .sc .sbt", "", shebangs="scala"),
        _tail("swift", ".swift", "", shebangs="swift"),
        _tail("objc", ".m .mm"),
        _tail("dart", ".dart", "", shebangs="dart"),
        _tail("groovy", ".groovy .gradle", "", names="Jenkinsfile", shebangs="groovy"),
        _tail("lua", ".lua .rockspec", shebangs="lua luajit"),
        _tail("perl", ".pl .pm .t .psgi", names="cpanfile", shebangs="perl"),
        _tail("r", ".r", names=".Rprofile", shebangs="Rscript"),
        _tail("julia", ".jl", "", shebangs="julia"),
        _tail("haskell", ".hs", shebangs="runhaskell runghc"),
        _tail("elixir", ".ex .exs", shebangs="elixir"),
        _tail("erlang", ".erl .hrl", names="rebar.config", shebangs="escript"),
        _tail("ocaml", ".ml"),
        _tail("elm", ".elm"),
        _tail("fsharp", ".fs .fsx", ""),
        _tail("clojure", ".clj .cljs .cljc .edn", ""),
        _tail("commonlisp", ".lisp .lsp .cl .asd"),
        _tail("scheme", ".scm .ss", ""),
        _tail("racket", ".rkt", "", shebangs="racket"),
        _tail("elisp", ".el", names=".emacs"),
        _tail("zig", ".zig .zon", ""),
        _tail("nim", ".nim .nims", ""),
        _tail("fortran", ".f90 .f95 .f03 .f08"),
        _tail("pascal", ".pas .pp .dpr", ""),
        _tail("ada", ".adb .ads", ""),
        _tail("solidity", ".sol", ""),
        _tail("sql", ".sql"),
        _tail("graphql", ".graphql .gql", ""),
        _tail("proto", ".proto", ""),
        _tail("thrift", ".thrift", ""),
        _tail("toml", ".toml", names="Cargo.lock poetry.lock Pipfile uv.lock"),
        _tail("ini", ".ini .cfg .desktop .service", "", names=".editorconfig .gitconfig .npmrc .pylintrc .flake8"),
        _tail("properties", ".properties", ""),
        _tail("hcl", ".hcl .tf .tfvars .nomad"),
        _tail("nix", ".nix", ""),
        _tail("make", ".mk .mak", names="Makefile makefile GNUmakefile Kbuild"),
        _tail("cmake", ".cmake", "", names="CMakeLists.txt"),
        _tail("dockerfile", ".dockerfile", names="Dockerfile Containerfile"),
        _tail("starlark", ".star", ""),
        _tail("vue", ".vue", ""),
        _tail("svelte", ".svelte", ""),
        _tail("scss", ".scss", ""),
        _tail("powershell", ".ps1 .psm1 .psd1", "", shebangs="pwsh"),
        _tail("fish", ".fish", "", shebangs="fish"),
        _tail("tcl", ".tcl", "", shebangs="tclsh wish"),
        _tail("vim", ".vim", "", names=".vimrc"),
        _tail("latex", ".tex .sty .cls", ""),
        _tail("glsl", ".glsl .vert .frag", ""),
        _tail("verilog", ".v .sv .svh", ""),
        _tail("vhdl", ".vhd .vhdl", ""),
        _tail("matlab", ".matlab", ""),
    )
)  # fmt: skip


def is_available(language: str) -> bool:
    """Whether the grammar of a language of the long tail can be loaded without a download."""
    tail = LONG_TAIL[language]
    return bool(_own(language) or (tail.library and _library() is not None)) or tail.pack in _fetched()


def load(language: str) -> tree_sitter.Language:
    """The grammar of a language of the long tail. Raises UsageError that says how to install it."""
    import tree_sitter

    tail = LONG_TAIL[language]
    if (capsule := tail_capsule(language)) is not None:
        return tree_sitter.Language(capsule)
    if tail.pack in _fetched():
        found: tree_sitter.Language = import_module(PACK).get_language(tail.pack)
        return found
    raise UsageError(f"the grammar of {language} is not installed; {install_hint(language)}")


@cache
def second_grammar(language: str) -> tree_sitter.Language | None:
    """Another grammar to try where the first fails, if both are installed: the two for Kotlin fail on different
    constructs."""
    import tree_sitter

    shared = _shared(language) if language == "kotlin" and _own(language) else None
    return None if shared is None else tree_sitter.Language(shared)


def tail_capsule(language: str) -> object | None:
    """The grammar from its own package or tree-sitter-languages; None if neither is installed."""
    if own := _own(language):
        found: object = getattr(import_module(own), OWN[language])()
        return found
    return _shared(language)


def _shared(language: str) -> object | None:
    """The grammar in the shared library of tree-sitter-languages."""
    tail, library = LONG_TAIL[language], _library()
    if not tail.library or library is None:
        return None
    maker = getattr(ctypes.CDLL(str(library)), f"tree_sitter_{tail.library}")
    maker.restype = ctypes.c_void_p
    return capsule_of(maker())


def capsule_of(address: int) -> object:
    """The capsule for a grammar at an address in memory, as packages of grammars return it."""
    capsule = ctypes.pythonapi.PyCapsule_New
    capsule.restype = ctypes.py_object
    capsule.argtypes = (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)
    found: object = capsule(address, CAPSULE, None)
    return found


def install_hint(language: str) -> str:
    """How to install the grammar of this language, as a clause."""
    tail = LONG_TAIL[language]
    if language in OWN and (find_spec(PACK) is not None or _library() is not None):
        return install_package(f"tree-sitter-{_own_name(language).replace('_', '-')}")
    if find_spec(PACK) is not None:
        return f"download it with python -c 'import {PACK} as pack; pack.download([\"{tail.pack}\"])'"
    if _library() is not None:
        pack = install_package("tree-sitter-language-pack")
        return f"tree-sitter-languages lacks it; {pack} and download it"
    return install_extra("languages")


def _own_name(language: str) -> str:
    return _OWN_NAMES.get(language, language)


@cache
def _own(language: str) -> str:
    """The package for this grammar alone if it is installed, else ""."""
    module = f"tree_sitter_{_own_name(language)}"
    return module if language in OWN and find_spec(module) is not None else ""


@cache
def _library() -> Path | None:
    """The shared library of tree-sitter-languages, without importing the package; None if it is not installed."""
    spec = find_spec(LIBRARY)
    for folder in (spec.submodule_search_locations or ()) if spec is not None else ():
        for suffix in (".so", ".dll", ".dylib"):
            if (file := Path(folder, f"languages{suffix}")).is_file():
                return file
    return None


@cache
def _fetched() -> frozenset[str]:
    """The grammars of tree-sitter-language-pack that were downloaded."""
    if find_spec(PACK) is None:
        return frozenset()
    pack = import_module(PACK)
    listed = getattr(pack, "downloaded_languages", None)
    return frozenset(listed()) if listed is not None else frozenset()


@dataclass(frozen=True)
class LanguageSpec:
    """How to recognize a language, and its grammar: `function` of the package `module`."""

    module: str
    suffixes: tuple[str, ...]
    names: tuple[str, ...] = ()
    shebangs: tuple[str, ...] = ()
    function: str = "language"


LANGUAGES: dict[str, LanguageSpec] = {
    "python": LanguageSpec(
        "tree_sitter_python",
        (".py", ".pyi", ".pyw", ".bzl"),
        ("SConstruct", "SConscript", "wscript", "BUILD.bazel", "WORKSPACE.bazel"),
        ("python", "python2", "python3", "pypy", "pypy3"),
    ),
    "javascript": LanguageSpec(
        "tree_sitter_javascript", (".js", ".mjs", ".cjs", ".jsx"), shebangs=("node", "nodejs", "bun")
    ),
    "typescript": LanguageSpec(
        "tree_sitter_typescript",
        (".ts", ".mts", ".cts"),
        shebangs=("deno", "ts-node", "tsx"),
        function="language_typescript",
    ),
    "tsx": LanguageSpec("tree_sitter_typescript", (".tsx",), function="language_tsx"),
    "java": LanguageSpec("tree_sitter_java", (".java",)),
    "go": LanguageSpec("tree_sitter_go", (".go",)),
    "rust": LanguageSpec("tree_sitter_rust", (".rs",)),
    "c": LanguageSpec("tree_sitter_c", (".c", ".h")),
    "cpp": LanguageSpec(
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
    "json": LanguageSpec(
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
    "yaml": LanguageSpec(
        "tree_sitter_yaml", (".yaml", ".yml"), (".clang-format", ".clang-tidy", "CITATION.cff")
    ),
    "xml": LanguageSpec(
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
    "markdown": LanguageSpec("tree_sitter_markdown", (".md", ".markdown", ".mkd", ".mdown")),
    "html": LanguageSpec("tree_sitter_html", (".html", ".htm", ".xhtml")),
    "css": LanguageSpec("tree_sitter_css", (".css",)),
    "bash": LanguageSpec(
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

# The core comes last, so that it wins.
_ALL: tuple[tuple[str, LanguageSpec | TailLanguage], ...] = (*LONG_TAIL.items(), *LANGUAGES.items())
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
    """The language of a file, a key of `LANGUAGES` or `LONG_TAIL`; None if its grammar is not installed or the file is
    binary. See `guess_language`."""
    found = guess_language(path, data)
    return found if found in LANGUAGES or (found is not None and is_available(found)) else None


def is_binary(data: bytes) -> bool:
    """Whether a file is binary as git defines it, except UTF-16 with a byte-order mark."""
    return b"\0" in data[:_SNIFF] and not data.startswith(UTF16_MARKS)


def guess_language(path: str, data: bytes) -> str | None:
    """The language of a file, whether or not its grammar is installed; None if it is unknown or the file is binary.

    `path` has the suffix or the name, `data` (the content, or its first 64 kB) the `#!` line, and distinguishes C++
    headers from C ones. A `#!` line wins over the suffix: `run.sh` may be a zsh script.
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
    """The grammar of `language` (a key of `LANGUAGES` or `LONG_TAIL`), loaded on first use, which takes 1 to 15 ms.

    Raises UsageError for an unknown language, and for a grammar that is not installed, with how to install it.
    """
    import tree_sitter

    if language not in LANGUAGES and language not in LONG_TAIL:
        raise UsageError(f"unknown language {language!r}; the languages are: {', '.join(sorted(LANGUAGES))}")
    capsule = capsule_for(language)
    return load(language) if capsule is None else tree_sitter.Language(capsule)


def capsule_for(language: str) -> object | None:
    """The capsule of the grammar from its package; None if no installed package has one."""
    if language in LONG_TAIL:
        return tail_capsule(language)
    spec = LANGUAGES[language]
    found: object = getattr(import_module(spec.module), spec.function)()
    return found
