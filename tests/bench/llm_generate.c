/* llm_generate.c - tokens per second of answers by a model on the host.
 *
 *   llm_generate DIR [PROMPT [NEW [TYPE]]]              16 256 fp32
 *
 * DIR is a model as Hugging Face stores it. A prompt is PROMPT tokens, the
 * first of the vocabulary, and the answer always NEW tokens, the likeliest
 * each. For each line of its input it answers for half a second at least and
 * prints new tokens/s, 0, keep, the same per second of CPU time, the MiB that
 * the process had in memory at most, and the sum of the tokens times their
 * places: lines of llm_step, with one word more. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>

#include "jobs/base/clock.h"
#include "kernels/dtype.h"
#include "worker/llm/llama.h"
#include "worker/model_call.h"

struct bench {
    struct device *d;
    struct model *m;
    struct llama_conf conf;
    int32_t *ids, prompt, most;
};
static const double turn_s = 0.5;

static void must(int rc, const struct error *err)
{
    if (rc < 0) {
        (void)fprintf(stderr, "llm_generate: %s\n", err->msg);
        exit(error_exit_status(err->code));
    }
}

/* User and system, of all threads. */
static double cpu_s(void)
{
    struct rusage u;
    (void)getrusage(RUSAGE_SELF, &u);
    return (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) +
           1e-6 * (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec);
}

static void answer(struct bench *b)
{
    const struct llama_choice greedy = {.n_ends = 0};
    struct error err = ERROR_INIT;
    int32_t n = 0;
    for (int32_t i = 0; i < b->prompt; i++)
        b->ids[i] = i + 1;
    must(llama_generate(b->m, &greedy, b->ids, b->prompt, b->most, &n, &err),
         &err);
    if (n == b->most)
        return;
    (void)fprintf(stderr, "llm_generate: %d tokens of %d\n", n, b->most);
    exit(1);
}

static void turn(struct bench *b, int32_t answers)
{
    const double start_s = clock_real.now_s(&clock_real), start_cpu_s = cpu_s();
    struct rusage u;
    int64_t sum = 0;
    for (int32_t i = 0; i < answers; i++)
        answer(b);
    const double tokens = (double)answers * (b->most - b->prompt);
    const double took_s = clock_real.now_s(&clock_real) - start_s;
    const double took_cpu_s = cpu_s() - start_cpu_s;
    (void)getrusage(RUSAGE_SELF, &u);
    for (int32_t i = 0; i < b->most; i++)
        sum += (int64_t)i * b->ids[i];
    (void)printf("%.1f 0 keep %.1f %.0f %lld\n", tokens / took_s,
                 tokens / took_cpu_s, (double)u.ru_maxrss / 1024,
                 (long long)sum);
    (void)fflush(stdout);
}

static void take_turns(struct bench *b)
{
    char line[16];
    answer(b);
    const double start_s = clock_real.now_s(&clock_real);
    answer(b);
    const double once_s = clock_real.now_s(&clock_real) - start_s;
    const int32_t answers =
        once_s < turn_s ? (int32_t)(turn_s / once_s) + 1 : 1;
    while (fgets(line, sizeof(line), stdin) != NULL)
        turn(b, answers);
}

static void open_model(struct bench *b, const char *dir)
{
    struct error err = ERROR_INIT;
    struct llama_conf *c = &b->conf;
    *c = (struct llama_conf){.is_full = true,
                             .dt = c->dt,
                             .batch = 1,
                             .batch_eval = 1,
                             .generates = true,
                             .row_tokens = b->most,
                             .dir = dir};
    must(llama_config_read(dir, &c->shape, &err), &err);
    must(device_host_create(0, &b->d, &err), &err);
    must(llama_create(b->d, c, &b->m, &err), &err);
    must(model_init(b->m, 1, &err), &err);
}

static int32_t number(int argc, char **argv, int i, int32_t otherwise)
{
    return argc > i ? (int32_t)strtol(argv[i], NULL, 10) : otherwise;
}

int main(int argc, char **argv)
{
    struct bench b = {.prompt = number(argc, argv, 2, 16),
                      .conf.dt = argc > 4 ? dtype_named(argv[4]) : DT_F32};
    const int32_t new = number(argc, argv, 3, 256);
    b.most = b.prompt + new;
    if (argc < 2 || argc > 5 || b.prompt < 1 || new < 1 || b.conf.dt == DT_N) {
        (void)fputs("usage: llm_generate DIR [PROMPT [NEW [TYPE]]]: see "
                    "llm_generate.c\n",
                    stderr);
        return 2;
    }
    b.ids = calloc((size_t)b.most, sizeof(*b.ids));
    if (b.ids == NULL)
        return 1;
    open_model(&b, argv[1]);
    take_turns(&b);
    model_destroy(b.m);
    b.d->ops->destroy(b.d);
    free(b.ids);
    return 0;
}
