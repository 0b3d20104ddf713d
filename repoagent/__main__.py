"""`python -m repoagent` is the same program as `repoagent`."""

from repoagent.cli import main

main()
