/* curve.c - GET /v1/jobs/:id/curve, against a table that was made by hand. */
#include "tests/unit/ctld/rig.h"

static struct rig r;

/* Rank 0 has iterations 1 to 8, rank 1 the same with another loss and 24
 * samples; rank 1 alone has a metric at 3. No loss at 3, infinity at 6. */
static const char rank0[] =
    "{\"iteration\":1,\"epoch\":1,\"started_at\":100,\"t_iter\":0.5,"
    "\"loss\":4,\"samples\":8,\"grad\":1}\n"
    "{\"iteration\":2,\"epoch\":1,\"started_at\":101,\"t_iter\":0.5,"
    "\"loss\":3,\"samples\":8,\"grad\":2}\n"
    "{\"iteration\":3,\"epoch\":1,\"started_at\":102,\"t_iter\":0.5,"
    "\"loss\":null,\"samples\":8}\n"
    "{\"iteration\":4,\"epoch\":1,\"started_at\":103,\"t_iter\":0.5,"
    "\"loss\":2.5,\"samples\":8}\n"
    "{\"epoch\":1,\"eval_loss\":2.25,\"seconds\":4}\n"
    "{\"iteration\":5,\"epoch\":2,\"started_at\":104,\"t_iter\":0.5,"
    "\"loss\":2,\"samples\":8}\n"
    "{\"iteration\":6,\"epoch\":2,\"started_at\":105,\"t_iter\":0.5,"
    "\"loss\":1e999,\"samples\":8}\n"
    "{\"iteration\":7,\"epoch\":2,\"started_at\":106,\"t_iter\":0.5,"
    "\"loss\":0.1,\"samples\":8}\n"
    "{\"iteration\":8,\"epoch\":2,\"started_at\":107,\"t_iter\":0.5,"
    "\"loss\":1,\"samples\":8}\n"
    "{\"epoch\":2,\"eval_loss\":1.25,\"seconds\":4,\"loose\":5}\n";
static const char rank1[] =
    "{\"iteration\":1,\"epoch\":1,\"started_at\":100,\"t_iter\":1,\"loss\":9,"
    "\"samples\":24,\"grad\":7}\n"
    "{\"iteration\":3,\"epoch\":1,\"started_at\":102,\"t_iter\":2,\"loss\":9,"
    "\"samples\":24,\"grad\":3}\n";

#define HEAD_WITH(of, x, width, n, cursor, kept)                           \
    "{\"schema\":\"mgpu.curve/1\",\"job\":1,\"rows_removed\":false,"       \
    "\"of\":\"" of "\",\"x\":\"" x "\",\"complete\":true,\"width\":" width \
    ",\"n\":" n ",\"cursor\":" cursor kept                                 \
    ",\"columns\":[\"attempt\",\"first\",\"last\",\"time\",\"epoch\","     \
    "\"samples\",\"min\",\"max\",\"value\",\"n\",\"none\",\"plus_inf\","   \
    "\"minus_inf\"],\"rows\":"
#define HEAD(of, x, width, n, cursor) HEAD_WITH(of, x, width, n, cursor, "")
/* Of a curve that the daemon keeps, and of what is new of it. */
#define KEPT(of, x, width, n, cursor, before) \
    HEAD_WITH(of, x, width, n, cursor, ",\"before\":" before ",\"whole\":true")
#define NEW(of, x, width, n, cursor, before) \
    HEAD_WITH(of, x, width, n, cursor, ",\"before\":" before ",\"whole\":false")

static void is_curve(const char *query, const char *want, const char *what)
{
    char path[128];
    (void)snprintf(path, sizeof(path), "/v1/jobs/1/curve?%s", query);
    is_int(get(&r, path), 200, what);
    is_str(buf_str(&r.body), want, query);
}

static void refuses(int status, const char *query, const char *says)
{
    char path[192];
    (void)snprintf(path, sizeof(path), "/v1/jobs/1/curve?%s", query);
    is_int(get(&r, path), status, query);
    ok(has(&r, says), "says: %s", buf_str(&r.body));
}

