"""The ground that a run stands on: the state of the repository, and the linked work tree where one was asked for."""
