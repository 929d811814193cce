/* nvml.c - GPUs as a fake driver tells them; names as types. */
#include "slurm/local/nvml.h"

#include <stdlib.h>
#include <string.h>

#include "jobs/base/clock.h"
#include "tests/fake_nvml.h"
#include "tests/tap.h"

static void test_types(void)
{
    static const char *const rows[][2] = {
        {"NVIDIA H100 80GB HBM3", "h100"},
        {"NVIDIA H200", "h200"},
        {"NVIDIA A100-SXM4-40GB", "a100"},
        {"Tesla V100-SXM2-16GB", "v100"},
        {"NVIDIA GeForce RTX 4090", "rtx4090"},
        {"NVIDIA TITAN RTX", "titanrtx"},
        {"NVIDIA", "gpu"},
        {"", "gpu"},
    };
    char type[32];
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        nvml_type_of(rows[i][0], type, sizeof(type));
        is_str(type, rows[i][1], rows[i][0]);
    }
    char name[200];
    memset(name, 'x', sizeof(name));
    name[sizeof(name) - 1] = '\0';
    nvml_type_of(name, type, sizeof(type));
    is_int((long long)strlen(type), 31, "a long name is cut");
}

static void test_list(const char *library)
{
    struct nvml_gpu gpus[4];
    struct error err = ERROR_INIT;
    size_t n = 0;
    is_int(nvml_list(library, gpus, 4, &n, &err), 0, "list the GPUs");
    ok(n == 2, "there are two");
    is_str(gpus[0].uuid, "GPU-aaaa", "in the order of their PCI addresses");
    is_str(gpus[1].uuid, "GPU-bbbb", "not of the driver's");
    is_str(gpus[0].type, "h100", "of this type");
    is_int(gpus[1].bytes, (int64_t)80 << 30, "with so much memory");
    is_int(nvml_list(library, gpus, 1, &n, &err), -1, "room for one");
    is_int(err.code, ERR_LIMIT, "is not enough");

    (void)setenv("FAKE_NVML", "broken", 1);
    is_int(nvml_list(library, gpus, 4, &n, &err), -1, "a broken driver");
    is_int(err.code, ERR_EXTERN, "is told from none");
    is_str(err.msg, "NVML: start: Driver Not Loaded (9)", "in its own words");
    (void)setenv("FAKE_NVML", "fallen", 1);
    is_int(nvml_list(library, gpus, 4, &n, &err), 0, "one that is lost");
    ok(n == 2 && gpus[0].is_lost && gpus[0].uuid[0] == '\0',
       "is there, and nothing is known of it");
    ok(!gpus[1].is_lost && strcmp(gpus[1].uuid, "GPU-aaaa") == 0,
       "the other one is");
    (void)setenv("FAKE_NVML", "lost", 1);
    is_int(nvml_list(library, gpus, 4, &n, &err), 0, "one that does not say");
    is_int(gpus[0].bytes, 0, "how much it has");
    (void)setenv("FAKE_NVML", "none", 1);
    is_int(nvml_list(library, gpus, 4, &n, &err), 0, "a driver without GPUs");
    ok(n == 0, "has none");
    (void)unsetenv("FAKE_NVML");
}

/* ---- watching --------------------------------------------------------------
 */
static const char *says; /* FAKE_NVML_SAYS */
static const char *const uuids[] = {"GPU-aaaa", "GPU-bbbb", ""};
static char why[NVML_WHY_CAP];

static struct nvml_watch *watch(const char *library, enum nvml_judge judge)
{
    struct nvml_watch *w = NULL;
    struct error err = ERROR_INIT;
    if (nvml_watch_open(library, uuids, 3, judge, &w, &err) < 0)
        tap_diag("%s", err.msg);
    return w;
}

/* What it says until it has nothing more to say: "1 xid 79: ...". */
static const char *next(struct nvml_watch *w)
{
    static char said[NVML_WHY_CAP + 8];
    struct error err = ERROR_INIT;
    bool more = true;
    size_t gpu = 9;
    said[0] = '\0';
    while (more && !said[0]) {
        int rc = nvml_watch_next(w, 0, &gpu, why, &more, &err);
        if (rc < 0)
            return "it does not answer";
        if (rc > 0)
            (void)snprintf(said, sizeof(said), "%zu %s", gpu, why);
    }
    return said;
}

/* Or the watch would take a core from then on. */
static void test_impatient(struct nvml_watch *w)
{
    struct error err = ERROR_INIT;
    double from_s = clock_real.now_s(&clock_real);
    bool more = true;
    size_t gpu = 9;
    (void)fake_nvml_say(says, "impatient");
    is_int(nvml_watch_next(w, 50, &gpu, why, &more, &err), 0,
           "a driver that waits for nothing when a GPU is lost");
    ok(!more && clock_real.now_s(&clock_real) - from_s >= 0.049,
       "  is waited for");
}

