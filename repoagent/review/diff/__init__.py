"""Read the change to review: `select` finds the two sides, `read` asks git, `stdin` parses a diff."""
