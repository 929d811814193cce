# stage.sh - stages of .ci/run and .ci/nightly, which source this file.
# shellcheck shell=sh

left_out=

# stage NAME COMMAND...: runs it. The first failure ends all. Status 77: this
# machine has not what it takes.
stage() {
    name=$1
    shift
    start=$(date +%s)
    status=0
    printf '== %s\n' "$name"
    "$@" || status=$?
    took="$(($(date +%s) - start)) s"
    case $status in
    0) printf '== %s passed in %s\n' "$name" "$took" ;;
    77)
        printf '== %s LEFT OUT\n' "$name"
        left_out="$left_out, $name"
        ;;
    *)
        printf '== %s FAILED after %s\n' "$name" "$took"
        exit 1
        ;;
    esac
}

# The last line.
stages_done() {
    [ -z "$left_out" ] || printf '== left out: %s\n' "${left_out#, }"
}
