"""Which occurrences of a name are uses of a symbol: by what the symbol is, and by the file that they are in."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import PurePath

from repoagent.repo.worktree import WorkTree
from repoagent.split.symbols.occurrences import Occurrence
from repoagent.split.symbols.roles import Role
from repoagent.split.symbols.symbol import Symbol
from repoagent.uses.scanning import Scan, data_of
from repoagent.uses.values import HOLDERS, Definition

# Where a method is called by its name alone in its own class.
_WITHOUT_SELF = (".java", ".cc", ".cpp", ".cxx", ".h", ".hh", ".hpp", ".cs", ".kt", ".swift", ".scala", ".rb")


def wanted_roles(meant: Sequence[Definition], scans: Mapping[str, Scan]) -> frozenset[Role]:
    """As what a use of this symbol may stand there: a module's function alone or through its module, a method after a
    value; of what is no function, method or type every name that fits."""
    roles: set[Role] = {"text", "qualified"}
    if not meant or any(one.kind == "field" for one in meant):
        return frozenset({*roles, "name", "member", "attribute", "key", "local"})
    for one in meant:
        if _is_member(one, scans[one.path].symbols):
            roles |= {"member", "attribute"}
            if one.path.endswith(_WITHOUT_SELF):
                roles.add("name")
        else:
            roles.add("name")
            if not scans[one.path].parsed:
                roles |= {"member", "attribute", "key"}
    return frozenset(roles)


def _is_member(one: Definition, symbols: Sequence[Symbol]) -> bool:
    if one.kind == "method":
        return True
    if "." not in one.name:
        return False
    holder = one.name.rpartition(".")[0]
    holders = [symbol.kind for symbol in symbols if symbol.qualified_name == holder]
    return not holders or any(kind in HOLDERS for kind in holders)


def _is_another(path: str, own: Sequence[Occurrence], home: str) -> bool:
    """Whether the name alone means something else there: the file has its own, or, in Go, is of another package."""
    if path.endswith(".go") and home.endswith(".go") and path.rpartition("/")[0] != home.rpartition("/")[0]:
        return True
    return any(one.role == "definition" for one in own)


_FAMILIES = {
    suffix: family
    for family, suffixes in {
        "python": ".py .pyi .pyx",
        "script": ".js .jsx .mjs .cjs .ts .tsx .mts .cts .vue .svelte",
        "c": ".c .h .cc .cpp .cxx .hh .hpp .m .mm",
        "jvm": ".java .kt .scala .groovy",
        "go": ".go",
        "rust": ".rs",
        "ruby": ".rb",
        "php": ".php",
    }.items()
    for suffix in suffixes.split()
}


def family(path: str) -> str:
    """The languages that call each other's methods; "" for any other."""
    return _FAMILIES.get(PurePath(path).suffix, "")


def modules_of(worktree: WorkTree, home: str) -> frozenset[str]:
    """The words by which a file is imported: its name, its folders, and the package that a Go file says it is of."""
    words = {PurePath(part).stem for part in home.split("/")}
    words = words - {"src", "lib"} if len(words) > 1 else words
    if home.endswith(".go"):
        data = data_of(worktree, home, Counter()) or b""
        words |= {
            found.decode() for found in re.findall(rb"^package[ \t]+([A-Za-z_]\w*)", data, re.MULTILINE)
        }
    return frozenset(words)


def lines_used(
    path: str, own: Sequence[Occurrence], wanted: frozenset[Role], home: str, modules: frozenset[str]
) -> list[int]:
    """The lines of a file on which occurrences of a name are uses of the symbol that `home` defines ("" for any)."""
    if path != home and home:
        if _is_another(path, own, home):
            wanted = wanted - {"name"}
        if (one := family(path)) and (other := family(home)) and one != other:
            wanted = wanted - {"member", "attribute", "qualified"}
    return sorted(
        {
            one.line
            for one in own
            if one.role in wanted
            and (not home or not one.through or "member" in wanted or one.through & modules)
        }
    )
