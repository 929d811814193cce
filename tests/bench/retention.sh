#!/bin/bash
# retention.sh - what store.metrics_retention costs those who work meanwhile:
# ROWS of jobs that ended over ten days go, while four ranks send a thousand
# each some ten times a second and twenty readers look.
#
#   retention.sh [ROWS [SECONDS]]                            10000000 20
#
# First SECONDS without it, then with it, until all are gone. Ten million rows
# need 1.2 GB of disk, and a clock that is synchronised (adjtimex(2)): without
# one nothing goes. Not a test: figures are printed beside their targets.
set -eu

rows=${1:-10000000} seconds=${2:-20}
slots=3
# shellcheck source=tests/bench/daemon.bash
. "${0%/*}/daemon.bash"

size() {
    stat -c %s "$dir/past/metrics.db" | awk '{ printf "%.0f MB", $1 / 1e6 }'
}
unused() { # pages of the file that rows have left
    sqlite3 -readonly "$dir/past/metrics.db" \
        'PRAGMA page_size; PRAGMA freelist_count' |
        awk '{ n = NR == 1 ? $1 : n * $1 } END { printf "%.0f MB", n / 1e6 }'
}
removed() { metric mgpu_rows_removed_total; }
has_looked() { [[ $(api /v1/status) == *'"looked":"'* ]]; }
# A job that runs; its token.
worker() { # NAME
    holder=$(api /v1/jobs -d "{\"spec\":{\"version\":1,\"kind\":\"command\",
        \"name\":\"$1\",\"command\":[\"sleep\",\"3600\"],
        \"resources\":{\"gpus\":1}}}" | sed 's/.*"id":\([0-9]*\).*/\1/')
    until [[ $(api "/v1/jobs/$holder") == *'"RUNNING"'* ]]; do sleep 0.05; done
    token=$(sed 's/.*"token": *"\([0-9a-f]*\)".*/\1/' \
        "$dir/past/jobs/$holder/1/launch.json" | tr -d '\n')
}
send() { # SECONDS: what it took to have rows acknowledged
    "$bench/load" rows "$socket" "$holder" "$token" 4 "$1" 100
}
look() { # SECONDS
    "$bench/load" get "$socket" "/v1/jobs/$holder/iterations?last=1&limit=100" \
        20 5 "$1" >"$dir/readers" &
    helpers=($!)
}

conf='version: 1\nlimits: {max_jobs_per_user: 1000000}\n'
printf '%b' "$conf" >"$dir/mgpu.yaml"
mkdir -m 700 "$dir/past"
"$bench/fill" "$dir/past" 0 "$((rows / 100000 + 1))" 10 "$rows"
start "$dir/past"
say id load target figure
say L5 "$rows rows of the past" '' "metrics.db $(size)"
worker without
look "$seconds"
say '' 'rows sent, nothing goes' '' "$(send "$seconds")"
wait "${helpers[@]}"
say '' 'the readers' '' "$(cat "$dir/readers")"
say '' 'longest turn of the loop' 'never > 50 ms' \
    "$(metric mgpu_loop_stall_longest_seconds | ms)"
worker with
printf '%bstore: {metrics_retention: 1h}\n' "$conf" >"$dir/mgpu.yaml"
look "$seconds"
t=$(now)
"$bin/mgpu-admin" --url "unix:$socket" --quiet reload
say '' 'rows sent, old ones go' '' "$(send "$seconds")"
n=$(removed)
say '' 'removed meanwhile' '' "$(awk -v n="$n" -v a="$t" -v b="$(now)" \
    'BEGIN { printf "%d, %.0f/s", n, n / (b - a) }')"
wait "${helpers[@]}"
say '' 'the readers' '' "$(cat "$dir/readers")"
t=$(now)
until has_looked; do
    [[ $(api /v1/status) != *'"waits_for_clock":true'* ]] || {
        echo "the clock is not synchronised: nothing goes" >&2
        exit 1
    }
    sleep 0.1
done
say '' 'the rest, alone' '' "$(awk -v n="$(($(removed) - n))" -v a="$t" \
    -v b="$(now)" 'BEGIN { printf "%d, %.0f/s", n, n / (b - a) }')"
say '' 'longest turn of the loop' 'never > 50 ms' \
    "$(metric mgpu_loop_stall_longest_seconds | ms), without waiting for a core $(
        metric mgpu_loop_stall_own_longest_seconds | ms)"
say '' 'metrics.db' 'stated' "$(size), of which unused $(unused)"
worker new
send 5 >"$dir/more"
say '' 'and after so many new ones' '' \
    "$(sed 's/.*, //' "$dir/more"): $(size), of which unused $(unused)"
