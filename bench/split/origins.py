"""The repositories that the files come from: a fixed list, or clones that are named."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.patch.repositories import cache


@dataclass(frozen=True)
class Origin:
    """A repository as it was at one commit."""

    name: str
    commit: str


ORIGINS = (
    Origin("Aider-AI/aider", "5dc9490bb35f9729ef2c95d00a19ccd30c26339c"),
    Origin("BurntSushi/ripgrep", "3fce3b5bb0236da2df6d99672afb8a719642eca7"),
    Origin("ColorlibHQ/AdminLTE", "ebd5bc68678dd472459f460d2990a38b535a32f2"),
    Origin("JamesNK/Newtonsoft.Json", "09bb545d72969ad7fb4ea07db0d5c34f4fc07877"),
    Origin("KhronosGroup/WebGL", "f15a73f727d8ee66a3ec6d0bed9f02f08cacc2c1"),
    Origin("SchemaStore/schemastore", "3b6446ad8a077bac56f4a4796c0b7fd88927fc8e"),
    Origin("Semantic-Org/Semantic-UI-CSS", "4049ee43af2613c62252f42b13addd737adf6420"),
    Origin("TanStack/table", "d3000515c7172dc456665fe32ba671132a9d9280"),
    Origin("Wei-Shaw/model-price-repo", "f9ff14734f6203c490573cb1e2ae8fdac7a52a41"),
    Origin("acmesh-official/acme.sh", "d60c75b4e30a26addd8b9d0bfdeeed39c84ed51e"),
    Origin("animate-css/animate.css", "3f8ab233dbbd9d2fe577528d2296382954be3d1a"),
    Origin("anomalyco/models.dev", "f3fc692299671838c7c65fd8126bf84d81a2e817"),
    Origin("apache/commons-lang", "d15939ef46f0bd4144994df8be95cf5a7f91eb52"),
    Origin("argoproj/argo-cd", "37ee0097cf851bc2dd7665fc081bbce61a7e836e"),
    Origin("celery/celery", "5dc781f0bd5f36186bfcc74e0a4f9f654452c69b"),
    Origin("clap-rs/clap", "6982fb1c98c7247e38a6d4f04191b94e30497e7b"),
    Origin("curl/curl", "5c61e168698a72b87437d58ed728bcdea6d5db42"),
    Origin("drwetter/testssl.sh", "6452ec997e5efde423b1b576d6e5ab4c11d6a400"),
    Origin("eslint/eslint", "c27bc926e496985eb7911c09eb60914b2e4b5d0f"),
    Origin("excalidraw/excalidraw", "4872083c044491b6d5c96ae134a75464f96d6831"),
    Origin("expressjs/express", "a3714473feb3d2908add734d340e7755fd85e0a3"),
    Origin("gin-gonic/gin", "dcaa4296d111981ffb31ac3eba90bb63e1eb5ab9"),
    Origin("git/git", "1a3e64c6c4a623626ff0687008732a8e007e2a1c"),
    Origin("gohugoio/hugo", "7b5199fdeff7d7682e9f979f468d55bc7b67b934"),
    Origin("google/gson", "9835b6f90192f79cdf5300c528fc6212455fb6c1"),
    Origin("h5bp/html5-boilerplate", "b7e31d67f4cf83e23d51f4decc73618bf8bd77ba"),
    Origin("hashicorp/terraform", "883c7221ee2e0bc2fad6912fd4b3cc4b53a598a7"),
    Origin("jackfrued/Python-100-Days", "89b45570a1ee9f4fc59a7eb67b6491125d0425ba"),
    Origin("jekyll/jekyll", "202df571314ba1d18e9fccd81d12aaad4a703c38"),
    Origin("jgthms/bulma", "68ff0ad283e60b918f19d9abcc5218fa6d255f65"),
    Origin("jqlang/jq", "579e6f76cffd7643ba4002a2c3618a5ea710589a"),
    Origin("junegunn/fzf", "956562daaa82ddf55ea8f7aeab56883377b742c6"),
    Origin("laravel/framework", "bd71b45fbb7e672957bf6ff61baddefe15fbca6a"),
    Origin("libexpat/libexpat", "1185697878a3b09cada8e89f847a4c8315cd7ddc"),
    Origin("libuv/libuv", "6179e7af87413396d5853a1c3722c8b5749336c8"),
    Origin("mackron/miniaudio", "9634bedb5b5a2ca38c1ee7108a9358a4e233f14d"),
    Origin("markedjs/marked", "681373ccc058b5dc93c1f63291d755d7d714c2fa"),
    Origin("nlohmann/json", "199dea11b17c533721b26249e2dcaee6ca1d51d3"),
    Origin("notepad-plus-plus/notepad-plus-plus", "a6c46fd4cb0fa115ced3b3bfb1ff53fbdb8989f3"),
    Origin("nvm-sh/nvm", "b17550a0b9ab691439815dfccc8b73e3a59fa103"),
    Origin("ocornut/imgui", "46d39d56febc2a00bdd2270dc88c8a13f2a0441a"),
    Origin("palantir/blueprint", "ee26faf0ad8fe4bfd8ccbecf510d8ab385342003"),
    Origin("pallets/click", "2c8cd3ac958a7eb316d67f2d316c27086c4c0369"),
    Origin("pallets/flask", "2ac89889f4cc330eabd50f295dcef02828522c69"),
    Origin("pmndrs/zustand", "f094eebe9bd3b4b0d77b997f69ab1d273f69a877"),
    Origin("prometheus-operator/kube-prometheus", "4d719f1dea8853540b3823ab1fbe6be74a9953b3"),
    Origin("prometheus/prometheus", "d15adb9ad7e5d9fbde3a9a8f30200593a5a14d86"),
    Origin("psf/requests", "1f6589ec3a1ee910f9a65cc3ceac60b26677bc0e"),
    Origin("pydantic/genai-prices", "47df840a5ab10bbcffb8e5ac01b9899032245d1b"),
    Origin("pytest-dev/pytest", "df87db7b0462fb764ef73fa00561adf8ad047572"),
    Origin("python/mypy", "8b3e7d8b9f63543374e53d1c389ea443dd65bc46"),
    Origin("rails/rails", "2a2db1e8d6d104ee0611efcae7eb023af65cff34"),
    Origin("redis/redis", "4f8cdc2a1ea53e42955af758aabffee67cb455dd"),
    Origin("rubocop/rubocop", "3a42c622171794510e03999c8d55129b73c5dc8f"),
    Origin("scrapy/scrapy", "11079cb1c85b9e75a39a7269943c69d1a975d485"),
    Origin("sharkdp/bat", "2ba8db9c14e5794572f5ea338c2b90404c9769cb"),
    Origin("simonw/llm-prices", "723ef0bd3a6254436e9fe8d7f05d4d787e99f4c5"),
    Origin("sinatra/sinatra", "cb22afd7902b566b6eaba6c4ea89739494a65d12"),
    Origin("sindresorhus/got", "d00d845a0b435365ec73ea5a1fca6e17ee677184"),
    Origin("square/okhttp", "1682d9bac8c03dffde2969b0b74d47649d0dbb52"),
    Origin("square/okio", "4164f2976ac7174f3d35d52150e8ffbdbe0acbec"),
    Origin("tokio-rs/tokio", "ea91b33ca57ff0581b38e735cc108f831bccbdaa"),
    Origin("vuejs/core", "e2bede96134f757aad5c5b33ac9be055022dbfc8"),
    Origin("w3c/aria", "37b9d2b8b9c7ba3ff24060d3367377d64dabef64"),
    Origin("w3c/webrtc-pc", "1a2dfb478b3efcefe9e5ab2f1e1d5119437d79af"),
    Origin("xorbitsai/xllamacpp", "a5a0c5b9800484f5e7b3e6d94ca61678e3cbc935"),
)


def opened(paths: Sequence[Path], folder: Path | None) -> Iterator[tuple[Origin, Path]]:
    """The clones at `paths` at their HEAD; or those of the list, found in `folder` (`OWNER+NAME`, with a `repo` in it
    or bare) or cloned from GitHub."""
    for path in paths:
        yield Origin(_name(path), _head(path)), path
    if paths:
        return
    for origin in ORIGINS:
        found = _found(origin, folder) if folder else _cloned(origin)
        if found:
            yield origin, found


def _name(path: Path) -> str:
    resolved = path.resolve()
    own = resolved.parent.name if resolved.name in ("repo", "repo.git", ".git") else resolved.name
    return own.removesuffix(".git").replace("+", "/")


def _head(path: Path) -> str:
    done = subprocess.run(
        ["git", "-C", str(path), "rev-parse", "--quiet", "--verify", "HEAD^{commit}"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    if done.returncode:
        raise SystemExit(f"{path} is no git repository with a commit: give a clone to --repo")
    return done.stdout.strip()


def _found(origin: Origin, folder: Path) -> Path | None:
    """The clone of an origin in a folder of clones, when it has the commit."""
    top = folder / origin.name.replace("/", "+")
    for path in (top / "repo", top, top.with_suffix(".git")):
        if path.is_dir():
            known = ["git", "-C", str(path), "cat-file", "-e", f"{origin.commit}^{{commit}}"]
            if subprocess.run(known, capture_output=True, check=False).returncode == 0:
                return path
    return None


def _cloned(origin: Origin) -> Path:
    """That one commit, fetched once."""
    top = cache() / f"{origin.name.replace('/', '+')}-{origin.commit[:8]}.git"
    if not top.exists():
        part = top.with_suffix(".part")
        part.mkdir(parents=True, exist_ok=True)
        for command in (
            ("init", "--quiet", "--bare"),
            ("fetch", "--quiet", "--depth=1", f"https://github.com/{origin.name}", origin.commit),
            ("update-ref", "HEAD", origin.commit),
        ):
            subprocess.run(["git", "-C", str(part), *command], check=True)
        part.rename(top)
    return top
