"""The policy of a sandboxed command, the paths that contain keys, the command's environment, and Python
environments."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from repoagent.dataclass import dataclass
from repoagent.display_text import redact
from repoagent.storage.secrets import SHORTEST, secrets_of

_SHARED_MEMORY = 1 << 30


@dataclass(frozen=True)
class Policy:
    """What a command may access. Paths are absolute, and the deepest match decides: a `scratch` inside `keep` is
    writable.

    keep: read-only paths, like the rest of the file system.
    hide: unreadable paths.
    shield: like `keep`, except below `also_write`. Links are followed, a missing name cannot be created, and an empty
        folder cannot be filled. Without mounts, this works only at the top of the work tree.
    memory: the limit for all processes together, in bytes.
    """

    top: Path
    scratch: Path
    keep: tuple[Path, ...] = ()
    hide: tuple[Path, ...] = ()
    also_write: tuple[Path, ...] = ()
    also_read: tuple[Path, ...] = ()  # in /tmp and /run, which are otherwise empty
    read_only: bool = False
    network: bool = False
    memory: int | None = None
    processes: int | None = None
    shield: tuple[Path, ...] = ()

    @property
    def shared_memory(self) -> int:
        """The size of /dev/shm in bytes. Its contents do not count towards the memory of any process."""
        return min(self.memory or _SHARED_MEMORY, _SHARED_MEMORY)


# Files and folders with keys or private text, below the home folder.
_IN_HOME = """
.ssh .gnupg .aws .azure .kube .docker .netrc _netrc .git-credentials .npmrc .yarnrc.yml .pypirc .pgpass .my.cnf .s3cfg
.boto .vault-token .terraform.d .terraformrc .password-store .databrickscfg .databricks .huggingface .anthropic .openai
.claude .claude.json .codex .gemini .cargo/credentials .cargo/credentials.toml .gem/credentials .bundle/config
.m2/settings.xml .m2/settings-security.xml .gradle/gradle.properties .composer/auth.json .nuget/NuGet .subversion/auth
.mozilla .thunderbird .bash_history .zsh_history .python_history .node_repl_history .psql_history .mysql_history
.lesshst .histfile .cache/huggingface/token .local/share/keyrings .local/share/fish/fish_history .local/share/gh
"""
_IN_CONFIG = """
repoagent gh hub glab-cli git/credentials gcloud google-chrome chromium BraveSoftware op rclone containers openai
anthropic github-copilot pypoetry/auth.toml composer/auth.json doctl heroku netlify configstore sops stripe fly
"""
_OF_SYSTEM = """
/etc/shadow /etc/shadow- /etc/gshadow /etc/gshadow- /etc/sudoers /etc/sudoers.d /etc/ssl/private /etc/docker
/etc/krb5.keytab /var/lib/docker /var/lib/containerd
"""
# Variables that name a file or folder with keys.
_NAMED_BY = """
GNUPGHOME AWS_SHARED_CREDENTIALS_FILE AWS_CONFIG_FILE GOOGLE_APPLICATION_CREDENTIALS KUBECONFIG NETRC DOCKER_CONFIG
CLOUDSDK_CONFIG AZURE_CONFIG_DIR PGPASSFILE NPM_CONFIG_USERCONFIG SSH_AUTH_SOCK XAUTHORITY HISTFILE
"""


def default_hidden(home: Path, env: Mapping[str, str] | None = None) -> tuple[Path, ...]:
    """The existing files and folders that contain keys: those in `home` and in system folders, and those that variables
    in `env` name. `env` defaults to the environment of this process."""
    env = os.environ if env is None else env
    config = Path(env.get("XDG_CONFIG_HOME") or home / ".config")
    hidden = [home / name for name in _IN_HOME.split()]
    hidden += [
        folder / name for folder in dict.fromkeys((config, home / ".config")) for name in _IN_CONFIG.split()
    ]
    hidden += [Path(name) for name in _OF_SYSTEM.split()]
    if os.geteuid() == 0:  # others cannot read them; a client needs the settings next to them
        hidden += sorted(Path("/etc/ssh").glob("ssh_host_*_key"))
    hidden += [
        Path(part)
        for name in _NAMED_BY.split()
        for part in env.get(name, "").split(os.pathsep)
        if part.startswith("/")
    ]
    return tuple(path for path in dict.fromkeys(hidden) if os.path.lexists(path))


# Variables of services with keys, of git (which finds the repository by itself), of repoagent, of agents and sessions
# (sockets), and those that make a program load another one.
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
_NEVER_DROPPED = ("PATH", "HOME", "PWD", "USER", "LOGNAME", "SHELL", "TERM", "LANG", "TZ")

# Caches go to the scratch folder, as the home folder is not writable.
_CACHES = {
    "TMPDIR": "", "TMP": "", "TEMP": "", "XDG_CACHE_HOME": "cache", "XDG_STATE_HOME": "state",
    "XDG_CONFIG_HOME": "config", "XDG_DATA_HOME": "data",
    "PIP_CACHE_DIR": "cache/pip", "UV_CACHE_DIR": "cache/uv", "npm_config_cache": "cache/npm",
    "YARN_CACHE_FOLDER": "cache/yarn", "GOCACHE": "cache/go-build", "CCACHE_DIR": "cache/ccache",
    "SCCACHE_DIR": "cache/sccache", "GRADLE_USER_HOME": "cache/gradle", "MPLCONFIGDIR": "cache/matplotlib",
    "DOTNET_CLI_HOME": "cache/dotnet",
}  # fmt: skip
# Without network access these tools would retry for a while before they fail.
_OFFLINE = {
    "CARGO_NET_OFFLINE": "true", "GOPROXY": "off", "GOSUMDB": "off", "GOTOOLCHAIN": "local", "UV_OFFLINE": "1",
    "PIP_NO_INDEX": "1", "PIP_DISABLE_PIP_VERSION_CHECK": "1", "npm_config_offline": "true",
    "npm_config_update_notifier": "false", "HF_HUB_OFFLINE": "1",
}  # fmt: skip


def scrub_environment(environment: Mapping[str, str], policy: Policy) -> dict[str, str]:
    """Return `environment` without secrets, and without variables such as GIT_* and LD_PRELOAD.

    Secrets are recognized by name or form, even inside other variables. HOME stays, so that tools find their settings
    and downloaded packages, read-only; what they write goes to the scratch folder. `pytest`, `make`, `cargo test`, `go
    test` and `npm test` therefore work even without network access. git trusts the work tree even if another user
    owns it, because that was checked when the work tree was opened.
    """
    secrets = {value for value in secrets_of(environment).values() if len(value) >= SHORTEST}

    def is_secret(name: str, value: str) -> bool:
        if _DROPPED.fullmatch(name) or _SECRET_NAME.search(name) or redact(value, {}) != value:
            return True
        return any(secret in value for secret in secrets)

    clean = {
        name: value
        for name, value in environment.items()
        if name in _NEVER_DROPPED or not is_secret(name, value)
    }
    clean |= {name: str(policy.scratch / folder) for name, folder in _CACHES.items()}
    clean |= {} if policy.network else _OFFLINE
    gradle = environment.get("GRADLE_USER_HOME") or Path(environment.get("HOME", "/"), ".gradle")
    if (downloaded := Path(gradle, "caches")).is_dir():
        clean["GRADLE_RO_DEP_CACHE"] = str(downloaded)
    clean |= {"GIT_OPTIONAL_LOCKS": "0", "GIT_TERMINAL_PROMPT": "0"}
    with suppress(OSError):
        if policy.top.stat().st_uid != os.geteuid():
            top = os.path.realpath(policy.top)
            clean |= {
                "GIT_CONFIG_COUNT": "1",
                "GIT_CONFIG_KEY_0": "safe.directory",
                "GIT_CONFIG_VALUE_0": top,
            }
    return clean
