#compdef git-repoagent repoagent
#description change files with a model, as clean commits

_repoagent () {
    local line folder kind value help
    local -a answer plain part

    line="${(j: :)words[2,CURRENT-1]} $QIPREFIX$IPREFIX$PREFIX"
    if [[ ${funcstack[(r)_git]} == _git ]]; then
        # git's own completion has taken the options before the command away
        folder=${opt_args[-C]}
        line="git ${folder:+-C $folder} repoagent $line"
    else
        line="repoagent $line"
    fi
    answer=("${(@f)$(_REPOAGENT_COMPLETE=zsh_complete COMP_WORDS=$line command repoagent 2>/dev/null)}")
    [[ $PREFIX == --*=* ]] && compset -P 1 '*='
    for kind value help in "${(@)answer}"; do
        case $kind in
            file) _files; return ;;
            dir) _files -/; return ;;
            plain) plain+=("${value//:/\\:}${help:+:$help}") ;;
            part) part+=("${value//:/\\:}${help:+:$help}") ;;
        esac
    done
    (( $#plain )) && _describe -V -t values repoagent plain
    (( $#part )) && _describe -V -t values repoagent part -S ''
    (( $#plain + $#part ))
}

_git-repoagent () { _repoagent "$@" }

if [[ $zsh_eval_context[-1] == loadautofunc ]]; then
    _repoagent "$@"
else
    compdef _repoagent repoagent git-repoagent
fi
