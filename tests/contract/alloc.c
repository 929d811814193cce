/* alloc.c - the specification of slurm/alloc.h, run against each allocator.
 *
 * What only the local one can be asked is in alloc_local.c.
 */
#include "tests/contract/alloc_rig.h"

static void test_ends(struct rig *r)
{
    ok(rig_has_free(r, 2), "two GPUs are free");
    is_int(rig_ask(r, 1, 2, &exit_0), 0, "ask for both");
    ok(rig_gets(r, 1, ALLOC_GRANTED), "granted");
    ok(r->last.native_id[0] && r->last.place[0], "as '%s' on '%s'",
       r->last.native_id, r->last.place);
    ok(rig_ends(r, 1, 0, 0), "exits 0");
    ok(rig_has_free(r, 2), "both are free again");
    ok(rig_is_quiet(r), "and that is all");

    is_int(rig_ask(r, 2, 1, &exit_7), 0, "one that fails");
    ok(rig_gets(r, 2, ALLOC_GRANTED) && rig_ends(r, 2, 7, 0), "exits 7");
    is_int(rig_ask(r, 3, 1, &exit_255), 0, "one that fails badly");
    ok(rig_gets(r, 3, ALLOC_GRANTED) && rig_ends(r, 3, 255, 0), "exits 255");
    is_int(rig_ask(r, 4, 1, &die_11), 0, "one that crashes");
    ok(rig_gets(r, 4, ALLOC_GRANTED) && rig_ends(r, 4, 0, 11),
       "dies of signal 11");
    is_int(rig_ask(r, 5, 0, &exit_0), 0, "one without a GPU");
    ok(rig_gets(r, 5, ALLOC_GRANTED) && rig_ends(r, 5, 0, 0), "exits 0");
}

static void test_refused(struct rig *r)
{
    is_int(rig_ask(r, 10, 3, &exit_0), 0, "ask for three of two");
    ok(rig_gets(r, 10, ALLOC_REFUSED) && r->last.why.msg[0], "refused: %s",
       r->last.why.msg);
    is_int(rig_starts(r, 10), 0, "never started");
    is_int(rig_release(r, 10, 1), ERR_NOTFOUND, "and forgotten");
    is_int(rig_signal(r, 10, SIGTERM), ERR_NOTFOUND, "for signals, too");
    ok(rig_has_free(r, 2), "it holds nothing");
}

static void test_idempotent(struct rig *r)
{
    is_int(rig_ask(r, 20, 1, &endless), 0, "ask");
    ok(rig_gets(r, 20, ALLOC_GRANTED), "granted");
    char id[64];
    (void)snprintf(id, sizeof(id), "%s", r->last.native_id);
    is_int(rig_ask(r, 20, 1, &endless), 0, "ask again");
    ok(rig_gets(r, 20, ALLOC_GRANTED), "granted again");
    is_str(r->last.native_id, id, "the same");
    ok(rig_has_free(r, 1), "one GPU is taken");
    ok(rig_ready(r, 20, 1), "it runs");
    is_int(rig_release(r, 20, 60), 0, "release");
    is_int(rig_release(r, 20, 60), 0, "release again");
    ok(rig_ends(r, 20, 0, SIGTERM), "dies of SIGTERM");
    ok(rig_is_quiet(r), "once");
    is_int(rig_ask(r, 20, 1, &endless), 0, "ask once more");
    ok(rig_ends(r, 20, 0, SIGTERM), "it has ended");
    is_int(rig_starts(r, 20), 1, "it was started once");
    is_int(rig_release(r, 20, 5), 0, "release what has ended");
    ok(rig_is_quiet(r), "is fine");
}

static void test_signal(struct rig *r)
{
    is_int(rig_ask(r, 30, 2, &endless), 0, "ask");
    ok(rig_gets(r, 30, ALLOC_GRANTED) && rig_ready(r, 30, 2), "it runs");
    ok(strstr(r->last.place, ":0,1"), "on '%s'", r->last.place);
    ok(rig_has_free(r, 0), "none is free");
    is_int(rig_signal(r, 30, SIGKILL), 0, "signal every rank");
    ok(rig_ends(r, 30, 0, SIGKILL), "and they die of it");
}

/* One is ended, and another comes in its place and exits 0. An end takes longer
 * to be sure of than a start, so the notes of the two have no order. */
static void gives_way(struct rig *r, uint64_t job, const char *ends,
                      uint64_t next, const char *runs)
{
    bool has_ended = false, is_granted = false, has_run = false;
    for (int i = 0; i < 3 && rig_next(r, rig_limit_s(r)); i++) {
        const struct alloc_note *n = &r->last;
        bool is_exit = n->kind == ALLOC_EXITED && n->exit_code == 0;
        if (n->job == job)
            has_ended = is_exit && n->signal == SIGTERM;
        else if (n->job == next && n->kind == ALLOC_GRANTED)
            is_granted = true;
        else if (n->job == next)
            has_run = is_granted && is_exit && n->signal == 0;
    }
    ok(has_ended, "%s", ends);
    ok(has_run, "%s", runs);
}

