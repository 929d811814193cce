#!/usr/bin/env bats
# notify.bats - F42: notify.program is told of jobs, and holds up nobody; and
# the examples of contrib/notify.
# shellcheck disable=SC2154 # bats sets output

bats_require_minimum_version 1.5.0
load helpers

setup() {
    cd "$BATS_TEST_TMPDIR" || exit 1
    bodies=$BATS_TEST_TMPDIR/bodies
    : >"$bodies"
    program ok "cat >body && tr '\\n' ' ' <body >>bodies && echo >>bodies"
}
teardown() { ctld_stop; }

# program NAME SCRIPT: one for notify.program, which runs here.
program() {
    printf '#!/bin/sh\ncd "%s"\n%s\n' "$PWD" "$2" >"$1.new"
    chmod 700 "$1.new"
    mv "$1.new" "$1" # of one that runs the text stays
}

# start [ARGUMENT...]: a daemon that tells `ok`, with these arguments.
start() {
    local argv
    argv=$(printf ", '%s'" "$@")
    [ $# -gt 0 ] || argv=
    printf "version: 1\nnotify: {program: ['%s'%s]}\n" "$PWD/ok" "$argv" >mgpu.yaml
    ctld_start --config mgpu.yaml
}

# job NAME NOTIFY ARG...: submits; prints the id, or what was said.
job() {
    local name=$1 notify=$2
    shift 2
    {
        printf 'version: 1\nkind: command\nname: %s\nnotify: %s\n' \
            "$name" "$notify"
        printf 'command:\n'
        printf '  - "%s"\n' "$@"
        printf 'retry: {max: 0}\n'
    } >"$name.yaml"
    "$MGPU_BIN/mgpu-submit" --parsable "$name.yaml" 2>&1
}

url() { echo "{to: 'https://hooks.example.org/x?token=s3cret', on: [$1]}"; }
n_bodies() { [ "$(wc -l <"$bodies")" -ge "$1" ]; }
metric() { api GET /metrics | sed -n "s/^mgpu_notices_$1 //p"; }
metric_is() { [ "$(metric "$1")" = "$2" ]; }
on_of() { sed -n "$1p" "$bodies" | json '$.on'; }

@test "F42: a job's begin and end are told, as the schema says" {
    start
    id=$(job good "$(url "begin, end, fail")" true)
    wait_for 60 n_bodies 2
    bad=$(job bad "$(url "end, fail")" sh -c "exit 3")
    wait_for 60 n_bodies 3
    [ "$(on_of 1) $(on_of 2) $(on_of 3)" = "begin end fail" ]
    sed -n 2p "$bodies" >end.json
    sed -n 3p "$bodies" >fail.json
    "$MGPU_BIN/../tests/unit/tools/schema" end.json fail.json
    [ "$(json '$.job' <end.json)" = "$id" ]
    [ "$(json '$.state' <end.json)" = COMPLETED ]
    [ "$(json '$.show' <fail.json)" = "mgpu-stat $bad" ]
    [ "$(json '$.state' <fail.json) $(json '$.exit_code' <fail.json)" = "FAILED 3" ]
    wait_for 60 metric_is sent_total 3
    metric_is failed_total 0
    [ "$(json '$.notify.to' <end.json)" = 'https://hooks.example.org/x?token=s3cret' ]
    [ "$(json '$.notify.on[2]' <end.json)" = fail ]
    [ "$(json '$.url' <end.json)" = "$MGPU_URL" ]
    not grep -q s3cret "$ctld_dir/ctld.log"
    "$MGPU_BIN/mgpu-stat" --json "$id" >shown
    not grep -q s3cret shown
    grep -q 'https://hooks.example.org/\*\*\*' shown
    id=$(job password "{to: 'https://u:s3cret@a.org/x'}" true)
    "$MGPU_BIN/mgpu-stat" --json "$id" >shown
    not grep -q s3cret shown
    grep -qF '"to":"https://********"' shown
    id=$(job plain "{to: 'alice, by mail'}" true)
    "$MGPU_BIN/mgpu-stat" --json "$id" >shown
    grep -qF '"to":"alice, by mail"' shown
}

@test "F11: a rank that hangs while its worker beats: told, named, ended" {
    # Who is silent is not at issue, and the machine may be slow.
    start
    cat >>mgpu.yaml <<END
watchdog: {heartbeat: 1s, node_lost_after: 1h, stall_factor: 2, stall_min: 3s}
END
    "$MGPU_BIN/mgpu-admin" --quiet reload
    cat >hangs.yaml <<END
version: 1
kind: command
name: hangs
resources: {gpus: 2}
retry: {max: 0}
watchdog: {action: end}
notify: $(url "stalled, fail")
command:
  - sh
  - -c
  - |
    for i in 1 2 3; do
        echo "{\"iteration\":\$i,\"t_iter\":0.01}" >>"\$MGPU_METRICS"
    done
    until [ -e "$PWD/go.\$MGPU_RANK" ]; do sleep 0.1; done
    echo '{"iteration":4,"t_iter":0.01}' >>"\$MGPU_METRICS"
    until [ -e "$PWD/end" ]; do sleep 0.1; done
END
    id=$("$MGPU_BIN/mgpu-submit" --parsable hangs.yaml)
    sql() { sqlite3 -readonly -cmd '.timeout 5000' "$ctld_dir/state/$1.db" "$2"; }
    rows() { # NUMBER OF-RANK
        [ "$(sql metrics "SELECT count(*) FROM v_iteration
            WHERE rank = $2")" = "$1" ]
    }
    is_at() { [ "$(api GET "/v1/jobs/$id" | json '$.job.iteration')" = "$1" ]; }
    wait_for 60 rows 3 0
    wait_for 60 rows 3 1
    touch go.0 # rank 1 stays where it is, and both workers beat
    wait_for 60 rows 4 0
    wait_for 60 is_at 4
    wait_for 60 job_is "$id" STALLED
    wait_for 60 n_bodies 1
    [ "$(on_of 1)" = stalled ]
    "$MGPU_BIN/mgpu-admin" --quiet policy set watchdog.node_lost_after=4s
    wait_for 60 job_is "$id" FAILED
    sql state "SELECT group_concat(detail) FROM v_event
        WHERE event IN ('stall', 'fail')" | tee why
    grep -q 'no progress for [0-9]* s after iteration 4, step time 0.01 s; rank 1 lags: at iteration 3, others at 4' why
    wait_for 60 grep -q '"on":"fail"' "$bodies"
}

@test "F42: while the program hangs the daemon goes on, and its end does not wait" {
    program ok 'echo $$ >hangs; exec sleep 600'
    start
    id=$(job one "$(url end)" true)
    wait_for 60 test -s hangs
    other=$(submit_command other true)
    wait_for 60 job_is "$other" COMPLETED
    job_is "$id" COMPLETED
    wait_for 60 metric_is waiting 1
    ctld_term
    gone() { not kill -0 "$1" 2>/dev/null || grep -q '^State:.Z' "/proc/$1/status"; }
    wait_for 60 gone "$(cat hangs)"
    # It was not told yet: the next daemon does.
    program ok 'cat >>bodies; echo >>bodies'
    ctld_start --config mgpu.yaml
    wait_for 60 metric_is sent_total 1
    [ "$(tail -n 1 "$bodies" | json '$.job')" = "$id" ]
    # And no daemon after that.
    n=$(wc -l <"$bodies")
    ctld_term
    ctld_start --config mgpu.yaml
    two=$(job two "$(url end)" true)
    wait_for 60 n_bodies $((n + 1))
    [ "$(tail -n 1 "$bodies" | json '$.job')" = "$two" ]
    [ "$(wc -l <"$bodies")" = $((n + 1)) ]
}

@test "F42: three tries, one line, and arguments as they stand" {
    program ok 'echo x >>tries; printf "%s|" "$@" >argv; exit 1'
    start 'a b' '$(c);'
    id=$(job one "{to: alice}" true)
    wait_for 120 metric_is failed_total 1
    [ "$(wc -l <tries)" = 3 ]
    [ "$(cat argv)" = 'a b|$(c);|' ]
    [ "$(grep -c "notice: notification failed job=$id .* tries=3" "$ctld_dir/ctld.log")" = 1 ]
    [ "$(grep -c "notice: notification failed" "$ctld_dir/ctld.log")" = 1 ]
}

@test "F42: without a program notify is refused; targets are read; a reload" {
    ctld_start
    run job no "$(url end)" true
    [ "$status" -eq 65 ]
    [[ $output == *"this daemon tells nobody"*"notify.program"*E023* ]]
    run job no '{to: alice}' true
    [ "$status" -eq 65 ]
    ctld_term
    start
    run job no '{to: "a@b.org\nBcc: c@d.org"}' true
    [ "$status" -eq 65 ]
    [[ $output == *"no.yaml:4:14: error[E023]: notify.to"* ]]
    run job no '{email: alice}' true
    [ "$status" -eq 65 ]
    [[ $output == *"no.yaml:4:10: error[E018]: 'notify.email' was removed"*notify.to* ]]
    id=$(job held "$(url end)" sleep 600)
    printf 'version: 1\nnotify: {program: [/no/such/program]}\n' >mgpu.yaml
    run "$MGPU_BIN/mgpu-ctld" --check-config mgpu.yaml
    [ "$status" -eq 78 ]
    [[ $output == *"notify.program: '/no/such/program' is no program"* ]]
    run "$MGPU_BIN/mgpu-admin" reload
    [ "$status" -ne 0 ]
    printf 'version: 1\n' >mgpu.yaml
    "$MGPU_BIN/mgpu-admin" reload
    "$MGPU_BIN/mgpu-cancel" "$id"
    wait_for 60 metric_is failed_total 1
    grep -q "notification failed job=$id .*notify.program is not set any more" \
        "$ctld_dir/ctld.log"
    [ ! -s "$bodies" ]
}

@test "F40 F42: held, requeued, 80 percent of the time" {
    start
    first=$(submit_command first false)
    wait_for 60 job_is "$first" FAILED
    printf 'version: 1\nkind: command\ncommand: ["true"]\n%s\nnotify: %s\n' \
        "depends_on: ['afterok:$first']" "$(url held)" >waits.yaml
    "$MGPU_BIN/mgpu-submit" --quiet waits.yaml
    wait_for 60 n_bodies 1
    [ "$(on_of 1)" = held ]
    [[ $(sed -n 1p "$bodies" | json '$.reason') == DependencyNeverSatisfied* ]]
    second=$(sed -n 1p "$bodies" | json '$.job')
    sed "s/afterok:$first/afterok:$second/" waits.yaml >behind.yaml
    "$MGPU_BIN/mgpu-submit" --quiet behind.yaml
    wait_for 60 n_bodies 2
    [ "$(on_of 2)" = held ]
    [[ $(sed -n 2p "$bodies" | json '$.reason') == \
        "DependencyNeverSatisfied: afterok:$second, held behind afterok:$first, which is FAILED" ]]
    printf 'version: 1\nkind: command\ncommand: [sleep, "600"]\n%s\nnotify: %s\n' \
        "resources: {time_limit: 25s}" "$(url "time_80, end")" >limit.yaml
    "$MGPU_BIN/mgpu-submit" --quiet limit.yaml
    wait_for 60 n_bodies 4
    [ "$(on_of 3) $(on_of 4)" = "time_80 end" ]
    [ "$(sed -n 4p "$bodies" | json '$.state')" = TIMEOUT ]
    id=$(job again "$(url requeue)" sleep 600)
    has_begun() { job_is "$id" STARTING || job_is "$id" RUNNING; }
    wait_for 60 has_begun
    "$MGPU_BIN/mgpu-admin" requeue "$id"
    wait_for 60 n_bodies 5
    [ "$(on_of 5)" = requeue ]
}

# ---- contrib/notify -----------------------------------------------------------

event() { # TO, as JSON
    printf '{"schema":"mgpu.notify/1","job":7,"display_id":"7","name":"a\\"b",
        "state":"FAILED","on":"fail","reason":"it\\nsaid \\\\ no","at":"now",
        "show":"mgpu-stat 7","notify":{"to":%s}}' "$1"
}

