"""The language of a file, and the tree-sitter grammar of a language.

The grammars of `LANGUAGES` are dependencies. Those of `LONG_TAIL` come with the extra `[languages]`, from three kinds
of packages: one per language, such as `tree-sitter-ruby`, which is preferred; `tree-sitter-languages` (Python before
3.13), a shared library that is opened here because its loader fails with current versions of tree-sitter; and
`tree-sitter-language-pack`, of which only downloaded grammars are used.
"""

from __future__ import annotations

import ctypes
import re
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from repoagent.errors import UsageError, install_extra, install_package

if TYPE_CHECKING:
    import tree_sitter

_PACK = "tree_sitter_language_pack"
_CAPSULE = b"tree_sitter.Language"


class LanguageSpec(NamedTuple):
    """A language, the files that it applies to, and its grammar. `shebangs` are the programs in `#!` lines.

    The grammar comes from `function` in `tree_sitter_PACKAGE`, or is `library` in tree-sitter-languages. `library` is
    "" if the grammar is missing there, and for Scala and Julia, whose old scanners overflow their buffer or crash the
    process.
    """

    suffixes: tuple[str, ...]
    names: tuple[str, ...]
    shebangs: tuple[str, ...]
    package: str
    function: str
    library: str


def _spec(
    suffixes: str,
    package: str = "",
    library: str = "",
    *,
    function: str = "language",
    names: str = "",
    shebangs: str = "",
) -> LanguageSpec:
    files = tuple(names.split())
    return LanguageSpec(tuple(suffixes.split()), files, tuple(shebangs.split()), package, function, library)


