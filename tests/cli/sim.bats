#!/usr/bin/env bats
# sim.bats - mgpu-sim as an administrator meets it.

bats_require_minimum_version 1.5.0
load helpers
load past

sim=$MGPU_BIN/mgpu-sim
traces=$MGPU_SRC/tests/data/traces
pollux=$traces/pollux-osdi21

setup() {
    cd "$BATS_TEST_TMPDIR" || return 1
    printf '0,100,1\n5,50,2\n6,20,4\n7,30,8\n' >four.csv
}

teardown() { ctld_stop; }

# figure PATH: of the first run in out.json
figure() { json "$1" <out.json; }

# near WANT PERCENT GOT
near() {
    awk -v a="$1" -v p="$2" -v b="$3" \
        'BEGIN { d = (b - a) / a * 100; print b, "is", d "% off"
                 exit !(d <= p && d >= -p) }'
}

@test "four jobs run as their trace says" {
    "$sim" --policy fifo --cluster 2x4 --trace csv:four.csv --jobs jobs.csv \
        --events events.csv --json out.json >table
    [ "$(figure '$.schema')" = mgpu.sim/1 ]
    [ "$(figure '$.runs[0].completed')" = 4 ]
    # The widest needs both nodes whole, so it waits for the longest.
    grep '^job-4,gpus-8,trace,7.000,100.000,130.000,8,240.000,0,' jobs.csv
    [ "$(grep -c ',start,' events.csv)" = 4 ]
    grep '^100.000,job-4,start,n1:4 n2:4$' events.csv
    near 520 0.001 "$(figure '$.runs[0].gpu_s.used')"
    near 130 0.001 "$(figure '$.runs[0].makespan_s')"
    grep -E '^JCT average +' table
}

@test "the same seed gives the same jobs, another one does not" {
    run_it() {
        "$sim" --cluster 16x4 --trace "pollux:$pollux/workloads/workload-3.csv.gz" \
            --tables "pollux:$pollux/models" --speed-noise 0.1 \
            --node-failures 2 --seed "$1" --jobs "$2" >/dev/null || [ $? = 1 ]
    }
    run_it 1 a.csv
    run_it 1 b.csv
    run_it 2 c.csv
    cmp a.csv b.csv
    not cmp -s a.csv c.csv
}

# Of such a job the engine keeps the names of the first nodes only.
@test "jobs on a hundred nodes have all their GPUs" {
    for nodes in $(seq 80 110); do
        echo "$((nodes * 1000)),100,$nodes"
    done >wide.csv
    "$sim" --policy fifo --cluster 120x1 --trace csv:wide.csv --watts 3600 \
        --json out.json --html page.html >/dev/null
    near 294500 0.001 "$(figure '$.runs[0].gpu_s.used')"
    near 294.5 0.001 "$(figure '$.runs[0].energy_kwh')"
    grep -E 'under fifo 2[0-9] attempts on so many nodes that only' page.html
}

@test "several policies are side by side, with a file each" {
    "$sim" --policy fifo --policy backfill --cluster 2x4 --trace csv:four.csv \
        --jobs jobs.csv.gz --gantt g.svg --cdf c.svg >table
    grep -E 'fifo +backfill +last/first' table
    zcat jobs.1.csv.gz | grep -c . | grep -x 5
    [ -s jobs.2.csv.gz ]
    grep -q prefers-color-scheme:dark g.1.svg
    [ "$(grep -c '<title>' g.2.svg)" -ge 4 ]
    grep -q prefers-color-scheme c.svg
}

@test "under goodput one size gains nothing that a range would not" {
    SEEDS=2 LOADS='.7 .85' TRICKS='fixed4 min4' HALF_LIVES=null \
        "$MGPU_SRC/tests/bench/sim/truth.sh"
}

@test "with fair share no way to ask for the same work gains" {
    SEEDS=1 LOADS=.85 TRICKS='fixed8 split2 split8' HALF_LIVES=7d \
        "$MGPU_SRC/tests/bench/sim/truth.sh"
}

@test "fair share changes the order of several users, and of one nothing" {
    # anna has used the GPUs when both wait; hers came first.
    cat >two.jsonl <<'END'
{"t":0,"name":"a1","user":"anna","class":"c","iterations":100,"gpus":1}
{"t":1,"name":"a2","user":"anna","class":"c","iterations":100,"gpus":1}
{"t":2,"name":"b1","user":"bert","class":"c","iterations":100,"gpus":1}
END
    printf '%s\n' class,gpu_type,nodes,gpus_per_node,t_iter_s,restart_s c,,1,1,1,0 \
        >table.csv
    sed 's/bert/anna/' two.jsonl >one.jsonl
    for users in two one; do
        for half_life in 7d null; do
            "$sim" --policy "backfill:fair_share.half_life=$half_life" \
                --cluster 1x1 --request trace --trace "mgpu:$users.jsonl" \
                --tables mgpu:table.csv --jobs "$users.$half_life.csv" >/dev/null
        done
    done
    first() { tail -n +2 "$1" | sort -t, -k5,5n | cut -d, -f1 | tr '\n' ' '; }
    [ "$(first two.7d.csv)" = 'a1 b1 a2 ' ]
    [ "$(first two.null.csv)" = 'a1 a2 b1 ' ]
    cmp one.7d.csv one.null.csv
}

