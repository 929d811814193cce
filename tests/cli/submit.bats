#!/usr/bin/env bats
# submit.bats - mgpu-submit without a daemon: what is wrong, where, and how
# the tool says so. The rows of the error table are unit tests; these are
# what a user meets.

bats_require_minimum_version 1.5.0
load helpers
submit() { "$MGPU_BIN/mgpu-submit" "$@"; }

setup() {
    cd "$BATS_TEST_TMPDIR" || exit 1
    export MGPU_URL=unix:$BATS_TEST_TMPDIR/nobody.sock
    printf 'version: 1\nkind: cv\ndataset: {source: synthetic}\n' >good.yaml
}

# Of the one test that has a daemon.
teardown() {
    [ -z "$ctld_pid" ] || kill -CONT "$ctld_pid"
    ctld_stop
}

@test "the smallest legal file is valid" {
    run submit --validate good.yaml
    [ "$status" -eq 0 ]
    [ "$output" = "good.yaml: valid" ]
}

@test "all mistakes in one run, with line, column and hint" {
    printf '%s\n' 'version: 1' 'kind: cv' 'dataset: {source: mnst}' 'train:' \
        '  batchsize: 64' 'resources:' '  gpus: 4..2' '  time_limit: 4:00' \
        >bad.yaml
    run submit bad.yaml
    [ "$status" -eq 65 ]
    [[ $output == *"bad.yaml:3:19: error[E012]"*"did you mean 'mnist'?"* ]]
    [[ $output == *"bad.yaml:5:3: error[E010]: unknown key 'train.batchsize'"* ]]
    [[ $output == *"bad.yaml:7:9: error[E021]"* ]]
    [[ $output == *"bad.yaml:8:15: error[E024]"*"4h, or 4m"* ]]
    [[ $output == *"4 errors"*"nothing was submitted."* ]]
}

@test "findings as JSON, and nothing else on standard output" {
    printf 'version: 1\nkind: cv\nepochs: 3\n' >bad.yaml
    run --separate-stderr submit --json bad.yaml
    [ "$status" -eq 65 ]
    [ "${#lines[@]}" -eq 1 ]
    valid=$(sqlite3 :memory: "SELECT json_valid('${output//\'/\'\'}')")
    [ "$valid" = 1 ]
    [[ $output == *'"schema":"mgpu.findings/1"'*'"code":"E010"'*'"line":3'* ]]
}

@test "B01: files that are no mapping" {
    for text in '' '# only a comment' 'null' '- a' 'scalar'; do
        printf '%s\n' "$text" >bad.yaml
        run submit --validate bad.yaml
        [ "$status" -eq 65 ]
        [[ $output == *"error[E001]"* ]]
    done
}

@test "B02: a file over 1 MiB is refused before it is parsed" {
    head -c 1100000 /dev/zero | tr '\0' '#' >big.yaml
    run submit --validate big.yaml
    [ "$status" -eq 65 ]
    [[ $output == *"E002"* ]]
}

@test "B04: deep nesting is refused at once" {
    head -c 100000 /dev/zero | tr '\0' '[' >deep.yaml
    run timeout 30 "$MGPU_BIN/mgpu-submit" --validate deep.yaml
    [ "$status" -eq 65 ]
    [[ $output == *"error[E004]"* ]]
}

@test "B13: names that a shell or a printf would read are refused" {
    # shellcheck disable=SC2016 # not to be expanded
    for name in ';rm -rf ~' '$(id)' '`id`' '%n' '-rf' 'a b'; do
        printf "version: 1\nkind: cv\ndataset: {source: synthetic}\nname: '%s'\n" \
            "$name" | sed 's/%n/%%n/' >bad.yaml
        run submit --validate bad.yaml
        [ "$status" -eq 65 ]
        [[ $output == *"error[E014]"* ]]
    done
}

@test "B24: wrong command lines are status 64 and say what to do" {
    run submit
    [ "$status" -eq 64 ]
    [[ $output == "mgpu-submit: which file? see mgpu-submit --help"* ]]
    run submit --valdate good.yaml
    [ "$status" -eq 64 ]
    [[ $output == *"did you mean '--validate'?"* ]]
    run submit --set train.epochs good.yaml
    [ "$status" -eq 64 ]
    run submit --set =3 good.yaml
    [ "$status" -eq 64 ]
    run submit --timeout 4:00 good.yaml
    [ "$status" -eq 64 ]
    run submit --timeout 4h good.yaml
    [ "$status" -eq 64 ]
    [[ $output == *"goes with --wait or --follow; the job's own limit is --time" ]]
    run submit good.yaml good.yaml
    [ "$status" -eq 64 ]
    for other in --validate --wait --idempotency-key=k --parsable; do
        run submit --dry-run "$other" good.yaml
        [ "$status" -eq 64 ]
        [[ $output == *"--dry-run submits nothing"* ]]
    done
}

