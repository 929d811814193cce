/* elastic.c - see elastic.h. */
#include "scheduler/sim/elastic.h"

#include <fnmatch.h>
#include <stdio.h>
#include <string.h>

#include "jobs/text/scalar.h"

/* "20%" as 0.2. */
static bool read_share(const char *text, double *ret)
{
    char number[16];
    size_t n = strlen(text);

    if (n < 2 || n >= sizeof(number) || text[n - 1] != '%')
        return false;
    memcpy(number, text, n - 1);
    number[n - 1] = '\0';
    if (scalar_float(number, ret) < 0 || !(*ret >= 0 && *ret <= 100))
        return false;
    *ret /= 100;
    return true;
}

int elastic_parse(const char *text, struct elastic *ret, struct error *err)
{
    static const char user[] = "user=", name[] = "name=";
    struct elastic e = {.by = ELASTIC_SHARE};
    bool is_user = strncmp(text, user, strlen(user)) == 0;

    if (is_user || strncmp(text, name, strlen(name)) == 0) {
        e.by = is_user ? ELASTIC_USER : ELASTIC_NAME;
        e.text = text + strlen(user);
    }
    if (e.text ? *e.text == '\0' : !read_share(text, &e.share))
        return error_set(err, ERR_USAGE,
                         "--elastic: '%.60s' is not a share such as 20%%, "
                         "user=NAME or name=PATTERN",
                         text);
    *ret = e;
    return 0;
}

/* Uniform in [0, 1), of the seed and the name: FNV-1a, then the mixing steps of
 * MurmurHash3. */
static double draw(uint32_t seed, const char *name)
{
    uint32_t h = 2166136261u ^ seed;

    for (const char *p = name; *p; p++)
        h = (h ^ (unsigned char)*p) * 16777619u;
    h = (h ^ (h >> 16)) * 0x85ebca6bu;
    h = (h ^ (h >> 13)) * 0xc2b2ae35u;
    h ^= h >> 16;
    return h / 4294967296.0;
}

static bool is_chosen(const struct elastic *e, uint32_t seed,
                      const struct sim_job *job)
{
    switch (e->by) {
    case ELASTIC_USER:
        return strcmp(job->user, e->text) == 0;
    case ELASTIC_NAME:
        return fnmatch(e->text, job->label, 0) == 0;
    case ELASTIC_SHARE:
        break;
    }
    return draw(seed, job->name) < e->share;
}

size_t elastic_apply(const struct elastic *e, uint32_t seed, int32_t gpus_max,
                     struct sim_trace *t)
{
    size_t n = 0;

    for (size_t i = 0; i < t->n; i++) {
        struct sim_job *job = &t->jobs[i];
        const int32_t gpus = job->gpus_max;
        if (!is_chosen(e, seed, job))
            continue;
        n++;
        job->gpus_min = (gpus + ELASTIC_FACTOR - 1) / ELASTIC_FACTOR;
        if (gpus < gpus_max)
            job->gpus_max = gpus > gpus_max / ELASTIC_FACTOR
                                ? gpus_max
                                : ELASTIC_FACTOR * gpus;
        job->nodes = 0;
    }
    return n;
}