# Both jobs come while another one has all GPUs.
@test "under goodput one size counts as its measured speed" {
    cat >pair.jsonl <<'END'
{"t":0,"name":"a","class":"flat","iterations":300,"gpus":"1"}
{"t":1000,"name":"b","class":"flat","iterations":300,"gpus":"4"}
{"t":2000,"name":"c","class":"steep","iterations":300,"gpus":"1"}
{"t":3000,"name":"d","class":"steep","iterations":600,"gpus":"2"}
{"t":4000,"name":"e","class":"steep","iterations":1200,"gpus":"4"}
{"t":5000,"name":"f","class":"steep","iterations":400,"gpus":"4"}
{"t":5010,"name":"size","class":"flat","iterations":900,"gpus":"4"}
{"t":5010,"name":"range","class":"steep","iterations":1000,"gpus":"1..4"}
END
    for gpus in 1 2 3 4; do
        echo "flat,,1,$gpus,1,0"
    done >speeds.csv
    printf 'steep,,1,%s,0\n' 1,1 2,.5 3,.333333 4,.25 >>speeds.csv
    "$sim" --policy goodput --cluster 1x4 --request trace \
        --trace mgpu:pair.jsonl --tables mgpu:speeds.csv --jobs jobs.csv
    starts() { awk -F, -v name="$1" '$1 == name { print int($5) }' jobs.csv; }
    [ "$(starts range)" -lt "$(starts size)" ]
}

@test "a job learns from another class of its program" {
    for g in 1 2 4; do
        echo "lr-1,,1,$g,$((4 / g)),5"
        echo "lr-2,,1,$g,$((4 / g)),5"
    done >speeds.csv
    sed -i '1i class,gpu_type,nodes,gpus_per_node,t_iter_s,restart_s' speeds.csv
    # restarts MEMBER: of the second job, when the first has ended long ago
    restarts() {
        for k in 1 2; do
            printf '{"t":%d,"name":"j%d",%s"class":"lr-%d","iterations":500,"gpus":"1..4"}\n' \
                $((4000 * k)) $k "$1" $k
        done >sweep.jsonl
        "$sim" --policy goodput --cluster 1x4 --request trace \
            --trace mgpu:sweep.jsonl --tables mgpu:speeds.csv --jobs jobs.csv
        awk -F, '$1 == "j2" { print $9 }' jobs.csv
    }
    [ "$(restarts '' | tail -1)" -gt 0 ]
    [ "$(restarts '"program":"train.py",' | tail -1)" = 0 ]
    run -65 "$sim" --cluster 1x4 --trace mgpu:<(sed 's/train.py//' sweep.jsonl) \
        --tables mgpu:speeds.csv
    [[ $output == *':1:1: "program" is not a text'* ]]
}

@test "random worlds keep all invariants" {
    run -0 "$sim" --check --seeds 50
    [[ $output == '50 random worlds, every invariant holds'* ]]
}

@test "bad input has a place and a status of its own" {
    printf '0,100,1\n5,fast,2\n' >bad.csv
    run -65 "$sim" --cluster 1x1 --trace csv:bad.csv
    [[ $output == *"bad.csv:2:3: duration_s: 'fast' is not a number"* ]]
    printf '0,1,1\n\n3,4\n' >bad.csv
    run -65 "$sim" --cluster 1x1 --trace csv:bad.csv
    [[ $output == *"bad.csv:3:1: 2 fields, expected 't_s,duration_s,gpus'"* ]]
    printf '{"t":0,"name":"a","class":"c","iterations":5,"gpus":"4..1"}\n' >b.jsonl
    printf 'c,,1,1,2,\n' >t.csv
    run -65 "$sim" --cluster 1x1 --trace mgpu:b.jsonl --tables mgpu:t.csv
    [[ $output == *'b.jsonl:1:1: "gpus" is not a number or a range'* ]]
    printf 'c,,0,1,2,\n' >t.csv
    run -65 "$sim" --cluster 1x1 --trace mgpu:b.jsonl --tables mgpu:t.csv
    [[ $output == *'t.csv:1:4: nodes: '* ]]
    head -c 100 /dev/urandom >noise.gz
    printf '\037\213\010' | cat - noise.gz >cut.csv.gz
    run -65 "$sim" --cluster 1x1 --trace csv:cut.csv.gz
    : >empty.csv
    run -65 "$sim" --cluster 1x1 --trace csv:empty.csv
    [[ $output == *'no job'* ]]
}

