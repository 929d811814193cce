# helpers.bash - a private daemon per test, and waiting with a deadline.
#
#   load helpers
#   setup() { ctld_start; }         # MGPU_URL points at it
#   teardown() { ctld_stop; }
#
# The daemon, its jobs and their files live in $BATS_TEST_TMPDIR/d and end
# with the test. Nothing here sleeps for an amount of time: wait_for looks
# again until the condition holds or the deadline has passed.
# shellcheck shell=bash

export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1

ctld_dir=
ctld_pid=

# A line of a test that begins with ! cannot fail.
not() { ! "$@"; }

# What trains may take so many seconds, or it is ended: ten times what any of
# these tests needs of two quiet cores, for other programs may have the cores.
export compute_s=1800

# wait_for SECONDS COMMAND...: until it succeeds. So long it may take on a
# machine of its own; beside other programs it has ten times as long.
wait_for() {
    local deadline=$((SECONDS + 10 * $1))
    shift
    until "$@"; do
        if [ "$SECONDS" -ge "$deadline" ]; then
            echo "not in time: $*" >&2
            return 1
        fi
        sleep 0.05
    done
}

# api METHOD PATH [curl's options...]: the reply's body; fails on >= 400.
api() {
    local method=$1 path=$2
    shift 2
    curl --silent --show-error --fail-with-body --max-time 20 \
        --unix-socket "$ctld_dir/sock" -X "$method" "http://mgpu$path" "$@"
}

# json EXPRESSION: of standard input, as SQLite's json_extract has it. 128 KiB
# at most, as any argument.
json() {
    local text
    text=$(cat)
    sqlite3 :memory: "SELECT json_extract('${text//\'/\'\'}', '$1')"
}

# follow_until TEST FILE COMMAND...: runs what goes on for ever, its output in
# FILE, until `TEST FILE` succeeds. Its last line may be half a line. COMMAND
# is a program: of a function only the shell would be ended.
follow_until() {
    local test=$1 file=$2 pid status=0
    shift 2
    : >"$file" # or what the last one left is taken for this one's
    "$@" >"$file" 3>&- &
    pid=$!
    wait_for 60 "$test" "$file" || status=$?
    kill "$pid" 2>/dev/null || :
    wait "$pid" 2>/dev/null || :
    return "$status"
}

ctld_ready() { api GET /readyz >/dev/null 2>&1; }

# ctld_start [options...]: again after ctld_kill or ctld_term, on the same
# files. Variables (MGPU_FAIL_STORE) reach it through the environment.
ctld_start() { ctld_launch --local --slots 2 "$@"; }

ctld_launch() {
    ctld_dir=$BATS_TEST_TMPDIR/d
    mkdir -p "$ctld_dir"
    chmod 700 "$ctld_dir"
    export MGPU_URL=unix:$ctld_dir/sock
    # 3 is bats' own: whoever keeps it open keeps bats waiting.
    "$MGPU_BIN/mgpu-ctld" --state-dir "$ctld_dir/state" \
        --socket "$ctld_dir/sock" "$@" >>"$ctld_dir/ctld.log" 2>&1 3>&- &
    ctld_pid=$!
    wait_for 30 ctld_up_or_gone
    kill -0 "$ctld_pid" 2>/dev/null || return 1
}

ctld_up_or_gone() { ctld_ready || ! kill -0 "$ctld_pid" 2>/dev/null; }

ctld_end() { # SIGNAL; the daemon's exit status
    local status=0 pid=$ctld_pid
    [ -n "$pid" ] || return 0
    ctld_pid=
    kill "-$1" "$pid" 2>/dev/null || :
    wait "$pid" 2>/dev/null || status=$?
    return "$status"
}
ctld_term() { ctld_end TERM; }
ctld_kill() { ctld_end KILL || :; }

# Their numbers; a thousand others may have ended.
live_jobs() {
    local states=NEW,QUEUED,HELD,DISPATCHING,UNKNOWN,STARTING,RUNNING
    api GET "/v1/jobs?fields=id&state=$states,CHECKPOINTING,STALLED" |
        grep -o '"id":[0-9]*' | tr -dc '0-9\n'
}
no_live_job() {
    [ "$(api GET '/v1/jobs?limit=1' | json '$.running')" = 0 ]
}

# Also of a process that nobody waits for.
process_gone() {
    case $(sed 's/.*) //' "/proc/$1/stat" 2>/dev/null) in
    '' | [ZX]*) ;;
    *) return 1 ;;
    esac
}

# For teardown: no job and no daemon is left, however the test went.
ctld_stop() {
    [ -n "$ctld_dir" ] || return 0
    if [ -n "$ctld_pid" ] && ctld_ready; then
        for id in $(live_jobs); do
            api POST "/v1/jobs/$id/cancel" >/dev/null 2>&1 || :
        done
        wait_for 60 no_live_job || :
    fi
    [ -n "${BATS_TEST_COMPLETED:-}" ] || cat "$ctld_dir/ctld.log"
    ctld_end TERM || :
}

# submit_command NAME ARG...: a `kind: command` job on one slot; prints its
# id, or the error.
submit_command() {
    local name=$1 args reply
    shift
    args=$(printf ',"%s"' "$@")
    reply=$(api POST /v1/jobs -d \
        "{\"spec\":{\"version\":1,\"kind\":\"command\",\"name\":\"$name\",
          \"command\":[${args#,}],\"resources\":{\"gpus\":1}}}" 2>/dev/null) || {
        echo "$reply"
        return 1
    }
    json '$.id' <<<"$reply"
}

job_state() { api GET "/v1/jobs/$1" | json '$.job.state'; }
job_is() { [ "$(job_state "$1")" = "$2" ]; }
job_has_ended() {
    case $(job_state "$1") in
    COMPLETED | FAILED | CANCELLED | TIMEOUT | NODE_FAIL) ;;
    *) return 1 ;;
    esac
}

# bytes_json TOKENS: a tokenizer.json of 512 tokens: bytes, words without use, and
# the added TOKENS, a list in JSON.
bytes_json() {
    cat <<END
{"model": {"type": "BPE", "byte_fallback": true, "merges": [], "vocab": {
$(for i in {0..511}; do
        if [ "$i" -lt 256 ]; then printf '"<0x%02X>": %d' "$i" "$i"
        else printf '"w%d": %d' "$i" "$i"; fi
        [ "$i" = 511 ] || echo ,
    done)}},
"added_tokens": $1,
"decoder": {"type": "Sequence", "decoders": [{"type": "ByteFallback"}]}}
END
}
