"""What a command may touch, as a value."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from repoagent.dataclass import dataclass

_SHARED_MEMORY = 1 << 30


@dataclass(frozen=True)
class Policy:
    """What a command may touch. Paths are absolute; the deeper one decides: a `scratch` inside of `keep` is writable.

    All else of the file system is readable and not writable. `shield` is kept too, unless it is below `also_write`: of
    a link what it leads to; where there is nothing, or an empty folder, nothing can be made. With Landlock alone it
    holds at the top of the work tree only. `memory` is in bytes and for all processes together.
    """

    top: Path
    scratch: Path
    keep: tuple[Path, ...] = ()
    hide: tuple[Path, ...] = ()
    also_write: tuple[Path, ...] = ()
    also_read: tuple[Path, ...] = ()  # of /tmp and /run, which are empty otherwise
    read_only: bool = False
    network: bool = False
    memory: int | None = None
    processes: int | None = None
    shield: tuple[Path, ...] = ()

    @property
    def shared_memory(self) -> int:
        """Bytes of /dev/shm, which are in no process."""
        return min(self.memory or _SHARED_MEMORY, _SHARED_MEMORY)


# What holds keys, or words that were meant for one program: below the home folder.
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
    """Where keys are on most machines, below `home`, of the system, and named by `env` (or this process's environment):
    what there is of it."""
    env = os.environ if env is None else env
    config = Path(env.get("XDG_CONFIG_HOME") or home / ".config")
    hidden = [home / name for name in _IN_HOME.split()]
    hidden += [
        folder / name for folder in dict.fromkeys((config, home / ".config")) for name in _IN_CONFIG.split()
    ]
    hidden += [Path(name) for name in _OF_SYSTEM.split()]
    if os.geteuid() == 0:  # nobody else can read them; a client needs the settings beside them
        hidden += sorted(Path("/etc/ssh").glob("ssh_host_*_key"))
    hidden += [
        Path(part)
        for name in _NAMED_BY.split()
        for part in env.get(name, "").split(os.pathsep)
        if part.startswith("/")
    ]
    return tuple(path for path in dict.fromkeys(hidden) if os.path.lexists(path))