# A month of a Slurm in five lines, one of them wrong.
sacct_file() {
    cat >past.txt <<'END'
JobID|JobName|User|State|Submit|Start|Elapsed|Timelimit|AllocTRES
1|train|anna|COMPLETED|2026-11-01T08:00:00|2026-11-01T08:00:10|01:00:00|02:00:00|cpu=8,gres/gpu=4
2|train|anna|COMPLETED|2026-11-01T08:00:00|2026-11-01T09:00:10|01:00:00|02:00:00|cpu=8,gres/gpu=4
3|infer|bob|TIMEOUT|2026-11-01T08:00:00|2026-11-01T09:00:10|01:00:20|01:00:00|cpu=8,gres/gpu=2
4|cpu|bob|COMPLETED|2026-11-01T08:00:00|2026-11-01T09:00:10|01:00:00|01:00:00|cpu=8
5|odd|bob|COMPLETED|yesterday|2026-11-01T09:00:10|01:00:00|01:00:00|gres/gpu=1
END
    printf 'NodeName=n1 Arch=x86_64\n   Gres=gpu:a100:8(S:0-1)\n' >nodes.txt
}

@test "what Slurm recorded stands beside what would have been" {
    sacct_file
    TZ=UTC "$sim" --trace sacct:past.txt --cluster slurm:nodes.txt \
        --policy fifo --jobs jobs.csv --json out.json >table 2>err
    grep "past.txt:6:21: Submit: 'yesterday' is not a time" err
    grep 'left out: 1 line that is wrong, 1 job without GPUs' err
    grep -E '^ +recorded +fifo +/recorded$' table
    # 3 jobs of 3,600, 3,600 and 3,620 s; two waited for an hour from the first
    # start on.
    [ "$(figure '$.recorded.jobs')" = 3 ]
    near 6006.667 0.001 "$(figure '$.recorded.jct_s.avg')"
    near 2400 0.001 "$(figure '$.recorded.wait_s.avg')"
    near 36040 0.001 "$(figure '$.recorded.gpu_s.used')"
    # By size and by user: anna's two of 4 GPUs, bob's one of 2.
    [ "$(figure '$.recorded.by_size[0].size')" = '2-4 GPUs' ]
    [ "$(figure '$.recorded.by_size[0].jobs')" = 3 ]
    near 1800 0.001 "$(figure '$.recorded.by_user.anna.wait_s')"
    near 3600 0.001 "$(figure '$.recorded.by_user.bob.wait_s')"
    near 3600 0.001 "$(figure '$.runs[0].by_user.anna.jct_s')"
    near 7220 0.001 "$(figure '$.runs[0].by_user.bob.jct_s')"
    a=$(figure '$.runs[0].by_user.anna.fairness')
    b=$(figure '$.runs[0].by_user.bob.fairness')
    near "$(awk -v a="$a" -v b="$b" 'BEGIN {
        print (a + b) * (a + b) / (2 * (a * a + b * b)) }')" 0.01 \
        "$(figure '$.runs[0].fairness.jain')"
    grep -E '^wait, 2-4 GPUs +40.0 min +20.0 min ' table
    not grep '^wait, 1 GPU' table
    # Two of 4 GPUs fit at once, the third one follows.
    [ "$(figure '$.runs[0].completed')" = 3 ]
    near 7220 0.1 "$(figure '$.runs[0].makespan_s')"
    grep '^3,bob/infer/2,bob,0.000,3600.000,7220.000,2,' jobs.csv
}

@test "the energy is that of the GPUs in use, by type" {
    sacct_file
    TZ=UTC "$sim" --trace sacct:past.txt --cluster slurm:nodes.txt \
        --policy fifo --watts a100=300 --json out.json --html page.html \
        >table 2>err
    # 4 GPUs for two hours, and 2 for 3,620 s.
    near 3.003333 0.001 "$(figure '$.runs[0].energy_kwh')"
    near 3.003333 0.001 "$(figure '$.recorded.energy_kwh')"
    grep -E '^energy of GPUs in use +3.00 kWh +3.00 kWh +[+-]0.0 %$' table
    grep -F 'which draw what --watts a100=300 says' page.html
    grep -F '<td class="l">energy of GPUs in use</td><td class="">3.00 kWh</td>' \
        page.html
    TZ=UTC "$sim" --trace sacct:past.txt --cluster slurm:nodes.txt \
        --policy fifo --json out.json >table 2>err
    [ -z "$(figure '$.runs[0].energy_kwh')" ]
    not grep energy table
    # One job on each node, and then one on both.
    printf '0,3600,2\n0,3600,2\n3600,7200,4\n' >three.csv
    "$sim" --policy fifo --cluster 1x2:a,1x2:b --trace csv:three.csv \
        --watts a=100,400 --json out.json >table
    near 3 0.001 "$(figure '$.runs[0].energy_kwh')"
    run -2 "$sim" --cluster 1x2:a,1x2:b --trace csv:three.csv --watts a=100
    [[ $output == *"--watts: nothing for GPUs of type 'b' of the cluster"* ]]
    run -2 "$sim" --cluster 1x2:a --trace csv:four.csv --watts h=100,100
    [[ $output == *"--watts: the cluster 1x2:a has no GPUs of type 'h'"* ]]
    run -2 "$sim" --cluster 1x2 --trace csv:four.csv --watts a=-5
    [[ $output == *"--watts: '-5' is not a number"* ]]
}