LANGUAGES: dict[str, LanguageSpec] = {
    "python": _spec(
        ".py .pyi .pyw .bzl", "python", names="SConstruct SConscript wscript BUILD.bazel WORKSPACE.bazel",
        shebangs="python python2 python3 pypy pypy3",
    ),
    "javascript": _spec(".js .mjs .cjs .jsx", "javascript", shebangs="node nodejs bun"),
    "typescript": _spec(
        ".ts .mts .cts", "typescript", function="language_typescript", shebangs="deno ts-node tsx"
    ),
    "tsx": _spec(".tsx", "typescript", function="language_tsx"),
    "java": _spec(".java", "java"),
    "go": _spec(".go", "go"),
    "rust": _spec(".rs", "rust"),
    "c": _spec(".c .h", "c"),
    "cpp": _spec(".cc .cpp .cxx .c++ .hh .hpp .hxx .h++ .ipp .tpp .inl .cu .cuh .ino", "cpp"),
    "json": _spec(
        ".json .jsonc .geojson .webmanifest .code-workspace .ipynb .avsc .har", "json",
        names=".babelrc .eslintrc .prettierrc.json composer.lock Pipfile.lock flake.lock .swcrc",
    ),
    "yaml": _spec(".yaml .yml", "yaml", names=".clang-format .clang-tidy CITATION.cff"),
    "xml": _spec(
        ".xml .xsd .xsl .xslt .svg .rss .atom .plist .csproj .vbproj .fsproj .props .targets .nuspec .resx .xaml .wsdl "
        ".pom .xlf", "xml", function="language_xml",
    ),
    "markdown": _spec(".md .markdown .mkd .mdown", "markdown"),
    "html": _spec(".html .htm .xhtml", "html"),
    "css": _spec(".css", "css"),
    "bash": _spec(
        ".sh .bash .ebuild .bats", "bash", shebangs="sh bash dash ash ksh",
        names=".bashrc .bash_profile .bash_aliases .bash_logout .profile .envrc PKGBUILD APKBUILD",
    ),
}  # fmt: skip
LONG_TAIL: dict[str, LanguageSpec] = {
    "ruby": _spec(
        ".rb .rake .gemspec .ru .podspec", "ruby", "ruby", shebangs="ruby",
        names="Rakefile Gemfile Podfile Vagrantfile Fastfile Guardfile",
    ),
    "php": _spec(".php .phtml .php5", "php", "php", function="language_php", shebangs="php"),
    "csharp": _spec(".cs .csx", "c_sharp", "c_sharp"),
    "kotlin": _spec(".kt .kts", "kotlin", "kotlin", shebangs="kotlin"),
    "scala": _spec(".scala .sc .sbt", "scala", shebangs="scala"),
    "swift": _spec(".swift", "swift", shebangs="swift"),
    "objc": _spec(".m .mm", library="objc"),
    "dart": _spec(".dart", "dart", shebangs="dart"),
    "groovy": _spec(".groovy .gradle", "groovy", names="Jenkinsfile", shebangs="groovy"),
    "lua": _spec(".lua .rockspec", "lua", "lua", shebangs="lua luajit"),
    "perl": _spec(".pl .pm .t .psgi", "perl", "perl", names="cpanfile", shebangs="perl"),
    "r": _spec(".r", library="r", names=".Rprofile", shebangs="Rscript"),
    "julia": _spec(".jl", "julia", shebangs="julia"),
    "haskell": _spec(".hs", "haskell", "haskell", shebangs="runhaskell runghc"),
    "elixir": _spec(".ex .exs", "elixir", "elixir", shebangs="elixir"),
    "erlang": _spec(".erl .hrl", library="erlang", names="rebar.config", shebangs="escript"),
    "ocaml": _spec(".ml", "ocaml", "ocaml", function="language_ocaml"),
    "elm": _spec(".elm", library="elm"),
    "fsharp": _spec(".fs .fsx"),
    "clojure": _spec(".clj .cljs .cljc .edn"),
    "commonlisp": _spec(".lisp .lsp .cl .asd", library="commonlisp"),
    "scheme": _spec(".scm .ss"),
    "racket": _spec(".rkt", shebangs="racket"),
    "elisp": _spec(".el", library="elisp", names=".emacs"),
    "zig": _spec(".zig .zon", "zig"),
    "nim": _spec(".nim .nims"),
    "fortran": _spec(".f90 .f95 .f03 .f08", library="fortran"),
    "pascal": _spec(".pas .pp .dpr"),
    "ada": _spec(".adb .ads"),
    "solidity": _spec(".sol"),
    "sql": _spec(".sql", "sql", "sql"),
    "graphql": _spec(".graphql .gql", "graphql"),
    "proto": _spec(".proto"),
    "thrift": _spec(".thrift"),
    "toml": _spec(".toml", "toml", "toml", names="Cargo.lock poetry.lock Pipfile uv.lock"),
    "ini": _spec(
        ".ini .cfg .desktop .service", names=".editorconfig .gitconfig .npmrc .pylintrc .flake8"
    ),
    "properties": _spec(".properties"),
    "hcl": _spec(".hcl .tf .tfvars .nomad", "hcl", "hcl"),
    "nix": _spec(".nix"),
    "make": _spec(".mk .mak", "make", "make", names="Makefile makefile GNUmakefile Kbuild"),
    "cmake": _spec(".cmake", "cmake", names="CMakeLists.txt"),
    "dockerfile": _spec(".dockerfile", "dockerfile", "dockerfile", names="Dockerfile Containerfile"),
    "starlark": _spec(".star"),
    "vue": _spec(".vue"),
    "svelte": _spec(".svelte", "svelte"),
    "scss": _spec(".scss", "scss"),
    "powershell": _spec(".ps1 .psm1 .psd1", shebangs="pwsh"),
    "fish": _spec(".fish", shebangs="fish"),
    "tcl": _spec(".tcl", shebangs="tclsh wish"),
    "vim": _spec(".vim", names=".vimrc"),
    "latex": _spec(".tex .sty .cls"),
    "glsl": _spec(".glsl .vert .frag"),
    "verilog": _spec(".v .sv .svh"),
    "vhdl": _spec(".vhd .vhdl"),
    "matlab": _spec(".matlab"),
}  # fmt: skip
_SPECS = {**LONG_TAIL, **LANGUAGES}
_BY_SUFFIX = {suffix: language for language, spec in _SPECS.items() for suffix in spec.suffixes}
_BY_NAME = {name: language for language, spec in _SPECS.items() for name in spec.names}
_BY_PROGRAM = {program: language for language, spec in _SPECS.items() for program in spec.shebangs}

# The program of `#!/usr/bin/env -S VAR=1 python3.12 -u` or `#!/bin/sh -e`.
_SHEBANG = re.compile(rb"#![ \t]*(?:\S*/env[ \t]+(?:-\S+[ \t]+|\w+=\S*[ \t]+)*)?(\S+)")
_CPP_IN_HEADER = re.compile(
    rb"\n[ \t]*(?:class\s+\w[^;()]*[{:]|namespace\b|template\s*<|using\s+\w|(?:public|private|protected)\s*:)"
)
_CPP_WORD = re.compile(rb"\b(?:std::|constexpr\b|noexcept\b)")
_SNIFF = 8000  # bytes to read; as many as git reads to recognize a binary file
_HEADER_SNIFF = 64_000
UTF16_MARKS = (b"\xff\xfe", b"\xfe\xff")


def language_of(path: str, data: bytes) -> str | None:
    """The language of a file, as from `guess_language`, but None if its grammar is not installed."""
    language = guess_language(path, data)
    return language if language in LANGUAGES or (language is not None and is_available(language)) else None


def is_binary(data: bytes) -> bool:
    """Whether git considers the file binary; False for UTF-16 with a byte-order mark."""
    return b"\0" in data[:_SNIFF] and not data.startswith(UTF16_MARKS)


