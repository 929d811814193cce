#!/usr/bin/env bats
# notify.bats - F42: people are told, and whoever does not want to hear holds
# up nobody.

bats_require_minimum_version 1.5.0
load helpers

setup() {
    cd "$BATS_TEST_TMPDIR" || exit 1
    hook_pid=
    bodies=$BATS_TEST_TMPDIR/bodies
    : >"$bodies"
}
teardown() {
    ctld_stop
    [ -z "$hook_pid" ] || kill "$hook_pid" 2>/dev/null || :
}

# hook HOW: a server on $port, which goes on as hook_is HOW says.
hook() {
    mkfifo hows
    "$MGPU_BIN/../tests/unit/base/http_hook" serve "$1" "$bodies" \
        <hows >said 3>&- 4>&- &
    hook_pid=$!
    exec 4>hows
    wait_for 60 test -s said
    port=$(head -n 1 said)
}
hook_is() {
    echo "$1" >&4
    wait_for 60 grep -qx "$1" said
}

# start [LINE of notify...]: a daemon with these.
start() {
    {
        printf 'version: 1\nnotify:\n'
        printf '  %s\n' "$@"
    } >mgpu.yaml
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

url() { echo "{webhook: 'http://127.0.0.1:$port/x?token=s3cret', on: [$1]}"; }
n_bodies() { [ "$(wc -l <"$bodies")" -ge "$1" ]; }
metric() { api GET /metrics | sed -n "s/^mgpu_notices_$1 //p"; }
metric_is() { [ "$(metric "$1")" = "$2" ]; }
on_of() { sed -n "$1p" "$bodies" | json '$.on'; }

@test "F42: a job's begin and end are told, as the schema says" {
    hook ok
    start "webhook_allow: ['127.0.0.1:$port']"
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
    not grep -q s3cret "$bodies" "$ctld_dir/ctld.log"
    "$MGPU_BIN/mgpu-stat" --json "$id" >shown
    not grep -q s3cret shown
    grep -q "http://127.0.0.1:$port/\*\*\*" shown
}

@test "F11: a rank that hangs while its worker beats: told, named, ended" {
    hook ok
    # Who is silent is not at issue, and the machine may be slow.
    start "webhook_allow: ['127.0.0.1:$port']"
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
    grep -q 'no progress for [0-9]* s after iteration 4, of 0.01 s each; rank 1 lags: at iteration 3, others at 4' why
    wait_for 60 grep -q '"on":"fail"' "$bodies"
}

@test "F42: while a hook hangs the daemon goes on, and its end does not wait" {
    hook hangs
    start "webhook_allow: ['127.0.0.1:$port']"
    id=$(job one "$(url end)" true)
    wait_for 60 n_bodies 1
    other=$(submit_command other true)
    wait_for 60 job_is "$other" COMPLETED
    job_is "$id" COMPLETED
    wait_for 60 metric_is waiting 1
    ctld_term
    # It was not told yet: the next daemon does.
    hook_is ok
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

@test "F42: three tries of a call and of a mail, one line; a gigabyte" {
    hook fails
    printf '#!/bin/sh\necho x >>"%s/tries"\nexit 1\n' "$PWD" >mail-fails
    chmod 700 mail-fails
    start "webhook_allow: ['127.0.0.1:$port']" "mail_program: $PWD/mail-fails"
    id=$(job one "{email: alice, webhook: 'http://127.0.0.1:$port/'}" true)
    wait_for 120 metric_is failed_total 2
    [ "$(wc -l <"$bodies") $(wc -l <tries)" = "3 3" ]
    [ "$(grep -c "notice: not told job=$id .* tries=3" "$ctld_dir/ctld.log")" = 1 ]
    [ "$(grep -c "notice: not told" "$ctld_dir/ctld.log")" = 1 ]
    hook_is huge
    job huge "$(url end)" true
    wait_for 60 metric_is sent_total 1
}

@test "F42: a host that is not allowed is refused, at once and after a reload" {
    hook ok
    start "webhook_allow: ['127.0.0.1:$port', hooks.example.org]"
    run job no "{webhook: 'http://127.0.0.1:1/'}" true
    [ "$status" -eq 65 ]
    [[ $output == *"'127.0.0.1:1' may not be called from here"*E023* ]]
    run job no "{webhook: 'http://localhost:$port/'}" true
    [ "$status" -eq 65 ]
    run job no '{email: alice}' true
    [ "$status" -eq 65 ]
    [[ $output == *"no mails are sent here"* ]]
    run job no '{webhook: "http://127.0.0.1/\r\nX: y"}' true
    [ "$status" -eq 65 ]
    [[ $output == *"no.yaml:4:19: error[E023]: notify.webhook"* ]]
    run job no '{email: "a@b.org\nBcc: c@d.org"}' true
    [ "$status" -eq 65 ]
    [[ $output == *"no.yaml:4:17: error[E023]: notify.email"* ]]
    id=$(job held "{webhook: 'http://127.0.0.1:$port/', on: [end]}" sleep 600)
    printf 'version: 1\nnotify: {mail_program: /no/such/program}\n' >mgpu.yaml
    run "$MGPU_BIN/mgpu-ctld" --check-config mgpu.yaml
    [ "$status" -eq 78 ]
    [[ $output == *"notify.mail_program: '/no/such/program' is no program"* ]]
    run "$MGPU_BIN/mgpu-admin" reload
    [ "$status" -ne 0 ]
    printf 'version: 1\nnotify: {webhook_allow: [hooks.example.org]}\n' >mgpu.yaml
    "$MGPU_BIN/mgpu-admin" reload
    "$MGPU_BIN/mgpu-cancel" "$id"
    wait_for 60 metric_is failed_total 1
    grep -q "not told job=$id .*not in notify.webhook_allow any more" \
        "$ctld_dir/ctld.log"
    [ ! -s "$bodies" ]
}

@test "F42: a mail, and a program that hangs" {
    printf '#!/bin/sh\ncd "%s"\nprintf "%%s|" "$@" >argv.part\n%s\n%s\n' "$PWD" \
        'cat >letter' 'mv argv.part argv' >mail
    # shellcheck disable=SC2016
    printf '#!/bin/sh\necho $$ >"%s/hangs"\nexec sleep 600\n' "$PWD" >mail-hangs
    chmod 700 mail mail-hangs
    start "mail_program: $PWD/mail"
    id=$(job post '{email: alice@example.org}' sh -c "exit 3")
    wait_for 60 test -e argv
    [ "$(cat argv)" = "-s|mgpu: job $id post: FAILED|alice@example.org|" ]
    grep -qx "Job:      $id, post" letter
    grep -qx "More:     mgpu-stat $id" letter
    printf 'version: 1\nnotify: {mail_program: %s/mail-hangs}\n' "$PWD" >mgpu.yaml
    "$MGPU_BIN/mgpu-admin" reload
    job post '{email: alice}' true
    wait_for 60 test -s hangs
    other=$(submit_command other true)
    wait_for 60 job_is "$other" COMPLETED
    ctld_term
    gone() { not kill -0 "$1" 2>/dev/null || grep -q '^State:.Z' "/proc/$1/status"; }
    wait_for 60 gone "$(cat hangs)"
}

@test "F40 F42: held, requeued, 80 percent of the time" {
    hook ok
    start "webhook_allow: ['127.0.0.1:$port']"
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

@test "F42: https: who shows a certificate that nobody vouches for hears nothing" {
    openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes \
        -days 2 -keyout key.pem -out cert.pem -subj /CN=hook \
        -addext subjectAltName=IP:127.0.0.1 2>req.log || cat req.log
    mkfifo hows
    openssl s_server -accept 127.0.0.1:0 -key key.pem -cert cert.pem \
        <hows >said 2>&1 3>&- 4>&- &
    hook_pid=$!
    exec 4>hows
    wait_for 60 grep -q '^ACCEPT 127.0.0.1:' said
    port=$(sed -n 's/^ACCEPT 127.0.0.1://p' said | head -n 1)
    # For whom knows the certificate it is a server like any other.
    printf 'HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n' >&4
    curl --silent --show-error --max-time 60 --cacert cert.pem \
        -d known "https://127.0.0.1:$port/known"
    wait_for 60 grep -q '^POST /known' said
    start "webhook_allow: ['127.0.0.1:$port']"
    id=$(job one "{webhook: 'https://127.0.0.1:$port/hook'}" true)
    wait_for 120 metric_is failed_total 1
    grep -q "not told job=$id .*certificate.* tries=3" "$ctld_dir/ctld.log" ||
        grep -q "not told job=$id .*tries=3.*certificate" "$ctld_dir/ctld.log"
    not grep -q 'POST /hook' said
    metric_is sent_total 0
    # A site names its own authority, in a file that is one.
    conf() {
        printf 'version: 1\nnotify: {webhook_allow: ["127.0.0.1:%s"], ca_file: %s}\n' \
            "$port" "$1" >mgpu.yaml
    }
    sed 10q cert.pem | sed '3s/./!/' >bad.pem
    cp cert.pem open.pem
    chmod 666 open.pem
    for file in none.pem key.pem bad.pem open.pem; do
        conf "$PWD/$file"
        run "$MGPU_BIN/mgpu-ctld" --check-config mgpu.yaml
        [ "$status" -eq 78 ]
        [[ $output == *"notify.ca_file: '$PWD/"* ]]
        run "$MGPU_BIN/mgpu-admin" reload
        [ "$status" -ne 0 ]
    done
    chmod 600 cert.pem
    conf "$PWD/cert.pem"
    "$MGPU_BIN/mgpu-ctld" --check-config mgpu.yaml
    "$MGPU_BIN/mgpu-admin" --quiet reload
    printf 'HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n' >&4
    job two "{webhook: 'https://127.0.0.1:$port/hook'}" true
    wait_for 120 metric_is sent_total 1
    grep -q 'POST /hook' said
}
