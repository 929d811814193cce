/* nvml.c - list and watch GPUs; see nvml.h.
 *
 * The daemon opens the library once, at start, and closes it again: the library
 * opens device files, starts threads of its own, and may block for long when a
 * GPU is lost. Another process keeps it open to watch (gpuwatch.c). */
#include "slurm/local/nvml.h"

#include <assert.h>
#include <ctype.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "jobs/base/nvml_library.h"

static int describe(const struct nvml_library *n, unsigned index,
                    struct nvml_gpu *ret, struct error *err)
{
    void *device;
    struct nvml_pci pci = {.domain = 0};
    struct nvml_memory memory = {.total = 0};
    struct nvml_gpu gpu = {.uuid = ""};
    int code = n->get_by_index(index, &device);
    if (code == 0)
        code = n->get_name(device, gpu.name, sizeof(gpu.name));
    if (code == 0)
        code = n->get_uuid(device, gpu.uuid, sizeof(gpu.uuid));
    if (code == 0)
        code = n->get_pci(device, &pci);
    if (code == NVML_GPU_IS_LOST) {
        *ret = (struct nvml_gpu){.is_lost = true};
        return 0;
    }
    if (code != 0)
        return nvml_library_fail(n, "describe a GPU", code, err);
    /* A GPU that shares the machine's memory has none of its own. */
    if (n->get_memory(device, &memory) == 0 && memory.total <= INT64_MAX)
        gpu.bytes = (int64_t)memory.total;
    memcpy(gpu.bus, pci.bus_id, sizeof(gpu.bus));
    gpu.bus[sizeof(gpu.bus) - 1] = '\0';
    nvml_type_of(gpu.name, gpu.type, sizeof(gpu.type));
    *ret = gpu;
    return 0;
}

static int by_bus(const void *a, const void *b)
{
    return strcasecmp(((const struct nvml_gpu *)a)->bus,
                      ((const struct nvml_gpu *)b)->bus);
}

/* A lost GPU has no address. It keeps its index: attempts started earlier refer
 * to GPUs of this machine by number. */
static void sort(struct nvml_gpu *gpus, size_t n)
{
    size_t n_known = 0;
    for (size_t i = 0; i < n; i++)
        n_known += !gpus[i].is_lost;
    struct nvml_gpu *known =
        n_known > 0 ? calloc(n_known, sizeof(*known)) : NULL;
    if (!known)
        return; /* the driver's order, then, which is usually the same */
    for (size_t i = 0, at = 0; i < n; i++)
        if (!gpus[i].is_lost)
            known[at++] = gpus[i];
    qsort(known, n_known, sizeof(*known), by_bus);
    for (size_t i = 0, at = 0; i < n; i++)
        if (!gpus[i].is_lost)
            gpus[i] = known[at++];
    free(known);
}

static int list(const struct nvml_library *n, struct nvml_gpu *gpus, size_t cap,
                size_t *ret_n, struct error *err)
{
    unsigned count;
    int code = n->get_count(&count);
    if (code != 0)
        return nvml_library_fail(n, "count the GPUs", code, err);
    if (count > cap)
        return error_set(err, ERR_LIMIT, "%u GPUs, room for %zu", count, cap);
    for (unsigned i = 0; i < count; i++)
        if (describe(n, i, &gpus[i], err) < 0)
            return -1;
    sort(gpus, count);
    *ret_n = count;
    return 0;
}

int nvml_list(const char *library, struct nvml_gpu *gpus, size_t cap,
              size_t *ret_n, struct error *err)
{
    struct nvml_library n;
    if (nvml_library_open(&n, library, NVML_LIST, err) < 0)
        return -1;
    int rc = list(&n, gpus, cap, ret_n, err);
    nvml_library_close(&n);
    return rc;
}

/* ---- watching --------------------------------------------------------------
 */
static const unsigned long long XID_EVENT = 8; /* nvmlEventTypeXid... */

struct watched {
    void *device; /* NULL: lost when the watch was opened */
    unsigned long long ecc_errors;
    bool is_remap_failed, is_told;
};

struct nvml_watch {
    struct nvml_library n;
    void *set;
    bool has_events; /* of any GPU */
    size_t count;
    struct watched gpus[];
};

/* Reads the number of uncorrectable errors since the last reset, and whether
 * the GPU failed to replace a row of its memory. Many GPUs have neither. */