static void test_columns(void)
{
    is_curve("of=loss&points=4",
             KEPT("loss", "iteration", "4", "8", "\"1.8\"", "7") //
             "[[1,1,3,102,1,24,3,4,null,3,1,0,0],"
             "[1,4,7,106,2,32,0.1,2.5,0.1,4,0,1,0],"
             "[1,8,8,107,2,8,1,1,1,1,0,0,0]]}",
             "the loss of rank 0, thinned");
    is_curve("of=loss&rank=1",
             HEAD("loss", "iteration", "1", "2", "\"1.3\"") //
             "[[1,1,1,100,1,24,9,9,9,1,0,0,0],"
             "[1,3,3,102,1,24,9,9,9,1,0,0,0]]}",
             "that of rank 1");
    is_curve("of=loss&from=6&to=7",
             HEAD("loss", "iteration", "1", "2", "\"1.7\"") //
             "[[1,6,6,105,2,8,null,null,\"Infinity\",1,0,1,0],"
             "[1,7,7,106,2,8,0.1,0.1,0.1,1,0,0,0]]}",
             "a part of it, with an infinite value");
    is_curve("of=samples_per_s&to=3",
             HEAD("samples_per_s", "iteration", "1", "3", "\"1.3\"") //
             "[[1,1,1,100,1,32,32,32,32,1,0,0,0],"
             "[1,2,2,101,1,8,16,16,16,1,0,0,0],"
             "[1,3,3,102,1,32,16,16,16,1,0,0,0]]}",
             "a rate: the samples of all ranks by the slowest's time");
    is_curve("of=tokens_per_s&to=1",
             HEAD("tokens_per_s", "iteration", "1", "1", "\"1.1\"") //
             "[[1,1,1,100,1,32,null,null,null,1,1,0,0]]}",
             "a rate of what nobody reports");
    is_curve("of=eval_loss",
             KEPT("eval_loss", "epoch", "1", "2", "\"1.2\"", "1") //
             "[[1,1,1,null,1,0,2.25,2.25,2.25,1,0,0,0],"
             "[1,2,2,null,2,0,1.25,1.25,1.25,1,0,0,0]]}",
             "a column of epochs");
}

static void test_own(void)
{
    is_curve("of=grad",
             KEPT("grad", "iteration", "1", "3", "\"1.3\"", "3") //
             "[[1,1,1,null,null,0,1,1,1,1,0,0,0],"
             "[1,2,2,null,null,0,2,2,2,1,0,0,0],"
             "[1,3,3,null,null,0,3,3,3,1,0,0,0]]}",
             "the job's own metric, of the lowest rank that has it");
    is_curve("of=grad&rank=1&points=2",
             HEAD("grad", "iteration", "1", "2", "\"1.3\"") //
             "[[1,1,1,null,null,0,7,7,7,1,0,0,0],"
             "[1,3,3,null,null,0,3,3,3,1,0,0,0]]}",
             "that of rank 1");
    is_curve("of=grad&from=100",
             HEAD("grad", "iteration", "1", "0", "null") //
             "[]}",
             "a metric that has nothing there");
    is_curve("of=loose",
             KEPT("loose", "iteration", "1", "0", "null", "0") "[]}",
             "one without an iteration is known, and no curve");
    refuses(404, "of=los", "job 1 has no metric 'los'; did you mean 'loss'?");
    refuses(404, "of=gradd", "no metric 'gradd'; did you mean 'grad'?");
    refuses(404, "of=loss&own=1", "job 1 has no metric 'loss'");
    refuses(404, "of=nothing_alike", "no metric 'nothing_alike'\"");
}

