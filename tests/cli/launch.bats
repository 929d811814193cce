#!/usr/bin/env bats
# launch.bats - the processes of a command find each other: what each is told,
# on two and four slots, and that they can use it.
# shellcheck disable=SC2016 # programs of the job

bats_require_minimum_version 1.5.0
load helpers

setup_file() {
    mpicc -o "$BATS_FILE_TMPDIR/mpi_program" "$MGPU_SRC/tests/cli/mpi_program.c"
}
setup() {
    cd "$BATS_TEST_TMPDIR" || exit 1
    export OMP_NUM_THREADS=1
}
teardown() { ctld_stop; }

# launched NAME LAUNCH GPUS: its program is standard input; prints its id.
launched() {
    cat >"$1.sh"
    cat >"$1.yaml" <<END
version: 1
kind: command
name: $1
command: [sh, $1.sh]
launch: $2
resources: {gpus: $3}
retry: {max: 0}
END
    "$MGPU_BIN/mgpu-submit" --parsable "$1.yaml"
}
log_of() { "$MGPU_BIN/mgpu-stat" --logs "$1"; }
said() { log_of "$1" | sed -n 's/^\(\[[0-9]*\] \)\{0,1\}said //p' | sort; }

# The ranks meet as env:// does: rank 0 listens, the others tell it their
# number. Prints "said sum N" on rank 0.
meet='
perl -MIO::Socket::INET -e '\''
    my ($r, $n) = @ENV{qw(RANK WORLD_SIZE)};
    my $sum = 0;
    if ($r == 0) {
        my $l = IO::Socket::INET->new(LocalPort => $ENV{MASTER_PORT},
            Listen => $n, ReuseAddr => 0) or die "no listener: $!";
        for (2 .. $n) { my $c = $l->accept; $sum += <$c> }
        print "said sum $sum\n";
    } else {
        my $c;
        until ($c = IO::Socket::INET->new(PeerAddr => $ENV{MASTER_ADDR},
            PeerPort => $ENV{MASTER_PORT})) { select undef, undef, undef, 0.05 }
        print $c "$r\n";
    }'\'