static int count_errors(const struct nvml_watch *w, void *device,
                        unsigned long long *ret_ecc, bool *ret_failed)
{
    enum { UNCORRECTED = 1, SINCE_RESET = 0 };
    unsigned long long ecc = 0;
    unsigned corrected, uncorrected, is_pending, failed = 0;
    int code = w->n.get_ecc(device, UNCORRECTED, SINCE_RESET, &ecc);
    if (code == NVML_GPU_IS_LOST || code == NVML_RESET_REQUIRED)
        return code;
    *ret_ecc = code == 0 ? ecc : 0;
    *ret_failed = false;
    if (!w->n.get_remapped)
        return 0;
    code = w->n.get_remapped(device, &corrected, &uncorrected, &is_pending,
                             &failed);
    if (code == NVML_GPU_IS_LOST || code == NVML_RESET_REQUIRED)
        return code;
    *ret_failed = code == 0 && failed != 0;
    return 0;
}

static int take_gpu(struct nvml_watch *w, const char *uuid,
                    enum nvml_judge judge, struct watched *ret,
                    struct error *err)
{
    void *device = NULL;
    int code = w->n.get_by_uuid(uuid, &device);
    if (code == NVML_GPU_IS_LOST)
        return 0; /* ret->device stays NULL */
    if (code != 0)
        return nvml_library_fail(&w->n, "find a GPU", code, err);
    ret->device = device;
    if (judge == NVML_AS_IS &&
        count_errors(w, device, &ret->ecc_errors, &ret->is_remap_failed) != 0)
        ret->ecc_errors = 0; /* nvml_watch_look() will get the same error */
    code = w->n.get_events(device, XID_EVENT, w->set);
    w->has_events = w->has_events || code == 0;
    if (code != 0 && code != NVML_NOT_SUPPORTED && code != NVML_GPU_IS_LOST)
        return nvml_library_fail(&w->n, "register for events", code, err);
    return 0;
}

static int start_watch(struct nvml_watch *w, const char *const *uuids,
                       enum nvml_judge judge, struct error *err)
{
    int code = w->n.get_set(&w->set);
    if (code != 0)
        return nvml_library_fail(&w->n, "make an event set", code, err);
    for (size_t i = 0; i < w->count; i++)
        if (uuids[i][0] != '\0' &&
            take_gpu(w, uuids[i], judge, &w->gpus[i], err) < 0)
            return -1;
        else if (uuids[i][0] == '\0')
            w->gpus[i].is_told = true;
    return 0;
}

int nvml_watch_open(const char *library, const char *const *uuids, size_t n,
                    enum nvml_judge judge, struct nvml_watch **ret,
                    struct error *err)
{
    struct nvml_watch *w = calloc(1, sizeof(*w) + n * sizeof(w->gpus[0]));
    if (!w)
        return error_set(err, ERR_NOMEM, "watch of %zu GPUs", n);
    w->count = n;
    if (nvml_library_open(&w->n, library, NVML_WATCH, err) < 0) {
        free(w);
        return -1;
    }
    if (start_watch(w, uuids, judge, err) < 0) {
        nvml_watch_close(w);
        return -1;
    }
    *ret = w;
    return 0;
}

void nvml_watch_close(struct nvml_watch *w)
{
    if (!w)
        return;
    if (w->set)
        (void)w->n.free_set(w->set);
    nvml_library_close(&w->n);
    free(w);
}

/* The meaning of an Xid that reports a failed GPU; NULL for one that a program
 * may cause by itself, and for unknown ones. */
static const char *xid_text(unsigned long long xid)
{
    /* src  NVIDIA, "Xid Errors": those whose action is to reset, drain or
     *      replace the GPU. Those that a program causes itself are not listed:
     *      13, 31, 43 and 45 occur in most jobs with a bug. */
    static const struct {
        unsigned xid;
        const char *text;
    } fatal[] = {
        {48, "double-bit ECC error"},
        {62, "internal micro-controller halt"},
        {63, "memory is to be retired"},
        {64, "memory could not be retired"},
        {74, "NVLink error"},
        {79, "GPU has fallen off the bus"},
        {92, "high rate of single-bit ECC errors"},
        {94, "contained ECC error"},
        {95, "uncontained ECC error"},
        {119, "GSP RPC timeout"},
        {120, "GSP error"},
        {140, "unrecovered ECC error"},
    };
    for (size_t i = 0; i < sizeof(fatal) / sizeof(fatal[0]); i++)
        if (fatal[i].xid == xid)
            return fatal[i].text;
    return NULL;
}

