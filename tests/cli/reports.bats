#!/usr/bin/env bats
# reports.bats - the papers' sweeps, small, from the specification to the
# picture.
# shellcheck disable=SC2154 # output, status, lines: bats sets them

bats_require_minimum_version 1.5.0
load helpers

setup() { ctld_launch --local --slots 4; }
teardown() { ctld_stop; }

small=(--set dataset.path="$MGPU_SRC/tests/data/mnist" --set train.epochs=1
    --set dataset.train_samples=64 --set dataset.eval_samples=32
    --set train.batch_size=16 --set model.width_mult=0.25)

# paper NAME SWEEP [options...]: some of its tasks, to their end.
paper() {
    local name=$1 sweep=$2
    shift 2
    timeout "$compute_s" "$MGPU_BIN/mgpu-submit" -q --wait "${small[@]}" \
        --set "sweep=$sweep" "$@" "$MGPU_SRC/jobs/paper/$name.yaml"
}

# tasks NAME: the tasks of a sweep, "template gpus distribution pin_memory" of
# those keys that it varies.
tasks() {
    "$MGPU_BIN/mgpu-submit" --show "$MGPU_SRC/jobs/paper/$1.yaml" |
        sed -n 's/^# [0-9]*: //p' |
        jq -r '[."train.dataset.template", ."resources.gpus",
            ."train.distribution", ."train.pin_memory"]
            | map(select(. != null)) | join(" ")'
}

# settings NAME: the effective specification of a sweep, without its origins.
settings() {
    "$MGPU_BIN/mgpu-submit" --show "$MGPU_SRC/jobs/paper/$1.yaml" |
        sed -n 's/^ *\([a-z_]*: .*[^ ]\) *#.*/\1/p'
}

@test "the sweeps of the papers are valid, and say how many jobs they are" {
    for row in table2:12 table3:8 fig1:12 fig2:20 fig3:8 \
        table5:8 fig4:16 fig5:4 fig6:4 methods:12 layout:36; do
        run -0 "$MGPU_BIN/mgpu-submit" --validate \
            "$MGPU_SRC/jobs/paper/${row%:*}.yaml"
        [[ "$output" == *": valid, ${row#*:} jobs" ]]
    done
}

@test "figures 1, 4, 5, 6 and table 5 are run as the paper ran them" {
    # Figure 1 compares ddp, ddp-rr and ddp-ds.
    [ "$(tasks fig1 | cut -d' ' -f2 | sort -u | xargs)" = "ddp ddp-ds ddp-rr" ]
    # Several GPUs shard the weights; alone a GPU has all of them.
    [ "$(tasks table5 | sort | xargs)" = "$(for g in 1 2 3 4; do
        printf '%s fsdp false %s fsdp true ' "$g" "$g"; done | xargs)" ]
    [ "$(tasks fig4 | sort | xargs)" = "$(for d in alpaca grammar samsum slimorca
        do printf "$d %s fsdp " 1 2 3 4; done | xargs)" ]
    [ "$(tasks fig6 | sort | xargs)" = \
        "1 fsdp false 1 fsdp true 2 fsdp false 2 fsdp true" ]
    # Figure 5 is of one GPU.
    [ "$(tasks fig5 | sort | xargs)" = "alpaca 1 grammar 1 samsum 1 slimorca 1" ]
    settings fig6 | grep -qx 'template: alpaca'
    for fig in fig4 fig5; do
        settings $fig | grep -qx 'pin_memory: false'
    done
    for fig in table5 fig4 fig5 fig6; do
        settings $fig | grep -qx 'precision: fp32'
        settings $fig | grep -qx 'batch_size: 2'
    done
    for fig in fig5 fig6; do
        settings $fig | grep -qx 'profile_first: 12m'
        settings $fig | grep -qx 'profile: epoch'
    done
}

@test "the command that a report prints for what is missing is valid" {
    for name in table2 table3 fig1 fig2 fig3 table5 fig4 fig5 fig6; do
        run -0 "$MGPU_BIN/mgpu-stat" --report $name
        command=$(sed -n 's/^  mgpu-submit //p' <<<"$output")
        # As a shell reads it.
        run -0 bash -c "cd '$MGPU_SRC' && '$MGPU_BIN/mgpu-submit' --validate $command"
        [[ "$output" == *": valid, $(grep -c '^[^#]*[0-9]' \
            <(sed 1,/time_s/d "$MGPU_SRC/jobs/paper/$name.csv")) jobs" ]]
    done
}