@test "contrib/notify/mail: one address, and no option" {
    program sendmail 'printf "%s|" "$@" >argv; cat >letter'
    export SENDMAIL=$PWD/sendmail
    mail=$MGPU_SRC/contrib/notify/mail
    event '"alice@example.org"' | "$mail"
    [ "$(cat argv)" = '-i|-t|' ]
    [ "$(head -n 1 letter)" = 'To: alice@example.org' ]
    grep -qx 'Subject: mgpu: job 7 a"b: FAILED' letter
    grep -qx 'Reason:  it said \\ no' letter
    rm letter
    for other in null '"https://a.org/x"'; do
        event "$other" | "$mail"
        [ ! -e letter ]
    done
    for bad in '"-oQ/tmp"' '"a@b.org@c.org"' '"a@b.org, c"' '"a b"' \
        '"a@b.org\nBcc: c"' '"|cat"' '"a@b.org\n"'; do
        run --separate-stderr "$mail" < <(event "$bad")
        # The newline at the end of a line of jq is not the address's.
        [ "$bad" = '"a@b.org\n"' ] || [ "$status" -eq 1 ] || { echo "$bad" && false; }
        [ ! -e letter ] || [ "$(sed -n '2s/:.*//p' letter)" = Subject ]
        rm -f letter
    done
}

