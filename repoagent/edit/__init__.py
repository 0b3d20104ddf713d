"""`repoagent edit`, `apply`, `join` and `undo`: from a request or a patch to one commit.

Reading order: `request`, `edit` (the loop), `prompt` (the prompt), `tools` and `patch_tool` (the model's tools),
`guards` (what a model must not do), `review_and_commit` and `commit` (review, write, check, commit), `memory` (the
memory of the files). `apply` and `join` commit changes that do not come from a model. `small_models` reads the plain
code in small models' answers.
"""