@test "recorded jobs that no node could hold leave, uneven ones are rounded" {
    sacct_file
    TZ=UTC "$sim" --trace sacct:past.txt --cluster 2x3 --policy fifo \
        --jobs jobs.csv >table 2>err
    grep 'jobs with more GPUs than recorded, .*: 0$' err && return 1
    grep '^1,' jobs.csv | grep ',4,'
    TZ=UTC "$sim" --trace sacct:past.txt --cluster 1x3 --policy fifo \
        --jobs jobs.csv >table 2>err
    grep '2 jobs larger than the cluster' err
    [ "$(wc -l <jobs.csv)" = 2 ]
    sed -i 's/gres.gpu=4/gres\/gpu=5/' past.txt
    TZ=UTC "$sim" --trace sacct:past.txt --cluster 2x4 --policy fifo \
        --jobs jobs.csv >table 2>err
    grep 'with more GPUs than recorded, for nodes to share them evenly: 2$' err
    grep '^1,' jobs.csv | grep ',6,'
    run -65 env TZ=UTC "$sim" --trace sacct:past.txt --cluster 1x1
    [[ $output == *'each job is larger than the cluster'* ]]
}

@test "recorded jobs are made elastic by name, and scale as a table says" {
    sacct_file
    printf '1,1\n4,4\n8,6\n' >law.csv
    TZ=UTC "$sim" --trace sacct:past.txt --cluster 1x8:a100 --policy fifo \
        --policy goodput --elastic 'name=tr*' --scaling table:law.csv \
        --jobs jobs.csv >table 2>err
    grep -x 'elastic: 2 of 3 jobs' table
    # fifo keeps their size; goodput grows the one that is left alone.
    grep '^1,anna/train/4,anna,0.000,0.000,3600.000,4,14400.000,0,' jobs.1.csv
    grep '^2,anna/train/4,anna,0.000,0.000,3600.000,4,14400.000,0,' jobs.1.csv
    grep -E '^[12],anna/train/4,anna,0.000,[0-9.]+,[0-9.]+,8,' jobs.2.csv
    grep -E '^3,bob/infer/2,bob,0.000,[0-9.]+,[0-9.]+,2,7240.000,0,' jobs.2.csv
    "$sim" --trace csv:four.csv --cluster 1x8 --elastic 100% >table
    grep -x 'elastic: 4 of 4 jobs' table
    run -2 "$sim" --from-db . --cluster 1x8 --elastic 20%
    [[ $output == *'--elastic with --trace sacct:FILE, swf:FILE or csv:FILE'* ]]
    run -2 "$sim" --trace sacct:past.txt --cluster 1x8 --scaling linear
    run -2 "$sim" --trace sacct:past.txt --cluster 1x8 --elastic 120%
    [[ $output == *"'120%' is not a share such as 20%"* ]]
    run -2 "$sim" --trace sacct:past.txt --cluster 1x8 --tables mgpu:law.csv
    run -2 "$sim" --trace sacct:past.txt --cluster 1x8 --elastic 20% --scaling x
    [[ $output == *"'x' is not linear, amdahl:PART"* ]]
}

@test "the Standard Workload Format, eight processors a GPU" {
    printf '%s\n' '; UnixStartTime: 1143849600' \
        '1 0 5 100 16 -1 -1 16 200 -1 1 3 1 1 1 -1 -1 -1' \
        '2 1 4 50 4 -1 -1 4 200 -1 1 3 1 1 1 -1 -1 -1' >log.swf
    "$sim" --trace swf:log.swf --procs-per-gpu 8 --cluster 1x3 --policy fifo \
        --jobs jobs.csv >table
    grep '^1,user-3/program-1/2,user-3,0.000,0.000,100.000,2,' jobs.csv
    grep '^2,user-3/program-1/1,user-3,1.000,1.000,51.000,1,' jobs.csv
}

@test "a benchmark runs the logs of the folder that one names" {
    mkdir logs empty
    { printf '; MaxNodes: 4\n; MaxProcs: 9\n'
      awk 'BEGIN { for (i = 1; i <= 40; i++)
          print i, i * 60, 60, 600 + i * 97 % 900, 1 + i % 7, "-1 -1", 1 + i % 7,
              3600, "-1 1", i % 3, 1, i % 4, "-1 -1 -1 -1" }'
    } >logs/a.swf
    sed 1d logs/a.swf | gzip >logs/b.swf.gz
    bench=$MGPU_SRC/tests/bench/sim/logs.sh
    export MGPU_BIN
    MGPU_TRACES=$PWD/logs run -0 "$bench"
    for log in a b; do
        [ "$(grep -c -E "^$log +(backfill +0|goodput +(0|20|50|100)) % elastic: JCT +[0-9.]+ h, p99 +[0-9.]+ h, worst rho +[0-9.]+(, turnaround [+-][0-9]+ %)?$" <<<"$output")" = 5 ]
    done
    # All elastic is another result than none.
    line() { grep "^a .*goodput *$1 %" <<<"$output" | sed 's/.*elastic//'; }
    [ "$(line 0)" != "$(line 100)" ]
    MGPU_TRACES='' run -0 "$bench"
    [ "$output" = 'logs of others: skipped, MGPU_TRACES names no folder with *.swf' ]
    MGPU_TRACES=$PWD/empty run -1 "$bench"
    [[ $output == *"no *.swf and no *.swf.gz in '$PWD/empty'"* ]]
    sed -i '/^;/d' logs/a.swf
    MGPU_TRACES=$PWD/logs run -1 "$bench"
    [[ $output == *'a.swf: the head has no MaxProcs'* ]]
}