@test "table2: from the sweep to the table, the CSV and the picture" {
    run -0 "$MGPU_BIN/mgpu-stat" --report table2
    [[ "$output" == *"missing: no run yet"*"jobs/paper/table2.yaml"* ]]
    run -0 paper table2 '{grid: {train.precision: [fp64, fp32],
        resources.gpus: [1, 2]}}' --set dataset.image_size=32
    cd "$BATS_TEST_TMPDIR"
    for suffix in csv svg; do # the suffix says the format
        run -0 "$MGPU_BIN/mgpu-stat" --report table2 --output t.$suffix
        [ -z "$output" ]
        diff t.$suffix <("$MGPU_BIN/mgpu-stat" --report table2 --export $suffix)
        diff t.$suffix <("$MGPU_BIN/mgpu-stat" --report table2 \
            --export $suffix --output -)
    done
    [ ! -e ./- ]
    run -64 "$MGPU_BIN/mgpu-stat" --report table2 --export csv --json
    [[ "$output" == *"only one of --json, --format jsonl and --export"* ]]
    run -64 "$MGPU_BIN/mgpu-stat" --report table2 --output t.txt
    [[ "$output" == *"a name that ends in .csv, .jsonl or .svg"* ]]
    run -64 "$MGPU_BIN/mgpu-stat" --report table2 --output t.jsonl
    [[ "$output" == *"exported as csv or svg"* ]]
    run -0 "$MGPU_BIN/mgpu-stat" --report table2
    [[ "$output" == *" TEST ACC  PAPER ACC "*" VS FP64  PAPER VS FP64 "* ]]
    [[ "$output" == *"  fp64     2 "*" 99.20 % "*" 1.88 x      93.8 % "*" 1_1"* ]]
    [[ "$output" == *"  fp32     1 "*" 99.32 % "*" 168.4 % "*" 1_2"* ]]
    [[ "$output" == *"  fp16     4 "*"919 "*" -"* ]]
    [[ "$output" != *"per cell"* ]]
    [[ "$output" == *"ours:    4 runs on "*"(4 CPU slots)"* ]]
    [[ "$output" == *"not like for like: "*"train.epochs is 1, not 20"* ]]
    [[ "$output" == *"missing: 8 of 12"*"{train.precision: fp64, resources.gpus: 3}"* ]]
    # What it prints is what the daemon recorded.
    sqlite3 :memory: '.mode csv' '.import t.csv t' '.mode list' \
        "ATTACH '$ctld_dir/state/state.db' AS s;
         ATTACH '$ctld_dir/state/metrics.db' AS m;
         SELECT count(*) FROM t
         JOIN s.v_attempt AS a ON '1_' || (a.job - 1) = t.job
         JOIN m.v_epoch AS e ON e.job = a.job
         WHERE abs(t.time_s - (a.ended_at - a.claimed_at)) < 0.01
           AND abs(t.train_s - e.seconds) < 0.001
           AND abs(t.accuracy - e.eval_accuracy) < 0.001
           AND like_the_paper = 'false' AND times_paper = ''" >count
    [ "$(cat count)" = 4 ]
    [ "$(sqlite3 :memory: '.mode csv' '.import t.csv t' '.mode list' \
        "SELECT count(*) FROM t AS n JOIN t AS one
             ON one.\"train.precision\" = n.\"train.precision\"
         WHERE one.\"resources.gpus\" = 1 AND n.\"resources.gpus\" = 2
           AND abs(n.efficiency - one.time_s / n.time_s / 2) < 1e-6")" = 2 ]
    # And what the paper's "compared to FP64" is, of our own runs.
    [ "$(sqlite3 :memory: '.mode csv' '.import t.csv t' '.mode list' \
        "SELECT count(*) FROM t AS n JOIN t AS d
             ON d.\"resources.gpus\" = n.\"resources.gpus\"
         WHERE d.\"train.precision\" = 'fp64' AND n.\"train.precision\" = 'fp32'
           AND abs(n.compared - d.time_s / n.time_s) < 1e-6
           AND n.paper_accuracy > 0.98")" = 2 ]
    [[ "$(head -c 5 t.svg)" == "<?xml" ]]
    grep -q '>fp64, paper<' t.svg
    [ "$(grep -o 'class="c-line c-s[0-9]"' t.svg | wc -l)" = 4 ] # and their legend
    # A run that is named is the one that is shown.
    run -0 "$MGPU_BIN/mgpu-stat" --json --report table2 1_2
    [ "$(json '$.rows[4].job' <<<"$output")" = 1_2 ]
    [ "$(json '$.rows[0].job' <<<"$output")" = "" ]
}

