"""Write reports: `formats` by name and as JSON, `sarif`, `ci` (GitHub, GitLab, Reviewdog), `markdown`."""