@test "a file of Slurm's without a good line fails, and says why" {
    printf 'JobID|State|Submit|Start|End|AllocTRES\nx|COMPLETED||||\n' >past.txt
    run -65 "$sim" --trace sacct:past.txt --cluster 1x8
    [[ $output == *"past.txt: no job; the first bad lines:"*"past.txt:2:1: JobID: 'x'"* ]]
    printf 'a b c\n' >past.txt
    run -65 "$sim" --trace sacct:past.txt --cluster 1x8
    [[ $output == *'past.txt:1:1: the header has no column JobID'* ]]
    run -65 "$sim" --trace csv:four.csv --cluster slurm:four.csv
    [[ $output == *"four.csv:1:1: neither scontrol's nor sinfo's"* ]]
}

@test "a sweep runs a policy with each value of a key" {
    "$sim" --cluster 2x4 --trace csv:four.csv \
        --policy backfill:preempt.enabled=true \
        --sweep preempt.min_runtime=0s,60s,5m --json out.json >table
    [ "$(sed -n 1p table)" = 'backfill, preempt.min_runtime:' ]
    grep -E '^ +0s +60s +5m +last/first$' table
    key='"preempt.min_runtime"'
    [ "$(figure "\$.runs[0].parameters.$key")" = 0s ]
    [ "$(figure "\$.runs[2].parameters.$key")" = 5m ]
    [ "$(figure '$.runs[2].parameters."preempt.enabled"')" = true ]
    for wrong in =1 key key= depth=1 depth=1, depth=1,,2 \
        depth=1,2,3,4,5,6,7,8,9; do
        run -2 "$sim" --cluster 2x4 --trace csv:four.csv --policy fifo \
            --sweep "$wrong"
        [[ $output == *"--sweep: '$wrong' is not KEY=VALUE,..."* ]]
    done
    run -2 "$sim" --cluster 2x4 --trace csv:four.csv --sweep depth=1,2
    [[ $output == *'--sweep needs one --policy, not 0'* ]]
}

@test "a wrong command line is refused" {
    run -2 "$sim"
    run -2 "$sim" --cluster 4y4 --trace csv:four.csv
    [[ $output == *"'4y4' is not NODESxGPUS"* ]]
    run -2 "$sim" --cluster 4x4 --trace four.csv
    run -2 "$sim" --cluster 4x4 --trace csv:four.csv --policy nobody
    [[ $output == *"no policy 'nobody'"* ]]
    run -2 "$sim" --cluster 4x4 --trace csv:four.csv --policy fifo:depth=3
    [[ $output == *"no key 'scheduler.depth'"* ]]
    run -2 "$sim" --cluster 4x4 --trace mgpu:four.csv
    [[ $output == *'needs --tables mgpu:PATH'* ]]
}

@test "a job that cannot run is named" {
    printf '0,10,1\n0,10,9\n' >wide.csv
    run -1 "$sim" --cluster 2x4 --trace csv:wide.csv
    [[ $output == *"job 'job-2': not accepted: "* ]]
}

@test "keys of a policy take effect" {
    printf '%s\n' '{"t":0,"name":"a","class":"c","iterations":600,"gpus":1}' \
        '{"t":100,"name":"b","class":"c","iterations":60,"gpus":1,"priority":9}' \
        >two.jsonl
    printf 'class,gpu_type,nodes,gpus_per_node,t_iter_s,restart_s\nc,,1,1,1,5\n' \
        >t.csv
    "$sim" --cluster 1x1 --trace mgpu:two.jsonl --tables mgpu:t.csv \
        --policy backfill --jobs plain.csv >/dev/null
    grep '^b,c,trace,100.000,605.000,670.000,' plain.csv
    "$sim" --cluster 1x1 --trace mgpu:two.jsonl --tables mgpu:t.csv \
        --policy backfill:preempt.enabled=true,preempt.min_runtime=0s \
        --jobs preempt.csv >/dev/null
    # It starts when the other has stopped, which resumes and pays its start.
    grep -E '^b,c,trace,100.000,100.[0-9]+,' preempt.csv
    grep -E '^a,c,trace,0.000,0.000,67[05].[0-9]+,1,.*,1,' preempt.csv
}

@test "each option changes what it says" {
    echo '{"t":0,"name":"a","class":"c","iterations":600,"gpus":1}' >one.jsonl
    printf 'class,gpu_type,nodes,gpus_per_node,t_iter_s,restart_s\nc,,1,1,1,5\n' \
        >t.csv
    # times START,END OPTION...
    times() {
        local want=$1
        shift
        "$sim" --cluster 1x1 --trace mgpu:one.jsonl --tables mgpu:t.csv \
            --jobs jobs.csv "$@" >/dev/null
        grep "^a,c,trace,0.000,$want," jobs.csv
    }
    times 0.000,605.000
    times 0.000,605.000 --round 7s
    times 0.000,1205.000 --slowdown c=2
    times 0.000,605.000 --slowdown d=2
    times 0.000,620.000 --restart-cost 20s
    times 0.000,630.000 --restart-cost d=20s,c=30s
    times 7.000,612.000 --grant-delay 7s
    # The last of an option counts.
    times 9.000,614.000 --grant-delay 7s --grant-delay 9s
    # A worker that reports a wrong length works as long.
    times 0.000,605.000 --length-error 1
    run -1 times 0.000,605.000 --speed-noise 0.5
}

