"""`repoagent recall`: search what was noted, asked, said and summarized."""