/* The first report of a GPU stands: later errors are its consequences. */
static int tell(struct nvml_watch *w, size_t gpu, const char *why, char *ret)
{
    if (w->gpus[gpu].is_told)
        return 0;
    w->gpus[gpu].is_told = true;
    (void)snprintf(ret, NVML_WHY_CAP, "%s", why);
    return 1;
}

int nvml_watch_look(struct nvml_watch *w, size_t gpu, char *ret_why)
{
    struct watched *g = &w->gpus[gpu];
    unsigned long long ecc = 0;
    unsigned celsius;
    bool failed = false;
    char why[NVML_WHY_CAP];
    if (g->is_told)
        return 0;
    int code = g->device ? w->n.get_temperature(g->device, 0, &celsius)
                         : NVML_GPU_IS_LOST;
    if (code != NVML_GPU_IS_LOST && code != NVML_RESET_REQUIRED)
        code = count_errors(w, g->device, &ecc, &failed);
    if (code == NVML_GPU_IS_LOST)
        return tell(w, gpu, "GPU has fallen off the bus", ret_why);
    if (code == NVML_RESET_REQUIRED)
        return tell(w, gpu, "GPU requires a reset", ret_why);
    (void)snprintf(why, sizeof(why), "%llu uncorrectable ECC error%s", ecc,
                   ecc == 1 ? "" : "s");
    if (ecc > g->ecc_errors)
        return tell(w, gpu, why, ret_why);
    if (failed && !g->is_remap_failed)
        return tell(w, gpu, "memory could not be retired", ret_why);
    return 0;
}

bool nvml_watch_has_events(const struct nvml_watch *w)
{
    return w->has_events;
}

int nvml_watch_next(struct nvml_watch *w, int ms, size_t *ret_gpu,
                    char *ret_why, bool *ret_more, struct error *err)
{
    struct nvml_event e = {.device = NULL};
    char why[NVML_WHY_CAP];
    int code = w->n.get_event(w->set, &e, (unsigned)ms);
    *ret_more = code == 0;
    if (code == NVML_GPU_IS_LOST)
        (void)poll(NULL, 0, ms); /* it would return at once each time */
    if (code == NVML_TIMED_OUT || code == NVML_GPU_IS_LOST)
        return 0; /* nvml_watch_look() will find out which one */
    if (code != 0)
        return nvml_library_fail(&w->n, "wait for events", code, err);
    const char *text = e.type == XID_EVENT ? xid_text(e.data) : NULL;
    if (!text)
        return 0;
    (void)snprintf(why, sizeof(why), "xid %llu: %s", e.data, text);
    for (size_t i = 0; i < w->count; i++)
        if (w->gpus[i].device == e.device && e.device) {
            *ret_gpu = i;
            return tell(w, i, why, ret_why);
        }
    return 0;
}

/* ---- names -----------------------------------------------------------------
 */
/* Copies the next word of letters and digits at *p, in lower case; moves *p
 * past it and the blanks after it. Returns its length, 0 at the end. */
static size_t take_word(const char **p, char *ret, size_t cap)
{
    size_t len = 0;
    for (; isalnum((unsigned char)**p); (*p)++)
        if (len + 1 < cap)
            ret[len++] = (char)tolower((unsigned char)**p);
    ret[len] = '\0';
    while (**p && **p != ' ')
        (*p)++;
    while (**p == ' ')
        (*p)++;
    return len;
}

void nvml_type_of(const char *name, char *ret, size_t cap)
{
    static const char *const brands[] = {"nvidia", "tesla", "geforce",
                                         "quadro"};
    static const char *const series[] = {"rtx", "gtx", "titan"};
    char word[32];
    assert(cap >= sizeof(word));
    while (take_word(&name, word, sizeof(word)) > 0) {
        bool is_brand = false;
        for (size_t i = 0; i < sizeof(brands) / sizeof(brands[0]); i++)
            is_brand = is_brand || strcmp(word, brands[i]) == 0;
        if (is_brand)
            continue;
        size_t len = strlen(word);
        for (size_t i = 0; i < sizeof(series) / sizeof(series[0]); i++)
            if (strcmp(word, series[i]) == 0)
                (void)take_word(&name, word + len, sizeof(word) - len);
        memcpy(ret, word, strlen(word) + 1);
        return;
    }
    memcpy(ret, "gpu", 4);
}
