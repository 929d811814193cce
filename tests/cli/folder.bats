#!/usr/bin/env bats
# folder.bats - mgpu-worker on a directory of pictures: the seeds of the
# fuzzer, each of which has three bytes before the picture.

bats_require_minimum_version 1.5.0
load helpers

data=
setup() {
    data=$BATS_TEST_TMPDIR/data
    export OMP_NUM_THREADS=1 GOMP_SPINCOUNT=2000
    # --quiet of Open MPI 4; later ones refuse the option.
    export OMPI_MCA_orte_execute_quiet=1
    local part
    for part in train val; do
        mkdir -p "$data/$part/jpeg" "$data/$part/png"
        for name in baseline cmyk gray progressive; do
            picture $name >"$data/$part/jpeg/$name.jpg"
        done
        for name in bits gray16 palette rgb rgba; do
            picture $name.png >"$data/$part/png/$name.PNG"
        done
    done
}

picture() { tail -c +4 "$MGPU_SRC/tests/fuzz/seeds/image/$1"; }

# worker RANKS [KEYS OF dataset [OF model [OF train]]]
worker() {
    cat >"$BATS_TEST_TMPDIR/spec.yaml" <<END
version: 1
kind: cv
name: t
model: {width_mult: 0.25${3:+, $3}}
dataset: {source: image_folder, path: $data, image_size: 40${2:+, $2}}
train: {device: host, epochs: 2, batch_size: 3, seed: 1${4:+, $4}}
resources: {gpus: 0}
END
    timeout "$compute_s" mpirun -n "$1" --oversubscribe --bind-to none \
        "$MGPU_BIN/mgpu-worker" --standalone "$BATS_TEST_TMPDIR/spec.yaml" \
        --dir "$BATS_TEST_TMPDIR/run" 3>&-
}

@test "pictures of every kind are trained on, by threads or not" {
    run worker 2 'augment: crop, workers: 2'
    echo "$output"
    [ "$status" -eq 0 ]
    [[ $output == *"2 classes"* ]]
    [[ $output == *"data: 9 training and 9 evaluation samples"* ]]
    local loss=${output#*epoch 2/2:}
    rm -r "$BATS_TEST_TMPDIR/run"
    run worker 2 'augment: crop, workers: 0'
    echo "$output"
    [ "$status" -eq 0 ]
    loss=${loss#*training loss } output=${output#*epoch 2/2:}
    output=${output#*training loss }
    [ "${loss%% samples*}" != "" ]
    [ "${loss%%, accuracy*}" = "${output%%, accuracy*}" ]
    # Nor does the layout in which the device gets them change a bit.
    rm -r "$BATS_TEST_TMPDIR/run"
    run worker 2 'augment: crop, workers: 0' '' 'channels_last: false'
    echo "$output"
    [ "$status" -eq 0 ]
    output=${output#*epoch 2/2:} output=${output#*training loss }
    [ "${loss%%, accuracy*}" = "${output%%, accuracy*}" ]
}

# recipe OPTIONS...: mgpu-submit of the template imagenet-mobilenet.
recipe() {
    "$MGPU_BIN/mgpu-submit" --template imagenet-mobilenet \
        --set dataset.path="$data" "$@"
}

@test "imagenet-mobilenet: fits on 8 GPUs, and trains an epoch of nine pictures" {
    local dir=$BATS_TEST_TMPDIR
    ctld_launch --local --slots 8
    run recipe --dry-run
    ctld_stop
    echo "$output"
    [ "$status" -eq 0 ]
    [[ $output == *"/imagenet-mobilenet.yaml: fits; nothing was submitted"* ]]
    [[ $output == *" starts     now, with 8 GPUs on 1 node"* ]]
    # A batch of 32 takes 1.5 GiB of memory.
    recipe --show --set train.epochs=1 --set train.batch_size=8 \
        --set resources.gpus=0 >"$dir/spec.yaml"
    run timeout "$compute_s" "$MGPU_BIN/mgpu-worker" --standalone "$dir/spec.yaml" \
        --alone --dir "$dir/run"
    echo "$output"
    [ "$status" -eq 0 ]
    [[ $output == *"1000 classes, fp32 on host (alone), 1 rank, batch 8 "* ]]
    [[ $output == *"data: 9 training and 9 evaluation samples at 224x224"* ]]
    [[ $output == *"epoch 1/1: "*" training loss "*", accuracy "* ]]
    [ -f "$dir/run/out/ckpt/best/model.safetensors" ]
}

@test "colour pictures train a network of one channel" {
    run worker 2 'augment: crop, workers: 1' 'in_channels: 1'
    echo "$output"
    [ "$status" -eq 0 ]
    grep -aq '"features.0.0.weight":{"dtype":"F32","shape":\[8,1,3,3\]' \
        "$BATS_TEST_TMPDIR"/run/out/ckpt/step-*/model.safetensors
}

@test "without val a share is asked for, and taken" {
    rm -r "$data/val"
    run worker 1
    [ "$status" -eq 65 ]
    [[ $output == *"$data: no val directory: set dataset.split, such as 0.1"* ]]
    run worker 1 'split: 0.34'
    echo "$output"
    [ "$status" -eq 0 ]
    [[ $output == *"data: 6 training and 3 evaluation samples"* ]]
}

@test "a damaged picture ends the job by name, or is left out and counted" {
    echo hello >"$data/train/png/rgb.PNG"
    echo hello >"$data/train/notes.txt"
    run worker 1
    echo "$output"
    [ "$status" -eq 65 ]
    [[ $output == *"$data/train/png/rgb.PNG: not a JPEG or PNG file"* ]]
    [[ $output == *"passed over 1 file: train/notes.txt"* ]]
    run worker 2 'on_bad_row: skip'
    echo "$output"
    [ "$status" -eq 0 ]
    [ "$(grep -c 'why=.*rgb.PNG: not a JPEG' <<<"$output")" -ge 1 ]
    grep -q '"exit_code":0,"why":"left out of the last epoch.* [12] images"' \
        "$BATS_TEST_TMPDIR/run/report.json"
}

@test "a link is not followed" {
    ln -s rgb.PNG "$data/train/png/link.png"
    run worker 1
    [ "$status" -eq 65 ]
    [[ $output == *"link.png: a symbolic link is not followed"* ]]
}
