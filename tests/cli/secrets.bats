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
    [[ $(json '$.job.reason' <job) == *"a secret that it names cannot be had"* ]]
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

@test "S11: what a sweep varies is not shown of a variable that sounds secret" {
    cat >vary.yaml <<'END'
version: 1
kind: command
command: [sh, -c, 'printf %s "$API_KEY" | wc -c']
sweep: {grid: {env.API_KEY: [hunter1, hunter22]}}
END
    submit --wait --quiet vary.yaml 2>shown
    [ "$(stat --logs 1_1 | head -n 1)" = 8 ]
    [ "$(stat --json 1_1 | json '$.job.vary."env.API_KEY"')" = '********' ]
    {
        for id in 1 1_0 1_1; do
            stat "$id"
            stat --json "$id"
        done
        stat --events 1_1
        stat --why 1_1
        for what in -h --json --expand; do stat -t all $what; done
        api GET /v1/jobs/2/events
        submit --show vary.yaml
        submit --validate vary.yaml
    } >>shown 2>&1
    stat --report report.html 1_1
    not grep -a hunter shown report.html
}

# ---- a value in env that sounds secret ---------------------------------------

# What is in no file: not in the databases and their logs, the directories of
# attempts, what the daemon writes; nor in an argument.
hidden() { # FILE...
    not knows "$ctld_dir" "$@"
    grep -laFf all.value /proc/[0-9]*/cmdline >found 2>/dev/null || :
    [ ! -s found ]
}
n_keys() { find "$ctld_dir/state/keys" -type f ! -name digest | wc -l; }
has_keys() { [ "$(n_keys)" = "$1" ]; }

value() { # NAME
    od -An -N16 -tx8 /dev/urandom | tr -d ' \n' >"$1.value"
}

# env_spec NAME SCRIPT: with names that sound secret, and one that does not.
env_spec() {
    printf '%s\n' "$2" >"$1.sh"
    cat >"$1.yaml" <<END
version: 1
kind: command
name: $1
command: [sh, $1.sh]
env: {HF_TOKEN: $(cat HF_TOKEN.value), KEY: '', TOKENIZERS_PARALLELISM: 'no'}
env_passthrough: [DB_PASSWORD]
retry: {max: 1, on: [exit], backoff: 0s}
checkpoint: {grace: 1s}
resources: {gpus: 1}
END
}

env_values() {
    value HF_TOKEN
    value DB_PASSWORD
    for name in HF_TOKEN DB_PASSWORD; do
        cat "$name.value"
        echo
    done >all.value
}
key_by() { # TOKEN
    api POST /v1/attempts/1/3/key -H "Authorization: Bearer $1" -d '{}' >key
}
with_password() { DB_PASSWORD=$(cat DB_PASSWORD.value) "$@"; }

@test "S11: a value of env that sounds secret is in no file, each attempt has it" {
    env_values
    env_spec again '[ "$KEY$TOKENIZERS_PARALLELISM" = no ] || exit 9
        printf %s "$HF_TOKEN" | sha256sum >>seen
        printf %s "$DB_PASSWORD" | sha256sum >>seen
        : >ready.$MGPU_ATTEMPT
        [ $MGPU_ATTEMPT != 1 ] || exit 1
        until [ -e go.$MGPU_ATTEMPT ]; do sleep 0.1; done'
    env_spec later 'echo "begins with a token of ${#HF_TOKEN}" >>seen'
    knows again.yaml # what follows can find it
    with_password submit --validate again.yaml >shown 2>&1
    with_password submit --dry-run --json again.yaml >>shown
    has_keys 0
    with_password submit --hold again.yaml >>shown 2>&1
    with_password submit --hold later.yaml >>shown 2>&1
    has_keys 2
    hidden shown
    [ -z "$(find "$ctld_dir/state/keys" -type f ! -perm 0600)" ]

    ctld_kill
    ctld_start
    has_keys 2
    "$MGPU_BIN/mgpu-admin" --quiet release 1
    wait_for 60 test -e ready.2 # the first has failed and is tried again
    hidden
    "$MGPU_BIN/mgpu-admin" --quiet requeue 1
    wait_for 60 test -e ready.3
    ctld_kill
    ctld_start
    "$MGPU_BIN/mgpu-admin" --quiet backup "$PWD/backup"
    hidden backup
    [ ! -e backup/keys ]
    key_by "$(json '$.token' <"$ctld_dir/state/jobs/1/3/launch.json")"
    [[ $(json '$.key' <key) =~ ^[0-9a-f]{64}$ ]]
    not key_by "$(printf %064d 0)"
    [[ $(cat key) == *DENIED* ]]
    : >go.3
    wait_for 60 eval '[ "$(state_of 1)" = COMPLETED ]'
    not key_by "$(json '$.token' <"$ctld_dir/state/jobs/1/3/launch.json")"
    [[ $(cat key) == *FENCED* ]]
    for name in HF_TOKEN DB_PASSWORD; do
        [ "$(grep -cF "$(sha256sum <"$name.value")" seen)" = 3 ]
    done
    wait_for 60 has_keys 1
    {
        for option in --json --events --why --logs; do stat $option 1; done
        stat 1
        stat -t all --json
        api GET /v1/jobs/2
    } >>shown
    stat --report report.html 1
    ctld_term
    hidden shown report.html

    # What was put back has no key: nothing begins, and it says what to do.
    mv "$ctld_dir/state" old
    cp -r backup "$ctld_dir/state"
    ctld_start
    "$MGPU_BIN/mgpu-admin" --quiet release 2
    held_for_want() { [ "$(api GET /v1/jobs/2 | json '$.job.held_by')" = refused ]; }
    wait_for 60 held_for_want
    [[ $(api GET /v1/jobs/2 | json '$.job.reason') == *"a secret that it names cannot be had"* ]]
    [[ $(stat --logs 2) == *"submit the job again, or name them under secrets"* ]]
    not grep claim <<<"$(stat --events 2)"
    not grep begins seen
    hidden
}

