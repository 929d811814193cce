#!/usr/bin/env bats
# pages.bats - --help, the man page and the completion name the same options.

bats_require_minimum_version 1.5.0
load helpers

background= # a daemon's pid that a page's example has started
teardown() {
    ctld_stop
    ctld_end TERM || :
    [ -z "$background" ] || kill "$background" 2>/dev/null || :
}

bin=$MGPU_BIN
src=$MGPU_SRC

help_options() {
    "$bin/$1" --help | sed -n 's/^  \(-[a-zA-Z], \|    \)\(--[a-z][a-z-]*\).*/\2/p' | sort -u
}

# .It Fl s , -set Ar ...  and  .It Fl -json
page_options() {
    sed -n '/^\.It Fl /{s/^\.It Fl \([a-zA-Z] , \)\{0,1\}\(Fl \)\{0,1\}-\([a-z][a-z-]*\).*/--\3/p}' \
        "$1" | sort -u
}

same_options() {
    help_options "$1" >"$BATS_TEST_TMPDIR/help"
    page_options "$src/man/$2" >"$BATS_TEST_TMPDIR/page"
    [ "$(wc -l <"$BATS_TEST_TMPDIR/help")" -ge 4 ]
    diff -u "$BATS_TEST_TMPDIR/help" "$BATS_TEST_TMPDIR/page"
}

@test "mgpu-submit: help and page" { same_options mgpu-submit mgpu-submit.1; }
@test "mgpu-stat: help and page" { same_options mgpu-stat mgpu-stat.1; }
@test "mgpu-cancel: help and page" { same_options mgpu-cancel mgpu-cancel.1; }
@test "mgpu-admin: help and page" { same_options mgpu-admin mgpu-admin.8; }
@test "mgpu-web: help and page" { same_options mgpu-web mgpu-web.1; }
@test "mgpu-sim: help and page" { same_options mgpu-sim mgpu-sim.1; }
@test "mgpu-model: help and page" { same_options mgpu-model mgpu-model.1; }
@test "mgpu-ctld: help and page" { same_options mgpu-ctld mgpu-ctld.8; }
@test "mgpu-worker: help and page" { same_options mgpu-worker mgpu-worker.8; }

@test "each line of docs/security.md names tests, which name it" {
    for i in $(seq -w 1 16); do
        line=$(grep "^| S$i |" "$src/docs/security.md")
        # The quoted names of single tests are tests/lint/tables.sh's.
        files=$(sed 's/.*| \([^|]*\) |$/\1/; s/"[^"]*"//g' <<<"$line" |
            tr -d '`,')
        [ -n "$files" ]
        n=0
        for f in $files; do
            [ -e "$src/tests/$f" ] || { echo "S$i: no $f" && false; }
            ! grep -q "S$i" "$src/tests/$f" || n=$((n + 1))
        done
        [ "$n" -ge 1 ] || { echo "S$i: in none of $files" && false; }
    done
}

@test "each reason that a job waits for is in the page" {
    # "Token: ..." and "Token(...)" of what decides; two say nothing of jobs.
    {
        find "$src"/scheduler/{engine,policy} -name '*.c'
        find "$src/slurm" -name 'alloc*.c' -o -name 'cluster*.c'
        echo "$src/scheduler/ctld/api/why.c"
    } | xargs cat |
        grep -oE '"(Held\(corrupt\)|(Limit%s|[A-Z])[A-Za-z]+)(: |\()' |
        sed 's/^"//; s/[(:].*//' | grep -vxE 'State|Exit|Job|Attempt' |
        sort -u >"$BATS_TEST_TMPDIR/said"
    grep -qx 'Limit%sGpus' "$BATS_TEST_TMPDIR/said"
    sed -i 's/Limit%s/LimitUser/' "$BATS_TEST_TMPDIR/said"
    sed -n '/^\.Ss Reasons/,/^\.El/s/^\.It Li //p' "$src/man/mgpu-stat.1" |
        tr -d ',' | tr ' ' '\n' | sed 's/($//' >"$BATS_TEST_TMPDIR/page"
    [ "$(wc -l <"$BATS_TEST_TMPDIR/said")" -ge 18 ]
    run grep -vxFf "$BATS_TEST_TMPDIR/page" "$BATS_TEST_TMPDIR/said"
    echo "not in mgpu-stat.1: $output"
    [ "$status" -eq 1 ]
}

@test "each --help fits a terminal of 80 columns" {
    for tool in submit stat cancel admin web sim model ctld worker; do
        "$bin/mgpu-$tool" --help >"$BATS_TEST_TMPDIR/help"
        [ "$(wc -L <"$BATS_TEST_TMPDIR/help")" -lt 80 ] ||
            { echo "mgpu-$tool" && false; }
        ! grep ' $' "$BATS_TEST_TMPDIR/help" || false
    done
}

