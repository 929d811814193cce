#!/usr/bin/env bats
# admin.bats - mgpu-admin and what it does to a daemon and its queue.

bats_require_minimum_version 1.5.0
load helpers

setup() { ctld_start; }
teardown() { ctld_stop; }

admin() { "$MGPU_BIN/mgpu-admin" "$@"; }
reason_of() { api GET "/v1/jobs/$1" | json '$.job.reason'; }
is_paused_for() { [[ $(reason_of "$1") == Paused* ]]; }

@test "a pause starts nothing, outlives the daemon, and ends" {
    run admin pause --reason 'new kernel'
    [ "$status" -eq 0 ]
    [ "$output" = "paused: nothing new is started" ]
    id=$(submit_command one true)
    wait_for 30 is_paused_for "$id"
    run admin status
    [[ $output == *" paused     since 20"*"by uid $(id -u)"*": new kernel"* ]]
    [[ $output == *" jobs       1 QUEUED"* ]]
    ctld_kill
    ctld_start
    wait_for 30 is_paused_for "$id"
    admin pause # is so already
    admin resume
    wait_for 60 job_is "$id" COMPLETED
    run admin status
    [[ $output != *" paused "* ]]
    run admin log
    [ "${#lines[@]}" -eq 2 ]
    [[ ${lines[0]} == 20*"uid $(id -u)"*pause*'why: new kernel' ]]
    [[ ${lines[1]} == *resume* ]]
    run admin log --last 1 --json
    [ "$(json '$.actions[0].do' <<<"$output")" = resume ]
    [ "$(json '$.actions[1].do' <<<"$output")" = "" ]
}

@test "each verb twice is one action, and another reason another" {
    cd "$ctld_dir"
    node=$("$MGPU_BIN/mgpu-stat" --nodes --json | json '$.nodes[0].name')
    id=$(submit_command one sleep 600)
    wait_for 60 job_is "$id" RUNNING
    admin --quiet pause --reason kernel
    next=$(submit_command two sleep 600)
    for _ in 1 2; do
        admin --quiet pause --reason kernel
        admin --quiet drain "$node" --reason fan
        admin --quiet hold "$next"
    done
    admin --quiet pause # is so, and nothing else is said of it
    admin --quiet drain "$node"
    [ "$(grep -c . state/admin.log)" -eq 2 ]
    since() { api GET /v1/status | json "\$.$1.since"; }
    paused=$(since paused) drained=$(since 'drained[0]')
    admin --quiet pause --reason 'kernel, again'
    admin --quiet drain "$node" --reason 'the other fan'
    [ "$(grep -c . state/admin.log)" -eq 4 ]
    run admin log --last 2
    [[ ${lines[0]} == *" pause   why: kernel, again, not: kernel" ]]
    [[ ${lines[1]} == *" drain   $node, why: the other fan, not: fan" ]]
    ctld_kill
    ctld_start
    [ "$(since paused)" = "$paused" ] && [ "$(since 'drained[0]')" = "$drained" ]
    run admin status
    [[ $output == *": kernel, again"*": the other fan"* ]]
    counts() { api GET /metrics | grep -qx "mgpu_$1"; }
    counts 'paused 1' && counts 'nodes_drained 1' && counts 'policy_set 0'
    for _ in 1 2; do
        admin --quiet resume "$node"
        admin --quiet unpause
        admin --quiet release "$next" # and runs soon
        admin --quiet policy set limits.max_gpus_per_user=9
    done
    [ "$(grep -c . state/admin.log)" -eq 7 ]
    run admin log --last 1
    [[ $output == *" policy  limits.max_gpus_per_user: null -> 9" ]]
    counts 'paused 0' && counts 'nodes_drained 0' && counts 'policy_set 1'
    for _ in 1 2; do admin --quiet policy reset; done
    [ "$(grep -c . state/admin.log)" -eq 8 ]
    run admin log --last 1
    [[ $output == *" policy  limits.max_gpus_per_user: 9 -> null (reset)" ]]
    wait_for 60 job_is "$next" RUNNING
    admin --quiet release "$next"
    run admin hold "$next"
    [ "$status" -eq 73 ]
    [[ $output == *"job $next is RUNNING and cannot be held: only pending jobs can."*requeue* ]]
    [ "$("$MGPU_BIN/mgpu-stat" --events "$next" | grep -c ' hold ')" -eq 1 ]
}

@test "a node that is drained while the daemon is paused is shown so" {
    node=$("$MGPU_BIN/mgpu-stat" --nodes -o ids)
    shows() { "$MGPU_BIN/mgpu-stat" --nodes | grep -q "$1"; }
    hides() { ! shows "$1"; }
    admin --quiet pause
    admin --quiet drain "$node" --reason fan
    wait_for 30 shows " drained .*drained by uid $(id -u): fan"
    admin --quiet resume "$node"
    wait_for 30 hides drained
}