@test "a batch that adapts is faster, and the request can be a number" {
    app() {
        "$sim" --cluster 16x4 --trace "pollux:$pollux/workloads/workload-1.csv.gz" \
            --tables "pollux:$pollux/models" --json out.json "$@" >/dev/null
        [ "$(figure '$.runs[0].completed')" = 160 ]
    }
    app --request 4
    near 160 0 "$(figure '$.runs[0].jobs')"
    fixed=$(figure '$.runs[0].jct_s.avg')
    app --request 4 --batch adaptive --jobs jobs.csv
    [ "$(echo "$(figure '$.runs[0].jct_s.avg') < $fixed" | bc)" = 1 ]
    [ "$(tail -n +2 jobs.csv | cut -d, -f7 | sort -u)" = 4 ]
}

@test "decisions are timed" {
    "$sim" --policy backfill --bench 300x64 --json out.json >/dev/null
    [ "$(figure '$.runs[0].decision_ms.n')" -gt 0 ]
    [ "$(echo "0 < $(figure '$.runs[0].decision_ms.p50') &&
        $(figure '$.runs[0].decision_ms.p50') <= $(figure '$.runs[0].decision_ms.p99')" |
        bc)" = 1 ]
}

@test "Pollux' workloads give the figures of its simulator" {
    for p in fifo backfill; do
        jct=0 makespan=0
        for w in 1 2 3 4; do
            "$sim" --policy "$p" --cluster 16x4 --request trace --limits exact \
                --trace "pollux:$pollux/workloads/workload-$w.csv.gz" \
                --tables "pollux:$pollux/models" --json out.json >/dev/null
            [ "$(figure '$.runs[0].completed')" = 160 ]
            jct=$(echo "$jct + $(figure '$.runs[0].jct_s.avg')" | bc)
            makespan=$(echo "$makespan + $(figure '$.runs[0].makespan_s')" | bc)
        done
        case $p in
        fifo)
            near $((4 * 20160)) 8 "$jct" # 5.6 h
            near $((4 * 78840)) 4 "$makespan" # 21.9 h
            ;;
        backfill)
            near $((4 * 9000)) 8 "$jct" # 2.5 h
            near $((4 * 76320)) 4 "$makespan" # 21.2 h
            ;;
        esac
    done
}

@test "Gavel's throughputs and a type of GPU" {
    "$sim" --cluster 4x4:v100 --trace "gavel:$traces/gavel/20.trace" \
        --tables "gavel:$traces/gavel/throughputs.json" --json out.json >/dev/null
    [ "$(figure '$.runs[0].completed')" = 20 ]
    fast=$(figure '$.runs[0].gpu_s.used')
    "$sim" --cluster 4x4:k80 --trace "gavel:$traces/gavel/20.trace" \
        --tables "gavel:$traces/gavel/throughputs.json" --json out.json >/dev/null
    slow=$(figure '$.runs[0].gpu_s.used')
    [ "$(echo "$slow > 1.5 * $fast" | bc)" = 1 ]
}

@test "a daemon's own past is met" {
    ctld_start
    printf 'version: 1\nname: s\nkind: command\ncommand: [sleep, "5"]\n' >s.yaml
    for i in 1 2 3; do
        "$MGPU_BIN/mgpu-submit" --quiet --gpus 2 s.yaml >"submit.$i"
    done
    "$MGPU_BIN/mgpu-stat" --wait 3
    "$MGPU_BIN/mgpu-stat" --wait 1 && "$MGPU_BIN/mgpu-stat" --wait 2
    "$sim" --from-db "$ctld_dir/state" --json out.json >/dev/null
    [ "$(figure '$.cluster')" = 1x2 ]
    [ "$(figure '$.runs[0].completed')" = 3 ]
    near "$(figure '$.recorded_makespan_s')" 10 \
        "$(figure '$.runs[0].makespan_s')"
    "$sim" --from-db "$ctld_dir/state" --since 2020-01-01T00:00:00Z \
        --json out.json --html past.html >/dev/null
    grep -q 'Jobs are as fast as the daemon has measured their class' past.html
    grep -q '<th>recorded</th><th>goodput</th><th>/recorded</th>' past.html
    grep -q '<pre>not repeated: ' past.html
    [ "$(figure '$.runs[0].completed')" = 3 ]
    run -65 "$sim" --from-db "$ctld_dir/state" --until 2020-01-01T00:00:00Z
    [[ $output == *'has no job in this time'* ]]
    run -66 "$sim" --from-db "$BATS_TEST_TMPDIR"
    [[ $output == *'the state directory of a daemon?'* ]]
    # As Slurm records it: a limit that comes with a submit, a nice value as a
    # priority, and a shorter limit of a job that runs.
    mkdir updated
    for db in state metrics; do
        sqlite3 -readonly "$ctld_dir/state/$db.db" ".backup updated/$db.db"
    done
    sqlite3 updated/state.db "
        UPDATE event SET seq = seq + 1000000;
        UPDATE event SET seq = 2 * (seq - 1000000);
        INSERT INTO event (seq, job, attempt, event, at, uid, detail)
            SELECT seq + 1, job, 0, 'update', at + 1000, -1,
            '{\"limit_ms\":2000}' FROM event WHERE job = 1 AND event = 'submit';
        INSERT INTO event (seq, job, attempt, event, at, uid, detail)
            SELECT (SELECT max(seq) + 1 FROM event), 3, 1, 'update', at + 1, -1,
            '{\"priority\":10}' FROM event WHERE job = 1 AND event = 'submit';
        INSERT INTO event (seq, job, attempt, event, at, uid, detail)
            SELECT (SELECT max(seq) + 1 FROM event), 2, 1, 'update', at + 10,
            -1, '{\"limit_ms\":4000}'
            FROM event WHERE job = 1 AND event = 'submit'"
    run -0 "$sim" --from-db updated --jobs jobs.csv --json out.json
    [[ $output != *'did not apply'* ]]
    [ "$(figure '$.runs[0].completed')" = 1 ]
    # The first ends for its limit, and the third goes before the second.
    awk -F, '{ start[$2] = $5; end[$2] = $6 }
        END { exit !(end["job-1"] < 4 && start["job-3"] < start["job-2"]) }' \
        jobs.csv
}

