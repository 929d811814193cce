#!/usr/bin/env bats
# remote.bats - the tools over TCP, with MUNGE (S07); tests/unit/ctld has the
# rest: login.c users, remote.c workers, rights.c what each may do.
# shellcheck shell=bash disable=SC2314

load helpers

setup() {
    # Whose files other users' processes reach, and munged accepts.
    m=$(mktemp -d /tmp/mgpu-remote.XXXXXX)
    chmod 755 "$m"
    munged_pid=
    web_pid=
}

teardown() {
    [ -z "$web_pid" ] || kill "$web_pid" 2>/dev/null || :
    ctld_stop
    [ -z "$munged_pid" ] || kill "$munged_pid" 2>/dev/null || :
    [ -z "$munged_pid" ] || wait "$munged_pid" 2>/dev/null || :
    rm -rf "${m:?}"
}

munge_start() {
    command -v munge >/dev/null || skip "no MUNGE here"
    (umask 077 && head -c 64 /dev/urandom >"$m/key")
    PATH=$PATH:/usr/sbin munged --foreground --socket="$m/socket" \
        --key-file="$m/key" --pid-file="$m/pid" --seed-file="$m/seed" \
        --log-file="$m/log" >/dev/null 2>&1 3>&- &
    munged_pid=$!
    wait_for 60 test -S "$m/socket"
    export MGPU_MUNGE_SOCKET=$m/socket
}

# config PORT REMOTE
config() {
    cat >"$m/mgpu.yaml" <<YAML
version: 1
controller: {listen: "127.0.0.1:$1"}
auth: {remote: $2, munge_socket: $m/socket}
YAML
}

# remote_start PORT REMOTE: MGPU_URL is the port's afterwards.
remote_start() {
    config "$1" "$2"
    ctld_start --config "$m/mgpu.yaml" || return 1
    port=$(sed -n 's/.*listens at=.* port=\([0-9]*\).*/\1/p' \
        "$ctld_dir/ctld.log" | tail -n 1)
    export MGPU_URL=http://127.0.0.1:$port
}

spec() {
    cat >"$m/job.yaml" <<'YAML'
version: 1
kind: command
name: far
command: [sh, -c, "echo hello from afar"]
resources: {gpus: 1}
YAML
}

@test "the tools do over TCP what they do over the socket" {
    munge_start
    remote_start 0 munge
    spec
    run "$MGPU_BIN/mgpu-submit" --wait "$m/job.yaml"
    echo "$output"
    [ "$status" -eq 0 ]
    run "$MGPU_BIN/mgpu-stat" --state all
    echo "$output"
    [ "$status" -eq 0 ]
    [[ $output == *far*CD* ]]
    run "$MGPU_BIN/mgpu-stat" 1 --events
    [ "$status" -eq 0 ]
    [[ $output == *claim* ]]
    run "$MGPU_BIN/mgpu-stat" 1 --logs
    echo "$output"
    [ "$status" -eq 0 ]
    [[ $output == *"hello from afar"* ]]
    run "$MGPU_BIN/mgpu-cancel" 1
    [ "$status" -eq 73 ]
    run "$MGPU_BIN/mgpu-cancel" 2
    [ "$status" -eq 66 ]
}

@test "mgpu-web passes requests on over TCP, with a credential for each" {
    munge_start
    remote_start 0 munge
    "$MGPU_BIN/mgpu-web" >"$m/url" 2>"$m/err" 3>&- &
    web_pid=$!
    wait_for 60 test -s "$m/url"
    base=$(sed 's,/?token=.*,,' "$m/url")
    curl --silent -c "$m/jar" -o /dev/null "$(cat "$m/url")"
    ask() { curl --silent --fail --max-time 20 -b "$m/jar" "$@"; }
    for _ in 1 2; do
        run ask "$base/v1/jobs?user=me"
        [ "$status" -eq 0 ]
        [ "$(json '$.schema' <<<"$output")" = mgpu.queue/1 ]
    done
    spec='{"spec":{"version":1,"kind":"command","command":["true"],"resources":{"gpus":1}}}'
    run ask -H "Origin: $base" -H 'X-Mgpu-Web: 1' -H 'Idempotency-Key: k' \
        -d "$spec" "$base/v1/jobs"
    [ "$status" -eq 0 ]
    [ "$(json '$.id' <<<"$output")" = 1 ]
    [ "$("$MGPU_BIN/mgpu-stat" --no-header -t all -o user)" = "$(id -un)" ]
    kill "$web_pid"
    wait "$web_pid"
}

