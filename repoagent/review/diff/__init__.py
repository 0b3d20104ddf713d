"""Read the change to review: from git, or from a diff on standard input."""