@test "fig2: what its caption says, and our rows by size and GPUs" {
    # FP64, pin_memory = false, as the caption of the figure has it.
    run -0 "$MGPU_BIN/mgpu-submit" --show \
        "$MGPU_SRC/jobs/paper/fig2.yaml"
    grep -qE '^ *precision: fp64( |$)' <<<"$output"
    grep -qE '^ *pin_memory: false( |$)' <<<"$output"
    run -0 paper fig2 '{grid: {dataset.image_size: [40, 48],
        resources.gpus: [1, 2]}}'
    run -0 "$MGPU_BIN/mgpu-stat" --report fig2
    [[ "$output" != *"precision is"* ]]
    [[ "$output" == *"4 GPUs from 300x300 on"* ]]
    [[ "$output" != *"not known here"* ]]
    [ "$(awk '$1 == 40 || $1 == 48 { printf "%s/%s ", $1, $2 }' \
        <<<"$output")" = "40/1 40/2 48/1 48/2 " ]
}

@test "fig3: shares of what the profiler counted" {
    run -0 paper fig3 '{list: [{dataset.image_size: 100, resources.gpus: 2,
        train.pin_memory: true}]}'
    run -0 "$MGPU_BIN/mgpu-stat" --report fig3 1
    row=$(grep '^ *100 *2 *true ' <<<"$output")
    [[ "$row" == *" %  "*" 1_0" ]]
    [[ "$row" != *" 0.0 %  0.0 % "*" 0.0 %  1_0" ]]
    [[ "$output" == *"missing: 7 of 8"* ]]
}

@test "options that a report takes, and those that it refuses" {
    run -64 "$MGPU_BIN/mgpu-stat" --report table9
    [[ "$output" == *"there are table2, table3, fig1, fig2, fig3, table5, fig4, fig5, fig6"* ]]
    run -64 "$MGPU_BIN/mgpu-stat" --output x.svg
    [[ "$output" == *"--report NAME and csv or svg"* ]]
    run -64 "$MGPU_BIN/mgpu-stat" --report table2 --nodes
    run -66 "$MGPU_BIN/mgpu-stat" --report table2 77
    run ! "$MGPU_BIN/mgpu-stat" --report table2 --output /nonexistent/x.svg
    [[ "$output" == *"'/nonexistent/x.svg'"* ]]
}

llm=(--set train.checkpointer.checkpoint_dir="$MGPU_SRC/jobs/examples/stories260K"
    --set train.dataset.samples=8 --set train.gradient_accumulation_steps=1)

# paper_llm NAME SWEEP [options...]: as paper, of a language model.
paper_llm() {
    local name=$1 sweep=$2
    shift 2
    timeout "$compute_s" "$MGPU_BIN/mgpu-submit" -q --wait "${llm[@]}" \
        --set "sweep=$sweep" "$@" "$MGPU_SRC/jobs/paper/$name.yaml"
}

@test "table5: stories260K on rows of GSM8K, seconds of an iteration" {
    run -0 paper_llm table5 '{grid: {train.pin_memory: [false],
        train.distribution: [fsdp], resources.gpus: [1, 2]}}' \
        --set train.dataset.path="$MGPU_SRC/tests/data/rows/gsm8k.json.gz"
    run -0 "$MGPU_BIN/mgpu-stat" --report table5
    [[ "$output" == *" s/IT  PAPER s/IT "* ]]
    [[ "$output" == *"not like for like: "*"train.dataset.samples is 8, not 0"* ]]
    [[ "$output" == *"missing: 6 of 8; with a directory of Llama 3 8B and alpaca-cleaned:"* ]]
    [ "$(awk '$1 == "false" && $2 <= 2 && $7 > 0 { n++ } END { print n }' <<<"$output")" = 2 ]
    run -0 "$MGPU_BIN/mgpu-stat" --json --report table5
    [ "$(json '$.rows[1].paper_s_per_it' <<<"$output")" = 0.93 ]
    [ "$(sqlite3 :memory: "SELECT json_extract('$output', '$.rows[1].s_per_it') > 0")" = 1 ]
}

