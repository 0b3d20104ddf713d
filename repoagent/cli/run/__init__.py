"""`repoagent run`: a whole task. Its options, its talk with a person or a program, its end; `chat` shares them."""
