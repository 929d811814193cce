#!/usr/bin/env bats
# auth.bats - on a cluster: a worker's token in the wrong hands (S08), users
# of a daemon that serves all (S01, S07). The rest of these is in
# tests/unit/ctld (remote.c, login.c, rights.c) and tests/cli/remote.bats.
# shellcheck shell=bash

bats_require_minimum_version 1.5.0

testbed=$BATS_TEST_DIRNAME/testbed

setup_file() {
    TB=$(mktemp -d "${TMPDIR:-/tmp}/mgpu-tb.XXXXXX")
    export TB
    "$testbed" up "$TB" --nodes 2 --gpus 2 --owner "$$" 3>&-
}
teardown_file() { "$testbed" down "$TB" --purge; }

setup() {
    eval "$("$testbed" env "$TB")"
    # Below a directory that everybody passes through, as bats' own are not.
    d=$(mktemp -d /tmp/mgpu-auth.XXXXXX)
    chmod 755 "$d"
    ctld_pid=
    export MGPU_URL=http://127.0.0.1:$MGPU_TEST_PORT
    export MGPU_MUNGE_SOCKET=$TB/munge/socket
}

teardown() {
    [ -n "${BATS_TEST_COMPLETED:-}" ] || cat "$d/ctld.log" || :
    if [ -n "$ctld_pid" ]; then
        kill "$ctld_pid" 2>/dev/null || :
        wait "$ctld_pid" 2>/dev/null || :
    fi
    rm -rf "${d:?}"
}

wait_for() {
    local deadline=$((SECONDS + $1))
    shift
    until "$@"; do
        [ "$SECONDS" -lt "$deadline" ] || return 1
        sleep 0.05
    done
}

# daemon MORE-OF-CONTROLLER
daemon() {
    cat >"$d/mgpu.yaml" <<YAML
version: 1
allocator: slurm
cluster: auth${BATS_TEST_NUMBER}
controller:
  listen: "127.0.0.1:$MGPU_TEST_PORT"
  url: "$MGPU_URL"
  state_dir: $d/state
  socket: $d/run/sock
  $1
auth: {remote: munge, munge_socket: $TB/munge/socket, admins: [root, daemon]}
slurm: {conf: $SLURM_CONF}
YAML
    "$MGPU_BIN/mgpu-ctld" --config "$d/mgpu.yaml" >"$d/ctld.log" 2>&1 3>&- &
    ctld_pid=$!
    wait_for 60 ready
}
ready() { curl --silent --fail --max-time 5 "$MGPU_URL/readyz" >/dev/null; }

# job NAME SHELL-TEXT: its specification, as $d/NAME.yaml.
job() {
    cat >"$d/$1.yaml" <<YAML
version: 1
kind: command
name: $1
command: [sh, -c, "$2"]
resources: {gpus: 1}
YAML
    chmod 644 "$d/$1.yaml"
}

state() { "$MGPU_BIN/mgpu-stat" "$1" --json | grep -o '"state":"[A-Z]*"' | head -n 1; }
is() { [ "$(state "$1")" = "\"state\":\"$2\"" ]; }

# worker FROM PATH TOKEN BODY: a request as a worker makes it.
worker() {
    curl --silent --max-time 20 --interface "$1" -X POST -d "$4" \
        -H "Authorization: Bearer $3" "$MGPU_URL/v1/attempts/$2"
}

