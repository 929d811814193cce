#!/usr/bin/env bats
# ctld.bats - mgpu-ctld as whoever starts it meets it: options, files, exit
# statuses, life and death. What it answers is tests/unit/ctld/.

bats_require_minimum_version 1.5.0
load helpers

teardown() {
    exec 7>&- # of one below; a daemon that waits for its reader goes on
    ctld_stop
}

ctld() { "$MGPU_BIN/mgpu-ctld" "$@"; }

@test "mgpu-ctld starts, answers, takes a job, and ends on SIGTERM at once" {
    ctld_start
    [ "$(api GET /livez)" = ok ]
    [ "$(api GET /v1/status | json '$.pid')" = "$ctld_pid" ]
    [ "$(api GET /v1/status | json '$.slots_total')" = 2 ]
    id=$(submit_command one true)
    [ "$id" = 1 ]
    wait_for 60 job_has_ended 1
    SECONDS=0
    ctld_term
    [ "$SECONDS" -lt 60 ] # nothing is waited for, such as a silent client
    [ ! -e "$ctld_dir/sock" ]
    grep -q 'notice ctld: stopped' "$ctld_dir/ctld.log"
}

@test "files are the user's alone" {
    ctld_start
    submit_command one true
    wait_for 60 job_has_ended 1
    for f in "$ctld_dir"/sock "$ctld_dir"/state/*; do
        case $(stat -c %A "$f") in
        *------) ;;
        *) stat -c '%A %n' "$f" && false ;;
        esac
    done
    [ "$(stat -c %a "$ctld_dir/sock")" = 600 ]
}

@test "a second daemon on the same files is refused and named" {
    ctld_start
    run --separate-stderr ctld --local --state-dir "$ctld_dir/state" \
        --socket "$ctld_dir/other"
    [ "$status" -eq 73 ]
    [[ $stderr == *"in use by process $ctld_pid: stop that daemon, or "*--state-dir* ]]
    run --separate-stderr ctld --local --state-dir "$ctld_dir/other" \
        --socket "$ctld_dir/sock"
    [ "$status" -eq 73 ]
    [[ $stderr == *"another daemon answers at '$ctld_dir/sock', process $ctld_pid: stop it, or use another socket"* ]]
    [ ! -e "$ctld_dir/other" ] # who is refused leaves nothing behind
    ctld_ready
}

@test "kill -9 leaves a socket and a lock; the next one takes over" {
    ctld_start
    submit_command one true
    ctld_kill
    [ -S "$ctld_dir/sock" ]
    ctld_start
    [ "$(api GET /v1/jobs/1 | json '$.job.name')" = one ]
    wait_for 60 job_is 1 COMPLETED
}

soft_fds() { awk '/^Max open files/ { print $4 }' "/proc/$1/limits"; }

@test "mgpu-ctld raises its own limit of open files, and not its jobs'" {
    ulimit -Sn 300
    ctld_start
    [ "$(soft_fds "$ctld_pid")" = 2560 ]
    submit_command one sh -c 'ulimit -Sn'
    wait_for 60 job_is 1 COMPLETED
    # A line of it: a sanitizer may have words of its own.
    grep -qx 300 "$ctld_dir/state/jobs/1/1/log"
}

# What the daemon says of the last reload.
reload_says() { [ "$(api GET /v1/status | json "\$.reload.$1")" = "$2" ]; }

@test "F33: SIGHUP takes up a good file, and nothing of a bad one" {
    conf=$BATS_TEST_TMPDIR/mgpu.yaml
    put() { printf '%s\n' 'version: 1' "$@" >"$conf"; }
    put 'scheduler: {policy: fifo}' 'limits: {max_jobs_per_user: 1}'
    ctld_start --config "$conf"
    [ "$(api GET /v1/status | json '$.policy')" = fifo ]
    submit_command one sleep 600
    run submit_command two true
    [ "$status" -ne 0 ]

    put 'scheduler: {policy: backfill}' 'limits: {max_jobs_per_user: 2}' \
        'controller: {max_clients: 99}' 'log: {level: debug}'
    kill -HUP "$ctld_pid"
    wait_for 30 reload_says is_ok 1
    [ "$(api GET /v1/status | json '$.policy')" = backfill ]
    reload_says changed 'scheduler.policy, limits.max_jobs_per_user, log.level'
    reload_says after_restart controller.max_clients
    submit_command two true
    run "$MGPU_BIN/mgpu-admin" log
    [ "${#lines[@]}" -eq 1 ]
    [[ $output == *" reload  scheduler.policy: fifo -> backfill, limits.max_jobs_per_user: 1 -> 2, log.level: info -> debug, after a restart: controller.max_clients, by SIGHUP" ]]
    run "$MGPU_BIN/mgpu-admin" reload
    [[ $output == *"no setting in effect has changed"* ]]
    [[ $output == *"after a restart controller.max_clients"* ]]
    put 'scheduler: {policy: backfill}' 'limits: {max_jobs_per_user: 2}'
    run "$MGPU_BIN/mgpu-admin" reload
    [[ $output != *"after a restart"* ]]

    bad() { # LINE:COLUMN of the error in what is in the file
        kill -HUP "$ctld_pid"
        wait_for 30 reload_says is_ok 0
        [[ $(api GET /v1/status | json '$.reload.why') == *"$1"* ]]
        [ "$(api GET /v1/status | json '$.policy')" = backfill ]
        "$MGPU_BIN/mgpu-admin" status | grep -q 'reload     failed at 20'
        api GET /metrics | grep -qx 'mgpu_reload_failed 1'
        put 'scheduler: {policy: backfill}'
        run "$MGPU_BIN/mgpu-admin" reload
        [ "$status" -eq 0 ]
        reload_says is_ok 1
    }
    put 'scheduler: {policy: fifo' && bad "$conf:"
    "$MGPU_BIN/mgpu-admin" log | grep -q "reload  failed: $conf:.*, by SIGHUP"
    put 'scheduler: {policy: fifo}' 'limts: {max_jobs_per_user: 5}' && bad "$conf:3:1"
    put 'scheduler: {policy: fifo}' 'log: {level: loud}' && bad "$conf:3:14"
    put 'scheduler: {policy: fifo}' 'auth: {admins: [nobody-of-that-name]}' &&
        bad nobody-of-that-name
    rm "$conf" && bad 'No such file'
    rm "$conf" && mkdir "$conf"
    run "$MGPU_BIN/mgpu-admin" reload
    [ "$status" -ne 0 ]
    rmdir "$conf"
    grep -q 'reload failed, nothing was changed' "$ctld_dir/ctld.log"
    "$MGPU_BIN/mgpu-admin" log | grep -q ' reload '
}

# R5: what nobody could run with, each as the whole file. None is taken up, each
# is refused with its place or its cause, and the daemon stays as it is.
bad_files() { # DIR
    local n=0 line
    while IFS= read -r line; do
        n=$((n + 1))
        printf -- "$line" >"$1/$(printf %02d "$n")"
    done <<'END'

- a
version: 2\n
version: 1\nlimts: {}\n
version: 1\nlimits: 3\n
version: 1\nlimits: {max_jobs_per_user: many}\n
version: 1\nlimits: {max_jobs_per_user: -1}\n
version: 1\nlimits: {max_spec_bytes: 1000}\n
version: 1\nlimits: {max_spec_bytes: 2M}\n
version: 1\nlimits: {max_log_bytes: 4 TB}\n
version: 1\nscheduler: {policy: lottery}\n
version: 1\nscheduler: {interval: 5}\n
version: 1\nscheduler: {interval: 0s}\n
version: 1\nscheduler: {preempt: {grace: 0s}}\n
version: 1\nlog: {level: loud}\n
version: 1\nlog:\n\tlevel: info\n
version: 1\nlog: {level: info\n
version: 1\nlog: {level: info}\nlog: {level: debug}\n
version: 1\na: &a 1\nb: *a\n
version: 1\nx-a: &a [1]\nx-b: [*a,*a,*a,*a]\n
version: 1\nlog: !!map {level: info}\n
version: 1\n---\nversion: 1\n
version: 1\ncluster: 'a b'\n
version: 1\ncluster: "a\\0b"\n
version: 1\ncluster: caf\351\n
version: 1\ncluster: a\033[2J\n
\377\376v\0e\0r\0
version: 1\nauth: {admins: [nobody-of-that-name]}\n
version: 1\nauth: {admins: ["@no-such-group"]}\n
version: 1\nauth: {remote: kerberos}\n
version: 1\nwatchdog: {heartbeat: 90s, node_lost_after: 60s}\n
version: 1\nnotify: {program: [tell]}\n
version: 1\nnotify: {program: [/no/such/program]}\n
version: 1\nnotify: {webhook_allow: [a.org]}\n
version: 1\nlocal: {cpu_slots: 0}\n
version: 1\ncontroller: {jobs_dir: /home/%%h}\n
END
    head -c 100000 /dev/zero | tr '\0' '[' >"$1/deep"
    head -c 1100000 /dev/zero | tr '\0' ' ' >"$1/long"
    mkdir "$1/directory"
    mkfifo "$1/pipe"
    ln -s /dev/zero "$1/zero"
    ln -s loop "$1/loop"
    : >"$1/unreadable"
    chmod 0 "$1/unreadable"
}

@test "R5: no bad configuration stops a daemon, or changes anything" {
    conf=$BATS_TEST_TMPDIR/mgpu.yaml
    mkdir "$BATS_TEST_TMPDIR/bad"
    bad_files "$BATS_TEST_TMPDIR/bad"
    printf 'version: 1\nscheduler: {policy: fifo}\n' >"$conf"
    ctld_start --config "$conf"
    pid=$ctld_pid n=0
    for f in "$BATS_TEST_TMPDIR"/bad/*; do
        # Root reads what has no mode.
        [ "$f" != "$BATS_TEST_TMPDIR/bad/unreadable" ] || [ "$(id -u)" != 0 ] || continue
        ln -sfn "$f" "$conf"
        run timeout 60 "$MGPU_BIN/mgpu-admin" reload
        [ "$status" -ne 0 ] && [ "$status" -ne 124 ] || {
            echo "$f: $status $output"
            cat "$f"
            false
        }
        [[ $output == *"$conf"* || $output == *"'"*"'"* ]] || {
            echo "$f: no place: $output"
            false
        }
        [[ $output != *$'\033'* ]]
        n=$((n + 1))
    done
    [ "$n" -ge 40 ]
    # SIGHUP takes the same way; the last one is enough.
    kill -HUP "$ctld_pid"
    wait_for 30 reload_says is_ok 0
    [ "$(api GET /v1/status | json '$.policy')" = fifo ]
    [ "$(api GET /v1/status | json '$.pid')" = "$pid" ]
    submit_command works true
    wait_for 60 job_is 1 COMPLETED
}

@test "F34: many SIGHUPs under load: the last file wins, nothing leaks" {
    conf=$BATS_TEST_TMPDIR/mgpu.yaml
    printf 'version: 1\n' >"$conf"
    ctld_start --config "$conf"
    fds() { find "/proc/$ctld_pid/fd" -mindepth 1 | wc -l; }
    api GET /v1/status >/dev/null
    before=$(fds)
    for i in $(seq 100); do
        printf 'version: 1\nlimits: {max_jobs_per_user: %d}\n' "$i" >"$conf.new"
        mv "$conf.new" "$conf"
        kill -HUP "$ctld_pid"
    done
    submit_command one true
    wait_for 60 job_is 1 COMPLETED
    printf 'version: 1\nlimits: {max_jobs_per_user: 1}\n' >"$conf.new"
    mv "$conf.new" "$conf"
    "$MGPU_BIN/mgpu-admin" --quiet reload
    submit_command two sleep 600
    run submit_command three true
    [[ $output == *"of 1 allowed"* ]]
    # Some are of the job, and of what is opened at its first need.
    fds_are_back() { [ "$(fds)" -le "$((before + 20))" ]; }
    wait_for 30 fds_are_back
}

@test "the log: text or JSON, live; where to: standard error, a file, journald" {
    conf=$BATS_TEST_TMPDIR/mgpu.yaml log=$BATS_TEST_TMPDIR/d/state/ctld.log
    put() { printf '%s\n' 'version: 1' "log: {$1}" >"$conf"; }
    put 'target: file, format: json'
    ctld_start --config "$conf"
    [ "$(head -1 "$log" | json '$.area')" = ctld ]
    [[ $(head -1 "$log" | json '$.message') == 'ready version='* ]]
    [ "$(head -1 "$log" | json '$.level')" = notice ]
    not grep -q ready "$ctld_dir/ctld.log"
    mv "$log" "$log.1" # logrotate
    kill -USR1 "$ctld_pid"
    wait_for 30 test -s "$log"
    put 'target: auto, format: text'
    run "$MGPU_BIN/mgpu-admin" reload
    [[ $output == *"in effect log.format"*"after a restart log.target"* ]]
    grep -q '^20[^ ]* notice ctld: reloaded .*changed="log.format"' "$log"
    ctld_term
    put 'target: stderr'
    run "$MGPU_BIN/mgpu-ctld" --local --config "$conf" --background \
        --state-dir "$ctld_dir/state" --socket "$ctld_dir/sock"
    [ "$status" -eq 78 ]
    [[ $output == *"log.target: stderr: there is none in the background"* ]]
    put 'target: journal'
    if [ ! -e /run/systemd/journal/socket ]; then
        run "$MGPU_BIN/mgpu-ctld" --check-config "$conf"
        [ "$status" -eq 78 ]
        [[ $output == *"log.target: journal: no journald is at"* ]]
    fi
    put 'target: syslog'
    run "$MGPU_BIN/mgpu-ctld" --check-config "$conf"
    [ "$status" -eq 78 ]
    [[ $output == *"error[E012]"*"log.target"* ]]
}

@test "SIGHUP without a file is answered with a word" {
    ctld_start
    kill -HUP "$ctld_pid"
    wait_for 30 grep -q 'reload failed.*without --config' "$ctld_dir/ctld.log"
    ctld_ready
}

@test "--background returns when requests are answered, or says why not" {
    dir=$BATS_TEST_TMPDIR/d
    ctld_dir=$dir
    mkdir -m 700 "$dir"
    ctld --local --background --state-dir "$dir/state" --socket "$dir/sock" \
        --slots 1 3>&-
    pid=$(api GET /v1/status | json '$.pid')
    run --separate-stderr ctld --local --background --state-dir "$dir/state" \
        --socket "$dir/sock2" 3>&-
    [ "$status" -eq 73 ]
    [[ $stderr == *"$pid"* ]]
    kill "$pid"
    wait_for 30 process_gone "$pid"
    grep -q 'ctld: stopped' "$dir/state/ctld.log"
}

@test "F43: the log is rotated; one that cannot be written stops nothing" {
    dir=$BATS_TEST_TMPDIR/d
    ctld_dir=$dir
    mkdir -m 700 "$dir"
    ctld --local --background --state-dir "$dir/state" --socket "$dir/sock" \
        --slots 1 3>&-
    export MGPU_URL=unix:$dir/sock
    pid=$(api GET /v1/status | json '$.pid')
    log=$dir/state/ctld.log
    # As contrib/logrotate has it, and by its own words.
    [ "$(cat "$dir/state/lock")" = "$pid" ]
    sed -n '/postrotate/,/endscript/p' "$MGPU_SRC/contrib/logrotate" |
        sed "1d;\$d;s,/var/lib/mgpu,$dir/state,g" >"$dir/postrotate"
    mv "$log" "$log.1"
    sh -e "$dir/postrotate"
    wait_for 30 grep -q 'reopened the log' "$log"
    [ "$(stat -c %a "$log")" = 600 ]
    id=$(submit_command one true)
    wait_for 30 grep -q "job: submit job=$id " "$log"
    wait_for 30 job_is "$id" COMPLETED # or its worker meets the next daemon
    not grep -q "job=$id " "$log.1"
    # Where it cannot be opened it goes on as it was.
    mv "$log" "$log.2"
    mkdir "$log"
    sh -e "$dir/postrotate"
    wait_for 30 grep -q 'cannot reopen the log, it stays in the old file' "$log.2"
    rmdir "$log"
    # Nothing is signalled that is no daemon of ours.
    sleep 60 3>&- &
    other=$!
    echo "$other" >"$dir/other.lock"
    sed "s,$dir/state/lock,$dir/other.lock," "$dir/postrotate" | sh -e
    kill -0 "$other"
    kill "$other"
    kill "$pid"
    wait_for 30 process_gone "$pid"
    grep -q 'ctld: stopped' "$log.2"
    # A disk that is full of logs.
    rm -rf "$dir"
    mkdir -m 700 "$dir"
    "$MGPU_BIN/mgpu-ctld" --local --slots 1 --state-dir "$dir/state" \
        --socket "$dir/sock" >/dev/full 2>&1 3>&- &
    ctld_pid=$!
    wait_for 30 ctld_ready
    id=$(submit_command two true)
    wait_for 30 job_is "$id" COMPLETED
    ctld_term
}

@test "F43: nobody reads the log: nothing waits, what was lost is told" {
    ctld_start # as always, for its files
    ctld_term
    mkfifo "$BATS_TEST_TMPDIR/log"
    exec 7<>"$BATS_TEST_TMPDIR/log"
    dd if=/dev/zero of="$BATS_TEST_TMPDIR/log" oflag=nonblock bs=4096 \
        2>/dev/null || : # until it is full
    "$MGPU_BIN/mgpu-ctld" --local --slots 1 --state-dir "$ctld_dir/state" \
        --socket "$ctld_dir/sock" >/dev/null 2>"$BATS_TEST_TMPDIR/log" \
        3>&- 7>&- &
    ctld_pid=$!
    wait_for 30 ctld_ready
    id=$(submit_command one true)
    wait_for 30 job_is "$id" COMPLETED
    timeout "$compute_s" cat <&7 >"$BATS_TEST_TMPDIR/told" 3>&- &
    reader=$!
    tells_it() {
        kill -HUP "$ctld_pid" # which is a line
        grep -aq 'warn log: log lines dropped.* n=[1-9]' "$BATS_TEST_TMPDIR/told"
    }
    wait_for 30 tells_it
    # A child that ends while somebody waits for the reader makes him wait no
    # longer. It is waited once in ten seconds, so there are signals for longer.
    kill "$reader"
    dd if=/dev/zero of="$BATS_TEST_TMPDIR/log" oflag=nonblock bs=4096 \
        2>/dev/null || :
    local end=$((SECONDS + 13)) i
    while [ "$SECONDS" -lt "$end" ]; do
        kill -HUP "$ctld_pid"
        for i in {1..50}; do kill -CHLD "$ctld_pid"; done
    done
    api GET /livez
    exec 7>&-
    ctld_term
}

@test "wrong command lines: 64, and no daemon" {
    for args in --wat '--slots 0' '--slots x' '--slots' 'extra' '--local extra' \
        '--slots 1025'; do
        # shellcheck disable=SC2086
        run --separate-stderr ctld $args
        [ "$status" -eq 64 ]
        [ -z "$output" ]
        [[ $stderr == mgpu-ctld:* ]]
    done
}

@test "--check-config: what is wrong, 78; nothing, 0" {
    printf 'version: 1\nlimits: {max_jobs_per_user: 5}\n' >"$BATS_TEST_TMPDIR/good"
    run --separate-stderr ctld --check-config "$BATS_TEST_TMPDIR/good"
    [ "$status" -eq 0 ]
    [[ $output == *valid* ]]
    # What is in effect can be read again, and says what a reload takes up.
    printf '%s\n' "$output" >"$BATS_TEST_TMPDIR/again"
    grep -q '^  max_jobs_per_user: 5 *# live$' "$BATS_TEST_TMPDIR/again"
    grep -q '^  socket: null *# restart$' "$BATS_TEST_TMPDIR/again"
    ctld --check-config "$BATS_TEST_TMPDIR/again" |
        diff - "$BATS_TEST_TMPDIR/again" | grep -c '^[<>]' | grep -qx 2
    printf 'version: 1\nlimits: {max_jobs: 5}\n' >"$BATS_TEST_TMPDIR/bad"
    run ctld --check-config "$BATS_TEST_TMPDIR/bad"
    [ "$status" -eq 78 ]
    [[ $output == *"bad:2:10: error[E010]"* ]]
    run ctld --local --config "$BATS_TEST_TMPDIR/bad" \
        --state-dir "$BATS_TEST_TMPDIR/state"
    [ "$status" -eq 78 ]
    [ ! -e "$BATS_TEST_TMPDIR/state" ]
    run ctld --check-config "$BATS_TEST_TMPDIR/none"
    [ "$status" -eq 66 ]
}

@test "--check-config checks the file of --config, in any order" {
    cd "$BATS_TEST_TMPDIR"
    printf 'version: 1\nlimits: {max_jobs: 5}\n' >bad
    for name in good -odd 'with blank'; do
        printf 'version: 1\n' >"./$name"
        for args in --check-config '--config FILE --check-config' \
            '--check-config --config FILE' '--config=FILE --check-config' \
            '--check-config=FILE' '--check-config --local --config FILE' \
            '--config FILE --check-config FILE'; do
            words=()
            # shellcheck disable=SC2086 # several words
            for word in $args; do words+=("${word/FILE/$name}"); done
            [[ $args == *FILE* ]] || words+=("$name")
            run --separate-stderr ctld "${words[@]}"
            [ "$status" -eq 0 ]
            [ "${lines[-1]}" = "# $name: valid" ]
        done
    done
    run ctld --check-config --config bad
    [ "$status" -eq 78 ]
    run ctld --check-config
    [ "$status" -eq 64 ]
    [ "$output" = "mgpu-ctld: '--check-config' needs a file: its value, or that of --config" ]
    run ctld --config good --check-config bad
    [ "$status" -eq 64 ]
    [ "$output" = "mgpu-ctld: --check-config 'bad': another file than --config 'good'" ]
    run ctld --check-config good bad
    [ "$status" -eq 64 ]
}

@test "--check-config: what a daemon starts without is a warning" {
    printf '%s\n' 'version: 1' "local: {mpirun: $BATS_TEST_TMPDIR/mpirun}" \
        'controller: {listen: "127.0.0.1:7431"}' \
        "auth: {remote: munge, munge_socket: $BATS_TEST_TMPDIR/munge}" \
        >"$BATS_TEST_TMPDIR/conf"
    run --separate-stderr ctld --check-config "$BATS_TEST_TMPDIR/conf"
    [ "$status" -eq 0 ]
    [[ $output == *valid ]]
    [[ $stderr == *"warning: local.mpirun: there is no program '$BATS_TEST_TMPDIR/mpirun'"* ]]
    [[ $stderr == *"warning: auth.munge_socket: "* ]]
    printf '#!/bin/sh\n' >"$BATS_TEST_TMPDIR/mpirun"
    chmod +x "$BATS_TEST_TMPDIR/mpirun"
    PATH=$BATS_TEST_TMPDIR:$PATH
    printf '%s\n' 'version: 1' >"$BATS_TEST_TMPDIR/conf"
    run --separate-stderr ctld --check-config "$BATS_TEST_TMPDIR/conf"
    [ -z "$stderr" ]
}

# What a configuration for Slurm lacks on this machine: that many lines.
lacks() { # COUNT PATTERN YAML...
    local n=$1 pattern=$2
    shift 2
    printf '%s\n' 'version: 1' 'allocator: slurm' "$@" >"$BATS_TEST_TMPDIR/conf"
    run --separate-stderr ctld --check-config "$BATS_TEST_TMPDIR/conf"
    [ "$(grep -c . <<<"$stderr")" = "$n" ]
    if [ "$n" = 0 ]; then
        [ "$status" -eq 0 ]
        return
    fi
    [ "$status" -eq 78 ]
    [[ $stderr == *$pattern* ]]
    # Nor does a daemon start with it, or leave anything behind.
    run ctld --config "$BATS_TEST_TMPDIR/conf" \
        --state-dir "$BATS_TEST_TMPDIR/state" --socket "$BATS_TEST_TMPDIR/s/s"
    [ "$status" -eq 78 ]
    [ ! -e "$BATS_TEST_TMPDIR/state" ]
}

@test "--check-config: what this machine does not have, line by line" {
    [ -x "$MGPU_BIN/mgpu-slurm-helper" ] || skip "built without Slurm"
    listen='controller: {listen: "127.0.0.1:7431"'
    jobs='jobs_dir: "/home/%u/.mgpu"'
    lacks 0 '' "$listen}"
    lacks 0 '' "$listen, $jobs, user: nobody}"
    lacks 1 'name a port' 'controller: {listen: "*:0"}'
    lacks 1 'controller.jobs_dir' "$listen, user: nobody}"
    lacks 1 'with %u for the user' "$listen, jobs_dir: /srv/jobs, user: nobody}"
    mkdir "$BATS_TEST_TMPDIR/open"
    chmod 777 "$BATS_TEST_TMPDIR/open"
    lacks 1 'who could exchange' \
        "$listen, jobs_dir: \"$BATS_TEST_TMPDIR/open/%u\", user: nobody}"
    lacks 1 "no account 'no-such-user'" "$listen, $jobs, user: no-such-user}"
    lacks 1 "'root' is root" "$listen, $jobs, user: root}"
    lacks 1 'auth.admins' "$listen}" 'auth: {admins: [no-such-user]}'
    lacks 1 '/no/such/file' "$listen}" 'slurm: {conf: /no/such/file}'
    lacks 3 'auth.admins' 'auth: {admins: [no-such-user]}' \
        'controller: {user: nobody, listen: "*:0"}'
}

@test "--check-config: what this machine lacks has its place in the file" {
    cd "$BATS_TEST_TMPDIR" || return
    cat >mgpu.yaml <<'EOF'
version: 1
auth:
  admins: [root, no-such-user]
notify:
  program: [/no/mail]
controller: {user: nobody}
local: {mpirun: /no/mpirun}
EOF
    run ctld --check-config mgpu.yaml
    [ "$status" -eq 78 ]
    [[ $output == *"mgpu.yaml:3:18: error: auth.admins: no account 'no-such-user' here"* ]]
    [[ $output == *"mgpu.yaml:5:12: error: notify.program: '/no/mail' is no program"* ]]
    [[ $output == *"mgpu.yaml:6:20: error: controller.user: only a daemon with"* ]]
    [[ $output == *"mgpu.yaml:7:17: warning: local.mpirun: there is no program"* ]]
    [ -x "$MGPU_BIN/mgpu-slurm-helper" ] || return 0
    # Of what the file lacks the section, if it has that.
    printf '%s\n' 'version: 1' 'allocator: slurm' 'controller:' \
        '  listen: "*:0"' '  user: nobody' 'slurm: {conf: /no/conf}' >mgpu.yaml
    run ctld --check-config mgpu.yaml
    [[ $output == *"mgpu.yaml:4:11: error: controller.listen: '*:0'"* ]]
    [[ $output == *"mgpu.yaml:3:1: error: controller.jobs_dir: with"* ]]
    [[ $output == *"mgpu.yaml:6:15: error: slurm.conf: '/no/conf'"* ]]
}

@test "only what Slurm starts is anybody else's" {
    printf '%s\n' 'version: 1' 'controller: {user: nobody}' \
        >"$BATS_TEST_TMPDIR/conf"
    run ctld --check-config "$BATS_TEST_TMPDIR/conf"
    [ "$status" -eq 78 ]
    [[ $output == *"controller.user"* ]]
    run ctld --config "$BATS_TEST_TMPDIR/conf" \
        --state-dir "$BATS_TEST_TMPDIR/state" --socket "$BATS_TEST_TMPDIR/s/s"
    [ "$status" -eq 78 ]
    [ ! -e "$BATS_TEST_TMPDIR/state" ]
}

@test "a configuration is acted upon" {
    printf '%s\n' 'version: 1' 'cluster: bench' 'scheduler: {policy: fifo}' \
        'limits: {max_jobs_per_user: 1, max_spec_bytes: 1024B}' \
        >"$BATS_TEST_TMPDIR/conf"
    ctld_start --config "$BATS_TEST_TMPDIR/conf"
    [ "$(api GET /v1/status | json '$.cluster')" = bench ]
    [ "$(api GET /v1/status | json '$.policy')" = fifo ]
    submit_command one sleep 60
    run submit_command two true
    [ "$status" -eq 1 ]
    [[ $output == *'"LIMIT"'* ]]
    run submit_command "$(head -c 2000 /dev/zero | tr '\0' x)" true
    [[ $output == *max_spec_bytes* ]]
}

@test "jobs live where controller.jobs_dir says, and stay there" {
    printf '%s\n' 'version: 1' \
        "controller: {jobs_dir: '$BATS_TEST_TMPDIR/%u/jobs'}" \
        >"$BATS_TEST_TMPDIR/conf"
    ctld_start --config "$BATS_TEST_TMPDIR/conf"
    submit_command one echo hello
    wait_for 60 job_is 1 COMPLETED
    dir=$BATS_TEST_TMPDIR/$(id -un)/jobs/1
    [ "$(api GET /v1/jobs/1 | json '$.job.dir')" = "$dir" ]
    grep -q hello "$dir/1/log"
    [ "$(stat -c %a "$dir" "$dir/1" | sort -u)" = 700 ]
    ctld_term
    ctld_start
    submit_command two true
    wait_for 60 job_is 2 COMPLETED
    api GET /v1/jobs/1/logs | grep -qx hello # a sanitizer speaks there, too
    [ "$(api GET /v1/jobs/2 | json '$.job.dir')" = "$ctld_dir/state/jobs/2" ]
}

@test "results that have no place: the job says so" {
    ctld_start
    : >"$BATS_TEST_TMPDIR/file"
    printf '%s\n' 'version: 1' 'kind: cv' 'dataset: {source: synthetic}' \
        'train: {output_dir: file/out}' >"$BATS_TEST_TMPDIR/job.yaml"
    run -74 "$MGPU_BIN/mgpu-submit" --wait "$BATS_TEST_TMPDIR/job.yaml"
    [[ $output == *"FAILED  (make directory '$BATS_TEST_TMPDIR/file/out': Not a directory)"* ]]
}

@test "S13: directories that others may write to are refused: 78" {
    mkdir -m 777 "$BATS_TEST_TMPDIR/open"
    run ctld --local --state-dir "$BATS_TEST_TMPDIR/open" \
        --socket "$BATS_TEST_TMPDIR/sock"
    [ "$status" -eq 78 ]
    [[ $output == *"writable by others (mode 0"*"): chmod go-w it"* ]]
}

@test "another user is refused, also where the socket's mode lets it in" {
    [ "$(id -u)" = 0 ] && command -v setpriv >/dev/null || skip "needs root"
    ctld_start
    copy=$(mktemp -d /tmp/mgpu-other.XXXXXX)
    ln "$ctld_dir/sock" "$copy/sock" || skip "another file system"
    chmod 755 "$copy"
    chmod 666 "$copy/sock"
    run setpriv --reuid=65534 --regid=65534 --clear-groups curl -s \
        --max-time 30 --unix-socket "$copy/sock" http://x/v1/jobs
    rm -r "$copy"
    [[ $output == *'"DENIED"'*'serves uid 0 only'* ]]
}

@test "S09: of names of metrics an attempt has 256, and the rest is counted" {
    ctld_start
    cat >"$BATS_TEST_TMPDIR/names" <<'END'
awk 'BEGIN {
    for (k = 0; k < 2; k++)
        for (i = 1; i <= 300; i++)
            printf "{\"iteration\": %d, \"loss\": 1, \"m%d\": %d}\n", 300 * k + i, i, k
}' >>"$MGPU_METRICS"
END
    id=$(submit_command names sh "$BATS_TEST_TMPDIR/names")
    wait_for 60 job_is "$id" COMPLETED
    rows() { sqlite3 -readonly "$ctld_dir/state/metrics.db" "SELECT $1"; }
    [ "$(rows "count(*), count(DISTINCT name), sum(name = 'm256') FROM v_metric")" = '512|256|2' ]
    [ "$(rows 'count(*) FROM v_iteration')" = 600 ]
    api GET /metrics >"$BATS_TEST_TMPDIR/m"
    # A batch that is not answered in time is sent again, and counted again.
    dropped=$(sed -n 's/^mgpu_values_dropped_total //p' "$BATS_TEST_TMPDIR/m")
    [ "$dropped" -ge 88 ]
    [ "$dropped" -le 176 ]
    grep -qx 'mgpu_lines_dropped_total 0' "$BATS_TEST_TMPDIR/m"
    grep -q 'dropped rows of a job with too many metric names rows=' "$ctld_dir/ctld.log"
}

@test "S14, S15: hostile requests get one answer each" {
    ctld_start
    code() { curl -s -o /dev/null -w '%{http_code}' --max-time 20 \
        --unix-socket "$ctld_dir/sock" "$@"; }
    [ "$(code http://x/v2/jobs)" = 404 ]
    [ "$(code http://x/../../etc/passwd --path-as-is)" = 404 ]
    [ "$(code -X DELETE http://x/v1/jobs/1)" = 405 ]
    [ "$(code -I http://x/v1/jobs)" = 405 ]
    head -c 2000000 /dev/zero | tr '\0' x >"$BATS_TEST_TMPDIR/big"
    [ "$(code -H Expect: --data-binary "@$BATS_TEST_TMPDIR/big" \
        http://x/v1/jobs)" = 413 ]
    [ "$(code -d '{"spec":{}}' -H "Idempotency-Key: $(head -c 65 /dev/zero |
        tr '\0' k)" http://x/v1/jobs)" = 400 ]
    [ "$(code -X POST http://x/v1/attempts/1/1/claim -d '{"holder":"x"}')" = 404 ]
    # What a filter says is looked for, and never part of a query.
    submit_command one true >/dev/null
    for value in "' OR '1'='1" "one'; DROP TABLE job; --" '" OR ""="' '%' '_'; do
        run api GET /v1/jobs --get --data-urlencode "name=$value" \
            --data-urlencode user=all
        [ "$(json '$.jobs[0]' <<<"$output")" = "" ]
    done
    api GET '/v1/jobs?user=all' --get --data-urlencode "state=X' OR 1" && false
    [ "$(api GET '/v1/jobs?user=all&state=QUEUED,RUNNING,DISPATCHING,STARTING,COMPLETED' |
        json '$.jobs[0].name')" = one ]
    ctld_ready
}

@test "S03: one user has as many connections as the file says, at once" {
    conf=$BATS_TEST_TMPDIR/mgpu.yaml
    printf 'version: 1\nlimits: {max_clients_per_user: 8}\n' >"$conf"
    ctld_start --config "$conf"
    # Who asks takes a place, too, and a watcher that finds none is gone: they
    # are started until all places are theirs.
    is_full() {
        [[ $(api GET /livez 2>/dev/null) != *"too many connections"* ]] ||
            return 0
        [ "$(jobs -rp | wc -l)" -gt 12 ] ||
            curl -sN --max-time 300 --unix-socket "$ctld_dir/sock" \
                http://x/v1/watch >/dev/null 2>&1 3>&- &
        return 1
    }
    wait_for 60 is_full
    # A tool comes again by itself, until there is a place.
    "$MGPU_BIN/mgpu-stat" >"$BATS_TEST_TMPDIR/table" 3>&- &
    tool=$!
    wait_for 60 is_full
    printf 'version: 1\nlimits: {max_clients_per_user: 20}\n' >"$conf"
    kill -HUP "$ctld_pid"
    wait_for 60 ctld_ready
    wait "$tool"
}

@test "S04: without descriptors it goes on, and serves again when there are some" {
    ulimit -n 64
    ctld_start
    watchers=
    for _ in $(seq 70); do
        curl -sN --max-time 600 --unix-socket "$ctld_dir/sock" \
            http://x/v1/watch >/dev/null 2>&1 3>&- &
        watchers="$watchers $!"
    done
    none_left() { [ "$(ls "/proc/$ctld_pid/fd" | wc -l)" -ge 62 ]; }
    wait_for 30 none_left
    kill -0 "$ctld_pid"
    # shellcheck disable=SC2086 # several
    kill $watchers 2>/dev/null || :
    wait_for 30 ctld_ready
    all_back() { [ "$(ls "/proc/$ctld_pid/fd" | wc -l)" -lt 50 ]; }
    wait_for 30 all_back
    [ -n "$(submit_command one true)" ]
}

@test "/metrics is OpenMetrics: typed, escaped, ended" {
    ctld_start
    submit_command one sleep 60
    api GET /metrics >"$BATS_TEST_TMPDIR/metrics"
    [ "$(tail -n 1 "$BATS_TEST_TMPDIR/metrics")" = '# EOF' ]
    not grep -v -E '^(# (HELP|TYPE|UNIT) mgpu_[a-z_]+ .+|# EOF|mgpu_[a-z_]+(\{[a-z]+="[^"]*"\})? [0-9.e+-]+)$' \
        "$BATS_TEST_TMPDIR/metrics"
    grep -q '^mgpu_jobs{state="COMPLETED"} 0$' "$BATS_TEST_TMPDIR/metrics"
}

@test "S14: controller.metrics_listen tells everybody counters, and no more" {
    printf 'version: 1\ncontroller: {metrics_listen: "127.0.0.1:0"}\n' \
        >"$BATS_TEST_TMPDIR/conf"
    ctld_start --config "$BATS_TEST_TMPDIR/conf"
    submit_command secret-name sleep 60
    port=$(sed -n 's/.* metrics at="127.0.0.1:0" port=\([0-9]*\)$/\1/p' "$ctld_dir/ctld.log")
    [ "$port" -gt 0 ]
    cd "$BATS_TEST_TMPDIR"
    get() { # PATH [curl's options]: the status; the body is in `got`
        curl --silent --path-as-is --max-time 20 --output got \
            --write-out '%{http_code}' "http://127.0.0.1:$port$@"
    }
    [ "$(get /livez)" = 200 ]
    [ "$(get /readyz)" = 200 ]
    [ "$(get /metrics)" = 200 ]
    awk -f "$BATS_TEST_DIRNAME/openmetrics.awk" got
    grep -q '^mgpu_jobs{state="QUEUED"} ' got
    not grep -q secret-name got
    not grep -q mgpu_group got # unless the administrator wants it
    # Not the API, by no way around it, and only to those who call us so.
    for path in /v1/jobs /v1/status /v1/jobs/1 /metrics/../v1/jobs / //metrics; do
        [ "$(get "$path")" = 404 ]
    done
    [ "$(get /metrics --request POST)" = 405 ]
    [ "$(get /metrics --data x)" = 413 ]
    for host in localhost "localhost:$port" '[::1]:1' 192.0.2.1 "$(uname -n):9"; do
        [ "$(get /metrics --header "Host: $host")" = 200 ]
    done
    for host in 'Host;' 'Host: evil.example' 'Host: [evil' \
        "Host: 127.0.0.1.evil.example:$port" "Host: $(uname -n).evil.example"; do
        [ "$(get /metrics --header "$host")" = 400 ]
        not grep -q mgpu_jobs got
    done
}

@test "/metrics is what OpenMetrics says, line by line, and the check can fail" {
    conforms() { awk -f "$BATS_TEST_DIRNAME/openmetrics.awk" "$1"; }
    cd "$BATS_TEST_TMPDIR"
    printf '%s\n' 'version: 1' \
        'controller: {metrics_labels: [account, gpu_type]}' >mgpu.yaml
    ctld_start --config mgpu.yaml
    has_group() { api GET /metrics >m && grep -qF "$1" m; }
    printf 'version: 1\nkind: command\ncommand: [sleep, "600"]\n' >job.yaml
    "$MGPU_BIN/mgpu-submit" --quiet --set 'policy.account=a"b' \
        --set resources.gpus=2 job.yaml
    "$MGPU_BIN/mgpu-submit" --quiet --hold job.yaml
    wait_for 60 has_group 'mgpu_group_gpus{gpu_type="slot",account="a\"b"} 2'
    has_group 'mgpu_group_jobs{state="HELD",gpu_type="",account=""} 1'
    "$MGPU_BIN/mgpu-submit" --quiet --set resources.gpus=2 job.yaml
    wait_for 60 has_group 'mgpu_group_pending{reason="WaitingForGpus",gpu_type="",account=""} 1'
    has_group 'mgpu_jobs_pending{reason="WaitingForGpus"} 1'
    has_group 'mgpu_nodes{state="up"} 1'
    has_group 'mgpu_nodes{state="down"} 0'
    # One has started, after less than a week.
    wait_for 60 has_group 'mgpu_wait_seconds_count 1'
    has_group 'mgpu_wait_seconds_bucket{le="604800"} 1'
    has_group 'mgpu_wait_seconds_bucket{le="+Inf"} 1'
    [ "$(sqlite3 "$ctld_dir/state/state.db" "SELECT abs(claimed_at - submitted_at \
        - $(awk '/^mgpu_wait_seconds_sum/ { print $2 }' m)) < 1e-6
        FROM v_usage")" = 1 ]
    conforms m
    grep -q '^# UNIT mgpu_step_seconds seconds$' m
    # Each is in mgpu-ctld(8), with its type and the same words, and no other.
    sed -n 's/^# HELP [a-z_]* //p; s/^# TYPE //p' m | sort >there
    sed -n '/^\.Sh METRICS/,/^\.Sh SIGNALS/p' "$MGPU_SRC/man/mgpu-ctld.8" |
        awk '/^\.It Li mgpu_/ { print $3, $5; getline; print }' | sort >said
    diff there said
    # Each of these breaks one rule.
    breaks() {
        sed "$1" m >broken
        not cmp -s m broken
        not conforms broken
    }
    breaks '$d'
    breaks '1i\\'
    breaks 's/^mgpu_events_total/mgpu_events/'
    breaks 's/^# TYPE mgpu_slots gauge/&\n&/'
    breaks '/^# HELP mgpu_slots /d'
    breaks '/^# UNIT mgpu_step_seconds/d'
    breaks 's/^# UNIT mgpu_step_seconds seconds/# UNIT mgpu_step_seconds bytes/'
    breaks 's/^# TYPE mgpu_slots gauge/# TYPE mgpu_slots counter/'
    breaks 's/^mgpu_slots \(.*\)/&\n&/'
    breaks 's/^mgpu_slots .*/mgpu_slots many/'
    breaks 's/^\(mgpu_step_seconds_count\) .*/\1 99999/'
    breaks '/^mgpu_step_seconds_bucket{le="+Inf"}/d'
    breaks 's/^\(mgpu_wait_seconds_bucket{le="604800"}\) 1/\1 0/'
    breaks 's/state="QUEUED"/state="QUE"UED"/'
}

@test "a state.db that is damaged: what lists the damage, and what restores it" {
    cd "$BATS_TEST_TMPDIR" || exit 1
    mkdir -m 700 broken
    head -c 8192 /dev/urandom >broken/state.db
    run timeout 60 "$MGPU_BIN/mgpu-ctld" --local --state-dir "$PWD/broken" \
        --socket "$PWD/x"
    [ "$status" -eq 74 ]
    [[ $output == *"'mgpu-ctld --fsck $PWD/broken' lists the damage; RESTORING in mgpu-admin(8)"* ]]
}
