#!/usr/bin/env bats
# gpu.bats - what make gpu-check, make gpu-bench and first-contact run on a GPU,
# on the host: the scripts work, and say no where there is none.

bats_require_minimum_version 1.5.0
load helpers

setup() {
    tests=$(cd "$MGPU_BIN/../tests" && pwd)
    export MGPU_TESTS=$tests MGPU_BENCH=$tests/bench OMP_NUM_THREADS=1
    [ -x "$tests/bench/gpu_step" ] || skip "built without the benchmarks"
}

@test "gpu-check: the same checks on the host" {
    # Of the others the programs run on the host by themselves, or below. At
    # night, which sets $MGPU_TEST_ALL, all.
    local n=6 parts='jobs faults nccl'
    [ -z "${MGPU_TEST_ALL-}" ] || n=15 parts=
    run timeout "$compute_s" env DEVICE=host PARTS="$parts" "$MGPU_SRC/tests/gpu/check.sh"
    echo "$output"
    [ "$status" -eq 0 ]
    [ "$(grep -c '^ok' <<<"$output")" -eq "$n" ]
    not grep -q '^not ok' <<<"$output"
    grep -qx "1..$n" <<<"$output"
}

@test "gpu-check: a check that fails is told, and fails" {
    mkdir "$BATS_TEST_TMPDIR/unit" "$BATS_TEST_TMPDIR/unit/kernels" \
        "$BATS_TEST_TMPDIR/unit/worker" "$BATS_TEST_TMPDIR/bin"
    for t in kernels/determinism worker/cv_golden worker/cv_precision worker/llm_golden \
        worker/llm_step worker/llm_stories; do
        printf '#!/bin/sh\necho "1..1"\necho "ok 1 # SKIP no GPU"\n' \
            >"$BATS_TEST_TMPDIR/unit/$t"
        chmod +x "$BATS_TEST_TMPDIR/unit/$t"
    done
    printf '#!/bin/sh\nexit 3\n' >"$BATS_TEST_TMPDIR/bin/mgpu-worker"
    chmod +x "$BATS_TEST_TMPDIR/bin/mgpu-worker"
    run timeout "$compute_s" env DEVICE=host MGPU_TESTS="$BATS_TEST_TMPDIR" \
        MGPU_BIN="$BATS_TEST_TMPDIR/bin" MGPU_CHECK_PATIENCE=1 \
        "$MGPU_SRC/tests/gpu/check.sh"
    echo "$output"
    [ "$status" -eq 1 ]
    [ "$(grep -c '^not ok' <<<"$output")" -eq 15 ]
    grep -q 'gpu-check: 15 of 15 failed on host' <<<"$output"
    printf '#!/bin/sh\nexit 0\n' >"$BATS_TEST_TMPDIR/unit/worker/cv_golden"
    run env DEVICE=host PARTS='kernels racecheck' MGPU_TESTS="$BATS_TEST_TMPDIR" \
        "$MGPU_SRC/tests/gpu/check.sh"
    [ "$status" -eq 1 ] # not even a program that says nothing
    grep -q 'gpu-check: 3 of 3 failed on host' <<<"$output"
    run env DEVICE=host PARTS=kernel "$MGPU_SRC/tests/gpu/check.sh"
    [ "$status" -eq 64 ]
}