@test "torch: each rank is told who it is, and where rank 0 listens" {
    ctld_start --slots 4
    id=$(launched two torch 2 <<<"$meet")
    wait_for 60 job_has_ended "$id"
    log_of "$id"
    job_is "$id" COMPLETED
    [ "$(said "$id")" = 'sum 1' ]
    id=$(launched four torch 4 <<<"$meet
echo said \$RANK \$LOCAL_RANK \$WORLD_SIZE \$LOCAL_WORLD_SIZE \$GROUP_RANK")
    wait_for 60 job_has_ended "$id"
    log_of "$id"
    job_is "$id" COMPLETED
    [ "$(said "$id")" = '0 0 4 4 0
1 1 4 4 0
2 2 4 4 0
3 3 4 4 0
sum 6' ]
}

@test "torch: one rank is a world, too" {
    ctld_start
    id=$(launched one torch 1 <<<"$meet; echo said \$RANK of \$WORLD_SIZE")
    wait_for 60 job_has_ended "$id"
    job_is "$id" COMPLETED
    [ "$(said "$id")" = '0 of 1
sum 0' ]
}

@test "torch: the death of one rank ends the job" {
    ctld_start
    id=$(launched dies torch 2 <<<'[ "$RANK" = 0 ] || exit 7; exec sleep 1000')
    wait_for 60 job_has_ended "$id"
    job_is "$id" FAILED
    [ "$(api GET "/v1/jobs/$id" | json '$.job.exit_code')" = 7 ]
    api GET "/v1/jobs/$id" | json '$.job.reason' | grep 'rank 1: .* exited with 7'
}

@test "torch: a port that another program took is named" {
    ctld_start
    id=$(launched taken torch 1 <<'END'
echo "$MASTER_PORT" >port.new && mv port.new port
until [ -e go ]; do sleep 0.05; done
exit 1
END
)
    wait_for 60 test -s port
    perl -MIO::Socket::INET -e '
        alarm 300;
        my $l = IO::Socket::INET->new(LocalPort => $ARGV[0], Listen => 1,
            ReuseAddr => 1) or die "$!";
        open my $f, ">", "go";
        sleep 300' "$(cat port)" 3>&- &
    other=$!
    wait_for 60 job_has_ended "$id"
    kill "$other"
    api GET "/v1/jobs/$id" | json '$.job.reason' |
        grep "exited with 1; another program listens on MASTER_PORT $(cat port)"
}

@test "node: one process with all slots of the node" {
    ctld_start --slots 4
    id=$(launched node node 4 <<'END'
echo said $MGPU_NODE_RANK of $MGPU_NODES with $MGPU_GPUS_PER_NODE
echo said $MGPU_RANK $MGPU_LOCAL_RANK $MGPU_WORLD_SIZE
echo "said RANK=$RANK WORLD_SIZE=$WORLD_SIZE LOCAL_RANK=$LOCAL_RANK"
getent hosts "$MASTER_ADDR" >/dev/null && [ "$MASTER_PORT" -gt 0 ] && echo said ok
END
)
    wait_for 60 job_has_ended "$id"
    job_is "$id" COMPLETED
    [ "$(said "$id")" = '0 0 1
0 of 1 with 4
RANK= WORLD_SIZE= LOCAL_RANK=
ok' ]
    # It has four slots, not one.
    [ "$(api GET "/v1/jobs/$id" | json '$.job.gpus')" = 4 ]
}

@test "mpi: the program's own MPI_Init finds its world" {
    ctld_start --slots 4
    for n in 1 2 4; do
        id=$("$MGPU_BIN/mgpu-submit" --parsable --gpus "$n" --launch mpi -- \
            "$BATS_FILE_TMPDIR/mpi_program")
        wait_for 60 job_has_ended "$id"
        log_of "$id"
        job_is "$id" COMPLETED
        [ "$(said "$id" | grep -v sum)" = "$(for ((r = 0; r < n; r++)); do
            echo "$r of $n, MGPU_RANK $r, GPU "
        done)" ]
        [ "$(said "$id" | grep sum)" = "sum $((n * (n - 1) / 2))" ]
        # Nothing is left but the last answer.
        [ "$(find "$ctld_dir/state/jobs/$id/1" -path '*/ranks.*/*' | wc -l)" -le 1 ]
    done
}

@test "mpi: the end of one rank ends the job" {
    ctld_start
    while IFS='|' read -r what code; do
        id=$("$MGPU_BIN/mgpu-submit" --parsable --gpus 2 --launch mpi \
            --set retry.max=0 -- "$BATS_FILE_TMPDIR/mpi_program" $what)
        wait_for 60 job_has_ended "$id"
        log_of "$id"
        job_is "$id" FAILED
        api GET "/v1/jobs/$id" | json '$.job.reason'
        [ "$(api GET "/v1/jobs/$id" | json '$.job.exit_code')" = "$code" ]
    done <<'END'
exit 7|7
abort 8|8
kill 11|139
END
}

@test "mgpu-submit -- PROGRAM runs it here, with the caller's PATH" {
    ctld_start
    mkdir bin work
    printf '#!/bin/sh\necho "said $RANK of $WORLD_SIZE, $1, in $(pwd)"\n' >bin/mine
    chmod +x bin/mine
    cd work
    run env PATH="$BATS_TEST_TMPDIR/bin:$PATH" "$MGPU_BIN/mgpu-submit" --follow \
        --gpus 2 --launch torch -- mine '${x} *'
    echo "$output"
    [ "$status" -eq 0 ]
    [[ $output == *"said 0 of 2, \${x} *, in $BATS_TEST_TMPDIR/work"* ]]
    [[ $output == *"said 1 of 2, \${x} *, in $BATS_TEST_TMPDIR/work"* ]]
    run "$MGPU_BIN/mgpu-submit" --wait --quiet -- sh -c 'exit 9'
    [ "$status" -eq 9 ]
}
