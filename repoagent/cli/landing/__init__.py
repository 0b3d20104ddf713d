"""What all commands that end in a commit share: their options, what they show and ask, how they say what came of it."""