# A GPU and its tools are not here: programs that say what those would say.
@test "gpu-check: on a GPU graphs have to be used, and our kernels are watched" {
    mkdir -p "$BATS_TEST_TMPDIR/unit/kernels" "$BATS_TEST_TMPDIR/mpi" "$BATS_TEST_TMPDIR/bin"
    export seen=$BATS_TEST_TMPDIR/seen PATH=$BATS_TEST_TMPDIR/bin:$PATH
    cat >"$BATS_TEST_TMPDIR/bin/mgpu-worker" <<'END'
#!/bin/sh
# --standalone JOB --dir DIR --device cuda
mkdir -p "$4/out"
echo weights >"$4/out/model.safetensors"
if grep -q tf32 "$2"; then
    echo 'warn worker: a step cannot be captured'
elif [ "$MGPU_CUDA_GRAPHS" != 0 ]; then
    echo 'iterations run as CUDA graphs'
fi
for i in 1 2 3 4 5; do
    echo "{\"iteration\":$i,\"t_iter\":0.01,\"t_forward\":0.004,\"t_backward\":$BACKWARD}"
done >"$4/spool.0"
END
    cat >"$BATS_TEST_TMPDIR/bin/compute-sanitizer" <<'END'
#!/bin/sh
[ "$1" != --help ] || { echo "  $OPTION arg"; exit; }
echo "$*" >>"$seen"
echo '1..1'
echo 'ok 1'
END
    printf '#!/bin/sh\nprintf "1..1\\nnot ok 1\\n"\n' >"$BATS_TEST_TMPDIR/mpi/nccl"
    chmod +x "$BATS_TEST_TMPDIR"/bin/* "$BATS_TEST_TMPDIR/mpi/nccl"
    check=(env DEVICE=cuda MGPU_TESTS="$BATS_TEST_TMPDIR" MGPU_BIN="$BATS_TEST_TMPDIR/bin"
        BACKWARD=0.005 OPTION=--kernel-name)
    run timeout "$compute_s" "${check[@]}" PARTS='jobs nccl racecheck' "$MGPU_SRC/tests/gpu/check.sh"
    echo "$output"
    [ "$status" -eq 1 ]
    grep -qx 'not ok 3 - tf32: two runs end with the same weights, bit by bit' <<<"$output"
    grep -qx '# its iterations did not run as CUDA graphs' <<<"$output"
    grep -qx 'ok 7 - the passes take what an iteration takes, by its marks and by the clock' <<<"$output"
    [ "$(grep -c '^# ranks that share a GPU.* nothing about NVLink' <<<"$output")" -eq 2 ]
    grep -q 'gpu-check: 4 of 12 failed on cuda' <<<"$output" # tf32 and NCCL's three
    grep -q -- '--tool racecheck --kernel-name kernel_substring=NS_3blkE ' "$seen"
    # Marks that are not of this iteration, and an older compute-sanitizer.
    run timeout "$compute_s" "${check[@]}" BACKWARD=0.05 OPTION=--filter PARTS='jobs initcheck' \
        "$MGPU_SRC/tests/gpu/check.sh"
    grep -qx 'not ok 7 - the passes take what an iteration takes, by its marks and by the clock' <<<"$output"
    grep -qx "# initcheck also watches cuBLASLt's kernels" <<<"$output"
    [ "$(tail -n 1 "$seen" | cut -d' ' -f1-3)" = '--tool initcheck --error-exitcode' ]
}

@test "gpu-bundle: runs without our libraries, MPI and environment" {
    run env MGPU_BUILD="$MGPU_BIN/.." LEVEL=4 \
        "$MGPU_SRC/tests/gpu/bundle.sh" "$BATS_TEST_TMPDIR/bundle"
    echo "$output"
    [ "$status" -eq 0 ]
    [ "$(ls "$BATS_TEST_TMPDIR/bundle" | paste -sd ' ')" = 'payload.tar.gz run' ]
    in=(env -i PATH=/usr/bin:/bin DEVICE=host PARTS='llm profile'
        MGPU_ROOT="$BATS_TEST_TMPDIR/root" "$BATS_TEST_TMPDIR/bundle/run")
    run timeout "$compute_s" "${in[@]}" check
    echo "$output"
    [ "$status" -eq 0 ]
    grep -qx 'ok 5 - llama-lora.yaml learns, ranks: 2, and twice ends with the same bits' <<<"$output"
    grep -qx 'ok 6 - what an epoch consists of is recorded, and what looking costs' <<<"$output"
    # Nothing but the C library, and the compiler's, is the machine's.
    run "${in[@]}" exec sh -c 'ldd "$MGPU_BIN"/mgpu-* "$MGPU_BIN/mpirun" \
        "$MGPU_TESTS"/*/*/c* "$MGPU_ROOT"/mpi/*/*.so'
    grep '=>' <<<"$output" >"$BATS_TEST_TMPDIR/libraries"
    not grep -vE "=> $BATS_TEST_TMPDIR/root/|^[[:space:]]*lib(c|m|pthread|dl|rt|util|resolv|stdc\+\+|gcc_s)\.so" \
        "$BATS_TEST_TMPDIR/libraries"
    run "${in[@]}" nothing
    [ "$status" -eq 64 ]
    # At night, which sets $MGPU_TEST_ALL, all that the host can do of it.
    local parts='doctor speed llm cv'
    [ -z "${MGPU_TEST_ALL-}" ] || parts='doctor llm_golden llm_step lora qlora speed llm cv ncu kernels probe'
    run timeout "$compute_s" "${in[@]:0:4}" PARTS="$parts" MGPU_ROOT="$BATS_TEST_TMPDIR/root" \
        OUT="$BATS_TEST_TMPDIR/out" PYTHON=/nowhere LIMIT="$compute_s" \
        "$BATS_TEST_TMPDIR/bundle/run" first-contact
    echo "$output"
    [ "$status" -eq 0 ]
    grep -q '^== doctor: passed, ' <<<"$output"
    grep -qx 'a rank starts' "$BATS_TEST_TMPDIR/out/right-doctor.txt"
    [ "$(grep -cE '^== (speed|llm) [a-z]+(-[a-z]+)? .*: [0-9.]+ tokens/s, no prediction; ' <<<"$output")" -eq 7 ]
    grep -qE '^== cv, graphs .*: [0-9.]+ .* images/s, no prediction; ' <<<"$output"
    [ -z "${MGPU_TEST_ALL-}" ] || {
        [ "$(grep -c ': needs a GPU, not run' <<<"$output")" -eq 3 ]
        [ "$(grep -c ': passed, ' <<<"$output")" -eq 5 ]
        [ "$(grep -c 'evaluation loss 0\.' <<<"$output")" -eq 2 ]
    }
    # Its doctor: versions of what is there, the rest is named.
    mkdir "$BATS_TEST_TMPDIR/libs" "$BATS_TEST_TMPDIR/bin"
    [ ! -e "$tests/fake/cupti.so" ] ||
        for v in 12 13; do ln -s "$tests/fake/cupti.so" "$BATS_TEST_TMPDIR/libs/libcupti.so.$v"; done
    printf '#!/bin/sh\necho NVIDIA\necho Version 2025.3.1.0\n' >"$BATS_TEST_TMPDIR/bin/ncu"
    chmod +x "$BATS_TEST_TMPDIR/bin/ncu"
    run env -i PATH="$BATS_TEST_TMPDIR/bin:/usr/bin:/bin" MGPU_ROOT="$BATS_TEST_TMPDIR/root" \
        CUDA_LIBS="$BATS_TEST_TMPDIR/libs" "$BATS_TEST_TMPDIR/bundle/run" doctor
    echo "$output"
    grep -qx 'a rank starts' <<<"$output"
    [ "$(grep -cE '^(driver|CUDA of the driver|cuBLASLt|NCCL|CUPTI|cuDNN) ' <<<"$output")" -eq 6 ]
    [ ! -e "$tests/fake/cupti.so" ] || grep -qE '^CUPTI [0-9.]+ /.*/libcupti\.so' <<<"$output"
    grep -qx "ncu Version 2025.3.1.0 $BATS_TEST_TMPDIR/bin/ncu" <<<"$output"
}