def guess_language(path: str, data: bytes) -> str | None:
    """The language of a file, a key of `LANGUAGES` or `LONG_TAIL`; None if it is unknown or the file is binary.

    The first 64 kB of the file are enough `data`: they contain the `#!` line (`run.sh` may be a zsh script), and
    distinguish C++ headers from C headers.
    """
    if is_binary(data):
        return None
    name = path.rsplit("/", 1)[-1]
    dot = name.rfind(".")
    suffix = name[dot:].lower() if dot > 0 else ""
    language = _BY_NAME.get(name) or _BY_SUFFIX.get(suffix)
    shebang = _SHEBANG.match(data.removeprefix(b"\xef\xbb\xbf")[:200])
    if shebang and language in (None, "bash"):
        program = shebang[1].rsplit(b"/", 1)[-1].decode("ascii", "replace")
        language = _BY_PROGRAM.get(program) or _BY_PROGRAM.get(program.rstrip("0123456789."))
    if language == "c" and suffix == ".h":
        head = b"\n" + data[:_HEADER_SNIFF]
        # Without the search for the words themselves, the pattern takes milliseconds.
        has_word = any(word in head for word in (b"std::", b"constexpr", b"noexcept"))
        if (has_word and _CPP_WORD.search(head)) or _CPP_IN_HEADER.search(head):
            return "cpp"
    if language == "typescript" and data.lstrip()[:5] in (b"<?xml", b"<!DOC"):
        return "xml"  # Qt translations
    return language


@cache
def load_grammar(language: str) -> tree_sitter.Language:
    """The grammar of `language`, loaded on first use in 1 to 15 ms. Raises UsageError for an unknown language, and for
    a grammar that is not installed; the message has the command to install it."""
    import tree_sitter

    if language not in _SPECS:
        raise UsageError(f"unknown language {language!r}; choose one of {', '.join(sorted(LANGUAGES))}")
    if (capsule := grammar_capsule(language)) is not None:
        return tree_sitter.Language(capsule)
    if language in _downloaded():
        downloaded: tree_sitter.Language = import_module(_PACK).get_language(language)
        return downloaded
    raise UsageError(f"the {language} grammar is not installed; {install_hint(language)}")


def is_available(language: str) -> bool:
    """Whether the grammar of a language in `LONG_TAIL` can be loaded without a download."""
    in_library = bool(LONG_TAIL[language].library) and _library() is not None
    return bool(_package(language)) or in_library or language in _downloaded()


def install_hint(language: str) -> str:
    """How to install the grammar of this language, as a clause."""
    package, has_pack = LONG_TAIL[language].package, find_spec(_PACK) is not None
    if package and (has_pack or _library() is not None):
        return install_package(f"tree-sitter-{package.replace('_', '-')}")
    if has_pack:
        return f"download it with python -c 'import {_PACK} as pack; pack.download([\"{language}\"])'"
    if _library() is not None:
        install = install_package("tree-sitter-language-pack")
        return f"tree-sitter-languages does not include it; {install}, then download it"
    return install_extra("languages")


def grammar_capsule(language: str) -> object | None:
    """The grammar from its package or from tree-sitter-languages; None if neither is installed."""
    if package := _package(language):
        capsule: object = getattr(import_module(package), _SPECS[language].function)()
        return capsule
    name, library = _SPECS[language].library, _library()
    if not name or library is None:
        return None
    function = getattr(ctypes.CDLL(str(library)), f"tree_sitter_{name}")
    function.restype = ctypes.c_void_p
    return capsule_of(function())


@cache
def _package(language: str) -> str:
    """The module of the package with only this grammar; "" if it is not installed."""
    package = _SPECS[language].package
    module = f"tree_sitter_{package}"
    return module if package and (language in LANGUAGES or find_spec(module) is not None) else ""


@cache
def _library() -> Path | None:
    """The shared library of tree-sitter-languages, without importing the package; None if it is not installed."""
    spec = find_spec("tree_sitter_languages")
    for folder in (spec.submodule_search_locations or ()) if spec is not None else ():
        for suffix in (".so", ".dll", ".dylib"):
            if (file := Path(folder, f"languages{suffix}")).is_file():
                return file
    return None


@cache
def _downloaded() -> frozenset[str]:
    """The grammars of tree-sitter-language-pack that were downloaded."""
    if find_spec(_PACK) is None:
        return frozenset()
    downloaded = getattr(import_module(_PACK), "downloaded_languages", None)
    return frozenset(downloaded()) if downloaded is not None else frozenset()


def capsule_of(address: int) -> object:
    """The capsule for a grammar at an address in memory, as grammar packages return it."""
    new = ctypes.pythonapi.PyCapsule_New
    new.restype = ctypes.py_object
    new.argtypes = (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)
    capsule: object = new(address, _CAPSULE, None)
    return capsule


def address_of(capsule: object) -> int:
    """The address of the grammar in a capsule; the inverse of `capsule_of`."""
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype = ctypes.c_void_p
    pointer.argtypes = (ctypes.py_object, ctypes.c_char_p)
    address: int = pointer(capsule, _CAPSULE)
    return address
