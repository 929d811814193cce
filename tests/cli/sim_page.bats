#!/usr/bin/env bats
# sim_page.bats - from a cluster's own past to a page of three policies.

bats_require_minimum_version 1.5.0
load helpers

sim=$MGPU_BIN/mgpu-sim
docs=$MGPU_SRC/docs/sim.md

setup() { cd "$BATS_TEST_TMPDIR" || return 1; }

# 120 jobs of Philly as sacct has them, on two nodes, whose users and names are
# no HTML.
sacct_file() {
    zcat "$MGPU_SRC"/tests/data/traces/philly/*.csv.gz | awk -F, '
        BEGIN { print "JobID|JobName|User|State|Submit|Start|Elapsed|AllocTRES" }
        NR <= 120 {
            s = $2 < 86400 ? $2 : 86399
            printf "%d|<img src=x>|<b>u%d</b>|COMPLETED|%d|%d|%02d:%02d:%02d|gres/gpu=%d\n",
                NR, NR % 3, 1793520000 + $1, 1793520060 + $1, s / 3600,
                s / 60 % 60, s % 60, $3 < 8 ? $3 : 8
        }'
}

# A page that nothing from outside and no name can change.
is_closed() { # FILE
    grep -q "default-src 'none'" "$1"
    not grep -q '<img\|<b>\|<link\|<iframe\|onerror=' "$1"
    not grep -q -i -E '(src|href)=|@import|url\(' "$1"
    [ "$(grep -o '<svg' "$1" | wc -l)" = "$(grep -o '</svg>' "$1" | wc -l)" ]
    [ "$(grep -o '<tr' "$1" | wc -l)" = "$(grep -o '</tr>' "$1" | wc -l)" ]
    [ "$(grep -o '<section' "$1" | wc -l)" = "$(grep -o '</section>' "$1" | wc -l)" ]
}

@test "the five commands of docs/sim.md end in a page of three policies" {
    mkdir bin
    sacct_file >sacct.out
    printf 'NodeName=n%d Arch=x86_64\n   Gres=gpu:a100:8(S:0-1)\n' 1 2 >nodes.out
    printf '#!/bin/sh\ncat sacct.out\n' >bin/sacct
    printf '#!/bin/sh\ncat nodes.out\n' >bin/scontrol
    # shellcheck disable=SC2016 # it is for the script
    printf '#!/bin/sh\necho "$1" >opened\n' >bin/xdg-open
    chmod +x bin/*
    awk '/^## From sacct/ { on = 1 } on && /^```/ { n++; next } n == 1' "$docs" \
        >five.sh
    [ "$(grep -c -E '^[a-z]' five.sh)" = 5 ]
    PATH=$PWD/bin:$MGPU_BIN:$PATH run -0 bash -e five.sh
    page=$(cat opened)
    is_closed "$page"
    # The assumptions, then the figures with what was recorded beside.
    assumed=$(grep -n 'Nobody has measured how these jobs scale' "$page" | cut -d: -f1)
    heads=$(grep -n '<th>recorded</th><th>fifo</th><th>backfill</th><th>goodput</th>' \
        "$page" | cut -d: -f1)
    [ "$assumed" -lt "$heads" ]
    for chart in 'job completion time' 'wait for the first start' \
        'jobs that wait for their first start'; do
        [ "$(grep -c "aria-label=\"$chart\"" "$page")" = 1 ]
    done
    [ "$(grep -c 'aria-label="jobs by GPU and time"' "$page")" = 3 ]
    grep -F '&lt;b&gt;u1&lt;/b&gt;' "$page"
    grep -F -e '<pre>mgpu-sim --trace sacct:' "$page"
}

@test "the same command writes the same page, and says what was left out" {
    sacct_file >past.txt
    echo '5|odd|bob|COMPLETED|<img>|1793520060|01:00:00|gres/gpu=1' >>past.txt
    for i in 1 2; do
        "$sim" --trace sacct:past.txt --cluster 2x8 --policy fifo \
            --html page.html >table 2>/dev/null
        mv page.html "$i.html"
    done
    cmp 1.html 2.html
    is_closed 1.html
    grep 'Each job takes its recorded GPUs for its recorded time' 1.html
    grep "left out: 1 line that is wrong" 1.html
    grep "past.txt:122:21: Submit: &#39;&lt;img&gt;&#39; is not a time" 1.html
    # The figures are those of the table.
    jct=$(sed -n 's/^JCT average *\([^ ]* [a-z]*\) *\([^ ]* [a-z]*\) .*/\1|\2/p' table)
    grep -F "<td class=\"l\">JCT average</td><td class=\"\">${jct%|*}</td><td class=\"\">${jct#*|}</td>" 1.html
}