@test "gpu-check: a machine that cannot build it is told of the bundle" {
    mkdir "$BATS_TEST_TMPDIR/bin"
    for p in sh gcc g++ printf; do ln -s "$(command -v $p)" "$BATS_TEST_TMPDIR/bin"; done
    run env PATH="$BATS_TEST_TMPDIR/bin" CC=gcc CXX=g++ NVCC=nonvcc DEVICE=cuda \
        "$MGPU_SRC/tests/gpu/needs.sh" gpu-check
    echo "$output"
    [ "$status" -eq 69 ]
    [ "${lines[0]}" = 'gpu-check: this machine cannot build mgpu, it lacks: mpicc, mpirun, nvcc' ]
    [[ ${lines[1]} == *'run gpu-bundle/run check (docs/gpu.md)' ]]
    # A preprocessor that finds no header.
    run env CC=false DEVICE=host "$MGPU_SRC/tests/gpu/needs.sh" gpu-bench
    [ "$status" -eq 69 ]
    [[ ${lines[0]} == *'lacks: yaml.h (libyaml), event2/event.h (libevent), '* ]]
    run env DEVICE=host "$MGPU_SRC/tests/gpu/needs.sh" gpu-check
    [ "$status" -eq 0 ]
}

@test "gpu-model: a table of the steps that are measured" {
    # Of machine code that nobody has to read: a kernel that no step launches.
    echo 'none 0 0 1 1 1 1 1 1' >"$BATS_TEST_TMPDIR/facts"
    table=("$tests/bench/gpu_model" "$BATS_TEST_TMPDIR/facts" --table "$BATS_TEST_TMPDIR/steps")
    # Neither sharded nor other shapes are predicted; then no launch is looked at.
    printf '%s\n' '# steps' 'a fsdp 4096,14336,32,32,8,128256 4 2048 bf16 auto 1 60 0' \
        'b lora 64,128,2,4,2,100 1 16 bf16 auto 1 5 5' 'c lora lora' >"$BATS_TEST_TMPDIR/steps"
    run "${table[@]}"
    [ "$status" -ne 0 ]
    grep -qxF "gpu_model: $BATS_TEST_TMPDIR/steps:4: no step" <<<"$output"
    not grep -q '^step' <<<"$output"
    echo 'a lora 4096,14336,2,32,8,128256 2 2048 bf16 keep 1 9 9' >"$BATS_TEST_TMPDIR/steps"
    run "${table[@]}"
    [[ $output == *"the machine code has no kernel '"* ]]
    run "${table[@]:0:3}"
    [ "$status" -eq 64 ]
    # What the scripts measure is predicted, but for what is sharded.
    [ -s "$tests/gpu/predictions.tsv" ] || skip 'make gpu-bundle has made no table'
    not grep -q '^# no predictions' "$tests/gpu/predictions.tsv" || skip 'no cuobjdump'
    . "$MGPU_SRC/tests/gpu/steps.bash"
    for name in $(step_names); do
        read -ra x <<<"$(step_named "$name")"
        [ "${x[0]}" != fsdp ] || continue
        for how in keep again; do
            PREDICTED=$tests/gpu/predictions.tsv
            [[ $(predicted 2 step "${x[*]:0:5} $how ${x[6]}") =~ ^[0-9]+\ [0-9]+$ ]]
        done
    done
}

