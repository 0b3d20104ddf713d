from repoagent import errors as errors
from repoagent.api.repository import Repository as Repository
from repoagent.api.results import ChangedFile as ChangedFile
from repoagent.api.results import EditResult as EditResult
from repoagent.api.results import Neighbor as Neighbor
from repoagent.api.results import Neighbors as Neighbors
from repoagent.api.results import Split as Split
from repoagent.tasks.run_context import RunOutcome as RunOutcome

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
