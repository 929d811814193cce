/* engine_launch.c - the ends of an MPI program that its launcher kills because
 * one rank has failed: the report of that rank decides, and no other does. */
#include "tests/contract/engine_cluster.h"

static struct error err;

#define MPI "},\"launch\":\"mpi\",\"retry\":"

/* One rank reports the code after 5 s; the launcher's end comes at 100 s.
 * in  code  -1: none reports */
static void ends(const char *more, int32_t code, int32_t signo,
                 const char *want, const char *reason, const char *what)
{
    struct world_script s = one((struct world_attempt){
        .run_s = 100, .signal = signo, .silent = 1, .no_report = 1});
    s.jobs[0].spec_more = more;
    begin(&s, what);
    play(5);
    if (code >= 0)
        is_int(engine_report(w.engine, 1, 1, code, "rank 3: 'a' ended so", NULL,
                             NULL, &err),
               0, "it reports");
    finish(want, reason);
}

int main(void)
{
    static const char *const said = "rank 3: 'a' ended so";
    static const char *const killed = "killed by signal 9 (SIGKILL)";
    static const char once[] = MPI "{\"max\":0}}";

    ends(once, 7, 9, "k0:FAILED/7/1[1]", said, "a rank exits with 7");
    ends(once, 139, 9, "k0:FAILED/139/1[1]", "killed by signal 11 (SIGSEGV)",
         "a rank dies of SIGSEGV");
    ends(once, -1, 9, "k0:FAILED/137/1[1]", killed, "no rank reports");
    ends(once, 7, 15, "k0:FAILED/143/1[1]", "killed by signal 15 (SIGTERM)",
         "another signal");
    ends(once, 0, 9, "k0:COMPLETED/0/1[1]",
         "rank 3: 'a' ended so; completed, then killed by signal 9 (SIGKILL)",
         "all ranks were done");
    ends("},\"retry\":{\"max\":0}}", 7, 9, "k0:FAILED/137/1[1]", killed,
         "not an MPI program");
    ends(MPI "{\"max\":1,\"on\":[\"signal\"]}}", 7, 9, "k0:FAILED/7/1[1]", said,
         "an exit is no signal to retry after");
    return tap_done();
}