# fake NAME: a program that answers each line of its input as standard input
# of this says: a case of its patterns.
fake() {
    { printf '#!/bin/sh\nwhile read -r line; do case "$* $line" in\n'
      cat
      printf 'esac; done\n'; } >"$BATS_TEST_TMPDIR/$1"
    chmod +x "$BATS_TEST_TMPDIR/$1"
}

# bench VARIABLE=VALUE...
bench() {
    run --separate-stderr timeout "$compute_s" env DEVICE=host SIZES=28 BATCHES=4 \
        PRECISIONS=fp32 LLM=lora LLM_SHAPE='64,128,2,4,2,100 1 16 fp32' ROUNDS=1 \
        RESULTS="$BATS_TEST_TMPDIR/results" PYTHON="$BATS_TEST_TMPDIR/python" "$@" \
        "$MGPU_SRC/tests/gpu/bench.sh"
    echo "$output" "$stderr"
}

@test "gpu-bench: a table of ours, PyTorch's and the limits, in a file" {
    printf '#!/bin/sh\necho no torch here >&2\nexit 1\n' \
        >"$BATS_TEST_TMPDIR/python"
    chmod +x "$BATS_TEST_TMPDIR/python"
    # The others run in first-contact, or at night.
    local name names='lora fsdp'
    [ -z "${MGPU_TEST_ALL-}" ] || names='lora qlora dpo full fsdp'
    bench LLM="$names"
    [ "$status" -eq 0 ]
    [ -f "${stderr##*$'\n'}" ]
    cmp <(printf '%s\n' "$output") "$BATS_TEST_TMPDIR"/results/*-host-gpu-bench.md
    # The host has no algorithms to choose from.
    grep -qE '^\| 28 \| 4 \| fp32 \| excluded \| [0-9.]+ \| - \| - \| - \| - \| - \|$' <<<"$output"
    grep -qE '^\| 28 \| 4 \| fp32 \| included \| [0-9.]+ \| - \| - \| - \| - \| - \|$' <<<"$output"
    not grep -q '^mgpu, where it is missing' <<<"$output"
    grep -q '^- 28, 4, fp32, data: eager nhwc: no torch here' <<<"$output"
    grep -qE '^\| dw_bwd (\| [0-9.]+ ){5}\| [0-9]+ % \| [0-9]+ % \|$' <<<"$output"
    for name in $names; do
        [ "$name" != fsdp ] || name='fsdp, 2 ranks'
        grep -qE "^\\| $name \\| 64,128,2,4,2,100 \\| 1 x 16 \\| fp32 \\| [12] \\| kept \\| [0-9.]+ \\| [0-9.]+ \\| - \\| - \\| - \\| - \\| - \\| - \\|\$" <<<"$output"
    done
    grep -qx -- '- lora, eager: no torch here' <<<"$output"
    not grep -q -- '- lora, ours: ' <<<"$output"
    # The Llama comes first.
    [ "$(grep -n '^## Steps of a Llama' <<<"$output" | cut -d: -f1)" -lt \
        "$(grep -n '^## Steps of MobileNetV2' <<<"$output" | cut -d: -f1)" ]
    grep -qx 'llm	lora	ours' <(sed -n 2p "$BATS_TEST_TMPDIR/results/host-gpu-bench.tsv" | cut -f1-3)
}

@test "gpu-bench: predictions, and the fastest of PyTorch's, are compared" {
    # With activations kept PyTorch has no room.
    fake python <<'END'
*torch_llm*keep\ *) echo "- CUDA out of memory" ;;
*torch_llm*again\ lora\ 1\ eager\ go) echo 3.0 9.0 8 ;; *torch_llm*again\ lora\ 1\ compile\ go) echo 4.0 9.0 8 ;;
*compile\ nchw) echo 2.0 ;; *) echo 1.0 ;;
END
    mkdir "$BATS_TEST_TMPDIR/bench"
    fake bench/gpu_step <<<"*tuned) echo 6.0 ;; *) echo 5.0; echo turn >>$BATS_TEST_TMPDIR/turns ;;"
    fake bench/kernels <<<'*) ;;'
    fake bench/llm_step <<<'*auto\ lora\ 1\ go) echo 6.0 1.50 keep ;;'
    printf '#!/bin/sh\necho "NVIDIA H200"\n' >"$BATS_TEST_TMPDIR/nvidia-smi"
    chmod +x "$BATS_TEST_TMPDIR/nvidia-smi"
    printf 'step\tlora 64,128,2,4,2,100 1 16 fp32 keep 1\t7\t8\t5\t4\nstep\tlora 64,128,2,4,2,100 1 16 fp32 again 1\t1\t1\t1\t1\n' \
        >"$BATS_TEST_TMPDIR/predictions"
    export PATH=$BATS_TEST_TMPDIR:$PATH PREDICTED=$BATS_TEST_TMPDIR/predictions
    bench DEVICE=cuda BATCHES='8 4' PRECISIONS=bf16 ROUNDS=2 MGPU_BENCH="$BATS_TEST_TMPDIR/bench"
    [ "$status" -eq 0 ]
    grep -qxF '| lora | 64,128,2,4,2,100 | 1 x 16 | fp32 | 1 | kept | 1.50 | 6.0 | 8 | 4 | 0.75 | 3.0 (again) | 4.0 (again) | 1.50 |' <<<"$output"
    grep -qxF '| 28 | 8 | bf16 | included | 5.0 | 6.0 | 2.0 | compile nchw | 2.50 | 3.00 |' <<<"$output"
    [ "$(wc -l <"$BATS_TEST_TMPDIR/turns")" -eq 8 ]
    # Without images; one GPU has no ranks.
    bench DEVICE=cuda SIZES= LLM='lora fsdp' MGPU_BENCH="$BATS_TEST_TMPDIR/bench"
    [ "$status" -eq 0 ]
    not grep -q 'MobileNetV2\|fsdp' <<<"$output"
    bench LLM='lora loro'
    [ "$status" -eq 64 ]
    [[ $stderr == *"there is no step 'loro', but lora qlora "* ]]
}

@test "gpu-bench: what fails is said, and the others go on" {
    fake python <<<'*"8 fp32 data compile "*) echo "- out of memory" ;; *) echo 2.0 ;;'
    mkdir "$BATS_TEST_TMPDIR/bench"
    fake bench/gpu_step <<<'*"8 fp32 data"*) echo boom >&2; exit 1 ;; *) echo 5.0 ;;'
    printf '#!/bin/sh\nexit 1\n' >"$BATS_TEST_TMPDIR/bench/kernels"
    chmod +x "$BATS_TEST_TMPDIR/bench/kernels"
    fake bench/llm_step <<<'*) echo no room >&2; exit 1 ;;'
    bench BATCHES='8 4' ROUNDS=2 MGPU_BENCH="$BATS_TEST_TMPDIR/bench"
    [ "$status" -eq 0 ]
    grep -qxF '| 28 | 8 | fp32 | included | - | - | 2.0 | eager nhwc | - | - |' <<<"$output"
    grep -qxF '| 28 | 4 | fp32 | included | 5.0 | 5.0 | 2.0 | eager nhwc | 2.50 | 2.50 |' <<<"$output"
    grep -qxF -- '- 28, 8, fp32, data: compile nhwc: out of memory' <<<"$output"
    grep -qxF -- '- 28, 8, fp32, data: boom' <<<"$output"
    grep -qxF '(it does not run)' <<<"$output"
    grep -qxF '| lora | 64,128,2,4,2,100 | 1 x 16 | fp32 | 1 | - | - | - | - | - | - | 2.0 | 2.0 | - |' <<<"$output"
    grep -qxF -- '- lora, ours: no room' <<<"$output"
}

@test "gpu-bench: a budget leaves out what does not fit, and another run goes on" {
    fake python <<<'*) echo 2.0 ;;'
    mkdir "$BATS_TEST_TMPDIR/bench"
    fake bench/gpu_step <<<"*) echo 5.0; echo turn >>$BATS_TEST_TMPDIR/turns ;;"
    fake bench/kernels <<<'*) ;;'
    fake bench/llm_step <<<'*) echo 6.0 1.50 keep ;;'
    export MGPU_BENCH=$BATS_TEST_TMPDIR/bench MGPU_COMMIT=abc
    bench BUDGET=0
    [ "$status" -eq 0 ]
    [ "$(grep -cE '^- .* \([0-9]+ s\)$' <<<"$output")" -eq 6 ]
    grep -qxF -- '- lora, compile (120 s)' <<<"$output"
    grep -qxF -- '- 28, 4, fp32, nodata (130 s)' <<<"$output"
    grep -q 'RESUME=.*-gpu-bench.tsv goes on' <<<"$stderr"
    [ ! -e "$BATS_TEST_TMPDIR/turns" ]
    # A smaller part behind a larger one.
    bench BUDGET=119
    [ "$status" -eq 0 ]
    grep -qxF '| lora | 64,128,2,4,2,100 | 1 x 16 | fp32 | 1 | kept | 1.50 | 6.0 | - | - | - | 2.0 | - | 3.00 |' <<<"$output"
    grep -qxF -- '- lora, compile (120 s)' <<<"$output"
    grep -qxF -- '- 28, 4, fp32, nodata (130 s)' <<<"$output"
    grep -qF '| 28 | 4 | fp32 | included | 5.0 |' <<<"$output"
    not grep -q '^- \(28, 4, fp32, data\|the limits of 28\)' <<<"$output"
    # None is waited for beyond the budget.
    echo 'slow lora 64,128,2,4,2,100 1 16 fp32 auto 1 1 0' >"$BATS_TEST_TMPDIR/steps"
    fake bench/llm_step <<<'*) exec sleep 600 ;;'
    bench STEPS="$BATS_TEST_TMPDIR/steps" LLM=slow SIZES= BUDGET=30
    [ "$status" -eq 0 ]
    grep -qx -- '- slow, ours: no answer within [1-3]\?[0-9] s' <<<"$output"
    fake bench/llm_step <<<'*) echo 6.0 1.50 keep ;;'
    rm "$BATS_TEST_TMPDIR/turns"
    raw=$BATS_TEST_TMPDIR/results/host-gpu-bench.tsv
    printf '# abc on %s\ncell\t28\t4\tfp32\tnodata\t9.0\t\t3.0\t\t\t\n' \
        "$(head -n 1 "$raw" | sed 's/^# abc on //')" >"$raw.new" && mv "$raw.new" "$raw"
    bench RESUME="$raw"
    [ "$status" -eq 0 ]
    grep -qxF '| 28 | 4 | fp32 | excluded | 9.0 | - | 3.0 | eager nhwc | 3.00 | - |' <<<"$output"
    grep -qxF '| 28 | 4 | fp32 | included | 5.0 | 5.0 | 2.0 | eager nhwc | 2.50 | 2.50 |' <<<"$output"
    [ "$(wc -l <"$BATS_TEST_TMPDIR/turns")" -eq 2 ]
    bench RESUME="$raw" MGPU_COMMIT=def # figures of two programs in one table
    [ "$status" -eq 65 ]
}

# What a GPU and its tools say, said by programs; first-contact on it.
contact() { # VARIABLE=VALUE... -- BLOCK...
    run timeout "$compute_s" env DEVICE=cuda MGPU_TESTS="$fakes" MGPU_BENCH="$fakes/bench" \
        MGPU_BIN="$fakes/bin" PYTHON="$fakes/bin/python" OUT="$BATS_TEST_TMPDIR/out" \
        LLM_SHAPE='64,128,2,4,2,100 1 16 fp32' PREDICTED="$fakes/predictions" \
        MGPU_COMMIT=abc "$@"
    echo "$output"
}
fake_gpu() {
    export fakes=$BATS_TEST_TMPDIR/fakes
    mkdir -p "$fakes"/{unit/kernels,unit/worker,bin,bench}
    export PATH=$fakes/bin:$PATH
    say_as() { { echo '#!/bin/sh'; cat; } >"$fakes/$1" && chmod +x "$fakes/$1"; }
    say_as bin/nvidia-smi <<'END'
case $* in *lms*) echo 71000; echo 70000; exec sleep 600 ;; *) echo "NVIDIA H200" ;; esac
END
    say_as unit/kernels/cuda <<'END'
echo ok 1; echo '# loading 9 kernels took 4.0 MiB, the first launch 0.0 MiB' >&2
echo 'not ok 2 - product'; echo '# apart'; exit 1
END
    for t in llm_golden llm_step; do say_as "unit/worker/$t" <<<'echo ok 1; echo ok 2'; done
    say_as bin/mpirun <<<'shift 5; exec "$@"'
    say_as bin/mgpu-worker <<<'echo "epoch 1/1: evaluation loss 0.48"; yes | head -c 100000'
    say_as bench/llm_step <<'END'
read -r _ || exit 0
[ ! -e "$fakes/hang" ] || exec sleep 600
case $* in *again*) echo no room >&2; exit 1 ;; *) echo 90.0 1.50 keep ;; esac
END
    say_as bench/gpu_step <<<'while read -r _; do echo 5.0; done'
    say_as bin/python <<'END'
case $1 in
*probe.py) printf '# 2.9\ncopy\t1.0\t4.10\tTB/s\ngate_up 16x8x4\t2.000\t9.00\tTFLOP/s\nhead\t- no room\n' ;;
*) echo 60.0 ;;
esac
END
    say_as bin/ncu <<'END'
echo "$*" >"$fakes/ncu.said"
echo '==PROF== Connected'
echo '"ID","Kernel Name","gpu__time_duration.sum","dram__bytes.sum","dram__throughput.avg.pct_of_peak_sustained_elapsed","smsp__issue_active.avg.pct_of_peak_sustained_active","sm__pipe_tensor_op_hmma_cycles_active.avg.pct_of_peak_sustained_active"'
echo '"","","ns","byte","%","%","%"'
echo '"0","void <unnamed>::rms_rows<__nv_bfloat16, (int)8>(<unnamed>::blk)","30,000","2000000","70","40","0"'
echo '"1","void <unnamed>::rms_rows<__nv_bfloat16, (int)8>(<unnamed>::blk)","50000","4000000","90","20","0"'
END
    local lora='64,128,2,4,2,100 1 16 fp32 keep 1'
    printf '%s\n' "step	lora $lora	200	100	150	80" "cv	224 256 bf16	4	10	3	8" \
        "copy	TB/s	3.00	4.30" "kernel	lora $lora	rms_rows<bf16,8>	4	0.2	0.1	0.008" \
        "kernel	lora $lora	product 16x8x4	2	9	3	0.1" >"$fakes/predictions"
}

@test "first-contact: all of it, what fails stops nothing, predictions beside" {
    fake_gpu
    contact PARTS='kernels llm_golden llm_step lora qlora speed ncu llm' LIMIT=1000 \
        "$MGPU_SRC/tests/gpu/first-contact"
    [ "$status" -eq 1 ]
    grep -qx '== kernels: FAILED, status 1, 1 checks passed, [0-9]* s' <<<"$output"
    grep -qx '   not ok 2 - product' <<<"$output"
    grep -qx '   # loading 9 kernels took 4.0 MiB, the first launch 0.0 MiB' <<<"$output"
    grep -qx '== llm_step: passed, 2 checks, [0-9]* s' <<<"$output"
    [ "$(grep -c 'evaluation loss 0.48 (it begins' <<<"$output")" -eq 2 ]
    grep -qE '^== speed lora-two \(lora 64.* activations kept\): 90.0 tokens/s, predicted 100, carefully 80: 0.90 of it; 1.50 GiB planned, 71000 MiB used, [0-9]+ s$' <<<"$output"
    grep -qE '^== speed lora-short again: FAILED, [0-9]+ s: no room$' <<<"$output"
    grep -qE '^   rms_rows +2 +40.0 +25.0 +1.60 +3.00 +2.00 +80 +30 +0$' <<<"$output"
    grep -q -- '-k regex:rms_rows --launch-count 4 ' "$fakes/ncu.said"
    # Small files: the worker has said 100 kB.
    [ "$(du -sb "$BATS_TEST_TMPDIR/out" | cut -f1)" -lt 200000 ]
    [ "$(wc -c <"$BATS_TEST_TMPDIR/out/right-lora.txt")" -le 10000 ]
    grep -qx '\[9[0-9]* bytes are left out\]' "$BATS_TEST_TMPDIR/out/right-lora.txt"
    grep -qE '"lora|^== llm lora' "$BATS_TEST_TMPDIR/out/fast.txt"
    contact PARTS='cv probe torch' LIMIT=1000 "$MGPU_SRC/tests/gpu/first-contact" fast
    [ "$status" -eq 0 ]
    grep -qE '^== cv, no graphs .*: 5.0 5.0 5.0 images/s, predicted 10, carefully 8: 0.50 of it; ' <<<"$output"
    grep -qx '   copy: 1.0 ms, 4.10 TB/s, predicted 4.30' <<<"$output"
    grep -qx '   gate_up 16x8x4: 2.000 ms, 9.00 TFLOP/s, predicted 1.500 ms' <<<"$output"
    grep -qx '   head: - no room ms' <<<"$output"
    grep -qE '^== torch lora-short, eager: 60.0 tokens/s, ' <<<"$output"
    # Of LIMIT a step that hangs leaves nothing to those behind it.
    : >"$fakes/hang"
    contact PARTS='llm torch' LIMIT=15 "$MGPU_SRC/tests/gpu/first-contact" fast
    [ "$status" -eq 1 ]
    [ "$(grep -cE '^== llm [^ ]+: FAILED, [0-9]+ s: no answer$' <<<"$output")" -eq 1 ]
    grep -qx '== llm full: no time left, not run' <<<"$output"
    grep -qx '== torch: no time left, not run' <<<"$output"
}

@test "first-contact: a wrong address makes block 2 a memcheck; it says what it cannot" {
    fake_gpu
    say_as unit/kernels/cuda <<<'echo "an illegal memory access was encountered"; exit 1'
    say_as bin/compute-sanitizer <<<'echo "$*" >"$fakes/said"'
    contact PARTS='kernels cv memcheck' "$MGPU_SRC/tests/gpu/first-contact" right fast
    [ "$status" -eq 1 ]
    grep -qx 'first-contact memcheck: abc on NVIDIA H200' <<<"$output"
    grep -q '^--tool memcheck --kernel-name kernel_substring=NS_3blkE ' "$fakes/said"
    not grep -q '^== cv' <<<"$output"
    contact PARTS=kernel "$MGPU_SRC/tests/gpu/first-contact"
    [ "$status" -eq 64 ]
    contact "$MGPU_SRC/tests/gpu/first-contact" write
    [ "$status" -eq 64 ]
    say_as bin/nvidia-smi <<<'exit 9'
    contact "$MGPU_SRC/tests/gpu/first-contact"
    [ "$status" -eq 69 ]
}
