"""Why a command failed, where that is its environment and its output does not say so."""

from __future__ import annotations

import re
from dataclasses import field

from repoagent.agent.sandbox.landlock import Landlock
from repoagent.dataclass import dataclass
from repoagent.repo.run import git
from repoagent.work.tools.confinement import Confinement

# What programs print where they miss the network: pip, libc, Node, Go, Rust; and those that are told to stay offline.
_NETWORK = re.compile(
    r"from versions: none|could(?: not|n't) resolve|temporary failure in name resolution|name or service not known"
    r"|network is unreachable|no address associated with hostname|\bEAI_AGAIN\b|\bENOTFOUND\b|\bENETUNREACH\b"
    r"|no such host|failed to lookup address|GOPROXY=off|\bENOTCACHED\b|--offline was specified"
    r"|network connectivity is disabled",
    re.IGNORECASE,
)
_WRITE = re.compile(r"read-only file system|\bEROFS\b", re.IGNORECASE)
_DENIED = re.compile(r"permission denied|\bEACCES\b", re.IGNORECASE)  # without mounts
# Python, `python -m` and shells where a module, a package's metadata or a program is missing. A dotted name is one that
# its own package lacks.
_MISSING = re.compile(
    r"^(?:E +)?(?:[\w.]+\.)?(?:ModuleNotFoundError: No module named '(?P<module>\w+)'\s*$"
    r"|PackageNotFoundError: (?:No package metadata was found for )?(?P<package>[\w.-]+)\s*$)"
    r"|^\S*python[\d.]*: No module named (?P<run>\w+)\s*$"
    r"|^\S+: (?:line \d+: )?(?P<program>[\w.+-]+): command not found\s*$"
    r"|^\S*sh: \d+: (?P<other>[\w.+-]+): not found\s*$",
    re.MULTILINE | re.ASCII,
)


@dataclass
class Explainer:
    """Gives a line for an output that tells of a limit of `place`, or of what is not installed, once for each."""

    place: Confinement
    said: set[str] = field(default_factory=set)

    def __call__(self, output: str) -> str:
        return "\n".join(filter(None, [self._network(output), self._writing(output), self._missing(output)]))

    def _network(self, output: str) -> str:
        if not self._offline or not _NETWORK.search(output) or not self._first("network"):
            return ""
        return (
            "Commands have no network in this run, so nothing can be installed or fetched: do without, or say that it "
            "needs `--network`, which only the user can give."
        )

    def _writing(self, output: str) -> str:
        sandbox = self.place.sandbox
        bare = isinstance(sandbox, Landlock) and not sandbox.mounting
        told = _WRITE.search(output) or (bare and _DENIED.search(output))
        if sandbox is None or not told or not self._first("writing"):
            return ""
        return (
            f"The sandbox lets commands write nothing but {' and '.join(self.place.writable())}, and not `.git`: write "
            "there, or say what is missing: only the user can allow a folder, with `run.write`."
        )

    def _missing(self, output: str) -> str:
        for found in _MISSING.finditer(output):
            module = found["module"] or found["run"]
            if module and self._is_here(module):
                continue
            if not self._first("missing"):
                break
            name = module or found["package"] or found["program"] or found["other"]
            no_way = ", and nothing can be installed in the sandbox" if self._offline else ""
            return f"`{name}` is not installed here{no_way}: what needs it fails without your change too."
        return ""

    def _is_here(self, module: str) -> bool:
        """Whether the repository has a file or a folder of this module's name."""
        kinds = ("--cached", "--others", "--exclude-standard")
        names = (f":(glob)**/{module}.*", f":(glob)**/{module}/**")
        return bool(git(self.place.policy.top, "--no-literal-pathspecs", "ls-files", *kinds, "--", *names))

    @property
    def _offline(self) -> bool:
        return self.place.sandbox is not None and not self.place.policy.network

    def _first(self, kind: str) -> bool:
        first = kind not in self.said
        self.said.add(kind)
        return first