@test "a directory whose name no specification can have is named" {
    for dir in '${x}' $'a\xff'; do
        mkdir "$dir"
        printf 'version: 1\nkind: command\ncommand: [ls]\n' >"$dir/own.yaml"
        cp "$dir/own.yaml" "$dir/set.yaml"
        printf 'workdir: /tmp\n' >>"$dir/set.yaml"
        run submit --validate "$dir/own.yaml"
        [ "$status" -eq 65 ]
        [[ $output == *"error[E015]: the directory '"*"has \${, control"* ]]
        printf 'workdir: sub\n' >>"$dir/own.yaml"
        run submit --validate "$dir/own.yaml"
        [[ $output == *"own.yaml:4:10: error[E015]: the directory '"* ]]
        run submit --validate "$dir/set.yaml"
        [ "$status" -eq 0 ]
    done
    [[ $output != *"a\xff"* ]]
}

@test "an URL that is none is said with where it came from" {
    MGPU_URL=foo run submit good.yaml
    [ "$status" -ne 0 ]
    [[ $output == *"MGPU_URL: 'foo': expected unix:/path or http"* ]]
    MGPU_URL=foo run submit --url bar good.yaml
    [[ $output == *"--url: 'bar': expected unix:/path or http"* ]]
    MGPU_URL=unix:/$(printf '%0300d' 0) run submit good.yaml
    [[ $output == *"MGPU_URL: path 'unix:/000"* ]]
}

@test "B24: --set on a path that does not exist is a finding" {
    run submit --validate --set train.epoch=3 good.yaml
    [ "$status" -eq 65 ]
    [[ $output == *"--set"*"error[E010]"*"did you mean 'epochs'?"* ]]
}

@test "B24: a full disk is status 74, a reader that went away is not" {
    run submit --show good.yaml
    [ "$status" -eq 0 ]
    run bash -c '"$MGPU_BIN/mgpu-submit" --show good.yaml >/dev/full'
    [ "$status" -eq 74 ]
    run bash -c '"$MGPU_BIN/mgpu-submit" --show good.yaml >&-'
    [ "$status" -eq 74 ]
    run bash -c 'set -o pipefail; "$MGPU_BIN/mgpu-submit" --show good.yaml |
        head -n 1'
    [ "$status" -eq 0 ]
}

@test "no such file is status 66" {
    run submit missing.yaml
    [ "$status" -eq 66 ]
    [ "$output" = "mgpu-submit: open 'missing.yaml': No such file or directory" ]
}

@test "no daemon is status 69 and names the socket: nothing was sent" {
    run submit good.yaml
    [ "$status" -eq 69 ]
    [[ $output == *"nobody.sock"* ]]
    [ "${#lines[@]}" -eq 1 ]
    run submit --dry-run good.yaml
    [ "$status" -eq 69 ]
    [[ $output == *"nobody.sock"* ]]
    [[ $output != *"--idempotency-key"* ]]
}