# The profile of the last job as of a GPU: in place of the host's rows those
# whose names the fake CUPTI's test found, each a tenth of the profiled part.
profiled_on_a_gpu() {
    local cupti=$MGPU_BIN/../tests/unit/worker/profile/profile_cupti names
    local db=$ctld_dir/state/metrics.db
    names=$("$cupti" | sed -n \
        "s/^ok [0-9]* - \\(.*\\): [0-9]* calls, .*/('\\1'),/p" | sort -u)
    if [ -z "$names" ]; then # CUPTI=0
        names=$(cat "$MGPU_SRC"/jobs/paper/fig[56].csv | sort -u |
            sed -n "s/^# metric: [^=]*= \\([^|]*[^| ]\\).*/('\\1'),/p")
        names+="('cudaGraphLaunch'),"
    fi
    sqlite3 -cmd '.timeout 20000' "$db" "
        DELETE FROM profile WHERE job = (SELECT max(job) FROM profile)
            AND (metric LIKE 'host %' OR metric LIKE 'MPI%');
        INSERT INTO profile (job, attempt, epoch, rank, metric, calls, total_s)
            SELECT p.job, p.attempt, p.epoch, p.rank, n.column1, 1,
                   p.total_s / 10
            FROM profile AS p, (VALUES ${names%,}) AS n
            WHERE p.metric = 'profiled part'
              AND p.job = (SELECT max(job) FROM profile);"
}

@test "fig4: data sets of the paper, sharded on two GPUs" {
    rows="$MGPU_SRC/tests/data/rows"
    run -0 paper_llm fig4 "{grid: {train.distribution: [fsdp]}, list: [
        {train.dataset.template: samsum, train.dataset.path: $rows/talk.jsonl.gz, resources.gpus: 1},
        {train.dataset.template: slimorca, train.dataset.path: $rows/openorca.jsonl.gz, resources.gpus: 2}]}" \
        --set train.tokenizer.max_seq_len=512
    run -0 "$MGPU_BIN/mgpu-stat" --report fig4
    [[ "$output" == *"missing: 14 of 16"*" --set train.checkpointer.checkpoint_dir=/MODEL --set 'sweep="* ]]
    [[ "$output" == *"{train.dataset.template: alpaca, resources.gpus: 1, train.distribution: fsdp, train.dataset.path: /FILE}"* ]]
    grep -q ' s/IT  PAPER s/IT ' <<<"$output"
    # The seconds of an iteration, behind those of the run and of its training.
    [ "$(awk '$3 == "fsdp" && $7 > 0 { printf "%s/%s ", $1, $2 }' \
        <<<"$output")" = "samsum/1 slimorca/2 " ]
}

@test "fig5: seconds and shares of calls on one GPU" {
    run -0 paper_llm fig5 "{list: [{train.dataset.template: alpaca, resources.gpus: 1,
        train.dataset.path: $MGPU_SRC/tests/data/rows/gsm8k.json.gz}]}"
    run -0 "$MGPU_BIN/mgpu-stat" --report fig5
    [[ "$output" == *"missing: 3 of 4"* ]]
    [[ "$output" != *"profile_first is"* && "$output" != *"pin_memory is"* ]]
    grep -Eq ' TRAIN s +s/IT +PROFILED s +LAUNCH s +LAUNCH % +SYNC s +SYNC % +H2D s +H2D % +JOB$' \
        <<<"$output"
    grep -Eq '^ *alpaca +1( +[0-9.]+){4} +[0-9.]+ % ' <<<"$output"
    profiled_on_a_gpu
    run -0 "$MGPU_BIN/mgpu-stat" --report fig5
    # Two names launch: a tenth of the part for each name.
    grep -Eq '^ *alpaca +1 .* 20\.0 % +[0-9.]+ +10\.0 % +[0-9.]+ +10\.0 % ' \
        <<<"$output"
}

@test "fig6: seconds and shares of calls on one GPU, and of two together" {
    run -0 paper_llm fig6 '{grid: {train.pin_memory: [true],
            train.distribution: [fsdp], resources.gpus: [1, 2]}}' \
        --set train.dataset.path="$MGPU_SRC/tests/data/rows/gsm8k.json.gz"
    run -0 "$MGPU_BIN/mgpu-stat" --report fig6
    [[ "$output" == *"missing: 2 of 4"* && "$output" != *"profile_first is"* ]]
    grep -Eq ' TRAIN s +s/IT +PROFILED s +LAUNCH s +LAUNCH % +H2D s +H2D % +ALLGATHER s +ALLGATHER % +JOB$' \
        <<<"$output"
    # The weights of one GPU are whole.
    run -0 "$MGPU_BIN/mgpu-stat" --json --report fig6
    jq -e '.rows[2].seconds.allgather == 0' <<<"$output"
    # What it prints is what both ranks recorded.
    s=$(sqlite3 "$ctld_dir/state/metrics.db" "SELECT sum(total_s) FROM v_profile
        WHERE metric = 'MPI all_gather' AND rank IN (0, 1)")
    jq -e --argjson s "$s" '$s > 0 and
        (.rows[3].seconds.allgather - $s | fabs < 1e-6)' <<<"$output"
    profiled_on_a_gpu
    run -0 "$MGPU_BIN/mgpu-stat" --json --report fig6
    # A tenth of each rank's part for each name, of which two launch.
    jq -e '.rows[3] | [.seconds.launch / 4, .seconds.h2d / 2,
        .seconds.allgather / 2, .shares.launch * .profiled_s / 2]
        | min > 0 and max - min < 1e-9 * max' <<<"$output"
    run -0 "$MGPU_BIN/mgpu-stat" --report fig6
    grep -Eq '^ *true +2 +fsdp .* 20\.0 % +[0-9.]+ +10\.0 % +[0-9.]+ +10\.0 % ' \
        <<<"$output"
}

