"""The repositories that cases are made from: a fixed list, or clones that are named."""

from __future__ import annotations

import hashlib
import os
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Origin:
    """A repository as it was at one commit. What is tuned is tuned on "dev"; "test" is only looked at."""

    name: str
    commit: str
    split: str


ORIGINS = (
    Origin("psf/requests", "1f6589ec3a1ee910f9a65cc3ceac60b26677bc0e", "dev"),
    Origin("gin-gonic/gin", "dcaa4296d111981ffb31ac3eba90bb63e1eb5ab9", "dev"),
    Origin("jqlang/jq", "579e6f76cffd7643ba4002a2c3618a5ea710589a", "dev"),
    Origin("tokio-rs/mini-redis", "3d93b42bc363220f85af4fc9e1bebd35b588a4a3", "dev"),
    Origin("expressjs/express", "a3714473feb3d2908add734d340e7755fd85e0a3", "dev"),
    Origin("google/gson", "9835b6f90192f79cdf5300c528fc6212455fb6c1", "dev"),
    Origin("sindresorhus/got", "d00d845a0b435365ec73ea5a1fca6e17ee677184", "dev"),
    Origin("excalidraw/excalidraw", "4872083c044491b6d5c96ae134a75464f96d6831", "dev"),
    Origin("github/gitignore", "dcc0fc7bc2b5ba480cf117ad1be31bafceeaff46", "dev"),
    Origin("jekyll/jekyll", "202df571314ba1d18e9fccd81d12aaad4a703c38", "dev"),
    Origin("ruanyf/weekly", "cf5e367d98e5141fb3381816f2ac8c5dd1bdb69f", "dev"),
    Origin("SchemaStore/schemastore", "3b6446ad8a077bac56f4a4796c0b7fd88927fc8e", "dev"),
    Origin("nlohmann/json", "199dea11b17c533721b26249e2dcaee6ca1d51d3", "dev"),
    Origin("junegunn/fzf", "956562daaa82ddf55ea8f7aeab56883377b742c6", "test"),
    Origin("redis/redis", "4f8cdc2a1ea53e42955af758aabffee67cb455dd", "test"),
    Origin("pallets/click", "2c8cd3ac958a7eb316d67f2d316c27086c4c0369", "test"),
    Origin("sharkdp/bat", "2ba8db9c14e5794572f5ea338c2b90404c9769cb", "test"),
    Origin("apache/commons-lang", "d15939ef46f0bd4144994df8be95cf5a7f91eb52", "test"),
    Origin("markedjs/marked", "681373ccc058b5dc93c1f63291d755d7d714c2fa", "test"),
    Origin("pmndrs/zustand", "f094eebe9bd3b4b0d77b997f69ab1d273f69a877", "test"),
    Origin("laravel/framework", "bd71b45fbb7e672957bf6ff61baddefe15fbca6a", "test"),
    Origin("JamesNK/Newtonsoft.Json", "09bb545d72969ad7fb4ea07db0d5c34f4fc07877", "test"),
    Origin("nvm-sh/nvm", "b17550a0b9ab691439815dfccc8b73e3a59fa103", "test"),
    Origin("square/okio", "4164f2976ac7174f3d35d52150e8ffbdbe0acbec", "test"),
    Origin("notepad-plus-plus/notepad-plus-plus", "a6c46fd4cb0fa115ced3b3bfb1ff53fbdb8989f3", "test"),
    Origin("git/git", "1a3e64c6c4a623626ff0687008732a8e007e2a1c", "test"),
    Origin("sinatra/sinatra", "cb22afd7902b566b6eaba6c4ea89739494a65d12", "test"),
)


def opened(paths: Sequence[Path]) -> list[tuple[Origin, Path]]:
    """The clones at `paths`, or those of the list above, cloned where they are not yet."""
    if paths:
        return sorted(((_known(path), path) for path in paths), key=lambda found: found[0].name)
    return sorted(((origin, _cloned(origin)) for origin in ORIGINS), key=lambda found: found[0].name)


def _known(path: Path) -> Origin:
    """The origin of a clone: at the commit of the list, or at its HEAD where it is not listed or has not got it. What
    is not listed is held out."""
    name = path.resolve().name
    if name in ("repo", "repo.git", ".git"):
        name = path.resolve().parent.name
    name = name.removesuffix(".git").replace("+", "/")
    split = "test"
    for origin in ORIGINS:
        if origin.name in (name, name.replace("_", "/", 1)) or origin.name.endswith(f"/{name}"):
            if _commit(path, origin.commit):
                return origin
            name, split = origin.name, origin.split
    if not (head := _commit(path, "HEAD")):
        raise SystemExit(f"{path} is no git repository with a commit: give a clone to --repo")
    return Origin(name, head, split)


def _commit(path: Path, name: str) -> str:
    """The full name of a commit, "" where the clone has none such."""
    command = ["git", "-C", str(path), "rev-parse", "--quiet", "--verify", f"{name}^{{commit}}"]
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()


def cache() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "repoagent-bench"


def _cloned(origin: Origin) -> Path:
    top = (
        cache()
        / f"{origin.name.replace('/', '+')}-{hashlib.sha256(origin.commit.encode()).hexdigest()[:8]}.git"
    )
    if not top.exists():
        top.parent.mkdir(parents=True, exist_ok=True)
        part = top.with_suffix(".part")
        url = f"https://github.com/{origin.name}"
        subprocess.run(["git", "clone", "--quiet", "--bare", "--single-branch", url, str(part)], check=True)
        part.rename(top)
    return top
