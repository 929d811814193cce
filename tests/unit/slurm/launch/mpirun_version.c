/* mpirun_version.c - which release an mpirun is, by its words. */
#include "slurm/launch/mpirun_version.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/tap.h"

static void test_texts(void)
{
    static const struct {
        const char *text;
        int kind; /* -1: refused */
    } rows[] = {
        {"mpirun (Open MPI) 4.1.4\n\nReport bugs to "
         "http://www.open-mpi.org/community/help/\n",
         MPIRUN_OMPI_4},
        {"mpiexec (Open MPI) 4.0.3\n", MPIRUN_OMPI_4},
        {"orterun (OpenRTE) 4.1.4\n", MPIRUN_OMPI_4},
        {"mpirun (Open MPI) 5.0.7\n\nReport bugs to "
         "https://www.open-mpi.org/community/help/\n",
         MPIRUN_OMPI_5},
        {"mpirun (Open MPI) 5.0.0rc12\n", MPIRUN_OMPI_5},
        {"mpirun (Open MPI) 10.1.0\n", MPIRUN_OMPI_5},
        {"prterun (PRRTE) 3.0.8\n\nReport bugs to: "
         "https://github.com/openpmix/prrte\n",
         MPIRUN_PRRTE},
        {"module: loaded\nmpirun (Open MPI) 5.0.7\n", MPIRUN_OMPI_5},
        {"mpirun (Open MPI) 3.1.6\n", -1},
        {"mpirun (Open MPI) five\n", -1},
        {"mpirun (Open MPI)", -1},
        {"HYDRA build details:\n    Version:      4.0.2\n", -1},
        {"Intel(R) MPI Library for Linux* OS, Version 2021.8 Build\n", -1},
        {"", -1},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct error err = ERROR_INIT;
        enum mpirun_kind kind = MPIRUN_OMPI_4;
        int rc = mpirun_version_parse("mpirun", rows[i].text, &kind, &err);
        int got = rc < 0 ? -1 : (int)kind;
        is_int(got, rows[i].kind, rows[i].text);
        if (rc < 0)
            is_int(err.code, ERR_CONFIG, "for good");
    }
    struct error err = ERROR_INIT;
    enum mpirun_kind kind;
    is_int(mpirun_version_parse("/opt/mpirun", "HYDRA build details:\n  and",
                                &kind, &err),
           -1, "Hydra");
    is_str(err.msg,
           "'/opt/mpirun' is not mpirun of Open MPI 4 or 5: --version prints "
           "'HYDRA build details:'",
           "in one line");
}

/* Writes a script, and asks it. Returns its kind, or -1. */
static int ask(const char *script, struct error *err)
{
    static const char path[] = "./mpirun";
    enum mpirun_kind kind;
    FILE *f = fopen(path, "w");
    if (!f || fputs(script, f) < 0 || fclose(f) < 0 || chmod(path, 0700) < 0)
        return -2;
    return mpirun_version_ask(path, &kind, err) < 0 ? -1 : (int)kind;
}

static void test_programs(void)
{
    char dir[] = "/tmp/mpirun_version.XXXXXX";
    struct error err = ERROR_INIT;
    enum mpirun_kind kind;
    if (!ok(mkdtemp(dir) && chdir(dir) == 0, "a directory"))
        return;
    is_int(ask("#!/bin/sh\n[ \"$*\" = --version ] && "
               "echo 'mpirun (Open MPI) 5.0.7'\n",
               &err),
           MPIRUN_OMPI_5, "a program that says 5.0.7");
    is_int(ask("#!/bin/sh\necho 'no libmpi.so' >&2; exit 127\n", &err), -1,
           "a program that cannot run");
    ok(strstr(err.msg, "prints 'no libmpi.so'") != NULL, "%s", err.msg);
    is_int(ask("#!/bin/sh\nhead -c 100000 /dev/zero\n", &err), -1,
           "a program that does not stop talking");
    is_int(ask("#!/bin/sh\necho 'mpirun (Open MPI) 4.1.4'; exec >&- 2>&-\n"
               "exec sleep 1000\n",
               &err),
           MPIRUN_OMPI_4, "a program that stays is not waited for");
    sigset_t all, old;
    (void)sigfillset(&all);
    (void)sigprocmask(SIG_SETMASK, &all, &old);
    is_int(
        ask("#!/bin/sh\nkill -TERM $$\necho 'mpirun (Open MPI) 4.1.4'\n", &err),
        -1, "signals that the caller blocks reach the program");
    (void)sigprocmask(SIG_SETMASK, &old, NULL);
    is_int(mpirun_version_ask("/nonexistent/mpirun", &kind, &err), -1,
           "a program that is not there");
    is_str(err.msg,
           "cannot run '/nonexistent/mpirun': No such file or directory",
           "as a shell has it");
    is_int(err.code, ERR_CONFIG, "for good");
    (void)unlink("mpirun");
    (void)rmdir(dir);
}

int main(void)
{
    test_texts();
    test_programs();
    return tap_done();
}
