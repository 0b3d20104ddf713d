"""`repoagent edit`: one request, one validated change, one commit; `--again` asks for it anew."""
