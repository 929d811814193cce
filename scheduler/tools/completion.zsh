#compdef mgpu-submit mgpu-stat mgpu-cancel mgpu-admin mgpu-web mgpu-sim mgpu-model
# completion.zsh - zsh completion; installed as _mgpu, read by compinit.
#
# As completion.bash: options from --help, columns from -o help.

_mgpu() {
    local tool=${words[1]} prev=${words[CURRENT - 1]} cur=${words[CURRENT]}
    [[ $tool == */* ]] || tool=$(command -v "$tool") || return 1
    local stat=${tool:h}/mgpu-stat
    [[ ${tool:t} != mgpu-model ]] || prev=
    case $prev in
    -S | --sort)
        compadd -- $("$stat" -o help 2>/dev/null |
            sed -n 's/^  \([a-z][a-z_]*\)  .*/\1/p; /^Formats:/q')
        return
        ;;
    -o | --format)
        compset -P '*,'
        compadd -- $("$stat" -o help 2>/dev/null |
            sed -n 's/^  \([a-z][a-z_]*\)  .*/\1/p')
        return
        ;;
    -t | --state)
        compset -P '*,'
        compadd -- QUEUED HELD DISPATCHING STARTING RUNNING CHECKPOINTING \
            STALLED COMPLETED FAILED CANCELLED TIMEOUT NODE_FAIL all
        return
        ;;
    --priority)
        compadd -- low normal high
        return
        ;;
    --launch)
        compadd -- ranks torch mpi node
        return
        ;;
    --explain)
        compadd -- $("${tool:h}/mgpu-submit" --explain 2>/dev/null |
            sed -n 's/^\([EW][0-9]*\)  .*/\1/p')
        return
        ;;
    --export)
        compadd -- csv jsonl tensorboard svg
        return
        ;;
    --color)
        compadd -- auto always never
        return
        ;;
    -u | --user)
        compadd -- me all
        return
        ;;
    esac
    if [[ $cur == -* ]]; then
        compadd -- $("$tool" --help |
            sed -n 's/^  \(-[a-zA-Z], \|    \)\(--[a-z][a-z-]*\).*/\2/p')
        return
    fi
    case ${tool:t} in
    mgpu-submit)
        _files -g '*.(yaml|yml)'
        ;;
    mgpu-model)
        compadd -- $("$tool" --help | sed -n 's/^  \([a-z][a-z]*\) .*/\1/p')
        _files
        ;;
    mgpu-sim)
        _files
        ;;
    mgpu-web) ;;
    mgpu-admin)
        [[ " $words " == *" update "* ]] && compadd -S '' -- time_limit= \
            partition= account= priority= sweep.max_parallel=
        compadd -- $("$tool" --help | sed -n 's/^  \([a-z][a-z]*\) .*/\1/p') \
            $("$stat" --no-header -o id --user all 2>/dev/null |
                sed 's/^ *\([0-9]*\).*/\1/')
        ;;
    mgpu-stat)
        compadd -- $("$stat" --no-header -o id --user me -t all -c 500 \
            2>/dev/null | sed 's/^ *\([0-9]*\).*/\1/')
        ;;
    *)
        compadd -- $("$stat" --no-header -o id --user me 2>/dev/null |
            sed 's/^ *\([0-9]*\).*/\1/')
        ;;
    esac
}

_mgpu "$@"
