# llm.bash - jobs of kind llm on small models, and the set-up of their tests.
#
# The models are tests/data/llama-{tied,untied}, of 20,000 random weights, and
# the stories260K of the examples, which has a tokenizer.
# shellcheck shell=bash disable=SC2034,SC2154 # what the files share

data=$MGPU_SRC/tests/data
stories=$MGPU_SRC/jobs/examples/stories260K

# The directory of a run. A file may have a teardown of its own.
dir=
setup() {
    dir=$BATS_TEST_TMPDIR/run
    export OMP_NUM_THREADS=1 GOMP_SPINCOUNT=2000
}
teardown() { ctld_stop; }

# The ranks of this test, by its directory on their command line.
worker_pids() { pgrep -f "^[^ ]*mgpu-worker .*$BATS_TEST_TMPDIR"; }

# ends_with STATUS PID: `run` has a shell of its own, which cannot wait.
ends_with() {
    local status=0
    wait "$2" || status=$?
    [ "$status" -eq "$1" ] || { echo "ended with $status"; false; }
}

# llm_spec METHOD PRECISION EPOCHS [KEY: VALUE...]: writes spec.yaml. 10
# iterations are an epoch of one rank. Each further line is a key of train.
llm_spec() {
    {
        printf 'version: 1\nkind: llm\nname: t\nmethod: %s\n' "$1"
        printf 'train:\n  device: host\n  seed: 1\n'
        printf '  checkpointer: {checkpoint_dir: %s}\n' "${model:-$data/llama-tied}"
        printf '  dataset: {template: tokens, path: %s}\n' "${rows:-$data/llama-tied/rows.jsonl}"
        printf '  precision: %s\n  epochs: %s\n' "$2" "$3"
        printf '  batch_size: 2\n  gradient_accumulation_steps: 1\n'
        printf '  lr_scheduler: {name: constant}\n'
        printf '  %s\n' "${@:4}"
        printf 'checkpoint: {every: 7steps}\nretry: {resume: latest}\n'
        printf 'resources: {gpus: 0}\n'
    } >"$BATS_TEST_TMPDIR/spec.yaml"
}

change() { sed -i "$@" "$BATS_TEST_TMPDIR/spec.yaml"; }

# worker RANKS [OPTION...]: runs the specification; one rank without MPI.
worker() {
    local ranks=$1 with=(mpirun --quiet -n "$1" --oversubscribe --bind-to none)
    shift
    if [ "$ranks" -eq 1 ]; then
        with=()
        set -- --alone "$@"
    fi
    timeout "$compute_s" "${with[@]}" "$MGPU_BIN/mgpu-worker" \
        --standalone "$BATS_TEST_TMPDIR/spec.yaml" --dir "$dir" "$@" 3>&-
}

# refused STATUS TEXT...: the job is, with all of these texts, and begins not.
refused() {
    local want=$1 text
    shift
    rm -rf "$dir"
    run worker 1
    echo "$output"
    [ "$status" -eq "$want" ]
    for text; do
        [[ $output == *"$text"* ]] || { echo "without: $text"; return 1; }
    done
    [[ $output != *"epoch 1/"* ]]
}

# other_model JQ: a copy of llama-tied with another config.json.
other_model() {
    model=$BATS_TEST_TMPDIR/model
    rm -rf "$model"
    mkdir "$model"
    cp "$data/llama-tied/model.safetensors" "$model"
    jq "$1" "$data/llama-tied/config.json" >"$model/config.json"
}

# own_rows LINE...: the training's.
own_rows() {
    rows=$BATS_TEST_TMPDIR/rows.jsonl
    printf '%s\n' "$@" >"$rows"
}

# losses FILE [TO]: iteration and loss, all digits, to iteration TO.
losses() {
    jq -r --argjson to "${2:-1000000000}" 'select(.loss and .iteration <= $to)
        | "\(.iteration) \(.loss)"' "$1"
}

# The iteration of the newest checkpoint below the directory.
newest() {
    local f most=0
    for f in "$1"/ckpt/step-*[0-9]/train/state.json; do
        [ -e "$f" ] || continue
        f=${f%/train/state.json}
        [ "${f##*-}" -gt "$most" ] && most=${f##*-}
    done
    echo "$most"
}
