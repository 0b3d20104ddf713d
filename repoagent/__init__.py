"""repoagent: a git-native repository editing assistant.

For programs: `from repoagent import Repository`; every expected failure is one of `repoagent.errors`. What the names
are for a type checker stands in `__init__.pyi`: here an import of the library would make it one of everything.
"""

__version__ = "0.1.0"

__all__ = [
    "ChangedFile",
    "EditResult",
    "Neighbor",
    "Neighbors",
    "Repository",
    "RunOutcome",
    "Split",
    "__version__",
    "errors",
]


def __getattr__(name: str) -> object:
    """Import what is asked for when it is (PEP 562)."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    if name == "errors":
        return import_module("repoagent.errors")
    return getattr(import_module("repoagent.library"), name)