static void test_waiting(struct rig *r)
{
    is_int(rig_ask(r, 40, 1, &endless), 0, "one GPU");
    ok(rig_gets(r, 40, ALLOC_GRANTED) && rig_ready(r, 40, 1), "it runs");
    is_int(rig_ask(r, 41, 2, &endless), 0, "two, of which one is free");
    is_int(rig_ask(r, 42, 1, &exit_0), 0, "one behind it");
    is_int(rig_ask(r, 43, 2, &exit_0), 0, "two more");
    ok(rig_is_quiet(r), "all of them wait");
    is_int(rig_release(r, 41, 5), 0, "the first of them is given up");
    gives_way(r, 41, "it ends without having been granted", 42,
              "the next one has its turn");
    is_int(rig_release(r, 40, 60), 0, "release the first");
    gives_way(r, 40, "it ends", 43, "and the last one runs");
    rig_detach(r);
    rig_attach(r);
    is_int(rig_ask(r, 41, 2, &endless), 0, "after a restart, ask again");
    ok(rig_ends(r, 41, 0, SIGTERM), "for the one given up: it has ended");
    is_int(rig_starts(r, 41), 0, "and was never started");
}

static void test_restart(struct rig *r)
{
    is_int(rig_ask(r, 50, 1, &endless), 0, "one endless attempt");
    ok(rig_gets(r, 50, ALLOC_GRANTED), "granted");
    is_int(rig_ask(r, 51, 1, &endless), 0, "and another");
    ok(rig_gets(r, 51, ALLOC_GRANTED), "granted");
    char place[ALLOC_PLACE_CAP];
    (void)snprintf(place, sizeof(place), "%s", r->last.place);
    is_int(rig_ask(r, 52, 0, &exit_7), 0, "and one that ends");
    ok(rig_gets(r, 52, ALLOC_GRANTED), "granted");
    ok(rig_ready(r, 50, 1) && rig_ready(r, 51, 1), "both run");
    rig_detach(r);
    rig_attach(r);
    is_int(rig_ask(r, 51, 1, &endless), 0, "after a restart, ask again");
    ok(rig_gets(r, 51, ALLOC_GRANTED), "it still runs");
    is_str(r->last.place, place, "where it was");
    is_int(rig_ask(r, 50, 1, &endless), 0, "for the other one, too");
    ok(rig_gets(r, 50, ALLOC_GRANTED), "it still runs");
    ok(rig_has_free(r, 0), "no GPU is free");
    is_int(rig_starts(r, 50) + rig_starts(r, 51), 2, "each started once");
    is_int(rig_release(r, 50, 60) + rig_release(r, 51, 60), 0, "release both");
    for (int i = 0; i < 2; i++)
        ok(rig_next(r, rig_limit_s(r)) && r->last.kind == ALLOC_EXITED &&
               r->last.signal == SIGTERM,
           "%s of them ends", i ? "the other" : "one");
    is_int(rig_ask(r, 52, 0, &exit_7), 0, "the one that was left alone");
    ok(rig_next(r, rig_limit_s(r)), "has a note");
    ok(r->last.kind != ALLOC_GRANTED || rig_next(r, rig_limit_s(r)), "or two");
    ok(r->last.job == 52 && r->last.kind == ALLOC_EXITED &&
           r->last.exit_code == 7,
       "it has exited 7");
    ok(rig_has_free(r, 2), "both GPUs are free");
}

/* A daemon that died between a cancel and its release. */
static void test_find(struct rig *r)
{
    is_int(rig_ask(r, 60, 1, &endless), 0, "an endless attempt");
    ok(rig_gets(r, 60, ALLOC_GRANTED) && rig_ready(r, 60, 1), "it runs");
    rig_detach(r);
    rig_attach(r);
    is_int(rig_release(r, 60, 5), ERR_NOTFOUND,
           "after a restart it is not known to those who did not ask");
    is_int(rig_ask_as(r, ALLOC_FIND, 60, 1, &endless), 0, "look for it");
    ok(rig_gets(r, 60, ALLOC_GRANTED), "it still runs");
    is_int(rig_release(r, 60, 60), 0, "release it");
    ok(rig_ends(r, 60, 0, SIGTERM), "it ends");
    is_int(rig_ask_as(r, ALLOC_FIND, 61, 1, &exit_0), 0,
           "look for one that was never asked for");
    ok(rig_ends(r, 61, 0, SIGTERM), "it ends without having been granted");
    is_int(rig_release(r, 61, 60), 0, "release it");
    rig_detach(r);
    rig_attach(r);
    is_int(rig_ask_as(r, ALLOC_FIND, 61, 1, &exit_0), 0, "look again later");
    ok(rig_ends(r, 61, 0, SIGTERM) && rig_is_quiet(r), "it has ended");
    is_int(rig_starts(r, 61), 0, "and was never started");
}

static void test_all(enum rig_kind kind)
{
    struct rig r;
    rig_open(&r, kind);
    tap_diag("%s", r.name);
    is_str(r.a->ops->name, r.name, "the allocator");
    test_ends(&r);
    test_refused(&r);
    test_idempotent(&r);
    test_signal(&r);
    test_waiting(&r);
    test_restart(&r);
    test_find(&r);
    rig_close(&r);
}

int main(int argc, char **argv)
{
    if (argc >= 3 && strcmp(argv[1], "--launch") == 0)
        return rank_main(argc, argv);
    test_all(RIG_FAKE);
    test_all(RIG_LOCAL);
#if HAVE_SLURM
    test_all(RIG_SLURM);
#endif
    return tap_done();
}