# Lasts the 10 s for which mgpu-submit waits.
@test "a daemon that does not answer: the job may be there, with its key" {
    local key
    ctld_start
    kill -STOP "$ctld_pid"
    run --separate-stderr submit --json --hold good.yaml
    kill -CONT "$ctld_pid"
    [ "$status" -eq 124 ]
    [[ $output == *'"mgpu.error/1"'*'"TIMEOUT"'* ]]
    [[ $stderr == *"the job may have been accepted"*"--idempotency-key "* ]]
    key=${stderr##* }
    [ "$(submit --parsable --hold --idempotency-key "$key" good.yaml)" = 1 ]
    [ "$(api GET /v1/jobs | grep -o '"id":[0-9]*')" = '"id":1' ]
}

@test "--show names where each value is from" {
    run submit --show --set train.epochs=7 good.yaml
    [ "$status" -eq 0 ]
    [[ $output == *"epochs: 7"*"# --set"* ]]
    [[ $output == *"source: synthetic"*"# file:3"* ]]
    [[ $output == *"batch_size: 64"*"# default"* ]]
}

@test "a specification on standard input" {
    run submit --validate - <good.yaml
    [ "$status" -eq 0 ]
}

@test "every shipped example is valid" {
    for f in "$MGPU_SRC"/jobs/examples/*.yaml "$MGPU_SRC"/jobs/paper/*.yaml; do
        run submit --validate "$f"
        [ "$status" -eq 0 ]
    done
}

@test "a key that would not arrive as it is is refused" {
    for key in '' 'a b' $'a\nb' $'a\n' "$(printf '%065d' 0)"; do
        run submit --idempotency-key "$key" good.yaml
        [ "$status" -eq 64 ]
    done
}

@test "templates: those of mgpu, one's own before them" {
    export XDG_CONFIG_HOME=$PWD/conf MGPU_TEMPLATES=$PWD/none:$PWD/first
    mkdir -p conf/mgpu/templates first
    run submit --list-templates
    [ "$status" -eq 0 ]
    [[ $output == *"cv-synthetic"*"The smallest job specification: "* ]]
    [[ $output == *"mnist-mobilenet     MobileNetV2 on MNIST "* ]]
    n=${#lines[@]}
    printf '# Mine. More.\nversion: 1\nkind: command\ncommand: ["true"]\n' \
        >conf/mgpu/templates/mine.yaml
    cp conf/mgpu/templates/mine.yaml first/cv-synthetic.yaml
    touch conf/mgpu/templates/none.txt
    run submit --list-templates
    [ "${#lines[@]}" -eq $((n + 1)) ]
    [[ $output == *"cv-synthetic        Mine"$'\n'* ]]
    [[ $output != *More* ]]
    printf 'version: 1\n' >first/bare.yaml
    submit --list-templates --json >list.json
    [ "$(wc -l <list.json)" -eq 1 ]
    [[ $(<list.json) == '{"schema":"mgpu.templates/1","templates":['* ]]
    [[ $(<list.json) == *'{"name":"bare","description":null,"file":"'* ]]
    [[ $(<list.json) == *'"name":"cv-synthetic","description":"Mine","file":"'* ]]
    grep -qF "\"$(realpath first/bare.yaml)\"" list.json
    rm first/bare.yaml
    # Where each value is from, and the name that the file gives.
    run submit --template mine --show --set resources.gpus=2
    [ "$status" -eq 0 ]
    [[ $output == *'name: "mine"'* ]]
    [[ $output == *"kind: command "*"# file:3"* ]]
    [[ $output == *"gpus: "*"# --set"* ]]
    [[ $output == *"time_limit: "*"# default"* ]]
    submit --template mnist-mobilenet --validate
    run submit --template llama3-8b-lora --show \
        --set train.checkpointer.checkpoint_dir=/models/mine \
        --set "train.dataset.path=$PWD/alpaca_cleaned.json"
    [ "$status" -eq 0 ]
    [[ $output == *'checkpoint_dir: "/models/mine" '*"# --set"* ]]
    [[ $output == *"path: \"$PWD/alpaca_cleaned.json\" "*"# --set"* ]]
    submit --template cv-synthetic --show | grep -q '^kind: command'
    run submit --template mnist-mobile
    [ "$status" -eq 66 ]
    [[ $output == *"did you mean 'mnist-mobilenet'?"* ]]
    run submit --template ../secret --validate
    [ "$status" -eq 64 ]
    run submit --template mine one.yaml two.yaml
    [ "$status" -eq 64 ]
}

@test "--template with a file: the file over it, options over both" {
    export MGPU_TEMPLATES=$PWD/below
    mkdir -p below over
    cat >below/base.yaml <<'END'
version: 1
kind: cv
dataset: {source: synthetic, image_size: 32}
train:
  epochs: 4
  optimizer: {name: sgd, lr: 0.02, momentum: 0.9}
labels: {team: vision, stage: first}
retry: {on: [node_fail, signal], max: 1}
END
    cat >over/mine.yaml <<'END'
train:
  batch_size: 8
  optimizer:
    lr: 0.5
labels: {stage: second}
retry: {on: [exit]}
END
    run submit --template base --show --set train.epochs=2 --unset train.optimizer.momentum over/mine.yaml
    [ "$status" -eq 0 ]
    # Of the file's name; of it, of the template, of an option, of neither.
    [[ $output == *'name: "mine" '*"# from the file's name"* ]]
    at() { grep -E "^ *$1 .*# $2\$" <<<"$output"; }
    at 'kind: cv' 'template base:2'
    at 'image_size: 32' 'template base:3'
    at 'batch_size: 8' file:2
    at 'lr: 0.5' file:4
    at 'epochs: 2' --set
    at 'momentum: .*' default
    at 'max: 1' 'template base:8'
    # Mappings become one, lists do not.
    [[ $output == *'labels: {"team":"vision","stage":"second"} # template base:7, file:5'* ]]
    [[ $output == *'on: ["exit"]'* && $output != *node_fail* ]]
    # What is wrong below has the template's line, what is above its own.
    sed -i 's/epochs: 4/epochs: none/' below/base.yaml
    run submit --template base --validate over/mine.yaml
    [ "$status" -eq 65 ]
    [[ ${lines[0]} == "template base:5:11: error["*"train.epochs"* ]]
    run submit --template base --validate --set train.epochs=1 over/mine.yaml
    [ "$status" -eq 0 ]
    printf 'train: {batchsize: 3, epochs: 1}\n' >over/bad.yaml
    run submit --template base --validate over/bad.yaml
    [[ ${lines[0]} == "over/bad.yaml:1:9: error[E010]: unknown key 'train.batchsize'" ]]
    # One that is no YAML is said so, as a file and as a document.
    printf 'a: [\n' >below/broken.yaml
    run submit --template broken --validate over/mine.yaml
    [ "$status" -eq 65 ]
    [[ ${lines[0]} == *"below/broken.yaml:2:1: error[E000]"* ]]
    run submit --template broken --validate --json over/mine.yaml
    [ "$status" -eq 65 ]
    [[ $output == *'"mgpu.findings/1"'*'"E000"'* ]]
    # On standard input as well, and a sweep may be in either.
    run submit --template base --validate - <<<'{train: {epochs: 1}, sweep: {grid: {train.batch_size: [2, 4]}}}'
    [ "$status" -eq 0 ]
    [[ $output == *"valid, 2 jobs" ]]
}

@test "--explain: what a code means, with examples; all; what was meant" {
    run --separate-stderr submit --explain E024
    [ "$status" -eq 0 ]
    [[ $output == "E024: not a duration"*"Wrong:"*"time_limit: 4:00"*"Right:"*"time_limit: 4h"*"See mgpu-job(5)"* ]]
    [ "$(wc -L <<<"$output")" -le 80 ]
    [ "$(submit --explain=e24)" = "$output" ]
    run --separate-stderr submit --explain E010 W102
    [ "$(grep -c '^Wrong:' <<<"$output")" -eq 2 ]
    run --separate-stderr submit --explain
    [ "${#lines[@]}" -ge 25 ]
    [[ ${lines[0]} == "E000  "* ]]
    run --separate-stderr submit --explain E026
    [ "$status" -eq 64 ]
    [[ $stderr == *"no code is 'E026'; did you mean 'E02"* ]]
    run --separate-stderr submit --explain --json nonsense
    [ "$status" -eq 64 ]
    [[ $output == *'"mgpu.error/1"'*"--explain lists them"* ]]
    run submit --set train.batchsize=3 good.yaml
    [[ $output == *"mgpu-submit --explain E010 says more."* ]]
    # A warning that comes before the error refused nothing.
    sed '/^version:/d' good.yaml >unversioned.yaml
    run submit --werror unversioned.yaml
    [[ $output == *"mgpu-submit --explain W001 says more."* ]]
    echo 'train: {batchsize: 3}' >>unversioned.yaml
    run submit unversioned.yaml
    [[ $output == *"warning[W001]"*"error[E010]"*"--explain E010 says more."* ]]
}

@test "--werror: warnings refuse, whatever is asked" {
    printf 'kind: cv\ndataset: {source: synthetic}\n' >odd.yaml
    submit --validate odd.yaml
    for ask in --validate --show --dry-run --hold --quiet; do
        run --separate-stderr submit --werror "$ask" odd.yaml
        [ "$status" -eq 65 ]
        [ -z "$output" ]
        [[ $stderr == *"warning[W001]"*"nothing was submitted."* ]]
    done
    run --separate-stderr submit --werror --validate --json odd.yaml
    [ "$status" -eq 65 ]
    [[ $output == *'"mgpu.findings/1"'*'"W001"'*'"warning"'* ]]
    submit --werror --validate good.yaml
}

@test "short forms: the same as --set, in their order, the last one wins" {
    run submit --show --gpus 2..4 --time 90m --priority high --label team=a \
        --label b/c.d=e good.yaml
    [ "$status" -eq 0 ]
    [[ $output == *"gpus: {\"min\":2,\"max\":4} "*"# --gpus"* ]]
    [[ $output == *"time_limit: 90m "*"# --time"* ]]
    [[ $output == *"priority: 50"*"# --priority"* ]]
    [[ $output == *'{"team":"a","b/c.d":"e"}'*"# --label"* ]]
    run submit --show -G 2 --set resources.gpus=3 good.yaml
    [[ $output == *"gpus: {\"min\":3,\"max\":3} "*"# --set"* ]]
    run submit --show --set resources.gpus=3 --gpus=2 good.yaml
    [[ $output == *"gpus: {\"min\":2,\"max\":2} "*"# --gpus"* ]]
    run submit --show --unset resources.gpus --gpus=2 --unset policy.priority good.yaml
    [[ $output == *"gpus: {\"min\":2,\"max\":2} "*"# --gpus"* ]]
    run submit --validate --gpus 4..2 --time 4:00 --priority 90 good.yaml
    [ "$status" -eq 65 ]
    [[ $output == *"--gpus: error[E021]"* ]]
    [[ $output == *"--time: error[E024]"*"4h, or 4m"* ]]
    [[ $output == *"--priority: error[E023]"* ]]
    run submit --validate --json --gpus x good.yaml
    [[ $output == *'"code":"E021"'*'"file":"--gpus"'* ]]
    for bad in nonsense =x; do
        run submit --validate --label "$bad" good.yaml
        [ "$status" -eq 64 ]
        [[ $output == *"write KEY=VALUE"* ]]
    done
    run submit --validate --label ";rm=x" good.yaml
    [[ $output == *"--label: error[E014]"* ]]
}

@test "MGPU_SET_*: above the file, below --set, named as the place" {
    echo 'train: {epochs: 5, batch_size: 16}' >>good.yaml
    export MGPU_SET_TRAIN_EPOCHS=6 MGPU_SET_TRAIN_BATCH_SIZE=8 \
        MGPU_SET_LABELS='{a: b}' MGPU_SET_LABELS_Team=x MGPU_SET_RESOURCES_GPUS=1..2
    run submit --show --set train.epochs=7 --unset resources.gpus good.yaml
    [ "$status" -eq 0 ]
    [[ $output == *"epochs: 7 "*"# --set"* ]]
    [[ $output == *"batch_size: 8 "*"# MGPU_SET_TRAIN_BATCH_SIZE"* ]]
    [[ $output == *'labels: {"a":"b","Team":"x"} '*"# MGPU_SET_LABELS"* ]]
    [[ $output == *'gpus: {"min":1,"max":1} '*"# default"* ]]
    export MGPU_SET_TRAIN_EPOCHS=0 MGPU_SET_TRAIN_EPOC=3 MGPU_SET_=1 MGPU_SETS=1
    run submit --validate good.yaml
    [ "$status" -eq 65 ]
    [[ $output == *"MGPU_SET_TRAIN_EPOCHS: error[E013]"* ]]
    [[ $output == *"MGPU_SET_TRAIN_EPOC: error[E010]: unknown key 'train.epoc'"*"did you mean 'epochs'?"* ]]
    run submit --validate --json good.yaml
    [[ $output == *'"file":"MGPU_SET_TRAIN_EPOCHS"'* ]]
    run env "MGPU_SET_ENV_$(printf '%0130d' 1)=1" "$MGPU_BIN/mgpu-submit" --validate good.yaml
    [ "$status" -eq 64 ]
    # shellcheck disable=SC2046 # so many words
    run env $(seq -f 'MGPU_SET_ENV_A%g=1' 70) "$MGPU_BIN/mgpu-submit" --validate good.yaml
    [ "$status" -eq 64 ]
    [[ $output == *"more than 64 MGPU_SET_*"* ]]
}

@test "--follow: what it does not go with" {
    for other in --json --dry-run --wait=RUNNING; do
        run submit --follow "$other" good.yaml
        [ "$status" -eq 64 ]
    done
    printf 'version: 1\nkind: cv\ndataset: {source: synthetic}\nsweep: {grid: {train.epochs: [1, 2]}}\n' >two.yaml
    run submit --follow two.yaml
    [ "$status" -eq 64 ]
    [[ $output == *"each of 2 jobs has a log"* ]]
}

@test "everything behind -- is the command, word by word" {
    run submit --show --gpus 4 --nodes 1..2 --launch torch --name ddp --account a1 \
        --partition p1 --qos q1 -- python3 train.py --gpus 9 'a b' '${X} $${Y} $Z' -- é
    [ "$status" -eq 0 ]
    [[ $output == *'command: ["python3","train.py","--gpus","9","a b","$${X} $$${Y} $Z","--","é"] '* ]]
    [[ $output == *"kind: command "* ]]
    [[ $output == *"workdir: \"$PWD\" "* ]]
    [[ $output == *'gpus: {"min":4,"max":4} '*"# --gpus"* ]]
    [[ $output == *'nodes: {"min":1,"max":2} '*"# --nodes"* ]]
    [[ $output == *'launch: torch '*"# --launch"* ]]
    [[ $output == *'name: "ddp" '*"# --name"* ]]
    [[ $output == *'account: "a1" '*"# --account"* ]]
    [[ $output == *'partition: "p1" '*"# --partition"* ]]
    [[ $output == *'qos: "q1" '*"# --qos"* ]]
    run submit --show -- ./my-tool.sh
    [[ $output == *'name: "my-tool" '* ]]
    mkdir odd '${x} "q"'
    cd '${x} "q"'
    run submit --show -- ls
    [[ $output == *'/$${x} \"q\"" '* ]]
    run submit --show --set workdir=/srv --template command-hello -- ls -l
    [ "$status" -eq 0 ]
    [[ $output == *'command: ["ls","-l"] '* ]]
    [[ $output == *'workdir: "/srv" '* ]]
    [[ $output == *'"GREETING":"hello"'* ]]
    run submit --validate --launch troch -- ls
    [ "$status" -eq 65 ]
    [[ $output == *"--launch: error[E012]"*"did you mean 'torch'?"* ]]
    run submit --
    [ "$status" -eq 64 ]
    [[ $output == *"no program follows --"* ]]
    run submit good.yaml -- ls
    [ "$status" -eq 64 ]
    [[ $output == *"either FILE or a program"* ]]
    run submit --validate -- $'a\xffb'
    [ "$status" -eq 65 ]
    [[ $output == *"is not UTF-8"* ]]
}

@test "--schema: a JSON Schema that has the keys which --show prints" {
    submit --schema >schema.json
    [ "$(jq -r '."$schema"' schema.json)" = https://json-schema.org/draft/2020-12/schema ]
    jq -e '.properties.launch.enum | index("torch")' schema.json
    jq -e '.properties.train.properties.epochs | .minimum == 1 and .default == 20' schema.json
    jq -e '.required == ["kind"]' schema.json
    for f in "$MGPU_SRC"/jobs/examples/*.yaml; do
        submit --show "$f" | sed -n 's/^\([a-z_]*\):.*/\1/p' | while read -r key; do
            jq -e --arg key "$key" '.properties | has($key)' schema.json >/dev/null ||
                { echo "$f: $key"; exit 1; }
        done
    done
    run submit --schema good.yaml extra
    [ "$status" -eq 64 ]
}

@test "from a working directory that has been removed" {
    printf 'version: 1\nkind: command\nname: x\ncommand: [pwd]\n' \
        >"$BATS_TEST_TMPDIR/job.yaml"
    mkdir "$BATS_TEST_TMPDIR/gone"
    ( # bats itself needs a directory
        cd gone
        rmdir "$PWD"
        run -0 submit --validate "$BATS_TEST_TMPDIR/good.yaml"
        run -0 submit --validate --set env.A=1 "$BATS_TEST_TMPDIR/job.yaml"
        run -0 submit --validate --set workdir=/tmp "$BATS_TEST_TMPDIR/job.yaml"
        run -65 submit --validate --set workdir=out "$BATS_TEST_TMPDIR/job.yaml"
        [[ $output == *"an absolute path here"* ]]
        run -66 submit --validate - <"$BATS_TEST_TMPDIR/job.yaml"
        [[ $output == *"the working directory has been removed: change to one that exists"* ]]
        run -66 submit --validate -- true
        [[ $output == *"would run in the working directory, which has been removed"* ]]
    )
}
