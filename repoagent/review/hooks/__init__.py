"""Git hooks that review commits and pushes: `install` writes them, `run` selects the changes that each reviews."""