@test "the past of a sweep keeps its max_parallel" {
    ctld_start
    cat >sweep.yaml <<'END'
version: 1
kind: command
name: w
command: [sleep, "1"]
resources: {gpus: 1}
sweep:
  grid: {env.I: ["1", "2", "3"]}
  max_parallel: 1
END
    "$MGPU_BIN/mgpu-submit" --quiet --wait sweep.yaml
    # Two GPUs are free, and still one task runs after the other.
    "$sim" --policy fifo --from-db "$ctld_dir/state" --cluster 1x2 \
        --jobs jobs.csv --json out.json >/dev/null
    [ "$(figure '$.runs[0].completed')" = 3 ]
    tail -n +2 jobs.csv | sort -t, -k5n | awk -F, '
        $5 < end { print $0, "starts before", end; bad = 1 }
        { end = $6 } END { exit bad || NR != 3 }'
    # The sweep of a purged task is not whole, which is named.
    mkdir cut
    for db in state metrics; do
        sqlite3 -readonly "$ctld_dir/state/$db.db" ".backup cut/$db.db"
    done
    sqlite3 cut/state.db 'DELETE FROM job WHERE job = 2'
    run -0 "$sim" --from-db cut --cluster 1x2
    [[ $output == *'max_parallel for 2 tasks of sweeps that are not whole'* ]]
}

