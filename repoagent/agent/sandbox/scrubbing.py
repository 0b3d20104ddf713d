"""The environment of a command, without keys and without ways out."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path

from repoagent.agent.sandbox.policy import Policy
from repoagent.redact import redact
from repoagent.store.secrets import SHORTEST, secrets_of

# By name: those of services that have keys, git's (a command's own git finds the repository by itself), ours, sockets
# of agents and sessions, and what makes a program load another one first.
_DROPPED = re.compile(
    r"(ANTHROPIC|OPENAI|OPENROUTER|GEMINI|MISTRAL|COHERE|GROQ|AWS|AZURE|GOOGLE|GCP|GCLOUD|CLOUDSDK|CLOUDFLARE|DIGITALOCEAN"
    r"|GITHUB|GH|GITLAB|BITBUCKET|NPM|TWINE|PYPI|HF|HUGGING_?FACE|WANDB|SENTRY|STRIPE|TWILIO|SLACK|VAULT|KUBE\w*|DOCKER|ACTIONS"
    r"|SSH|GPG|GNUPG|DBUS|GIT|REPOAGENT|VSCODE|TMUX|STY|WAYLAND|XAUTHORITY|DISPLAY|KRB5\w*|PGPASSFILE|SUDO"
    r"|DYLD|LD_PRELOAD|LD_AUDIT|BASH_ENV|ENV|BASH_FUNC\w*|PROMPT_COMMAND|PYTHONSTARTUP|PYTHONINSPECT|MAKEFLAGS|MFLAGS"
    r"|MAKELEVEL|INVOCATION_ID|JOURNAL_STREAM|NOTIFY_SOCKET|LISTEN_FDS|XDG_RUNTIME_DIR|XDG_SESSION)(_.*|%%|[0-9]*)?",
    re.IGNORECASE | re.DOTALL,
)
_SECRET_NAME = re.compile(
    r"(KEY|TOKEN|SECRET|PASSWORD|PASSWD|PASSPHRASE|CREDENTIALS?|_PAT|_AUTH|COOKIE|DSN)S?\d*$", re.IGNORECASE
)
_KEPT_ALWAYS = ("PATH", "HOME", "PWD", "USER", "LOGNAME", "SHELL", "TERM", "LANG", "TZ")

# Where tools keep what they can make again: in the scratch folder, since the home folder is not writable.
_CACHES = {
    "TMPDIR": "", "TMP": "", "TEMP": "", "XDG_CACHE_HOME": "cache", "XDG_STATE_HOME": "state",
    "XDG_CONFIG_HOME": "config", "XDG_DATA_HOME": "data",
    "PIP_CACHE_DIR": "cache/pip", "UV_CACHE_DIR": "cache/uv", "npm_config_cache": "cache/npm",
    "YARN_CACHE_FOLDER": "cache/yarn", "GOCACHE": "cache/go-build", "CCACHE_DIR": "cache/ccache",
    "SCCACHE_DIR": "cache/sccache", "GRADLE_USER_HOME": "cache/gradle", "MPLCONFIGDIR": "cache/matplotlib",
    "DOTNET_CLI_HOME": "cache/dotnet",
}  # fmt: skip
# Without the network these tools would try for a while before they say so.
_OFFLINE = {
    "CARGO_NET_OFFLINE": "true", "GOPROXY": "off", "GOSUMDB": "off", "GOTOOLCHAIN": "local", "UV_OFFLINE": "1",
    "PIP_NO_INDEX": "1", "PIP_DISABLE_PIP_VERSION_CHECK": "1", "npm_config_offline": "true",
    "npm_config_update_notifier": "false", "HF_HUB_OFFLINE": "1",
}  # fmt: skip


def scrubbed(environment: Mapping[str, str], policy: Policy) -> dict[str, str]:
    """`environment` without what a command must not have: keys (by name, by the form of the value, and wherever the
    value of a key stands in another variable), GIT_*, REPOAGENT_*, sockets of agents, desktops and terminals,
    LD_PRELOAD and its like.

    Kept is all else: PATH, LANG, TERM, a virtual environment, JAVA_HOME, GOPATH, CARGO_HOME, NODE_PATH ... HOME stays,
    so that tools find their settings and what they have downloaded, to read: the packages of Cargo (~/.cargo/registry),
    Go (~/go/pkg/mod), Maven (~/.m2) and npm (node_modules). What they write beside the work tree goes to the scratch
    folder: TMPDIR, XDG_CACHE_HOME, XDG_STATE_HOME, XDG_CONFIG_HOME and XDG_DATA_HOME (the last two hold links to what
    there is, see `prepare_scratch`), the build cache of Go, logs of npm, Gradle's home (with the downloaded files as
    its read-only cache). `pytest`, `make`, `cargo test`, `go test` and `npm test` run so without the network; the first
    build of Go is a cold one. git takes no locks that it can do without, and trusts the work tree if another user owns
    it: that it was opened at all was decided before.
    """
    scratch = Path(policy.scratch)
    secrets = {value for value in secrets_of(environment).values() if len(value) >= SHORTEST}
    kept = {
        name: value
        for name, value in environment.items()
        if name in _KEPT_ALWAYS or not (_is_secret(name, value) or any(secret in value for secret in secrets))
    }
    kept |= {name: str(scratch / folder) for name, folder in _CACHES.items()}
    if not policy.network:
        kept |= _OFFLINE
    downloaded = Path(
        environment.get("GRADLE_USER_HOME") or Path(environment.get("HOME", "/"), ".gradle"), "caches"
    )
    if downloaded.is_dir():
        kept["GRADLE_RO_DEP_CACHE"] = str(downloaded)
    return kept | _for_git(policy)


def _is_secret(name: str, value: str) -> bool:
    return bool(_DROPPED.fullmatch(name) or _SECRET_NAME.search(name) or redact(value, {}) != value)


def _for_git(policy: Policy) -> dict[str, str]:
    settings = {"GIT_OPTIONAL_LOCKS": "0", "GIT_TERMINAL_PROMPT": "0"}
    try:
        foreign = policy.top.stat().st_uid != os.geteuid()
    except OSError:
        foreign = False
    if foreign:
        settings |= {
            "GIT_CONFIG_COUNT": "1",
            "GIT_CONFIG_KEY_0": "safe.directory",
            "GIT_CONFIG_VALUE_0": os.path.realpath(policy.top),
        }
    return settings
