# bash completion for repoagent and git repoagent

# _repoagent_ask PROGRAM LINE: the candidates for the last word of LINE, which ends at the cursor.
_repoagent_ask () {
    local answer one kind last=
    COMPREPLY=()
    answer=$(_REPOAGENT_COMPLETE=bash_complete COMP_WORDS="$2" COMP_WORDBREAKS="$COMP_WORDBREAKS" \
        command "$1" 2>/dev/null) || return 0
    while IFS= read -r one; do
        kind=${one%%,*}
        case $kind in
            file) compopt -o default +o nospace 2>/dev/null; return 0 ;;
            dir) compopt -o dirnames +o nospace +o default +o bashdefault 2>/dev/null; return 0 ;;
            plain|part) COMPREPLY+=("${one#*,}"); last=$kind ;;
        esac
    done <<< "$answer"
    compopt +o default +o bashdefault +o nospace 2>/dev/null
    if [[ $last == part && ${#COMPREPLY[@]} -eq 1 ]]; then
        compopt -o nospace 2>/dev/null
    fi
    return 0
}

_repoagent () {
    _repoagent_ask "$1" "${COMP_LINE:0:COMP_POINT}"
}

# Called by git's own completion, in which words[__git_cmd_idx] is `repoagent` or an alias of it.
_git_repoagent () {
    local at=${__git_cmd_idx:-1} before
    local line=git
    for before in "${words[@]:1:at-1}"; do
        line+=" $before"
    done
    line+=" repoagent"
    for before in "${words[@]:at+1:cword-at-1}"; do
        line+=" $before"
    done
    _repoagent_ask repoagent "$line $cur"
}

complete -o nosort -F _repoagent repoagent git-repoagent 2>/dev/null ||
    complete -F _repoagent repoagent git-repoagent
