from repoagent import errors as errors
from repoagent.library import ChangedFile as ChangedFile
from repoagent.library import EditResult as EditResult
from repoagent.library import Neighbor as Neighbor
from repoagent.library import Neighbors as Neighbors
from repoagent.library import Repository as Repository
from repoagent.library import RunOutcome as RunOutcome
from repoagent.library import Split as Split

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

__version__: str
