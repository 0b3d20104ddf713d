"""Git hooks that review commits and pushes: `install` writes them, `run` says what each reviews."""