@test "curl can do it, as http_digest.h says" {
    munge_start
    remote_start 0 munge
    part() { # its length in 8 bytes, and the text
        printf "$(printf '%016x' "${#1}" | sed 's/../\\x&/g')"
        printf %s "$1"
    }
    digest=$({
        part mgpu-request/1
        part GET
        part '/v1/jobs?user=me'
        part ''
        part ''
    } | sha256sum | cut -c1-64)
    cred=$(munge --socket="$m/socket" --string="$digest")
    ask() { # PATH
        curl --silent --max-time 20 -H "Authorization: MUNGE $cred" \
            "$MGPU_URL$1"
    }
    run ask '/v1/jobs?user=me'
    [ "$(json '$.schema' <<<"$output")" = mgpu.queue/1 ]
    # S07: once, and for nothing else.
    run ask '/v1/jobs?user=me'
    [[ $output == *DENIED*"was used before"* ]]
    cred=$(munge --socket="$m/socket" --string="$digest")
    run ask '/v1/jobs?user=all'
    [[ $output == *DENIED*"for another request"* ]]
    [ "$(grep -c 'warn auth: refused peer=127.0.0.1' "$ctld_dir/ctld.log")" -ge 1 ]
}

@test "a tool that waits for its daemon has a fresh credential for each try" {
    munge_start
    # None that the kernel may give to somebody else meanwhile.
    until remote_start "$((10000 + RANDOM % 20000))" munge; do ctld_kill; done
    first=$port
    ctld_term
    spec
    "$MGPU_BIN/mgpu-submit" --wait "$m/job.yaml" >"$m/out" 2>&1 3>&- &
    tool=$!
    # The port is free again at once.
    remote_start "$first" munge
    wait "$tool"
    grep -q "job 1 COMPLETED" "$m/out"
}

@test "a client without credentials is told what is missing" {
    munge_start
    remote_start 0 none
    run "$MGPU_BIN/mgpu-stat"
    [ "$status" -eq 77 ]
    [[ $output == *"auth: {remote: munge}"* ]]
    MGPU_MUNGE_SOCKET=$m/nowhere run "$MGPU_BIN/mgpu-stat"
    [ "$status" -eq 69 ]
    [[ $output == *"munged does not answer"* ]]
    run curl --silent --max-time 20 "$MGPU_URL/livez"
    [ "$output" = ok ]
}

@test "another key, another realm: refused" {
    munge_start
    remote_start 0 munge
    kill "$munged_pid"
    wait "$munged_pid" || :
    mkdir -m 755 "$m/other"
    (umask 077 && head -c 64 /dev/urandom >"$m/other/key")
    PATH=$PATH:/usr/sbin munged --foreground --socket="$m/other/socket" \
        --key-file="$m/other/key" --pid-file="$m/other/pid" \
        --seed-file="$m/other/seed" --log-file="$m/other/log" \
        >/dev/null 2>&1 3>&- &
    other=$!
    PATH=$PATH:/usr/sbin munged --foreground --socket="$m/socket" \
        --key-file="$m/key" --pid-file="$m/pid" --seed-file="$m/seed" \
        --log-file="$m/log" >/dev/null 2>&1 3>&- &
    munged_pid=$!
    wait_for 60 test -S "$m/other/socket"
    wait_for 60 test -S "$m/socket"
    MGPU_MUNGE_SOCKET=$m/other/socket run "$MGPU_BIN/mgpu-stat"
    kill "$other"
    wait "$other" || :
    echo "$output"
    [ "$status" -eq 77 ]
    [[ $output == *"same munge.key"* ]]
    run "$MGPU_BIN/mgpu-stat"
    [ "$status" -eq 0 ]
}

@test "a port in use, a listen that is none, a stranger's name" {
    munge_start
    remote_start 0 munge
    taken=$port
    config "$taken" munge
    mkdir -m 700 "$m/second"
    run "$MGPU_BIN/mgpu-ctld" --local --config "$m/mgpu.yaml" \
        --state-dir "$m/second/state" --socket "$m/second/sock" --slots 1
    [ "$status" -eq 73 ]
    [[ $output == *"the port is in use"* ]]
    echo 'auth: {admins: [root, no-such-user-here]}' >"$m/admins.yaml"
    sed -i '1iversion: 1' "$m/admins.yaml"
    run "$MGPU_BIN/mgpu-ctld" --local --config "$m/admins.yaml" \
        --state-dir "$m/second/state" --socket "$m/second/sock" --slots 1
    [ "$status" -eq 78 ]
    [[ $output == *auth.admins*no-such-user-here* ]]
}