@test "contrib/notify/webhook: prefixes of its arguments, https alone, no redirect" {
    mkdir bin
    program bin/curl 'printf "%s|" "$@" >argv; cat >config'
    hook() { # URL PREFIX...
        event "\"$1\"" | PATH=$PWD/bin:$PATH "$MGPU_SRC/contrib/notify/webhook" "${@:2}"
    }
    hook https://hooks.example.org/x?token=s3cret https://a.org/ https://hooks.example.org/
    [ "$(cat argv)" = '--disable|--config|-|' ]
    grep -qx 'url = "https://hooks.example.org/x?token=s3cret"' config
    grep -qx 'proto = "=https"' config
    not grep -q '^location' config
    sed -n 's/^data-raw = "\(.*\)"$/\1/p' config | sed 's/\\\(.\)/\1/g' >sent
    [ "$(json '$.name' <sent)" = 'a"b' ]
    [ "$(json '$.reason' <sent)" = $'it\nsaid \\ no' ]
    rm config
    event '"alice"' | PATH=$PWD/bin:$PATH "$MGPU_SRC/contrib/notify/webhook" https://a.org/
    for bad in http://a.org/x https://b.org/ https://a.org.b.org/ https://a.orgx/ \
        https://a.org@b.org/ https://a.org/../x https://a.org/%2e%2E/x \
        'https://a.org/\\..' 'https://a.org/x\ny' 'https://a.org/\"x' \
        'https://a.org/[1-9]' file:///etc/passwd; do
        run hook "$bad" https://a.org/
        [ "$status" -eq 1 ] || { echo "$bad: $status" && false; }
        [ ! -e config ]
    done
    for bad in https://a.org http://a.org/ ''; do
        run hook https://a.org/x "$bad"
        [ "$status" -eq 1 ]
        [ ! -e config ]
    done
    run "$MGPU_SRC/contrib/notify/webhook" </dev/null
    [ "$status" -eq 64 ]
    # curl takes all of that: nobody is there.
    run "$MGPU_SRC/contrib/notify/webhook" https://127.0.0.1:1/ < <(event '"https://127.0.0.1:1/x"')
    [ "$status" -eq 7 ]
}