@test "a job that stranded is beside, and all others repeat their sizes" {
    ctld_start
    for name in first second; do
        id=$(saver 1..2 $name)
        wait_for 30 runs_on "$id" 1
        "$MGPU_BIN/mgpu-admin" --quiet resize "$id" 2
        wait_for 30 runs_on "$id" 2
        : >done
        wait_for 30 job_is "$id" COMPLETED
        rm done
    done
    mkdir past
    for db in state metrics; do
        sqlite3 -readonly "$ctld_dir/state/$db.db" ".backup past/$db.db"
    done
    run -0 "$sim" --from-db past --cluster 1x2 --events events.csv
    [[ $output != *stranded* ]]
    same_sizes past events.csv
    # As on a cluster that kept the size pending, until somebody cancelled it.
    sqlite3 past/state.db "
        UPDATE attempt SET native_id = NULL, claimed_at = NULL,
            running_at = NULL, ended_at = intent_at + 600
            WHERE job = $id AND attempt = 2;
        UPDATE job SET state = 'CANCELLED', ended_at = started_at + 600
            WHERE job = $id;
        DELETE FROM event WHERE job = $id AND attempt = 2 AND event <> 'intent'"
    run -0 "$sim" --from-db past --cluster 1x2 --events events.csv \
        --json out.json
    [[ $output == *"
stranded: job $id (second), pending for 2 GPUs from "*" s, which it never got; left out from there
"* ]]
    same_sizes past events.csv
    [ "$(figure '$.stranded[0].job')" = "$id" ]
    [ "$(figure '$.stranded[0].gpus')" = 2 ]
    # The ten minutes are nobody's.
    [ "$(echo "$(figure '$.recorded_makespan_s') > 600" | bc)" = 1 ]
    [ "$(echo "$(figure '$.recorded_makespan_granted_s') < 600" | bc)" = 1 ]
    [ "$(echo "$(figure '$.runs[0].makespan_s') < 600" | bc)" = 1 ]
    # One that was taken back went to the queue, and was cancelled there.
    cp past/state.db kept.db
    sqlite3 past/state.db "
        INSERT INTO event (seq, job, attempt, event, at, uid, detail)
            SELECT max(seq) + 1, $id, 2, 'requeue', max(at), -1, '{}'
            FROM event"
    run -0 "$sim" --from-db past --cluster 1x2
    [[ $output != *stranded* ]]
    cp kept.db past/state.db
    # A size that was given up for the old one is no resize.
    sqlite3 past/state.db "
        INSERT INTO event (seq, job, attempt, event, at, uid, detail)
            SELECT max(seq) + 1, $id, 2, 'preempt', max(at), -1,
            '{\"to_gpus\":1,\"barred_gpus\":2}' FROM event;
        INSERT INTO attempt (job, attempt, state, gpus, nodes, native_id,
            intent_at, claimed_at, running_at, ended_at)
            SELECT job, 3, 'COMPLETED', 1, 1, 'pid:3', ended_at, ended_at,
            ended_at, ended_at + 1 FROM attempt WHERE job = $id AND attempt = 2;
        UPDATE job SET state = 'COMPLETED', attempt = 3 WHERE job = $id"
    printf '%s\n' 'version: 1' 'scheduler: {policy: backfill}' >ran.yaml
    run -0 "$sim" --config ran.yaml --policy backfill --from-db past \
        --cluster 1x2 --events events.csv
    [[ $output == *"stranded: job $id "*"; repeated as a requeue"* ]]
    same_sizes past events.csv
}

@test "a resize is repeated for the policy that ran, and for no other" {
    ctld_start
    id=$(saver 1..2)
    wait_for 30 runs_on "$id" 1
    "$MGPU_BIN/mgpu-admin" --quiet resize "$id" 2
    wait_for 30 runs_on "$id" 2
    : >done
    wait_for 30 job_is "$id" COMPLETED
    "$sim" --policy goodput --policy fifo --from-db "$ctld_dir/state" \
        --cluster 1x2 --events events.csv --json out.json >/dev/null
    [ "$(figure '$.runs[0].completed')" = 1 ]
    [ "$(figure '$.runs[1].completed')" = 1 ]
    grep -E '^[0-9.]+,saver,start,n1:2$' events.1.csv
    same_sizes "$ctld_dir/state" events.1.csv
    [ "$(figure '$.runs[0].restarts_per_job')" = 1.0 ]
    [ "$(figure '$.runs[0].resizes_per_job')" = 1.0 ]
    [ "$(figure '$.runs[1].resizes_per_job')" = 0.0 ]
    [ "$(grep -c start events.2.csv)" = 1 ]
    [[ $(figure '$.not_replayed') == *', under fifo 1 resize (admin.log or --config says that goodput ran)' ]]
    # A daemon's mgpu.yaml is not in its state directory.
    run -0 "$sim" --policy backfill --from-db "$ctld_dir/state" --cluster 1x2
    [[ $output == *'not repeated: '*', under backfill 1 resize '*'goodput ran)' ]]
    printf '%s\n' 'version: 1' 'scheduler: {policy: backfill}' >ran.yaml
    run -0 "$sim" --config ran.yaml --policy backfill --json out.json \
        --from-db "$ctld_dir/state" --cluster 1x2
    [ "$(figure '$.runs[0].restarts_per_job')" != 0.0 ]
    [[ $output != *' resize '* ]]
    # The same resize, after the end that the job has in the simulation.
    mkdir late
    for db in state metrics; do
        sqlite3 -readonly "$ctld_dir/state/$db.db" ".backup late/$db.db"
    done
    sqlite3 late/state.db \
        "UPDATE event SET at = at + 3600 WHERE event = 'preempt'"
    run -0 "$sim" --from-db late --cluster 1x2
    [[ $output == *', under goodput 1 action that did not apply then' ]]
}

@test "a change of the policy is repeated at its time" {
    ctld_start
    first=$(saver 1)
    wait_for 30 runs_on "$first" 1
    "$MGPU_BIN/mgpu-admin" --quiet policy set limits.max_running_per_user=1
    second=$(saver 1)
    is_limited() {
        [[ $("$MGPU_BIN/mgpu-stat" --why "$second") == *LimitUserJobs* ]]
    }
    wait_for 30 is_limited
    "$MGPU_BIN/mgpu-admin" --quiet policy reset limits.max_running_per_user
    wait_for 30 runs_on "$second" 1
    : >done
    wait_for 30 job_is "$first" COMPLETED
    wait_for 30 job_is "$second" COMPLETED
    at=$(tail -n 1 "$ctld_dir/state/admin.log" | json '$.at')
    at=$(sqlite3 -readonly "$ctld_dir/state/state.db" "SELECT
        (julianday('$at') - 2440587.5) * 86400 - min(submitted_at) FROM job")
    "$sim" --policy backfill --policy fifo --from-db "$ctld_dir/state" \
        --cluster 1x2 --jobs jobs.csv >table
    # Both begin when the limit ends, while the first job runs.
    for i in 1 2; do
        awk -F, -v at="$at" 'NR == 2 { end = $6 } NR == 3 { start = $5 }
            END { print start, "for", at, "before", end
                  exit !(start - at < 0.05 && at - start < 0.05 &&
                         start < end) }' "jobs.$i.csv"
    done
    grep '^not repeated: changes of mgpu.yaml while no daemon ran and lost nodes' table
}
