"""repoagent: a git-native repository editing assistant.

Programs use `from repoagent import Repository`; every expected failure is an exception of `repoagent.errors`. The types
are in `__init__.pyi`, because an import here would load the library for every command.
"""

__version__ = "0.1.0"

_EXPORTS = {
    "ChangedFile": "repoagent.api.results",
    "EditResult": "repoagent.api.results",
    "Neighbor": "repoagent.api.results",
    "Neighbors": "repoagent.api.results",
    "Repository": "repoagent.api.repository",
    "RunOutcome": "repoagent.tasks.run_context",
    "Split": "repoagent.api.results",
    "errors": "repoagent.errors",
}
__all__ = [*_EXPORTS, "__version__"]  # noqa: PLE0604


def __getattr__(name: str) -> object:
    """Import a name of the library on first use (PEP 562)."""
    if name not in _EXPORTS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    module = import_module(_EXPORTS[name])
    return module if name == "errors" else getattr(module, name)