@test "pause --wait waits for what runs, and drain wants a node" {
    id=$(submit_command runs sleep 600)
    wait_for 60 job_is "$id" RUNNING
    run admin drain --reason fan
    [ "$status" -eq 64 ]
    [[ $output == *"drain: which node? "*" use pause"* ]]
    for bad in "drain --wait node" "pause --timeout 1s" "resume --timeout 1s"; do
        # shellcheck disable=SC2086 # words
        run admin $bad
        [ "$status" -eq 64 ] || { echo "$bad: $status" && false; }
    done
    [ "$(api GET /v1/status | json '$.paused')" = "" ]
    run admin pause --wait --timeout 1s
    [ "$status" -eq 124 ]
    [[ $output == *"1 job still runs; the pause stays in force"* ]]
    # One document, whatever comes of it.
    run --separate-stderr admin --json pause --wait --timeout 1s
    [ "$status" -eq 124 ]
    [ "${#lines[@]}" -eq 1 ]
    [ "$(json '$.error.code' <<<"$output")" = TIMEOUT ]
    "$MGPU_BIN/mgpu-cancel" --quiet "$id"
    run --separate-stderr admin --json pause --wait --timeout 60s
    [ "$status" -eq 0 ]
    [ "${#lines[@]}" -eq 1 ]
    [ "$(json '$.schema' <<<"$output")" = mgpu.pause/1 ]
    run admin pause --wait --timeout 60s
    [ "$status" -eq 0 ]
    [[ $output == *"no job runs any more" ]]
    ctld_ready
}

@test "hold, release, requeue, top and priority" {
    a=$(submit_command a sleep 600)
    wait_for 60 job_is "$a" RUNNING
    b=$(submit_command b sleep 600)
    wait_for 60 job_is "$b" RUNNING
    c=$(submit_command c sleep 600)
    d=$(submit_command d sleep 600)
    run admin hold "$c" "$d"
    [ "$status" -eq 0 ]
    [[ ${lines[0]} == "job $c: HELD, priority 0, Held: by "* ]]
    run admin release "$c" "$d"
    [ "$status" -eq 0 ]
    position() { api GET "/v1/jobs/$1" | json '$.job.position'; }
    [ "$(position "$d")" = 2 ]
    admin --quiet top "$d"
    [ "$(position "$d")" = 1 ]
    run admin -- priority -7 "$d"
    [[ $output == "job $d: QUEUED, priority -7"* ]]
    [ "$(position "$d")" = 2 ]
    run admin requeue "$a" 99
    [ "$status" -eq 66 ]
    [[ $output == *"job $a: "*"requeued by "* && $output == *"no job 99"* ]]
    attempt_of() { [ "$(api GET "/v1/jobs/$1" | json '$.job.attempt')" = "$2" ]; }
    went_back() { job_is "$a" QUEUED || attempt_of "$a" 2; }
    wait_for 30 went_back
    # The word is that of v_event; who asked, and for what, is told.
    "$MGPU_BIN/mgpu-stat" --events "$a" | grep -q " preempt .*uid $(id -u) .*asked to be queued again$"
    [ "$("$MGPU_BIN/mgpu-stat" --json --events "$a" | grep -o '"event":"preempt"' | wc -l)" = 1 ]
    "$MGPU_BIN/mgpu-stat" --report "$BATS_TEST_TMPDIR/a.html" "$a"
    grep -q '<td[^>]*>preempt</td><td[^>]*>asked to be queued again</td>' "$BATS_TEST_TMPDIR/a.html"
    "$MGPU_BIN/mgpu-stat" --events "$d" | grep -q 'priority.*-7'
}