static void test_bounds(void)
{
    refuses(400, "points=9", "of=: expected the name of a metric");
    refuses(400, "of=loss&points=1", "points=1: expected 2..10000");
    refuses(400, "of=loss&points=10001", "points=10001: expected 2..10000");
    refuses(400, "of=loss&width=3", "width=3: expected a power of two");
    refuses(400, "of=loss&cursor=1", "cursor=1: expected the cursor");
    refuses(400, "of=loss&cursor=0.1", "cursor=0.1: expected the cursor");
    refuses(400, "of=loss&cursor=1.2.3", "cursor=1.2.3: expected the cursor");
    refuses(400, "of=loss&cursor=-1.2", "cursor=-1.2: expected the cursor");
    refuses(400,
            "of=a123456789012345678901234567890123456789012345678901234567890"
            "12345",
            "expected at most 64 bytes");
    is_int(get(&r, "/v1/jobs/9/curve?of=loss"), 404, "no such job");
    refuses(400, "of=loss&attempt=2147483647&cursor=1.0",
            "cursor=1.0: expected a cursor of attempt 2147483647");
    is_curve("of=loss&attempt=2147483647",
             HEAD("loss", "iteration", "1", "0", "null") "[]}",
             "an attempt that the job has not had yet");
    is_curve("of=loss&attempt=1&cursor=1.8",
             HEAD("loss", "iteration", "1", "1", "\"1.8\"") //
             "[[1,8,8,107,2,8,1,1,1,1,0,0,0]]}",
             "a cursor of the attempt that is asked for");
}

/* Another attempt goes on from iteration 7: what is new since a cursor. */
static void test_cursor(void)
{
    static const char more[] =
        "{\"iteration\":7,\"started_at\":200,\"loss\":0.5,\"samples\":8}\n"
        "{\"iteration\":8,\"started_at\":201,\"loss\":0.25,\"samples\":8}\n";
    is_curve("of=loss&width=4&cursor=1.8&before=7",
             NEW("loss", "iteration", "4", "1", "\"1.8\"", "7") //
             "[[1,8,8,107,2,8,1,1,1,1,0,0,0]]}",
             "from a cursor with as many rows before it as there were");
    is_curve("of=loss&width=4&cursor=1.8&before=6",
             KEPT("loss", "iteration", "4", "8", "\"1.8\"", "7") //
             "[[1,1,3,102,1,24,3,4,null,3,1,0,0],"
             "[1,4,7,106,2,32,0.1,2.5,0.1,4,0,1,0],"
             "[1,8,8,107,2,8,1,1,1,1,0,0,0]]}",
             "with another number of them: all of the curve");
    is_curve("of=loss&width=4&cursor=1.4",
             HEAD("loss", "iteration", "4", "5", "\"1.8\"") //
             "[[1,4,7,106,2,32,0.1,2.5,0.1,4,0,1,0],"
             "[1,8,8,107,2,8,1,1,1,1,0,0,0]]}",
             "from a cursor: the bucket that it names, and all after it");
    is_int(call(&r, "POST", "/v1/jobs/1/requeue", "{}", NULL), 200,
           "a second attempt");
    exits(&r, 1, 0);
    ok(becomes(&r, "/v1/jobs/1", "\"attempt\":2") &&
           becomes(&r, "/v1/jobs/1", "\"place\":\"n1:0\""),
       "begins");
    is_int(as_worker(&r, "1/2/claim", "{\"holder\":\"h 2 2\"}"), 200, "claims");
    is_int(as_worker(&r, "1/2/rows?rank=0&offset=0", more), 200, "reports");
    is_curve("of=loss&width=4&cursor=1.8",
             HEAD("loss", "iteration", "4", "3", "\"2.8\"") //
             "[[1,8,8,107,2,8,1,1,1,1,0,0,0],"
             "[2,7,7,200,null,8,0.5,0.5,0.5,1,0,0,0],"
             "[2,8,8,201,null,8,0.25,0.25,0.25,1,0,0,0]]}",
             "the cursor goes on to the next attempt");
    is_curve("of=loss&attempt=2",
             HEAD("loss", "iteration", "1", "2", "\"2.8\"") //
             "[[2,7,7,200,null,8,0.5,0.5,0.5,1,0,0,0],"
             "[2,8,8,201,null,8,0.25,0.25,0.25,1,0,0,0]]}",
             "one attempt alone");
    is_curve("of=loss&cursor=3.1",
             HEAD("loss", "iteration", "1", "0", "null") "[]}",
             "a cursor after all attempts: nothing, yet");
}