@test "a page of a sweep has a column for each value" {
    printf '0,100,1\n5,50,2\n6,20,4\n7,30,8\n' >four.csv
    "$sim" --cluster 2x4 --trace csv:four.csv \
        --policy backfill:preempt.enabled=true \
        --sweep preempt.min_runtime=0s,60s,5m --html "it's.html"
    grep -F '<th>backfill, preempt.min_runtime</th><th>0s</th><th>60s</th><th>5m</th>' \
        "it's.html"
    grep -F "&#39;it&#39;\\&#39;&#39;s.html&#39;" "it's.html"
    run -2 "$sim" --cluster 2x4 --trace csv:four.csv --html
    run "$sim" --cluster 2x4 --trace csv:four.csv --html no/page.html
    [ "$status" != 0 ]
    [[ $output == *"create 'no/page.html': "* ]]
    run -2 "$sim" --check --html page.html
    [[ $output == *'--check writes no page'* ]]
}

# The jobs of test traces, of which goodput may resize all.
busy_trace() {
    awk 'BEGIN { for (i = 0; i < 40; i++)
        printf "%d,%d,%d\n", i * i * 7 % 900 + i * 60, 200 + i * 37 % 1500, 1 + i % 4 }' |
        sort -t, -n >busy.csv
}

@test "replicates have other arrivals, and intervals that the seed decides" {
    busy_trace
    simulate() { # SEED FILE [OPTION...]
        local seed=$1 file=$2
        shift 2
        "$sim" --trace csv:busy.csv --cluster 2x4 --policy fifo \
            --policy goodput --elastic 100% --seed "$seed" "$@" \
            --json "$file.json" >"$file.txt"
    }
    part() { json "$1" <"$2.json"; }
    simulate 1 plain
    simulate 1 a --replicate 4 --html page.html
    simulate 1 b --replicate 4
    simulate 2 c --replicate 4
    [ "$(part '$.replicates.n' a)" = 4 ]
    [ "$(part '$.replicates' a)" = "$(part '$.replicates' b)" ]
    [ "$(part '$.replicates.runs[0]' a)" != "$(part '$.replicates.runs[0]' c)" ]
    # The trace's own figures are those without replicates.
    [ "$(part '$.runs[1].jct_s' a)" = "$(part '$.runs[1].jct_s' plain)" ]
    [ -z "$(part '$.replicates' plain)" ]
    # As many GPU hours whenever the jobs come, which fifo does not resize.
    low=$(part '$.replicates.runs[0].gpu_hours_per_job.low' a)
    [ "$low" = "$(part '$.replicates.runs[0].gpu_hours_per_job.high' a)" ]
    awk -v a="$low" -v b="$(part '$.runs[0].gpu_hours_per_job' a)" \
        'BEGIN { exit !(a - b < 1e-9 && b - a < 1e-9) }'
    awk -v low="$(part '$.replicates.runs[0].jct_avg_s.low' a)" \
        -v high="$(part '$.replicates.runs[0].jct_avg_s.high' a)" \
        'BEGIN { exit !(0 < low && low < high) }'
    [ -n "$(part '$.replicates.last_by_first.jct_avg_s.mean' a)" ]
    grep '^Means of 4 replicates with other arrivals, and their intervals of 95 %:$' a.txt
    [ "$(grep -c -E '^JCT average .*[0-9] ±[0-9.]+ min .*%$' a.txt)" = 1 ]
    grep -q 'Means of 4 replicates' page.html
    for wrong in 1 0 1001 many; do
        run -2 "$sim" --trace csv:busy.csv --cluster 2x4 --replicate "$wrong"
        [[ $output == *"--replicate: '$wrong' is not a whole number in 2..1000"* ]]
    done
    run -2 "$sim" --from-db . --replicate 3
    [[ $output == *'expected --trace with --replicate'* ]]
}