@test "update: what a pending job asked for, and the limit of a running one" {
    cd "$BATS_TEST_TMPDIR"
    a=$(submit_command a sleep 600)
    wait_for 60 job_is "$a" RUNNING
    b=$(submit_command b sleep 600)
    wait_for 60 job_is "$b" RUNNING
    c=$(submit_command c sleep 600)
    run admin update "$c" time_limit=90m priority=9 account=vision
    [ "$status" -eq 0 ]
    [[ $output == "job $c: QUEUED, priority 9"* ]]
    api GET "/v1/jobs/$c" >reply
    [ "$(json '$.job.limit_s' <reply)" = 5400.0 ]
    [ "$(json '$.job.account' <reply)" = vision ]
    "$MGPU_BIN/mgpu-stat" --events "$c" | grep -q ' update .*uid '"$(id -u)"
    run admin update "$a" partition=other
    [ "$status" -ne 0 ]
    [[ $output == *"job $a has its GPUs: only the partition of a pending job can change"* ]]
    for word in time_limit=soon time_limit= =2h nodes=2 sweep.max_parallel=0 priority=2000; do
        run admin update "$c" "$word"
        [ "$status" -eq 64 ]
        [[ $output == *"update: "* || $output == *"time_limit"* ]]
    done
    [ "$(curl -s --unix-socket "$ctld_dir/sock" -o /dev/null -w '%{http_code}' \
        -d '{"gpus":2}' "http://x/v1/jobs/$c/update")" = 400 ]
    # The limit ends it, though it was longer when the job began.
    admin --quiet update "$a" time_limit=1s
    wait_for 60 job_is "$a" TIMEOUT
    # A sweep: one more task at a time.
    printf '%s\n' 'version: 1' 'kind: command' 'name: w' 'command: [sleep, "600"]' \
        'resources: {gpus: 0}' 'sweep: {grid: {env.I: ["1", "2", "3"]}, max_parallel: 1}' >sweep.yaml
    s=$("$MGPU_BIN/mgpu-submit" --parsable sweep.yaml)
    runs() { [ "$("$MGPU_BIN/mgpu-stat" --no-header -o id,state -t RUNNING | grep -c "${s}_")" = "$1" ]; }
    wait_for 60 runs 1
    admin --quiet update "$s" sweep.max_parallel=2
    wait_for 60 runs 2
    admin --quiet update "${s}_0" sweep.max_parallel=null
    wait_for 60 runs 3
}

@test "a log that a crash has cut, or that is damaged" {
    admin --quiet pause
    ctld_kill
    printf '{"at":"2026' >>"$ctld_dir/state/admin.log"
    ctld_start
    admin status | grep -q ' paused '
    admin --quiet resume
    [ "$(grep -c . "$ctld_dir/state/admin.log")" -eq 2 ]
    ctld_term
    printf 'rubbish\n' >>"$ctld_dir/state/admin.log"
    run ctld_start
    [ "$status" -ne 0 ]
    grep -q "admin.log' line 3 is damaged: take it out" "$ctld_dir/ctld.log"
    run "$MGPU_BIN/mgpu-ctld" --fsck "$ctld_dir/state"
    [ "$status" -eq 74 ]
    [[ $output == *"admin.log' line 3 is damaged"* ]]
    sed -i '$d' "$ctld_dir/state/admin.log"
    printf '\0\0\n' >>"$ctld_dir/state/admin.log" # as of a disk that was away
    run "$MGPU_BIN/mgpu-ctld" --fsck "$ctld_dir/state"
    [ "$status" -eq 74 ]
    [[ $output == *"admin.log' line 3 is damaged"* ]]
    run ctld_start
    [ "$status" -ne 0 ]
    [ "$(wc -l <"$ctld_dir/state/admin.log")" -eq 3 ]
    sed -i '$d' "$ctld_dir/state/admin.log"
    ctld_start
}

@test "F07: a backup is whole, and what is put back goes on" {
    a=$(submit_command a true)
    wait_for 60 job_is "$a" COMPLETED
    b=$(submit_command b sleep 600)
    wait_for 60 job_is "$b" RUNNING
    cd "$BATS_TEST_TMPDIR"
    mkdir copy.part # of one that was cut short
    printf rubbish >copy.part/state.db
    touch copy.part/{state,metrics}.db-{journal,wal,shm}
    run admin backup copy
    [ "$status" -eq 0 ]
    [[ $output == "backed up in "* ]]
    [ ! -e copy.part ]
    [ "$(stat -c %a copy)" = 700 ]
    [ "$(sqlite3 copy/state.db 'PRAGMA integrity_check')" = ok ]
    [ "$(sqlite3 copy/metrics.db 'PRAGMA integrity_check')" = ok ]
    cmp copy/secret "$ctld_dir/state/secret"
    run admin backup copy
    [ "$status" -eq 73 ]
    [[ $output == *"already exists"* ]]
    ln -s "$ctld_dir/state" trap.part # somebody else's work
    run admin backup trap
    [ "$status" -ne 0 ]
    [ -s "$ctld_dir/state/state.db" ] && [ -s "$ctld_dir/state/secret" ]
    run admin backup /nowhere/to/be/found
    [ "$status" -ne 0 ]
    admin log | grep -q backup
    c=$(submit_command c true) # after it
    wait_for 60 job_has_ended "$c"
    ctld_kill
    rm "$ctld_dir"/state/*.db* "$ctld_dir/state/secret"
    cp -p copy/* "$ctld_dir/state/"
    ctld_start
    job_is "$a" COMPLETED
    wait_for 60 job_is "$b" RUNNING # its worker's token still holds
    run api GET "/v1/jobs/$c"
    [ "$status" -ne 0 ]
    # What the backup knows nothing of has ids that are not given again.
    [ ! -e "$ctld_dir/state/backup" ]
    d=$(submit_command d true)
    [ "$d" -gt 100000 ]
    ctld_kill
    ctld_start
    e=$(submit_command e true)
    [ "$e" -eq $((d + 1)) ]
    wait_for 60 job_is "$e" COMPLETED
    run admin fsck
    [ "$output" = sound ]
}

@test "F07: workers that a backup does not know are fenced, its jobs run again" {
    conf=$BATS_TEST_TMPDIR/mgpu.yaml
    printf 'version: 1\nwatchdog: {heartbeat: 1s, node_lost_after: 30s}\n' >"$conf"
    ctld_kill
    ctld_start --config "$conf"
    cd "$BATS_TEST_TMPDIR"
    printf '#!/bin/sh\necho $$ >"$1.$MGPU_ATTEMPT"\nexec sleep 600\n' >says_who
    chmod +x says_who
    a=$(submit_command a "$PWD/says_who" "$PWD/a")
    wait_for 60 job_is "$a" RUNNING
    wait_for 60 test -s a.1
    admin --quiet backup copy
    b=$(submit_command b "$PWD/says_who" "$PWD/b")
    wait_for 60 job_is "$b" RUNNING
    wait_for 60 test -s b.1
    ctld_kill
    rm "$ctld_dir"/state/*.db*
    cp -p copy/* "$ctld_dir/state/"
    ctld_start --config "$conf"
    wait_for 60 process_gone "$(cat b.1)"
    wait_for 60 job_is "$a" RUNNING
    kill -0 "$(cat a.1)"
    # Without the directories of jobs, as elsewhere.
    ctld_kill
    mv "$ctld_dir/state/jobs" old
    ctld_start --config "$conf"
    wait_for 60 test -s a.2
    wait_for 60 process_gone "$(cat a.1)"
    wait_for 60 job_is "$a" RUNNING
    api GET "/v1/jobs/$a/events" | grep -q 'its worker was fenced'
    run admin fsck
    [ "$output" = sound ]
    kill -0 "$(cat a.2)"
    # Without the secret, so with a token that is none any more; it has its
    # directory.
    ctld_kill
    rm "$ctld_dir/state/secret"
    ctld_start --config "$conf"
    wait_for 60 test -s a.3
    wait_for 60 process_gone "$(cat a.2)"
    wait_for 60 job_is "$a" RUNNING
}

# N of them are there, and nothing else.
backups_are() {
    [ "$(admin --json status | json '$.backup.n')" -eq "$1" ] &&
        [ "$(find "$BATS_TEST_TMPDIR/kept" -mindepth 1 -maxdepth 1 | wc -l)" \
            -eq "$1" ]
}
backup_is() { [ "$(admin --json status | json "\$.backup.$1")" = "$2" ]; }
backup_lasts() { # since when the last one is
    admin --json status | json '$.backup.last'
}
has_newer() { [[ $(backup_lasts) > $1 ]]; }

@test "F07: backups at intervals: the newest are kept, over restarts too" {
    cd "$BATS_TEST_TMPDIR"
    conf=$BATS_TEST_TMPDIR/mgpu.yaml
    printf 'version: 1\n' >"$conf"
    ctld_kill
    ctld_start --config "$conf"
    admin --json status | grep -q '"backup": *null'
    [[ $(admin status) != *' backup '* ]]
    store='store: {backup: {dir: kept, every: %s, keep: %s}}\n'
    # shellcheck disable=SC2059
    printf "version: 1\n$store" 1d 2 >"$conf"
    admin reload | grep -q 'store.backup.dir'
    wait_for 60 backups_are 1
    admin status | grep -q 'backup .*1 of 2 kept in .*/kept, next 2'
    first=$(echo kept/local-*Z)
    [ "$(stat -c %a kept "$first" "$first/state.db" | xargs)" = "700 700 600" ]
    run "$MGPU_BIN/mgpu-ctld" --fsck "$PWD/$first"
    [ "$status" -eq 0 ]
    # What is kept elsewhere is not said of another directory.
    printf 'version: 1\nstore: {backup: {dir: /proc/nowhere}}\n' >"$conf"
    admin --quiet reload
    refused() { [[ $(admin status) == *'failed at '* ]]; }
    wait_for 60 refused
    [[ $(admin status) == *' 0 of '*' kept in /proc/nowhere'* ]]
    [ "$(backup_lasts)" = '' ]
    # shellcheck disable=SC2059
    printf "version: 1\n$store" 1d 2 >"$conf"
    admin --quiet reload
    wait_for 60 backup_is n 1
    # Counted from the newest that is there, whoever asks.
    last=$(backup_lasts)
    ctld_kill
    ctld_start --config "$conf"
    wait_for 60 backups_are 1
    [ "$(backup_lasts)" = "$last" ]
    api GET /metrics | grep -q '^mgpu_backup_last_success_time_seconds [1-9]'
    # Often: two stay, and what is not a backup.
    mkdir -p kept/mine kept/local-20200101T000000Z
    printf 'version: 1\nstore: {backup: {dir: kept, every: 1s, keep: 2}}\n' \
        >"$conf"
    admin --quiet reload
    wait_for 60 test ! -e "$first"
    wait_for 60 backup_is n 2
    [ -d kept/mine ] && [ -d kept/local-20200101T000000Z ]
    # One that fails is told and tried again, and nothing is lost by it.
    rm -r kept/mine kept/local-20200101T000000Z
    chmod 770 kept
    failing() { admin status | grep -q 'failed at .*writable by others'; }
    wait_for 60 failing
    [ "$(admin --json status | json '$.backup.failures')" -gt 0 ]
    api GET /metrics | grep -q '^mgpu_backup_failures_total [1-9]'
    grep -q 'err backup: a backup failed and will be repeated' "$ctld_dir/ctld.log"
    last=$(backup_lasts)
    chmod 700 kept
    wait_for 60 has_newer "$last"
    wait_for 60 backup_is why ''
    # Killed again and again, whatever it does: what has the name is whole.
    for _ in 1 2; do
        last=$(backup_lasts)
        ctld_kill
        ctld_start --config "$conf"
        wait_for 60 has_newer "$last"
    done
    printf 'version: 1\n' >"$conf"
    admin --quiet reload
    admin --json status | grep -q '"backup": *null'
    ctld_term # when it has ended, so has the last of them
    for one in kept/local-*Z; do
        "$MGPU_BIN/mgpu-ctld" --fsck "$PWD/$one"
    done
}

@test "F24: below store.min_free no job is accepted, and what runs goes on" {
    conf=$BATS_TEST_TMPDIR/mgpu.yaml
    printf 'version: 1\n' >"$conf"
    ctld_kill
    ctld_start --config "$conf"
    a=$(submit_command a sh -c "until [ -e '$BATS_TEST_TMPDIR/go' ]; do sleep 0.1; done")
    wait_for 60 job_is "$a" RUNNING
    spec='{"spec":{"version":1,"kind":"command","name":"b","command":["true"]}}'
    b=$(api POST /v1/jobs -H 'Idempotency-Key: b' -d "$spec" | json '$.id')
    printf 'version: 1\nstore: {min_free: 1024T}\n' >"$conf" # nobody has that
    admin --quiet reload
    printf 'version: 1\nkind: command\nname: c\ncommand: ["true"]\n' >"$BATS_TEST_TMPDIR/c.yaml"
    run "$MGPU_BIN/mgpu-submit" "$BATS_TEST_TMPDIR/c.yaml"
    [ "$status" -eq 75 ]
    [[ $output == *"has "*" free, and store.min_free is 1024T"*administrator* ]]
    run "$MGPU_BIN/mgpu-submit" --dry-run "$BATS_TEST_TMPDIR/c.yaml"
    [ "$status" -eq 75 ]
    [[ $output == *"store.min_free is 1024T"* ]]
    # Who only asks again is told what he was not told.
    [ "$(api POST /v1/jobs -H 'Idempotency-Key: b' -d "$spec" | json '$.id')" = "$b" ]
    admin status | grep -q 'storage .* free of store.min_free .*: no job is accepted'
    [[ $(api GET /readyz) == *"no job is accepted"* ]]
    api GET /metrics | grep -q '^mgpu_state_short 1'
    grep -q 'the disk is nearly full, the daemon accepts no job' "$ctld_dir/ctld.log"
    touch "$BATS_TEST_TMPDIR/go"
    wait_for 60 job_is "$a" COMPLETED
    wait_for 60 job_is "$b" COMPLETED
    printf 'version: 1\nstore: {min_free: 1M}\n' >"$conf"
    admin --quiet reload
    "$MGPU_BIN/mgpu-submit" "$BATS_TEST_TMPDIR/c.yaml"
    [ "$(api GET /readyz)" = ok ]
    api GET /metrics | grep -q '^mgpu_state_short 0'
    grep -q 'the disk has room again' "$ctld_dir/ctld.log"
}

@test "an old state beside newer jobs: no id is given twice" {
    a=$(submit_command a true)
    wait_for 60 job_is "$a" COMPLETED
    ctld_term
    cp -pr "$ctld_dir/state" "$BATS_TEST_TMPDIR/old"
    ctld_start
    b=$(submit_command b true)
    wait_for 60 job_is "$b" COMPLETED
    ctld_kill
    rm "$ctld_dir"/state/*.db*
    cp -p "$BATS_TEST_TMPDIR"/old/*.db "$BATS_TEST_TMPDIR/old/stored" \
        "$ctld_dir/state/"
    mkdir "$ctld_dir/state/jobs/99999999999999999999" \
        "$ctld_dir/state/jobs/4000000000"
    ctld_start
    c=$(submit_command c true)
    [ "$c" -eq $((b + 1)) ]
    wait_for 60 job_is "$c" COMPLETED
    ctld_kill
    echo nonsense >"$ctld_dir/state/first_id"
    run ctld_start
    [ "$status" -ne 0 ]
    grep -q "first_id' is damaged" "$ctld_dir/ctld.log"
}

@test "F26: fsck finds what is wrong with a store, and changes nothing" {
    a=$(submit_command a true)
    wait_for 60 job_is "$a" COMPLETED
    run admin fsck
    [ "$status" -eq 0 ]
    [ "$output" = sound ]
    ctld_term
    state=$ctld_dir/state good=$BATS_TEST_TMPDIR/good
    fsck() { run "$MGPU_BIN/mgpu-ctld" --fsck "$state"; }
    fsck
    [ "$status" -eq 0 ]
    [ "$output" = "$state: sound" ]
    cp -pr "$state" "$good"
    wrong() { # SQL, what is then said
        sqlite3 "$state/state.db" "$1"
        fsck
        [ "$status" -eq 74 ]
        [[ $output == *"$2"* ]]
        rm -r "$state"
        cp -pr "$good" "$state"
    }
    wrong "UPDATE job SET state='RUNNING'" \
        "job 1: its row says RUNNING, attempt 1, its events COMPLETED, attempt 1"
    wrong "DELETE FROM job" "1 jobs have events, 0 have rows"
    wrong "UPDATE event SET event='finish' WHERE event='intent'" \
        "a job that is QUEUED cannot finish"
    wrong "UPDATE event SET event='nonsense' WHERE seq=2" "'nonsense' of job 1 is none"
    wrong "UPDATE event SET attempt=7 WHERE event='intent'" "attempt 7 follows 0"
    wrong "UPDATE event SET seq=seq+1 WHERE seq=(SELECT max(seq) FROM event)" follows
    dd if=/dev/urandom of="$state/state.db" bs=1 seek=5000 count=3000 \
        conv=notrunc status=none
    fsck
    [ "$status" -eq 74 ]
    [[ $output == *"state.db: "* ]]
    # What is not there is no damage.
    none=$BATS_TEST_TMPDIR/none
    run "$MGPU_BIN/mgpu-ctld" --fsck "$none"
    [ "$status" -eq 66 ]
    [ "$output" = "mgpu-ctld: --fsck '$none': no such directory" ]
    run "$MGPU_BIN/mgpu-ctld" --fsck "$state/state.db"
    [ "$status" -eq 74 ]
    [ "$output" = "mgpu-ctld: --fsck '$state/state.db': open: Not a directory" ]
    mkdir "$none-other"
    run "$MGPU_BIN/mgpu-ctld" --fsck "$none-other"
    [ "$status" -eq 74 ]
    [ "${lines[0]}" = "state.db: No such file or directory" ]
    run admin fsck "$none"
    [ "$status" -eq 64 ]
    [[ $output == *"unexpected '$none'; "*"mgpu-ctld --fsck DIR"* ]]
    : >"$state/metrics.db"
    printf 'this is no database, and long enough not to be one' >"$state/state.db"
    fsck
    [ "$status" -eq 74 ]
}

@test "F26: a damaged job is held, and the rest goes on" {
    a=$(submit_command a true)
    wait_for 60 job_is "$a" COMPLETED
    b=$(submit_command b sleep 600)
    wait_for 60 job_is "$b" RUNNING
    admin --quiet pause
    c=$(submit_command c true)
    d=$(submit_command d true)
    ctld_kill
    sqlite3 "$ctld_dir/state/state.db" \
        "UPDATE event SET detail='{\"nod' WHERE job=$b AND event='intent';
         UPDATE event SET detail=substr(detail, 1, 90)
            WHERE job=$c AND event='submit'"
    ctld_start
    grep -q "events are damaged jobs=2 stray=0" "$ctld_dir/ctld.log"
    admin --quiet resume
    wait_for 60 job_is "$d" COMPLETED # in whose way b does not stand
    for id in "$b" "$c"; do
        job_is "$id" HELD
        [[ $(reason_of "$id") == "Held(corrupt): event "* ]]
        [ "$(api GET "/v1/jobs/$id" | json '$.job.held_by')" = corrupt ]
        run admin release "$id"
        [ "$status" -ne 0 ]
        [[ $output == *"is damaged (event "*"it can be cancelled"*fsck* ]]
    done
    # Those that wait for one need not wait for ever.
    run "$MGPU_BIN/mgpu-stat" --wait "$b"
    [ "$status" -eq 125 ]
    is_said() { sqlite3 -readonly "$ctld_dir/state/state.db" \
        "SELECT state FROM v_job WHERE job=$1" | grep -qx "$2"; }
    wait_for 60 is_said "$b" HELD
    run admin fsck
    [ "$status" -ne 0 ]
    [[ $output == *"job $b: event "*"the detail of its intent is damaged"* ]]
    [[ $output == *"job $c: event "*"the detail of its submit is damaged"* ]]
    "$MGPU_BIN/mgpu-cancel" --quiet "$b" "$c"
    job_is "$b" CANCELLED
    ctld_kill
    ctld_start
    job_is "$b" CANCELLED
    job_is "$c" CANCELLED
    job_is "$a" COMPLETED
    # What was damaged is there as it was, for who can mend it.
    [ "$(sqlite3 -readonly "$ctld_dir/state/state.db" \
        "SELECT name FROM v_job WHERE job=$c")" = c ]
    [ "$(sqlite3 -readonly "$ctld_dir/state/state.db" \
        "SELECT length(detail) FROM v_event
         WHERE job=$c AND event='submit'")" = 90 ]
}

@test "a job that needs more slots than are left does not hold up the others" {
    cd "$BATS_TEST_TMPDIR"
    printf 'version: 1\nkind: command\ncommand: ["true"]\n%s\n' \
        'resources: {gpus: 2}' >two.yaml
    admin --quiet pause
    b=$("$MGPU_BIN/mgpu-submit" --parsable two.yaml)
    ctld_term
    ctld_start --slots 1
    admin --quiet resume
    never() { [[ $(reason_of "$b") == "NeverFits: needs 2 on 1 node, there are 1 on 1, at most 1 on one" ]]; }
    wait_for 60 never
    c=$(submit_command small true)
    wait_for 60 job_is "$c" COMPLETED
    job_is "$b" QUEUED
    run "$MGPU_BIN/mgpu-submit" two.yaml
    [ "$status" -eq 65 ]
    [[ $output == *"; --force-queue keeps it pending [E201]"* ]]
    run "$MGPU_BIN/mgpu-submit" --dry-run --force-queue two.yaml
    [ "$status" -eq 0 ]
    [[ $output == *"two.yaml: can never fit on the nodes there are; nothing was submitted"* ]]
    [[ $output == *"NeverFits: needs 2 on 1 node"* ]]
    [ "$("$MGPU_BIN/mgpu-submit" --dry-run --json --force-queue two.yaml | json '$.fits')" = 0 ]
    run "$MGPU_BIN/mgpu-submit" --dry-run --force-queue --set resources.gpu_memory=40G.. two.yaml
    [[ $output == *"GpuMemory: GPUs of 40G.. each: 0 of 1 nodes have such; not known, and not left out: 1"* ]]
    [[ $output == *", GPU memory 40G.."*" free now; 1 with unknown GPU memory"* ]]
    # A submit says so, too: beside what a script reads, and not when quiet.
    local w='warning[W201]: resources.gpu_memory: what memory the GPUs of 1 of 1 nodes have is not known, and these are not left out'
    blind() { "$MGPU_BIN/mgpu-submit" --hold --set resources.gpus=1 --set resources.gpu_memory=40G.. "$@" two.yaml; }
    run --separate-stderr blind
    [[ "$output" == "submitted job "* && $stderr == "two.yaml: $w" ]]
    run --separate-stderr blind --parsable
    [[ "$output" =~ ^[0-9]+$ && $stderr == "two.yaml: $w" ]]
    run --separate-stderr blind --parsable --quiet
    [[ "$output" =~ ^[0-9]+$ && -z $stderr ]]
    run --separate-stderr blind --json
    [[ -z $stderr && $(json '$.warnings[0].code' <<<"$output") == W201 ]]
    [ "$(json '$.warnings[0].path' <<<"$output")" = resources.gpu_memory ]
    f=$("$MGPU_BIN/mgpu-submit" --parsable --force-queue two.yaml)
    [ "$("$MGPU_BIN/mgpu-stat" --json "$f" | json '$.job.spec.policy.force_queue')" = 1 ]
    ctld_term
    ctld_start
    wait_for 60 job_is "$b" COMPLETED
    wait_for 60 job_is "$f" COMPLETED
}

@test "wrong command lines are status 64" {
    for words in '' 'nonsense' 'status 1' 'hold' 'hold x' 'priority 3' \
        'backup' 'backup a b' 'priority x 1' 'priority 2000 1' '--last 0 log' \
        '--reason x hold 1' '--reason x top 1' '--last 3 status' '--wait resume'; do
        # shellcheck disable=SC2086 # words
        run admin $words
        [ "$status" -eq 64 ]
    done
    admin -q --reason 'all is well' resume
    admin -q --reason 'fan' pause
    admin -q --reason 'new fan' resume
    [[ $(admin log --last 1) == *"resume"*"new fan" ]]
    run admin --json nonsense
    [ "$status" -eq 64 ]
    [[ $output == *'"schema":"mgpu.error/1"'* ]]
}

@test "a reason that is too long is refused in words" {
    node=$(api GET /v1/nodes | json '$.nodes[0].name')
    long=$(printf 'x%.0s' {1..200})
    for words in "drain $node" "resume $node"; do
        # shellcheck disable=SC2086 # words
        run admin --reason "${long:0:64}" $words
        [ "$status" -eq 64 ]
        [ "$output" = "mgpu-admin: --reason: has 64 bytes; with nodes it may have at most 63" ]
    done
    run admin --reason "$long" pause
    [ "$status" -eq 64 ]
    [ "$output" = "mgpu-admin: --reason: has 200 bytes; it may have at most 199" ]
    run admin drain "${long:0:64}"
    [ "$status" -eq 66 ]
    [ "$output" = "mgpu-admin: no node '${long:0:64}'; see mgpu-stat --nodes" ]
    admin -q --reason "${long:0:63}" drain "$node"
    admin -q --reason "${long:0:199}" pause
    run admin status
    [[ $output == *": ${long:0:63}"$'\n'* && $output == *": ${long:0:199}"$'\n'* ]]
    # Who asks the daemon itself is told which of the two it is.
    run api POST /v1/admin/drain -d "{\"node\":\"$node\",\"why\":\"${long:0:64}\"}"
    [[ $output == *'"why: expected a text of less than 64 bytes"'* ]]
}

@test "a drained node gets nothing new, over a restart too, until it is resumed" {
    node=$(api GET /v1/nodes | json '$.nodes[0].name')
    a=$(submit_command runs sleep 600)
    wait_for 60 job_is "$a" RUNNING
    run admin drain no-such-node
    [ "$status" -ne 0 ]
    [[ $output == *"no node 'no-such-node'"* ]]
    run admin drain "$node" --reason 'fan 2'
    [ "$output" = "$node: nothing new is started there" ]
    admin drain "$node" # is so already
    b=$(submit_command waits true)
    stat() { "$MGPU_BIN/mgpu-stat" "$@"; }
    shows() { stat --nodes | grep -q " draining .*drained by uid $(id -u): fan 2"; }
    wait_for 60 shows
    names() { stat --why "$b" | grep -q "NodesDown: $node (drained by uid $(id -u): fan 2)"; }
    wait_for 60 names
    run admin status
    [[ $output == *" drained    $node since 20"*"fan 2"* ]]
    job_is "$a" RUNNING
    [[ $(stat) == *" 1 GPUs or slots: 1 allocated, 0 idle | 1 running, 1 queued"* ]]
    stat --gpus | grep -q " $a .*, drained$"
    ctld_kill
    ctld_start
    wait_for 60 shows
    job_is "$b" QUEUED
    job_is "$a" RUNNING
    admin --quiet resume "$node"
    wait_for 30 job_is "$b" COMPLETED
    run admin log
    [ "${#lines[@]}" -eq 2 ]
    [[ ${lines[0]} == *drain*"$node"* && ${lines[1]} == *resume*"$node"* ]]
}

@test "drain and resume: each node is tried, and each is told of" {
    node=$(api GET /v1/nodes | json '$.nodes[0].name')
    is_drained() { [ "$(api GET /v1/status | json '$.drained[0].node')" = "$node" ]; }
    run --separate-stderr admin drain no-node "$node"
    [ "$status" -eq 66 ]
    [ "$output" = "$node: nothing new is started there" ]
    [[ $stderr == "mgpu-admin: no node 'no-node'"* ]]
    is_drained
    run --separate-stderr admin resume no-node "$node"
    [ "$status" -eq 66 ]
    [ "$output" = "$node: in use again" ]
    not is_drained
    run --separate-stderr admin --json drain "$node" no-node
    [ "$status" -eq 66 ]
    [ "$(json '$.drained[0].node' <<<"$output")" = "$node" ]
    [ "$(json '$.nodes[0].node' <<<"$output")" = "$node" ]
    [ "$(json '$.nodes[0].code' <<<"$output")" = "" ]
    [ "$(json '$.nodes[1].code' <<<"$output")" = NOTFOUND ]
    # None of them; and of one the error alone.
    run --separate-stderr admin --json resume no-node neither
    [ "$status" -eq 66 ]
    [ "$(json '$.nodes[1].node' <<<"$output")" = neither ]
    [ "$(json '$.drained[0].node' <<<"$output")" = "$node" ]
    run --separate-stderr admin --json resume no-node
    [ "$status" -eq 66 ]
    [ "$(json '$.error.code' <<<"$output")" = NOTFOUND ]
}

@test "who: users with running or pending jobs, and their GPUs" {
    run admin who
    [ "$status" -eq 0 ]
    [ "$output" = "USER  UID  RUNNING  GPUS  QUEUED  HELD" ]
    id=$(submit_command one sleep 600)
    wait_for 60 job_is "$id" RUNNING
    printf 'version: 1\nkind: command\ncommand: [sleep, "600"]\nresources: {gpus: 2}\n' \
        >"$BATS_TEST_TMPDIR/two.yaml"
    "$MGPU_BIN/mgpu-submit" --quiet "$BATS_TEST_TMPDIR/two.yaml"
    "$MGPU_BIN/mgpu-submit" --quiet "$BATS_TEST_TMPDIR/two.yaml"
    "$MGPU_BIN/mgpu-submit" --quiet --hold "$BATS_TEST_TMPDIR/two.yaml"
    run admin who
    [ "${#lines[@]}" -eq 2 ]
    [[ ${lines[1]} == *" $(id -u)  "* ]]
    [[ ${lines[1]} == *"       1     1       2     1" ]]
    run --separate-stderr admin who --json
    [ "$(json '$.users[0].uid' <<<"$output")" = "$(id -u)" ]
    [ "$(json '$.users[0].gpus' <<<"$output")" = 1 ]
    run admin who me
    [ "$status" -eq 64 ]
}
