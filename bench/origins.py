"""Public repositories at fixed commits, clones of them, and clones that are named on the command line."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Origin:
    """A repository at one commit."""

    name: str
    commit: str


# commit, name, and whether the splitter's files and the applier's corpus come from it
_TABLE = """
5dc9490bb35f9729ef2c95d00a19ccd30c26339c Aider-AI/aider split -
3fce3b5bb0236da2df6d99672afb8a719642eca7 BurntSushi/ripgrep split -
ebd5bc68678dd472459f460d2990a38b535a32f2 ColorlibHQ/AdminLTE split -
09bb545d72969ad7fb4ea07db0d5c34f4fc07877 JamesNK/Newtonsoft.Json split patch
f15a73f727d8ee66a3ec6d0bed9f02f08cacc2c1 KhronosGroup/WebGL split -
3b6446ad8a077bac56f4a4796c0b7fd88927fc8e SchemaStore/schemastore split patch
4049ee43af2613c62252f42b13addd737adf6420 Semantic-Org/Semantic-UI-CSS split -
d3000515c7172dc456665fe32ba671132a9d9280 TanStack/table split -
f9ff14734f6203c490573cb1e2ae8fdac7a52a41 Wei-Shaw/model-price-repo split -
d60c75b4e30a26addd8b9d0bfdeeed39c84ed51e acmesh-official/acme.sh split -
3f8ab233dbbd9d2fe577528d2296382954be3d1a animate-css/animate.css split -
f3fc692299671838c7c65fd8126bf84d81a2e817 anomalyco/models.dev split -
d15939ef46f0bd4144994df8be95cf5a7f91eb52 apache/commons-lang split patch
37ee0097cf851bc2dd7665fc081bbce61a7e836e argoproj/argo-cd split -
5dc781f0bd5f36186bfcc74e0a4f9f654452c69b celery/celery split -
6982fb1c98c7247e38a6d4f04191b94e30497e7b clap-rs/clap split -
5c61e168698a72b87437d58ed728bcdea6d5db42 curl/curl split -
6452ec997e5efde423b1b576d6e5ab4c11d6a400 drwetter/testssl.sh split -
c27bc926e496985eb7911c09eb60914b2e4b5d0f eslint/eslint split -
4872083c044491b6d5c96ae134a75464f96d6831 excalidraw/excalidraw split patch
a3714473feb3d2908add734d340e7755fd85e0a3 expressjs/express split patch
dcaa4296d111981ffb31ac3eba90bb63e1eb5ab9 gin-gonic/gin split patch
1a3e64c6c4a623626ff0687008732a8e007e2a1c git/git split patch
dcc0fc7bc2b5ba480cf117ad1be31bafceeaff46 github/gitignore - patch
7b5199fdeff7d7682e9f979f468d55bc7b67b934 gohugoio/hugo split -
9835b6f90192f79cdf5300c528fc6212455fb6c1 google/gson split patch
b7e31d67f4cf83e23d51f4decc73618bf8bd77ba h5bp/html5-boilerplate split -
883c7221ee2e0bc2fad6912fd4b3cc4b53a598a7 hashicorp/terraform split -
89b45570a1ee9f4fc59a7eb67b6491125d0425ba jackfrued/Python-100-Days split -
202df571314ba1d18e9fccd81d12aaad4a703c38 jekyll/jekyll split patch
68ff0ad283e60b918f19d9abcc5218fa6d255f65 jgthms/bulma split -
579e6f76cffd7643ba4002a2c3618a5ea710589a jqlang/jq split patch
956562daaa82ddf55ea8f7aeab56883377b742c6 junegunn/fzf split patch
bd71b45fbb7e672957bf6ff61baddefe15fbca6a laravel/framework split patch
1185697878a3b09cada8e89f847a4c8315cd7ddc libexpat/libexpat split -
6179e7af87413396d5853a1c3722c8b5749336c8 libuv/libuv split -
9634bedb5b5a2ca38c1ee7108a9358a4e233f14d mackron/miniaudio split -
681373ccc058b5dc93c1f63291d755d7d714c2fa markedjs/marked split patch
199dea11b17c533721b26249e2dcaee6ca1d51d3 nlohmann/json split patch
a6c46fd4cb0fa115ced3b3bfb1ff53fbdb8989f3 notepad-plus-plus/notepad-plus-plus split patch
b17550a0b9ab691439815dfccc8b73e3a59fa103 nvm-sh/nvm split patch
46d39d56febc2a00bdd2270dc88c8a13f2a0441a ocornut/imgui split -
ee26faf0ad8fe4bfd8ccbecf510d8ab385342003 palantir/blueprint split -
2c8cd3ac958a7eb316d67f2d316c27086c4c0369 pallets/click split patch
2ac89889f4cc330eabd50f295dcef02828522c69 pallets/flask split -
f094eebe9bd3b4b0d77b997f69ab1d273f69a877 pmndrs/zustand split patch
4d719f1dea8853540b3823ab1fbe6be74a9953b3 prometheus-operator/kube-prometheus split -
d15adb9ad7e5d9fbde3a9a8f30200593a5a14d86 prometheus/prometheus split -
1f6589ec3a1ee910f9a65cc3ceac60b26677bc0e psf/requests split patch
47df840a5ab10bbcffb8e5ac01b9899032245d1b pydantic/genai-prices split -
df87db7b0462fb764ef73fa00561adf8ad047572 pytest-dev/pytest split -
8b3e7d8b9f63543374e53d1c389ea443dd65bc46 python/mypy split -
2a2db1e8d6d104ee0611efcae7eb023af65cff34 rails/rails split -
4f8cdc2a1ea53e42955af758aabffee67cb455dd redis/redis split patch
cf5e367d98e5141fb3381816f2ac8c5dd1bdb69f ruanyf/weekly - patch
3a42c622171794510e03999c8d55129b73c5dc8f rubocop/rubocop split -
11079cb1c85b9e75a39a7269943c69d1a975d485 scrapy/scrapy split -
2ba8db9c14e5794572f5ea338c2b90404c9769cb sharkdp/bat split patch
723ef0bd3a6254436e9fe8d7f05d4d787e99f4c5 simonw/llm-prices split -
cb22afd7902b566b6eaba6c4ea89739494a65d12 sinatra/sinatra split patch
d00d845a0b435365ec73ea5a1fca6e17ee677184 sindresorhus/got split patch
1682d9bac8c03dffde2969b0b74d47649d0dbb52 square/okhttp split -
4164f2976ac7174f3d35d52150e8ffbdbe0acbec square/okio split patch
3d93b42bc363220f85af4fc9e1bebd35b588a4a3 tokio-rs/mini-redis - patch
ea91b33ca57ff0581b38e735cc108f831bccbdaa tokio-rs/tokio split -
e2bede96134f757aad5c5b33ac9be055022dbfc8 vuejs/core split -
37b9d2b8b9c7ba3ff24060d3367377d64dabef64 w3c/aria split -
1a2dfb478b3efcefe9e5ab2f1e1d5119437d79af w3c/webrtc-pc split -
a5a0c5b9800484f5e7b3e6d94ca61678e3cbc935 xorbitsai/xllamacpp split -
"""
_ROWS = [line.split() for line in _TABLE.split("\n") if line]
SPLIT_ORIGINS = tuple(Origin(name, commit) for commit, name, files, _ in _ROWS if files == "split")
PATCH_ORIGINS = tuple(Origin(name, commit) for commit, name, _, corpus in _ROWS if corpus == "patch")


def git(top: Path, *args: str) -> bytes:
    command = ["git", "-C", str(top), "-c", "core.quotePath=false", *args]
    return subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout


def name_of(clone: Path) -> str:
    """A name for a clone: that of its folder, where OWNER+NAME is OWNER/NAME."""
    top = clone.resolve()
    own = top.parent.name if top.name in ("repo", "repo.git", ".git") else top.name
    return own.removesuffix(".git").replace("+", "/")


def commit_of(clone: Path, name: str = "HEAD") -> str:
    """The full name of a commit, "" where the clone lacks it."""
    command = ["git", "-C", str(clone), "rev-parse", "--quiet", "--verify", f"{name}^{{commit}}"]
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()


def head_of(clone: Path) -> str:
    if not (head := commit_of(clone)):
        raise SystemExit(f"not a git repository with a commit: {clone}; give a clone to --repo")
    return head


def downloaded(origin: Origin, *, history: bool) -> Path:
    """A bare clone from GitHub, made once: with the history of its branch, or of the one commit."""
    folder = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "repoagent-bench"
    kind = "history" if history else "commit"
    top = folder / f"{origin.name.replace('/', '+')}-{origin.commit[:8]}-{kind}.git"
    if not top.exists():
        part, url = top.with_suffix(".part"), f"https://github.com/{origin.name}"
        part.mkdir(parents=True, exist_ok=True)
        fetch = [url, "HEAD"] if history else ["--depth=1", url, origin.commit]
        git(part, "init", "--quiet", "--bare")
        git(part, "fetch", "--quiet", *fetch)
        git(part, "update-ref", "HEAD", origin.commit)
        part.rename(top)
    return top


def with_history(paths: Sequence[Path]) -> list[tuple[Origin, Path]]:
    """The clones at `paths`, or those of PATCH_ORIGINS, downloaded where they are not there yet."""
    found = [(_listed(path), path) for path in paths]
    found = found or [(origin, downloaded(origin, history=True)) for origin in PATCH_ORIGINS]
    return sorted(found, key=lambda pair: pair[0].name)


def _listed(path: Path) -> Origin:
    """The origin of a clone: at the commit of the list, or at its HEAD where either lacks it."""
    name = name_of(path)
    for origin in PATCH_ORIGINS:
        if origin.name in (name, name.replace("_", "/", 1)) or origin.name.endswith(f"/{name}"):
            if commit_of(path, origin.commit):
                return origin
            name = origin.name
    return Origin(name, head_of(path))


def with_files(paths: Sequence[Path], folder: Path | None) -> Iterator[tuple[Origin, Path]]:
    """The clones at `paths` at their HEAD; or those of SPLIT_ORIGINS, found in `folder` (`OWNER+NAME`, with a `repo` in
    it or bare) or downloaded."""
    for path in paths:
        yield Origin(name_of(path), head_of(path)), path
    for origin in SPLIT_ORIGINS if not paths else ():
        found = _in_folder(origin, folder) if folder else downloaded(origin, history=False)
        if found:
            yield origin, found


def _in_folder(origin: Origin, folder: Path) -> Path | None:
    top = folder / origin.name.replace("/", "+")
    places = (path for path in (top / "repo", top, top.with_suffix(".git")) if path.is_dir())
    return next((path for path in places if commit_of(path, origin.commit)), None)
