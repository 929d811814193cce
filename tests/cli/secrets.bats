#!/usr/bin/env bats
# secrets.bats - S11: values that are for a job's ranks alone.
# shellcheck disable=SC2154,SC2016 # bats sets output; variables are the job's

bats_require_minimum_version 1.5.0
load helpers

setup() {
    cd "$BATS_TEST_TMPDIR" || exit 1
    export HOME=$BATS_TEST_TMPDIR/home
    mkdir -p "$HOME/.config/mgpu/secrets"
    ctld_start
}
teardown() { ctld_stop; }

stat() { "$MGPU_BIN/mgpu-stat" "$@"; }
submit() { "$MGPU_BIN/mgpu-submit" "$@"; }
state_of() { api GET "/v1/jobs/$1" | json '$.job.state'; }

# Random, so that it is found nowhere by luck; it is never an argument.
secret() { # NAME
    od -An -N16 -tx8 /dev/urandom | tr -d ' \n' >"$1.value"
    install -m 600 "$1.value" "$HOME/.config/mgpu/secrets/$1"
}

spec() { # NAME SECRETS SCRIPT
    printf '%s\n' "$3" >"$1.sh"
    cat >"$1.yaml" <<END
version: 1
kind: command
name: $1
command: [sh, $1.sh]
secrets: [$2]
checkpoint: {grace: 1s}
END
}

# knows FILE...: whether a value is in one of them, or below it.
knows() { grep -raqFf all.value "$@"; }

@test "S11: a secret is in the environment of the ranks, and nowhere else" {
    secret HF_TOKEN
    secret DB_PASSWORD
    for name in HF_TOKEN DB_PASSWORD; do
        cat "$name.value"
        echo
    done >all.value
    knows "$HOME" # what follows can find it
    spec deep 'HF_TOKEN, DB_PASSWORD' 'printf %s "$HF_TOKEN" | sha256sum
        printf %s "$DB_PASSWORD" | sha256sum
        : >ready.$MGPU_RANK
        until [ -e go ]; do sleep 0.1; done'
    submit --validate deep.yaml >shown
    submit --show deep.yaml >>shown
    submit --set resources.gpus=2 deep.yaml >>shown
    wait_for 60 test -e ready.0
    wait_for 60 test -e ready.1

    # Processes come and go meanwhile; an error of grep's is no find.
    grep -laFf all.value /proc/[0-9]*/cmdline >found 2>/dev/null || :
    cat found
    [ ! -s found ]
    grep -laFf all.value /proc/[0-9]*/environ >found 2>/dev/null || :
    [ -s found ]
    while read -r file; do
        { tr '\0' '\n' <"$file"; } 2>/dev/null >environ || continue
        [ ! -s environ ] || grep -q '^MGPU_RANK=' environ
    done <found

    "$MGPU_BIN/mgpu-admin" --quiet backup "$PWD/backup"
    : >go
    wait_for 60 eval '[ "$(state_of 1)" = COMPLETED ]'
    for name in HF_TOKEN DB_PASSWORD; do
        [ "$(stat --logs 1 | grep -cF "$(sha256sum <"$name.value")")" = 2 ]
    done
    {
        for option in --json --events --why --logs; do stat $option 1; done
        stat 1
        stat -t all --json
    } >>shown
    stat --report report.html 1
    [ "$(stat --json 1 | json '$.job.spec.secrets[0]')" = HF_TOKEN ]
    ctld_term
    not knows "$ctld_dir" backup shown report.html
}

@test "S11: a secret that cannot be had holds the job, which is released" {
    spec waits HF_TOKEN '[ ${#HF_TOKEN} = 32 ]'
    held_at() { # ATTEMPT
        api GET /v1/jobs/1 >job
        [ "$(json '$.job.state' <job) $(json '$.job.attempt' <job)" = "HELD $1" ]
    }
    file=$HOME/.config/mgpu/secrets/HF_TOKEN
    run submit waits.yaml
    [ "$status" -eq 0 ]
    [[ $output == *"waits.yaml:5:11: warning[W103]: "*"$file"* ]]
    wait_for 60 held_at 1
    [ "$(json '$.job.held_by' <job)" = refused ]
    [[ $(json '$.job.reason' <job) == *"secret not readable"* ]]
    [[ $(stat --logs 1) == *"secret 'HF_TOKEN': open '$file': No such file"* ]]
    not grep claim <<<"$(stat --events 1)"

    secret HF_TOKEN
    chmod 640 "$file"
    "$MGPU_BIN/mgpu-admin" --quiet release 1
    wait_for 60 held_at 2
    [[ $(stat --logs 1) == *"'$file' is open to other users"* ]]

    chmod 600 "$file"
    "$MGPU_BIN/mgpu-admin" --quiet release 1
    wait_for 60 eval '[ "$(state_of 1)" = COMPLETED ]'
}

@test "S11: a variable that sounds secret is refused, by the tools and the daemon" {
    refused() { # SPEC-LINE
        printf '%s\n' 'version: 1' 'kind: command' 'command: ["true"]' "$1" >no.yaml
        HF_TOKEN=hunter2 run submit "${@:2}" no.yaml
        [ "$status" -eq 65 ] || { echo "$status: $output" && false; }
        [[ $output == *"error[E025]: "*"name it under 'secrets:' instead"* ]]
        [[ $output != *hunter* ]]
    }
    refused 'env: {HF_TOKEN: hunter1}'
    refused 'env: {HF_TOKEN: hunter1}' --dry-run
    refused 'env_passthrough: [HF_TOKEN]'
    refused 'sweep: {grid: {env.API_KEY: [hunter1, hunter22]}}'
    refused 'name: a' --set env.DB_PASSWORD=hunter1
    run api POST /v1/jobs -d '{"spec":{"version":1,"kind":"command",
        "command":["true"],"env":{"HF_TOKEN":"hunter1"}}}'
    [[ $output == *INVAL*"[E025]"* && $output != *hunter* ]]
    [ "$(api GET /v1/jobs | json '$.queued')" = 0 ]
    ctld_term
    not grep -rqa hunter "$ctld_dir"
}