@test "mgpu-ctld: the page has each path of the interface for tools" {
    sed -n 's/^    {"\([A-Z]*\)", "\(\/v1[^"]*\)".*/\1 \2/p' \
        "$src/scheduler/ctld/api/routes.c" | sort >"$BATS_TEST_TMPDIR/routes"
    sed -n 's/^\.It Li \([A-Z]* \/v1.*\)/\1/p' "$src/man/mgpu-ctld.8" |
        sort >"$BATS_TEST_TMPDIR/page"
    [ "$(wc -l <"$BATS_TEST_TMPDIR/routes")" -ge 30 ]
    diff -u "$BATS_TEST_TMPDIR/routes" "$BATS_TEST_TMPDIR/page"
}

@test "mgpu-admin: the commands of --help are those of the page" {
    "$bin/mgpu-admin" --help | sed -n 's/^  \([a-z][a-z]*\) .*/\1/p' |
        sort >"$BATS_TEST_TMPDIR/help"
    sed -n 's/^\.It Cm \([a-z]*\).*/\1/p' "$src/man/mgpu-admin.8" |
        sort >"$BATS_TEST_TMPDIR/page"
    [ "$(wc -l <"$BATS_TEST_TMPDIR/help")" -ge 10 ]
    diff -u "$BATS_TEST_TMPDIR/help" "$BATS_TEST_TMPDIR/page"
}

@test "mgpu-model: the commands of --help are those of the page" {
    "$bin/mgpu-model" --help | sed -n 's/^  \([a-z][a-z]*\) .*/\1/p' |
        sort >"$BATS_TEST_TMPDIR/help"
    sed -n 's/^\.It Cm \([a-z]*\).*/\1/p' "$src/man/mgpu-model.1" |
        sort >"$BATS_TEST_TMPDIR/page"
    [ -s "$BATS_TEST_TMPDIR/help" ]
    diff -u "$BATS_TEST_TMPDIR/help" "$BATS_TEST_TMPDIR/page"
}

@test "completion offers the options of --help" {
    # shellcheck source=/dev/null
    source "$src/scheduler/tools/completion.bash"
    for tool in mgpu-submit mgpu-stat mgpu-cancel mgpu-admin mgpu-web \
        mgpu-sim mgpu-model; do
        COMP_WORDS=("$bin/$tool" --)
        COMP_CWORD=1
        _mgpu
        printf '%s\n' "${COMPREPLY[@]}" | sort -u >"$BATS_TEST_TMPDIR/offered"
        help_options "$tool" | diff -u - "$BATS_TEST_TMPDIR/offered"
    done
}

