# shellcheck shell=bash
# completion.bash - bash completion for mgpu-submit, mgpu-stat, mgpu-cancel,
# mgpu-admin, mgpu-web, mgpu-sim and mgpu-model.
#
# The options come from the tool's own --help, which is printed from the
# table that its parser reads, and columns from -o help: nothing to keep in
# step. completion.zsh does the same for zsh.

# _mgpu_values OPTION: what may follow it, a word each; fails for any text.
_mgpu_values() {
    case $1 in
    -S | --sort) # rows are sorted by a column, not by a format
        "${tool%/*}/mgpu-stat" -o help 2>/dev/null |
            sed -n 's/^  \([a-z][a-z_]*\)  .*/\1/p; /^Formats:/q'
        ;;
    -o | --format)
        "${tool%/*}/mgpu-stat" -o help 2>/dev/null |
            sed -n 's/^  \([a-z][a-z_]*\)  .*/\1/p'
        ;;
    -t | --state)
        echo QUEUED HELD DISPATCHING STARTING RUNNING CHECKPOINTING STALLED \
            COMPLETED FAILED CANCELLED TIMEOUT NODE_FAIL all
        ;;
    --priority) echo low normal high ;;
    --launch) echo ranks torch mpi node ;;
    --export) echo csv jsonl tensorboard svg ;;
    --explain)
        "${tool%/*}/mgpu-submit" --explain 2>/dev/null |
            sed -n 's/^\([EW][0-9]*\)  .*/\1/p'
        ;;
    --color) echo auto always never ;;
    -u | --user) echo me all ;;
    *) return 1 ;;
    esac
}

# _mgpu_jobs FILTER...: numbers of one's own jobs, or as the filter says.
_mgpu_jobs() {
    "${tool%/*}/mgpu-stat" --no-header -o id "$@" 2>/dev/null |
        sed 's/^ *\([0-9]*\).*/\1/'
}

_mgpu() {
    local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD - 1]}
    local tool=${COMP_WORDS[0]} done='' words
    COMPREPLY=()
    case $tool in */*) ;; *) tool=$(command -v "$tool") || return ;; esac
    if [[ ${tool##*/} != mgpu-model ]] && words=$(_mgpu_values "$prev"); then
        # Of a list, the last word; what stands before it stays.
        case $cur in *,*) done=${cur%,*}, ;; esac
        mapfile -t COMPREPLY < <(compgen -P "$done" -W "$words" -- "${cur##*,}")
        return
    fi
    case $cur in
    -*)
        mapfile -t COMPREPLY < <(compgen -W "$("$tool" --help |
            sed -n 's/^  \(-[a-zA-Z], \|    \)\(--[a-z][a-z-]*\).*/\2/p')" -- "$cur")
        ;;
    *)
        case ${tool##*/} in
        mgpu-submit)
            mapfile -t COMPREPLY < <(compgen -f -X '!*.y?(a)ml' -- "$cur"
                compgen -d -- "$cur")
            ;;
        mgpu-admin)
            mapfile -t COMPREPLY < <(compgen -W "$("$tool" --help |
                sed -n 's/^  \([a-z][a-z]*\) .*/\1/p')
                $([[ " ${COMP_WORDS[*]} " == *" update "* ]] &&
                    printf '%s= ' time_limit partition account priority \
                        sweep.max_parallel)
                $(_mgpu_jobs --user all)" -- "$cur")
            ;;
        mgpu-model)
            mapfile -t COMPREPLY < <(compgen -f -- "$cur"
                [[ $prev == -* ]] || compgen -W "$("$tool" --help |
                    sed -n 's/^  \([a-z][a-z]*\) .*/\1/p')" -- "$cur")
            ;;
        mgpu-sim)
            mapfile -t COMPREPLY < <(compgen -f -- "$cur")
            ;;
        mgpu-web) ;;
        mgpu-stat)
            mapfile -t COMPREPLY < <(compgen -W \
                "$(_mgpu_jobs --user me -t all -c 500)" -- "$cur")
            ;;
        *)
            mapfile -t COMPREPLY < <(compgen -W "$(_mgpu_jobs --user me)" -- "$cur")
            ;;
        esac
        ;;
    esac
}
complete -o filenames -F _mgpu mgpu-submit mgpu-sim mgpu-model
complete -F _mgpu mgpu-stat mgpu-cancel mgpu-admin mgpu-web
