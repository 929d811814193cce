# daemon.bash - a daemon of one's own for a benchmark: in its own directory, and
# both gone when the script ends. Sourced with MGPU_BIN and MGPU_BENCH set.
# shellcheck shell=bash
# shellcheck disable=SC2034 # used by who sources this

bin=${MGPU_BIN:?set MGPU_BIN to the folder of the mgpu programs}
bench=${MGPU_BENCH:?set MGPU_BENCH to the folder of the built benchmarks}
dir=$(mktemp -d "${TMPDIR:-/tmp}/mgpu-load.XXXXXX")
socket=$dir/sock
daemon=
holder=
helpers=()

end_daemon() {
    [ -n "$daemon" ] || return 0
    kill "$daemon" 2>/dev/null || :
    wait "$daemon" 2>/dev/null || :
    daemon=
}
below() { # PID: it, and what it started
    local pid
    for pid in $(pgrep -P "$1"); do below "$pid"; done
    echo "$1"
}
end_helpers() {
    local pid pids
    for pid in "${helpers[@]}"; do
        mapfile -t pids < <(below "$pid")
        kill "${pids[@]}" 2>/dev/null || :
        wait "$pid" 2>/dev/null || :
    done
    helpers=()
}
ours() { # pids of what runs in our directory, or was told of it
    local proc args
    for proc in /proc/[0-9]*; do
        mapfile -d '' -t args 2>/dev/null <"$proc/cmdline" || :
        if [[ "${args[*]} " == *"$dir/"* ||
            $(readlink "$proc/cwd") == "$dir"/* ]]; then
            echo "${proc#/proc/}"
        fi
    done 2>/dev/null
}
# Attempts outlive their daemon, and wait for the next one to report to. Asked
# to end, and made to after five seconds.
end_attempts() {
    local pids
    for i in $(seq 100); do
        mapfile -t pids < <(ours)
        [ "${#pids[@]}" -gt 0 ] || return 0
        if [ "$i" = 1 ]; then
            kill "${pids[@]}" 2>/dev/null || :
        elif [ "$i" -gt 50 ]; then
            kill -KILL "${pids[@]}" 2>/dev/null || :
        fi
        sleep 0.1
    done
}
stop() {
    trap - EXIT INT TERM
    end_helpers
    [ -z "$daemon" ] || [ -z "$holder" ] ||
        api "/v1/jobs/$holder/cancel" -X POST >/dev/null || :
    end_daemon
    end_attempts
    rm -rf "${dir:?}"
}
trap stop EXIT
trap 'exit 130' INT TERM

now() { date +%s.%N; }
api() {
    curl --silent --fail --max-time 60 --unix-socket "$socket" \
        "http://mgpu$1" "${@:2}"
}
metric() { api /metrics | awk -v name="$1" '$1 == name { print $2 }'; }
say() { printf '%-4s %-34s %-18s %s\n' "$@"; }
ms() { awk '{ printf "%.1f ms", $1 * 1e3 }'; }
# Seconds on a core so far.
cpu() { awk '{ print ($14 + $15) / 100 }' "/proc/$daemon/stat"; }
cores() { # AT_FIRST SECONDS: of one core since then
    awk -v a="$1" -v b="$(cpu)" -v s="$2" \
        'BEGIN { printf "%.0f %% of a core", (b - a) / s * 100 }'
}
# What was asked for has come, the plans and the archive too: it has used no
# core for two seconds.
rests() {
    local was=
    for _ in $(seq 60); do
        [ "$was" != "$(cpu)" ] || return 0
        was=$(cpu)
        sleep 2
    done
    echo "${0##*/}: the daemon does not come to rest" >&2
    exit 1
}
as_other=()
start() { # STATE [SOCKET [CONFIG]]: keeps the seconds until it is ready
    local t
    t=$(now)
    socket=${2:-$dir/sock}
    "${as_other[@]}" "$bin/mgpu-ctld" --config "${3:-$dir/mgpu.yaml}" --local \
        --slots "${slots:-1}" --state-dir "$1" --socket "$socket" 2>>"$dir/ctld.log" &
    daemon=$!
    until api /readyz >/dev/null 2>&1; do
        kill -0 "$daemon" 2>/dev/null || {
            cat "$dir/ctld.log" >&2
            exit 1
        }
        sleep 0.01
    done
    awk -v a="$t" -v b="$(now)" 'BEGIN { printf "%.2f", b - a }' >"$dir/ready"
}
# One job holds the only slot, so that all others wait and are planned.
hold_slot() {
    holder=$(api /v1/jobs -d '{"spec":{"version":1,"kind":"command",
        "name":"holder","command":["sleep","86400"],"resources":{"gpus":1},
        "policy":{"priority":50}}}' |
        sed 's/.*"id":\([0-9]*\).*/\1/')
    for _ in $(seq 400); do
        [[ $(api "/v1/jobs/$holder") != *'"RUNNING"'* ]] || return 0
        sleep 0.05
    done
    echo "${0##*/}: the first job does not run" >&2
    exit 1
}
