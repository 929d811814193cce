#!/usr/bin/env bats
# launch.bats - the processes of a command on two nodes find each other, under
# srun and mpirun. Each node has its own host name here.
# shellcheck disable=SC2016 # programs of the job

bats_require_minimum_version 1.5.0
load helpers

setup_file() {
    [ "$(id -u)" = 0 ] || skip "host names of its own need root"
    slurm_up --nodes 2 --gpus 4 --uts
    mpicc -o "$TB/tmp/mpi_program" "$MGPU_SRC/tests/cli/mpi_program.c"
}
teardown_file() { [ -z "${TB:-}" ] || slurm_down; }
teardown() {
    [ ! -e "$BATS_TEST_TMPDIR/hosts" ] || on_node2 umount /etc/hosts
    slurm_calm
}

# Where the second node's processes see files.
on_node2() {
    local pid
    read -r pid _ <"$TB/run/slurmd-node2.pid"
    nsenter --target "$pid" --mount --root "$@"
}

# Rank 0 listens, the others tell it their number; all leave a line.
meet='perl -MIO::Socket::INET -e '\''
    my ($r, $n) = @ENV{@ARGV};
    if ($r == 0) {
        my $sum = 0;
        my $l = IO::Socket::INET->new(LocalPort => $ENV{MASTER_PORT},
            Listen => $n) or die "no listener: $!";
        for (2 .. $n) { my $c = $l->accept; $sum += <$c> }
        print "sum $sum\n";
    } else {
        my $c;
        until ($c = IO::Socket::INET->new(PeerAddr => $ENV{MASTER_ADDR},
            PeerPort => $ENV{MASTER_PORT})) { select undef, undef, undef, 0.05 }
        print $c "$r\n";
    }'\'

@test "torch: 2 nodes x 2 GPUs, each rank is told who it is" {
    for launcher in srun mpirun; do
        conf_slurm="  launcher: $launcher"
        ctld_start
        id=$(submit_sh torch 2 4 "$meet RANK WORLD_SIZE >>$ran
echo \$RANK \$LOCAL_RANK \$WORLD_SIZE \$LOCAL_WORLD_SIZE \$GROUP_RANK \
\$MASTER_ADDR \$CUDA_VISIBLE_DEVICES >>$ran" launch=torch)
        wait_for 60 job_has_ended "$id"
        "$MGPU_BIN/mgpu-stat" --logs "$id"
        job_is "$id" COMPLETED
        [ "$(sort "$ran")" = '0 0 4 2 0 node1 0,1
1 1 4 2 0 node1 0,1
2 0 4 2 1 node1 0,1
3 1 4 2 1 node1 0,1
sum 6' ]
        ctld_stop
        rm "$ran"
    done
}

@test "node: one process on each of 2 nodes, with both GPUs" {
    for launcher in srun mpirun; do
        conf_slurm="  launcher: $launcher"
        ctld_start
        id=$(submit_sh node 2 4 "$meet MGPU_NODE_RANK MGPU_NODES >>$ran
echo \$MGPU_NODE_RANK of \$MGPU_NODES x \$MGPU_GPUS_PER_NODE \$MASTER_ADDR \
\$(hostname) \$CUDA_VISIBLE_DEVICES \$OMP_NUM_THREADS >>$ran" launch=node \
            resources.cpus_per_gpu=3)
        wait_for 60 job_has_ended "$id"
        "$MGPU_BIN/mgpu-stat" --logs "$id"
        job_is "$id" COMPLETED
        [ "$(sort "$ran")" = '0 of 2 x 2 node1 node1 0,1 3
1 of 2 x 2 node1 node2 0,1 3
sum 1' ]
        ctld_stop
        rm "$ran"
    done
}

@test "mpi: the program's own MPI_Init finds its world, 2 nodes x 2 GPUs" {
    for launcher in srun mpirun; do
        conf_slurm="  launcher: $launcher"
        ctld_start
        id=$(submit_sh mpi 2 4 "exec $TB/tmp/mpi_program >>$ran.\$MGPU_RANK" \
            launch=mpi)
        wait_for 60 job_has_ended "$id"
        "$MGPU_BIN/mgpu-stat" --logs "$id"
        job_is "$id" COMPLETED
        [ "$(cat "$ran".* | sort)" = 'said 0 of 4, MGPU_RANK 0, GPU 0
said 1 of 4, MGPU_RANK 1, GPU 1
said 2 of 4, MGPU_RANK 2, GPU 0
said 3 of 4, MGPU_RANK 3, GPU 1
said sum 6' ]
        rm "$ran".*
        # One rank that fails ends them all, however it does.
        while IFS='|' read -r what code; do
            id=$(submit_sh mpi 2 4 "exec $TB/tmp/mpi_program $what" launch=mpi \
                retry.max=0)
            wait_for 60 job_has_ended "$id"
            "$MGPU_BIN/mgpu-stat" --logs "$id"
            "$MGPU_BIN/mgpu-stat" "$id"
            job_is "$id" FAILED
            # Slurm kills the step when PMIx misses a rank, and may be faster
            # than the rank's report; or PMIx 5 ends another rank with 14.
            [[ " $code 137 14 " == *" $(job_field "$id" exit_code) "* ]]
            wait_for 60 no_ranks "$id/1"
        done <<'END'
exit 7|7
abort 8|8
kill 11|139
END
        ctld_stop
    done
}

@test "the end of one process ends the job on both nodes" {
    ctld_start
    id=$(submit_sh dies 2 2 "$say_ran
[ \$MGPU_NODE_RANK = 0 ] || exit 7
exec sleep 1000" launch=node retry.max=0)
    wait_for 60 job_has_ended "$id"
    job_is "$id" FAILED
    [ "$(job_field "$id" exit_code)" = 7 ]
    wait_for 60 no_ranks "$id/1"
}

@test "a name that a rank cannot resolve ends the attempt" {
    ctld_start
    sed '/ node1$/d' "$TB/etc/hosts" >"$BATS_TEST_TMPDIR/hosts"
    on_node2 mount --bind "$BATS_TEST_TMPDIR/hosts" /etc/hosts
    id=$(submit_sh lost 2 2 "$say_ran" launch=torch retry.max=0)
    wait_for 60 job_has_ended "$id"
    job_is "$id" FAILED
    "$MGPU_BIN/mgpu-stat" --logs "$id" |
        grep "rank 1 on node2 cannot resolve 'node1'"
    [ ! -e "$ran" ] # nothing was started
}
