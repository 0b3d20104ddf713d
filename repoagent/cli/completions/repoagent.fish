# fish completion for repoagent and git repoagent

function __repoagent_complete
    set -l line (commandline -cp | string collect)
    env _REPOAGENT_COMPLETE=fish_complete COMP_WORDS="$line" repoagent 2>/dev/null
end

for program in repoagent git-repoagent
    complete -c $program -e
    complete -c $program -f -k -a '(__repoagent_complete)'
end
complete -c git -n '__fish_seen_subcommand_from repoagent' -f -k -a '(__repoagent_complete)'
complete -c git -n __fish_git_needs_command -f -a repoagent -d 'Change files with a model, as clean commits'