@test "methods: all four on the same pairs, their figures and the paper's order" {
    # 64 inputs are no multiple of qat's 256.
    run -0 paper_llm methods '{list: [
            {method: lora, resources.gpus: 1}, {method: lora, resources.gpus: 2},
            {method: dpo, resources.gpus: 1}, {method: dpo, resources.gpus: 2},
            {method: qlora, resources.gpus: 1},
            {method: qat, resources.gpus: 1, train.quantizer.groupsize: 32}]}' \
        --set train.dataset.path="$MGPU_SRC/jobs/examples/story-pairs/train.jsonl" \
        --set train.precision=fp32 --set train.tokenizer.max_seq_len=128
    cd "$BATS_TEST_TMPDIR"
    "$MGPU_BIN/mgpu-stat" --report methods --output m.csv
    run -0 "$MGPU_BIN/mgpu-stat" --report methods
    [[ "$output" == *" s/IT "*" /LORA "*" TOKENS/S "*" MEMORY "*" H2D/IT "*" COLLECTIVES/IT "* ]]
    echo "$output"
    [ "$(grep -c '  lora  .* 1.00 x .* 1.00 x .* 1.00 x ' <<<"$output")" = 2 ]
    [[ "$output" == *"LoRA is faster than DPO: "*"hold"* ]]
    [[ "$output" == *"LoRA is smaller than DPO: holds"* ]]
    [[ "$output" == *"QAT is the slowest: "*"hold"*"s of qat)"* ]]
    [[ "$output" == *"QAT is the largest: "*"hold"*"iB of qat)"* ]]
    [[ "$output" == *"QAT is the slowest: not known, a run is missing"* ]] # on 2
    [ "$(sqlite3 :memory: '.mode csv' '.import m.csv t' '.mode list' \
        "SELECT count(*) FROM t WHERE s_per_it > 0 AND tokens_per_s > 0
         AND memory_bytes > 1e6 AND memory_is_planned = 'true'
         AND h2d_bytes_per_it > 0")" = 6 ]
    run -64 "$MGPU_BIN/mgpu-stat" --report methods --json
}

@test "layout: both layouts of a small set, and their ratios" {
    run -0 paper layout '{grid: {train.channels_last: [true, false]}}' \
        --set dataset.image_size=32 --set resources.gpus=1
    cd "$BATS_TEST_TMPDIR"
    "$MGPU_BIN/mgpu-stat" --report layout --export csv >l.csv
    run -0 "$MGPU_BIN/mgpu-stat" --report layout
    echo "$output"
    grep -E '^ *32 +fast +[a-z0-9]+ +[0-9]+ +1 +NHWC .* ms +1\.00 x .* ms +1\.00 x +[0-9]+ +1\.00 x +1_0$' \
        <<<"$output"
    grep -E '^ *32 +fast +[a-z0-9]+ +[0-9]+ +1 +NCHW .* ms +[0-9.]+ x .* ms +[0-9.]+ x +[0-9]+ +[0-9.]+ x +1_1$' \
        <<<"$output"
    # What it prints is what the daemon recorded.
    [ "$(sqlite3 :memory: '.mode csv' '.import l.csv t' '.mode list' \
        "ATTACH '$ctld_dir/state/metrics.db' AS m;
         SELECT count(*) FROM t JOIN m.v_epoch AS e
             ON '1_' || (e.job - 1) = t.job
         WHERE abs(t.images_per_s - e.samples_per_s) < 1e-3
           AND abs(t.t_h2d - (SELECT avg(i.t_h2d) FROM m.v_iteration AS i
               WHERE i.job = e.job)) < 1e-7")" = 2 ]
    # And the losses are the same, to the last bit.
    [ "$(sqlite3 "$ctld_dir/state/metrics.db" 'SELECT count(DISTINCT job) > 1 AND
        count(DISTINCT loss) = count(DISTINCT iteration) FROM v_iteration')" = 1 ]
    run -64 "$MGPU_BIN/mgpu-stat" --report layout --output l.svg
}