@test "S08: a token is of use to its attempt, on its nodes, until its end" {
    daemon "max_clients: 64"
    job one "sleep 1000"
    "$MGPU_BIN/mgpu-submit" "$d/one.yaml"
    "$MGPU_BIN/mgpu-submit" "$d/one.yaml"
    wait_for 60 is 1 RUNNING
    wait_for 60 is 2 RUNNING
    token=$(sed 's/.*"token":"\([0-9a-f]*\)".*/\1/' \
        "$d/state/jobs/1/1/launch.json")
    other=$(sed 's/.*"token":"\([0-9a-f]*\)".*/\1/' \
        "$d/state/jobs/2/1/launch.json")
    [ ${#token} -eq 64 ] && [ ${#other} -eq 64 ] && [ "$token" != "$other" ]
    [[ $(worker 127.0.0.1 1/1/report "$other" '{"exit_code":0}') == \
        *DENIED*"wrong token"* ]]
    [[ $(worker 127.0.0.1 1/1/report '' '{"exit_code":0}') == *DENIED* ]]
    # All of 127.0.0.0/8 is this machine, but the nodes are 127.0.0.1.
    [[ $(worker 127.0.0.2 1/1/report "$token" '{"exit_code":0}') == \
        *DENIED*"no worker at 127.0.0.2"* ]]
    [[ $(worker 127.0.0.2 1/1/claim "$token" '{"holder":"eve 1 1"}') == \
        *DENIED* ]]
    # Where it is, it has been claimed.
    [[ $(worker 127.0.0.1 1/1/claim "$token" '{"holder":"eve 1 1"}') == \
        *FENCED*"held by"* ]]
    run -0 "$MGPU_BIN/mgpu-cancel" 1 2
    wait_for 60 is 1 CANCELLED
    wait_for 60 is 2 CANCELLED
    [[ $(worker 127.0.0.1 1/1/report "$token" '{"exit_code":0}') == *FENCED* ]]
    grep -q 'warn auth: refused peer=127.0.0.' "$d/ctld.log"
    run -1 grep -e "$token" -e "$other" "$d/ctld.log"
    # Nor is it where a backup would take it.
    run -1 grep -c -a "$token" "$d/state/state.db" "$d/state/state.db-wal"
}

@test "S01, S07: users of one daemon" {
    [ "$(id -u)" -eq 0 ] || skip "only root can be somebody else"
    mkdir -m 1777 "$d/jobs"
    mkdir -m 755 "$d/run"
    mkdir -m 700 "$d/state"
    chown nobody "$d/run" "$d/state"
    daemon "jobs_dir: $d/jobs/%u
  user: nobody"
    as() { # UID COMMAND...
        local uid=$1
        shift
        setpriv --reuid "$uid" --clear-groups env HOME=/ "$@"
    }
    job hush "id -u"
    as 2 "$MGPU_BIN/mgpu-submit" --wait "$d/hush.yaml"
    # A reader may not answer in time; a sanitizer may have words of its own.
    log_says() { as 2 "$MGPU_BIN/mgpu-stat" 1 --logs | grep -qx "$1"; }
    wait_for 60 log_says 2
    # A stranger, by credential and by socket.
    for url in "$MGPU_URL" "unix:$d/run/sock"; do
        export MGPU_URL=$url
        for view in "" --logs --events --metrics --epochs; do
            run -77 as 3 "$MGPU_BIN/mgpu-stat" 1 $view
            [[ $output == *"job 1 belongs to another user"* ]]
            [[ $output != *hush* ]]
        done
        run -77 as 3 "$MGPU_BIN/mgpu-cancel" 1
        run -0 as 3 "$MGPU_BIN/mgpu-stat" --state all
        [[ $output == *hush*CD* ]]
        # daemon, uid 1, is an administrator here.
        run -0 as 1 "$MGPU_BIN/mgpu-stat" 1 --events
        run -73 as 1 "$MGPU_BIN/mgpu-cancel" 1
    done
}

@test "S01, S07: holds, priorities and requeues of users and administrators" {
    [ "$(id -u)" -eq 0 ] || skip "only root can be somebody else"
    mkdir -m 1777 "$d/jobs"
    mkdir -m 755 "$d/run"
    mkdir -m 700 "$d/state"
    chown nobody "$d/run" "$d/state"
    daemon "jobs_dir: $d/jobs/%u
  user: nobody"
    export MGPU_URL=unix:$d/run/sock
    as() { # UID COMMAND...
        local uid=$1
        shift
        setpriv --reuid "$uid" --clear-groups env HOME=/ "$@"
    }
    user() { as 2 "$MGPU_BIN/mgpu-admin" "$@"; }
    stranger() { as 3 "$MGPU_BIN/mgpu-admin" "$@"; }
    admin() { as 1 "$MGPU_BIN/mgpu-admin" "$@"; } # uid 1 is one here
    job calm "sleep 1000"
    run -0 as 2 "$MGPU_BIN/mgpu-submit" --parsable --hold "$d/calm.yaml"
    id=$output
    for action in hold release requeue top "priority 1"; do
        # shellcheck disable=SC2086 # words
        run -77 stranger $action "$id"
        [[ $output == *"job $id belongs to another user"* ]]
    done
    # Nor may he wait for it: it is not told from one that is not there.
    run -65 as 3 "$MGPU_BIN/mgpu-submit" --dependency "afterany:$id" "$d/calm.yaml"
    [[ $output == *"you have no job $id [E022]"* ]]
    # What a user holds, either releases; what an administrator holds, he does.
    run -0 admin release "$id"
    wait_for 60 is "$id" RUNNING
    run -0 user requeue "$id"
    wait_for 60 is_again 2
    run -0 admin requeue "$id"
    wait_for 60 is_again 3
    run -0 as 2 "$MGPU_BIN/mgpu-submit" --parsable --hold "$d/calm.yaml"
    id=$output
    run -0 admin hold "$id"
    run -77 user release "$id"
    [[ $output == *"administrator"* ]]
    is "$id" HELD
    # A user has priorities of -50 to 50, and does not pass others.
    run -0 user -- priority -50 "$id"
    run -0 user priority 50 "$id"
    run -65 user priority 51 "$id"
    run -77 user top "$id"
    run -0 admin priority 1000 "$id"
    run -0 admin release "$id"
    wait_for 60 is "$id" RUNNING
    run -0 as 2 "$MGPU_BIN/mgpu-cancel" -u me
}
is_again() { "$MGPU_BIN/mgpu-stat" --json "$id" | grep -q "\"attempt\":$1,.*\"state\":\"RUNNING\"\|\"state\":\"RUNNING\".*\"attempt\":$1,"; }