/* More rows than are read at a time, and a portion ends between the ranks of an
 * iteration: none is left out, and none counts twice. */
static void test_portions(void)
{
    enum { FIRST = 1001, LAST = 40000, RANKS = 3, AT_ONCE = 3000 };
    static struct metric_row rows[AT_ONCE];
    struct error err = ERROR_INIT;
    size_t n = 0;
    int rc = 0;
    for (int64_t i = FIRST; i <= LAST && rc == 0; i++) {
        for (int32_t rank = 0; rank < RANKS; rank++)
            rows[n++] = (struct metric_row){.kind = METRIC_ITERATION,
                                            .iteration = {.iteration = i,
                                                          .rank = rank,
                                                          .started_at = NAN,
                                                          .t_iter = 1,
                                                          .t_data = NAN,
                                                          .t_h2d = NAN,
                                                          .t_forward = NAN,
                                                          .t_backward = NAN,
                                                          .t_comm = NAN,
                                                          .t_optimizer = NAN,
                                                          .loss = NAN,
                                                          .lr = NAN,
                                                          .samples = 5,
                                                          .tokens = -1,
                                                          .gpu_mem_bytes = -1}};
        if (n == AT_ONCE) {
            rc = r.store->metrics->rows(r.store, 1, 2, rows, n, NULL, &err);
            n = 0;
        }
    }
    ok(rc == 0 && n == 0, "117000 rows");
    is_curve("of=samples_per_s&attempt=2&from=1001&points=2",
             HEAD("samples_per_s", "iteration", "32768", "39000",
                  "\"2.0\"") //
             "[[2,1001,32767,null,null,476505,15,15,15,31767,0,0,0],"
             "[2,32768,40000,null,null,108495,15,15,15,7233,0,0,0]]}",
             "are one rate in each iteration");
}

/* Rows of rank 1 that come after those of rank 0 were read. */
static void test_late(void)
{
    static const char first[] =
        "{\"iteration\":1,\"started_at\":300,\"t_iter\":1,\"samples\":8}\n"
        "{\"iteration\":2,\"started_at\":301,\"t_iter\":1,\"samples\":8}\n"
        "{\"iteration\":3,\"started_at\":302,\"t_iter\":1,\"samples\":8}\n";
    static const char one[] =
        "{\"iteration\":1,\"started_at\":300,\"t_iter\":1,\"samples\":4}\n";
    static const char rest[] =
        "{\"iteration\":2,\"started_at\":301,\"t_iter\":1,\"samples\":4}\n"
        "{\"iteration\":3,\"started_at\":302,\"t_iter\":1,\"samples\":4}\n";
    char path[64];
    (void)snprintf(path, sizeof(path), "1/3/rows?rank=1&offset=%zu",
                   sizeof(one) - 1);
    is_int(call(&r, "POST", "/v1/jobs/1/requeue", "{}", NULL), 200,
           "a third attempt");
    exits(&r, 1, 0);
    ok(becomes(&r, "/v1/jobs/1", "\"attempt\":3") &&
           becomes(&r, "/v1/jobs/1", "\"place\":\"n1:0\""),
       "begins");
    is_int(as_worker(&r, "1/3/claim", "{\"holder\":\"h 3 3\"}"), 200, "claims");
    is_int(as_worker(&r, "1/3/rows?rank=0&offset=0", first), 200, "rank 0");
    is_int(as_worker(&r, "1/3/rows?rank=1&offset=0", one), 200,
           "one row of rank 1");
    is_curve("of=samples_per_s&attempt=3",
             HEAD("samples_per_s", "iteration", "1", "3", "\"3.1\"") //
             "[[3,1,1,300,null,12,12,12,12,1,0,0,0],"
             "[3,2,2,301,null,8,8,8,8,1,0,0,0],"
             "[3,3,3,302,null,8,8,8,8,1,0,0,0]]}",
             "the cursor is not beyond what both ranks have reported");
    is_curve("of=t_iter&attempt=3&from=3",
             HEAD("t_iter", "iteration", "1", "1", "\"3.3\"") //
             "[[3,3,3,302,null,8,1,1,1,1,0,0,0]]}",
             "that of one rank's curve is its end");
    is_int(as_worker(&r, path, rest), 200, "the others");
    is_curve("of=samples_per_s&attempt=3&cursor=3.1",
             HEAD("samples_per_s", "iteration", "1", "3", "\"3.3\"") //
             "[[3,1,1,300,null,12,12,12,12,1,0,0,0],"
             "[3,2,2,301,null,12,12,12,12,1,0,0,0],"
             "[3,3,3,302,null,12,12,12,12,1,0,0,0]]}",
             "from the cursor on all of them count");
}

