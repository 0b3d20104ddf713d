"""`repoagent edit`, `apply`, `join` and `undo`: from a request or a patch to one commit.

Reading order: request, edit (the loop), prompt/ (what a model sees), tools and patch_tool (what it may do), guards/
(what it must not do), review_and_commit and commit (question, write, check, commit), memory and pending_memory (what
the files remember). apply_patch and join commit changes that no model made; small_models/ reads the plain code that
small models answer with."""
