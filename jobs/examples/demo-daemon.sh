# demo-daemon.sh - a private daemon for demo.sh, demo-llm.sh and demo-torch.sh,
# which source this file.
# shellcheck shell=sh
#
# MGPU_BIN names the folder of the built programs. Sets demo (the script's name),
# bin, here (the folder of the examples) and dir, a new directory that stays for
# a look. The script sets job to the job that runs, or to nothing.

bin=${MGPU_BIN:?set MGPU_BIN to the folder of the mgpu programs}
demo=$(basename "$0" .sh)
# shellcheck disable=SC2034 # the scripts use it
here=$(cd "$(dirname "$0")" && pwd)
dir=$(mktemp -d "${TMPDIR:-/tmp}/mgpu-$demo.XXXXXX")
MGPU_URL=unix:$dir/ctld.sock
export MGPU_URL
daemon=
job=

# Ends the job first, then the daemon: a daemon leaves its jobs running.
stop() {
    trap - EXIT INT TERM HUP
    if [ -n "$daemon" ]; then
        if [ -n "$job" ] && "$bin/mgpu-cancel" --quiet "$job" 2>/dev/null; then
            "$bin/mgpu-stat" --wait --timeout 5m "$job" >/dev/null 2>&1 || :
        fi
        kill "$daemon" 2>/dev/null || :
        wait "$daemon" 2>/dev/null || :
    fi
}
trap 'stop; exit 130' INT TERM HUP
trap stop EXIT

show() {
    printf '\n$ mgpu-%s\n' "$*"
    tool=$1
    shift
    "$bin/mgpu-$tool" "$@"
}

# fail STATUS MESSAGE: shows the job and the end of its log first.
fail() {
    code=$1
    shift
    if [ -n "$job" ]; then
        "$bin/mgpu-stat" "$job" || :
        "$bin/mgpu-stat" --logs "$job" | tail -n 30 || :
    fi
    echo "$demo: $*" >&2
    exit "$code"
}

# start_daemon OPTION...: in a session of its own: Ctrl-C is for the script, which
# still needs the daemon to end the job.
start_daemon() {
    setsid "$bin/mgpu-ctld" --local --state-dir "$dir/state" \
        --socket "$dir/ctld.sock" "$@" 2>"$dir/ctld.log" &
    daemon=$!
    tries=3000
    until "$bin/mgpu-stat" --status >/dev/null 2>&1; do
        tries=$((tries - 1))
        if [ "$tries" -eq 0 ] || ! kill -0 "$daemon" 2>/dev/null; then
            cat "$dir/ctld.log" >&2
            fail 1 "the daemon did not start"
        fi
        sleep 0.1
    done
}

# wait_for_job: until it has ended; a job that fails ends the demo, too.
wait_for_job() {
    show stat --wait "$job" || fail $? "the job did not complete"
}