# complete_zsh WORD...: what is offered for the last, a line each. What the
# shell's own functions would do with it is not looked at.
complete_zsh() {
    zsh -f -c 'compadd() { shift; print -l -- "$@" }
        compset() { words[CURRENT]=${words[CURRENT]##*,} }
        _files() { print -l -- "files $*" }
        src=$1; shift
        words=("$@") CURRENT=$#
        source "$src/scheduler/tools/completion.zsh"' zsh "$src" "$@"
}

# The words that `mgpu-admin update` takes before a "=", as its page has them.
update_keys() {
    sed -n '/^\.It Cm update/,/^\.It Cm [^u]/p' "$src/man/mgpu-admin.8" |
        sed -n 's/^\.It Ic //p' | tr -d ' ' | tr , '\n' |
        sed 's/^Ic//; s/$/=/' | sort
}

@test "completion of mgpu-admin update offers its keys, and only there" {
    # shellcheck source=/dev/null
    source "$src/scheduler/tools/completion.bash"
    export MGPU_URL=unix:/nowhere/sock
    update_keys >"$BATS_TEST_TMPDIR/keys"
    [ "$(wc -l <"$BATS_TEST_TMPDIR/keys")" -ge 5 ]
    offered() {
        COMP_WORDS=("$bin/mgpu-admin" "$@")
        COMP_CWORD=$#
        _mgpu
        printf '%s\n' "${COMPREPLY[@]}" | grep = | sort
    }
    offered update 1 '' | diff -u "$BATS_TEST_TMPDIR/keys" -
    [ "$(offered update 1 sw)" = sweep.max_parallel= ]
    [ -z "$(offered hold '')" ]
    complete_zsh "$bin/mgpu-admin" update 1 '' | grep = | sort |
        diff -u "$BATS_TEST_TMPDIR/keys" -
    [ -z "$(complete_zsh "$bin/mgpu-admin" hold '' | grep =)" ]
}

@test "completion for zsh offers the same as that for bash" {
    # shellcheck source=/dev/null
    source "$src/scheduler/tools/completion.bash"
    for tool in mgpu-submit mgpu-stat mgpu-cancel mgpu-admin mgpu-web \
        mgpu-sim mgpu-model; do
        complete_zsh "$bin/$tool" -- | sort -u >"$BATS_TEST_TMPDIR/offered"
        help_options "$tool" | diff -u - "$BATS_TEST_TMPDIR/offered"
    done
    # No daemon is there: of columns, states and commands all is known.
    export MGPU_URL=unix:/nowhere/sock
    for words in "mgpu-stat -o" "mgpu-stat --sort" "mgpu-cancel --state" \
        "mgpu-stat --export" "mgpu-stat -u" "mgpu-stat --color" \
        "mgpu-admin -q" \
        "mgpu-submit --explain" "mgpu-submit --priority"; do
        # shellcheck disable=SC2086 # a list of words
        set -- $words
        complete_zsh "$bin/$1" "$2" '' | sort >"$BATS_TEST_TMPDIR/zsh"
        COMP_WORDS=("$bin/$1" "$2" '')
        COMP_CWORD=2
        _mgpu
        printf '%s\n' "${COMPREPLY[@]}" | sort >"$BATS_TEST_TMPDIR/bash"
        [ "$(wc -l <"$BATS_TEST_TMPDIR/zsh")" -gt 1 ]
        diff -u "$BATS_TEST_TMPDIR/bash" "$BATS_TEST_TMPDIR/zsh"
    done
    [ "$(complete_zsh "$bin/mgpu-submit" '')" = "files -g *.(yaml|yml)" ]
}

@test "completion goes on in a list of columns" {
    # shellcheck source=/dev/null
    source "$src/scheduler/tools/completion.bash"
    COMP_WORDS=("$bin/mgpu-stat" -o "id,pri")
    COMP_CWORD=2
    _mgpu
    [ "${COMPREPLY[*]}" = "id,priority" ]
    COMP_WORDS=("$bin/mgpu-stat" -o "")
    _mgpu
    for word in name estimate where long ended; do
        printf '%s\n' "${COMPREPLY[@]}" | grep -qx "$word"
    done
    # Rows are sorted by a column; a format is none.
    COMP_WORDS=("$bin/mgpu-stat" -S "")
    _mgpu
    printf '%s\n' "${COMPREPLY[@]}" | grep -qx where
    [[ " ${COMPREPLY[*]} " != *" long "* ]]
}

@test "the exit statuses of error.h are those of mgpu-submit(1)" {
    for status in $(sed -n 's/^    X([A-Z]*, \([0-9]*\),.*/\1/p' \
        "$src/jobs/base/error.h" | sort -nu); do
        [ "$status" = 76 ] || # the worker's alone: mgpu-worker(8)
            grep -q "^\.It $status$" "$src/man/mgpu-submit.1" ||
            { echo "no .It $status"; false; }
    done
}

# The commands of a page's EXAMPLES, one a line.
examples() {
    awk '/^\.Sh EXAMPLES/ { on = 1; next } /^\.Sh/ { on = 0 } on' \
        "$MGPU_SRC/man/$1" | sed -n 's/^\.Dl \$ //p; t; s/^\$ //p; t; /^mgpu-/p'
}

@test "each example of the commands' pages runs as it stands" {
    ctld_start --slots 4
    cd "$BATS_TEST_TMPDIR"
    PATH=$MGPU_BIN:$PATH
    printf '%s\n' 'version: 1' 'kind: cv' \
        'dataset: {source: synthetic, image_size: 28, train_samples: 64, eval_samples: 32}' \
        'model: {width_mult: 0.25}' 'train: {epochs: 1, batch_size: 32}' >job.yaml
    printf '%s\n' 'version: 1' 'kind: command' 'resources: {gpus: 2}' \
        'command: [echo, hello]' >past.yaml
    done_id=$(mgpu-submit --parsable past.yaml)
    wait_for 60 job_is "$done_id" COMPLETED
    n=0
    for page in mgpu-submit.1 mgpu-stat.1 mgpu-cancel.1 mgpu-admin.8; do
        while IFS= read -r line; do
            id=$done_id
            [[ $line != *--top* ]] || continue # which wants a terminal
            if [ "$page" = mgpu-cancel.1 ]; then # of one that runs
                id=$(submit_command runs sleep 600)
                wait_for 60 job_is "$id" RUNNING
            fi
            line=${line//\/data\/mnist/$MGPU_SRC/tests/data/mnist}
            line=${line//\/var\/backups/$BATS_TEST_TMPDIR}
            # Of the job 12 in a page, and not of 12 minutes.
            line=$(sed "s/ 12\$/ $id/" <<<"$line")
            mkdir -p mgpu # where backups are
            echo "\$ $line"
            status=0
            timeout "$compute_s" bash -c "$line" </dev/null >out 2>&1 3>&- || status=$?
            [ "$status" -eq 0 ] || { cat out && false; }
            mgpu-cancel --quiet --user me || :
            wait_for 60 no_live_job
            n=$((n + 1))
        done < <(examples "$page")
    done
    [ "$n" -ge 18 ]
}

# The file that a page's EXAMPLES show with cat FILE.
shown() { # PAGE FILE
    awk -v cat="cat $2" '
        /^\.Sh EXAMPLES/ { on = 1 }
        /^(\$|#|\.Ed)/ { off = 1 }
        on && !off { print }
        /^(\$|#) / && substr($0, 3) == cat { off = 0; next }
        BEGIN { off = 1 }' "$MGPU_SRC/man/$1"
}

answers() { curl --silent --fail --unix-socket "$1" http://mgpu/readyz >/dev/null; }

@test "each example of the daemon's page runs as it stands" {
    ctld_dir=
    cd "$BATS_TEST_TMPDIR"
    PATH=$MGPU_BIN:$PATH
    unset MGPU_URL
    export HOME=$BATS_TEST_TMPDIR XDG_STATE_HOME=$BATS_TEST_TMPDIR/s \
        XDG_RUNTIME_DIR=$BATS_TEST_TMPDIR/r
    mkdir -m 700 s r try
    printf '%s\n' 'version: 1' 'kind: command' 'command: [echo, hello]' >job.yaml
    n=0
    while IFS= read -r line; do
        line=${line//\/tmp\/try/$BATS_TEST_TMPDIR\/try}
        echo "\$ $line"
        case $line in
        *"--config mgpu.yaml"*) # which has to have a cluster: tests/slurm
            shown mgpu-ctld.8 mgpu.yaml >mgpu.yaml
            grep -q '^cluster: cluster1' mgpu.yaml
            mgpu-ctld --check-config mgpu.yaml >/dev/null
            ;;
        cat*) ;;
        *"&")
            bash -c "exec ${line%&}" >beside.log 2>&1 3>&- &
            ctld_pid=$!
            wait_for 60 answers try/sock
            ;;
        *)
            timeout "$compute_s" bash -c "$line" </dev/null >out 2>&1 3>&- ||
                { cat out && false; }
            [ -n "$background" ] || background=$(curl --silent \
                --unix-socket r/mgpu/ctld.sock http://mgpu/v1/status | json '$.pid')
            ;;
        esac
        n=$((n + 1))
    done < <(examples mgpu-ctld.8)
    [ "$n" -eq 6 ]
    ctld_term
    kill "$background"
    wait_for 60 process_gone "$background"
    # With accounts that each machine has.
    shown mgpu-ctld.8 /etc/mgpu/mgpu.yaml |
        sed 's/user: mgpu$/user: nobody/; s/, admin]/]/' >all.yaml
    grep -q '^cluster: cluster1' all.yaml
    mgpu-ctld --check-config all.yaml >/dev/null
}

@test "each example of the worker's page runs as it stands" {
    ctld_start
    cd "$BATS_TEST_TMPDIR"
    PATH=$MGPU_BIN:$PATH
    export OMPI_MCA_rmaps_base_oversubscribe=1
    printf '%s\n' 'version: 1' 'kind: cv' \
        'dataset: {source: synthetic, image_size: 28, train_samples: 64, eval_samples: 32}' \
        'model: {width_mult: 0.25}' 'train: {epochs: 1, batch_size: 32}' \
        >mnist-mobilenet.yaml
    line=$(examples mgpu-worker.8)
    echo "\$ $line"
    timeout "$compute_s" bash -c "$line" </dev/null >out 2>&1 3>&- || { cat out && false; }
    line=$(sed -n '/^\.Sh EXAMPLES/,$s/^echo /echo /p' "$MGPU_SRC/man/mgpu-worker.8")
    printf '%s\n' 'version: 1' 'kind: command' 'command:' '- sh' '- -c' \
        "- |" "  $line" >job.yaml
    id=$(mgpu-submit --parsable --wait job.yaml)
    [[ $(mgpu-stat --export csv "$id" | tail -n 1) == "$id,1,0,1,"*,0.5,* ]]
}
