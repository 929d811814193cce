# shellcheck shell=bash
# completion.bash - bash completion for mgpu-submit, mgpu-stat, mgpu-cancel
# and mgpu-admin.
#
# The options come from the tool's own --help, which is printed from the
# table that its parser reads: nothing to keep in step.

_mgpu() {
    local cur=${COMP_WORDS[COMP_CWORD]} tool=${COMP_WORDS[0]}
    COMPREPLY=()
    case $cur in
    -*)
        mapfile -t COMPREPLY < <(compgen -W "$("$tool" --help |
            sed -n 's/^  \(-[a-z], \|    \)\(--[a-z][a-z-]*\).*/\2/p')" -- "$cur")
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
                $(mgpu-stat --no-header --user all 2>/dev/null |
                    sed 's/^ *\([0-9]*\).*/\1/')" -- "$cur")
            ;;
        *)
            mapfile -t COMPREPLY < <(compgen -W "$(mgpu-stat --no-header \
                --user me 2>/dev/null | sed 's/^ *\([0-9]*\).*/\1/')" -- "$cur")
            ;;
        esac
        ;;
    esac
}
complete -o filenames -F _mgpu mgpu-submit
complete -F _mgpu mgpu-stat mgpu-cancel mgpu-admin