/* Rows of an iteration that stands before a cursor. */
static void test_late_before(void)
{
    static const char last[] = "{\"iteration\":11,\"late\":5}\n"
                               "{\"iteration\":12,\"late\":6}\n"
                               "{\"iteration\":13,\"late\":7}\n";
    static const char late[] = "{\"iteration\":11,\"late\":1}\n";
    is_int(as_worker(&r, "1/3/rows?rank=3&offset=0", last), 200, "rank 3");
    is_curve("of=late&cursor=3.13&before=2",
             NEW("late", "iteration", "1", "1", "\"3.0\"", "0") //
             "[[3,13,13,null,null,0,7,7,7,1,0,0,0]]}",
             "two rows are before the cursor");
    is_int(as_worker(&r, "1/3/rows?rank=2&offset=0", late), 200,
           "a lower rank reports an earlier iteration");
    is_curve("of=late&cursor=3.13&before=2",
             KEPT("late", "iteration", "1", "3", "\"3.0\"", "0") //
             "[[3,11,11,null,null,0,1,1,1,1,0,0,0],"
             "[3,12,12,null,null,0,6,6,6,1,0,0,0],"
             "[3,13,13,null,null,0,7,7,7,1,0,0,0]]}",
             "then all is sent again, with it");
    refuses(400, "of=late&cursor=3.13&before=-1", "before=-1: expected 0..");
}

/* Iterations 0 and 1 have more rows than a portion together: a curve from 1 on
 * gets beyond them. */
static void test_zero(void)
{
    enum { RANKS = 30000, AT_ONCE = 3000 };
    static struct metric_row rows[AT_ONCE];
    struct error err = ERROR_INIT;
    int rc = 0;
    for (int32_t i = 0; i < 2 * RANKS && rc == 0; i++) {
        rows[i % AT_ONCE] =
            (struct metric_row){.kind = METRIC_VALUE,
                                .value = {.rank = i % RANKS,
                                          .iteration = i / RANKS,
                                          .name = "zero",
                                          .value = i / RANKS}};
        if (i % AT_ONCE == AT_ONCE - 1)
            rc = r.store->metrics->rows(r.store, 1, 3, rows, AT_ONCE, NULL,
                                        &err);
    }
    ok(rc == 0, "%d rows of two iterations", 2 * RANKS);
    is_curve("of=zero&attempt=3&from=1",
             HEAD("zero", "iteration", "1", "1", "\"3.1\"") //
             "[[3,1,1,null,null,0,1,1,1,1,0,0,0]]}",
             "iteration 1 alone");
}

int main(void)
{
    rig_init(&r);
    rig_up(&r, NULL);
    is_int(call(&r, "POST", "/v1/jobs", SPEC("one"), NULL), 201, "a job");
    ok(becomes(&r, "/v1/jobs/1", "\"place\":\"n1:0\""), "is placed");
    is_int(as_worker(&r, "1/1/claim", "{\"holder\":\"h 1 1\"}"), 200,
           "is claimed");
    is_int(as_worker(&r, "1/1/rows?rank=0&offset=0", rank0), 200, "rank 0");
    is_int(as_worker(&r, "1/1/rows?rank=1&offset=0", rank1), 200, "rank 1");
    test_columns();
    test_own();
    test_bounds();
    test_cursor();
    test_portions();
    test_late();
    test_zero();
    test_late_before();
    rig_down(&r);
    rig_clear(&r);
    return tap_done();
}