static void test_events(const char *library)
{
    struct nvml_watch *w = watch(library, NVML_STRICT);
    if (!w) {
        ok(false, "a watch of two GPUs");
        return;
    }
    ok(nvml_watch_has_events(w), "a watch of two GPUs, which have events");
    is_str(next(w), "", "nothing has happened");
    ok(fake_nvml_say(says, "xid 0 13") && fake_nvml_say(says, "xid 1 43") &&
           fake_nvml_say(says, "xid 0 31") && fake_nvml_say(says, "xid 0 45"),
       "what programs bring about");
    is_str(next(w), "", "  is nothing");
    ok(fake_nvml_say(says, "xid 1 74") && fake_nvml_say(says, "xid 0 48") &&
           fake_nvml_say(says, "xid 1 79"),
       "what only a GPU can");
    is_str(next(w), "1 xid 74: NVLink error", "  is told");
    is_str(next(w), "0 xid 48: double-bit ECC error", "  of each");
    is_str(next(w), "", "  once");
    (void)fake_nvml_say(says, "fallen 1");
    is_int(nvml_watch_look(w, 1, why), 0, "  and what follows is known");
    test_impatient(w);
    nvml_watch_close(w);
    nvml_watch_close(NULL);
    (void)unlink(says);
}

/* Without a word of its own. */
static void test_look(const char *library)
{
    struct nvml_watch *w = watch(library, NVML_STRICT);
    ok(w && nvml_watch_look(w, 0, why) == 0 && nvml_watch_look(w, 1, why) == 0,
       "two that are well");
    is_int(nvml_watch_look(w, 2, why), 0, "one that was lost before is known");
    (void)fake_nvml_say(says, "fallen 0");
    (void)fake_nvml_say(says, "reset 1");
    is_int(nvml_watch_look(w, 0, why), 1, "one is lost");
    is_str(why, "GPU has fallen off the bus", "  which is told");
    is_int(nvml_watch_look(w, 0, why), 0, "  once");
    is_int(nvml_watch_look(w, 1, why), 1, "the other wants a reset");
    is_str(why, "GPU requires a reset", "  which is told");
    nvml_watch_close(w);

    (void)unlink(says);
    (void)fake_nvml_say(says, "ecc 0 1");
    (void)fake_nvml_say(says, "failed 1");
    (void)fake_nvml_say(says, "deaf");
    w = watch(library, NVML_STRICT);
    ok(w && !nvml_watch_has_events(w), "GPUs that report no events");
    is_int(nvml_watch_look(w, 0, why), 1, "are asked, too");
    is_str(why, "1 uncorrectable ECC error", "  what they count");
    is_int(nvml_watch_look(w, 1, why), 1, "and");
    is_str(why, "memory could not be retired", "  what they lack");
    nvml_watch_close(w);
    w = watch(library, NVML_AS_IS);
    ok(w && nvml_watch_look(w, 0, why) == 0 && nvml_watch_look(w, 1, why) == 0,
       "which may be known");
    (void)unlink(says);
    (void)fake_nvml_say(says, "ecc 0 3");
    is_int(nvml_watch_look(w, 0, why), 1, "more is not");
    is_str(why, "3 uncorrectable ECC errors", "  of which all are told");
    nvml_watch_close(w);
    (void)unlink(says);
    (void)fake_nvml_say(says, "fallen 1");
    w = watch(library, NVML_AS_IS);
    ok(w && nvml_watch_look(w, 0, why) == 0 && nvml_watch_look(w, 1, why) == 1,
       "one that is gone is gone, known or not");
    nvml_watch_close(w);
    (void)unlink(says);
}

static void test_no_watch(const char *library)
{
    static const char *const stranger[] = {"MIG-1"};
    struct nvml_watch *w = NULL;
    struct error err = ERROR_INIT;
    is_int(nvml_watch_open(library, stranger, 1, NVML_STRICT, &w, &err), -1,
           "a GPU that is not there");
    ok(err.code == ERR_EXTERN, "  %s", err.msg);
    (void)setenv("FAKE_NVML", "broken", 1);
    is_int(nvml_watch_open(library, uuids, 2, NVML_STRICT, &w, &err), -1,
           "a driver that does not start");
    ok(err.code == ERR_EXTERN, "  %s", err.msg);
    (void)unsetenv("FAKE_NVML");
    is_int(nvml_watch_open("/no.so", uuids, 2, NVML_STRICT, &w, &err), -1,
           "none");
    ok(err.code == ERR_NOTFOUND, "  %s", err.msg);
    ok(!w, "nothing is watched");
}

static void test_missing(void)
{
    struct nvml_gpu gpus[1];
    struct error err = ERROR_INIT;
    size_t n = 7;
    is_int(nvml_list("/nonexistent.so", gpus, 1, &n, &err), -1, "no library");
    is_int(err.code, ERR_NOTFOUND, "is a machine without a driver");
    is_int(nvml_list("libm.so.6", gpus, 1, &n, &err), -1, "another library");
    is_int(err.code, ERR_EXTERN, "is not NVML");
    ok(n == 7, "the count is left alone");
}

/* nvml DIR: only leaves the library there, for tests that are no program of
 * ours. */
int main(int argc, char **argv)
{
    char made[256];
    if (argc == 2)
        return fake_nvml_build(argv[1], made, sizeof(made)) ? 0 : 1;
    char dir[] = "/tmp/nvml.XXXXXX";
    char library[64];
    char source[64];
    test_types();
    test_missing();
    if (!mkdtemp(dir))
        return 1;
    (void)snprintf(source, sizeof(source), "%s/nvml.c", dir);
    char file[64];
    (void)snprintf(file, sizeof(file), "%s/says", dir);
    says = file;
    (void)setenv("FAKE_NVML_SAYS", says, 1);
    if (fake_nvml_build(dir, library, sizeof(library))) {
        test_list(library);
        test_events(library);
        test_look(library);
        test_no_watch(library);
    } else {
        tap_diag("no C compiler: the fake driver is left out");
    }
    (void)unlink(library);
    (void)unlink(source);
    (void)rmdir(dir);
    return tap_done();
}