# The one line that fsck has to say, of the daemon and without one.
fsck_says() { # WORDS
    run "$MGPU_BIN/mgpu-admin" fsck
    [ "$status" -eq 74 ] && [[ $output == *"$1"* && $output != *$'\n'* ]] || return 1
    run "$MGPU_BIN/mgpu-ctld" --fsck "$ctld_dir/state"
    [ "$status" -eq 74 ] && [[ $output == *"$1"* && $output != *$'\n'* ]]
}

@test "F26: fsck looks at the keys" {
    env_values
    env_spec waits 'true'
    with_password submit --hold waits.yaml >shown
    keys=$ctld_dir/state/keys
    [ "$("$MGPU_BIN/mgpu-admin" fsck)" = sound ]
    key=$(basename "$(find "$keys" -type f ! -name digest)")
    chmod 640 "$keys/$key"
    fsck_says "keys/$key: not a file of uid $(id -u) alone: uid $(id -u), mode 640"
    chmod 600 "$keys/$key"
    chmod 750 "$keys"
    fsck_says "keys: not of uid $(id -u) alone"
    chmod 700 "$keys"
    mv "$keys/$key" kept
    fsck_says "job 1: the key to its sealed values, keys/$key, is not there"
    head -c 31 kept >"$keys/$key"
    chmod 600 "$keys/$key"
    fsck_says "keys/$key: 31 bytes long, not 32"
    cp -p kept "$keys/$key"
    cp -p kept "$keys/0123456789abcdef" # of a submit that may be under way
    [ "$("$MGPU_BIN/mgpu-admin" fsck)" = sound ]
    touch -d '1 hour ago' "$keys/0123456789abcdef" "$keys/$key"
    fsck_says 'keys/0123456789abcdef: no job that may still run needs it'
    rm "$keys/0123456789abcdef"
    touch "$keys/notes"
    fsck_says 'keys/notes: this is no key'
    rm "$keys/notes"
    "$MGPU_BIN/mgpu-admin" --quiet backup "$PWD/backup"
    "$MGPU_BIN/mgpu-ctld" --fsck backup # has none, and needs none
}

@test "S11: tasks of a sweep have one key, which goes with the last of them" {
    value API_KEY
    cp API_KEY.value all.value
    cat >vary.yaml <<END
version: 1
kind: command
command: [sh, -c, 'printf %s "\$API_KEY" | sha256sum >seen.\$N; until [ -e go.\$N ]; do sleep 0.1; done']
resources: {gpus: 1}
sweep: {zip: {env.API_KEY: [other, $(cat API_KEY.value)], env.N: [0, 1]}}
END
    submit --quiet vary.yaml
    has_keys 1
    : >go.0
    wait_for 60 job_has_ended 1
    hidden
    ctld_term
    ctld_start
    has_keys 1
    : >go.1
    wait_for 60 job_has_ended 2
    [ "$(cat seen.1)" = "$(sha256sum <API_KEY.value)" ]
    wait_for 60 has_keys 0
    hidden
}

@test "S11: a key of idempotency is for one value; what is refused leaves nothing" {
    value A_TOKEN
    value B_TOKEN
    cat A_TOKEN.value >all.value
    body() { # VALUE [MORE]: in a file, as an argument is seen by all
        printf '{"spec":{"version":1,"kind":"command","command":["true"],
            "env":{"A_TOKEN":"%s"}%s},"hold":true}' "$(cat "$1.value")" "${2:-}"
    }
    body A_TOKEN >A_TOKEN.json
    body B_TOKEN >B_TOKEN.json
    body A_TOKEN ',"depends_on":["afterok:77"]' >refused.json
    again() { # NAME
        api POST /v1/jobs -H 'Idempotency-Key: one' -d "@$1.json"
    }
    [ "$(again A_TOKEN | json '$.id')" = 1 ]
    [ "$(again A_TOKEN | json '$.id')" = 1 ]
    run again B_TOKEN
    [ "$status" -ne 0 ]
    [[ $output == *"of another specification"* ]]
    run api POST /v1/jobs -d @refused.json
    [ "$status" -ne 0 ]
    wait_for 60 has_keys 1
    ctld_kill
    ctld_start
    [ "$(again A_TOKEN | json '$.id')" = 1 ]
    run again B_TOKEN
    [ "$status" -ne 0 ]
    hidden
    "$MGPU_BIN/mgpu-cancel" 1
    wait_for 60 has_keys 0
}

@test "S11: the question of docs/security.md finds what is not sealed" {
    printf '%s\n' 'version: 1' 'kind: command' 'command: ["true"]' \
        'env: {HF_TOKEN: x, MODE: y}' >job.yaml
    submit --quiet --hold job.yaml
    # As it stands there, less what the shell takes away.
    question=$(awk '/sqlite3 -readonly state.db "SELECT/ { on = 1 } on
        on && /"$/ && !/state.db/ { exit }' "$MGPU_SRC/docs/security.md" |
        tr '\n' ' ' | sed 's/.*state.db "//; s/" *$//')
    [[ $question == SELECT*"e.key LIKE '%KEY%')" ]]
    ask() { sqlite3 -readonly "$ctld_dir/state/state.db" "$1"; }
    [ "$(ask "$question")" = "" ]
    # What is sealed stands for what would not be.
    run -0 ask "${question/NOT LIKE/LIKE}"
    [[ $output == *1*HF_TOKEN* && $output != *MODE* ]]
}
