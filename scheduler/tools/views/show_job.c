/* show_job.c - print one job: specification, progress, attempts and files. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "jobs/state.h"
#include "jobs/text/text.h"
#include "scheduler/tools/common/client.h"
#include "scheduler/tools/views/show.h"

enum { TEXT_CAP = 600 };

static const char *safe(const char *text, char *out)
{
    return render_escape(*text ? text : "-", out, TEXT_CAP);
}

static void print_head(const struct show_conf *s, const json_t *job)
{
    char name[TEXT_CAP], user[TEXT_CAP];
    int64_t code = field_int(job, "exit_code", -1);
    const char *state = field_str(job, "state");
    enum render_paint paint = show_state_paint(state);
    (void)fprintf(
        s->out, "Job %s  %s  %s/%s  %s%s%s", field_str(job, "display_id"),
        safe(field_str(job, "name"), name), safe(field_str(job, "user"), user),
        field_str(job, "kind"), render_paint(&s->style, paint), state,
        render_unpaint(&s->style, paint));
    if (code >= 0)
        (void)fprintf(s->out, " (%" PRId64 ")", code);
    if (field_int(job, "attempt", 0) > 0)
        (void)fprintf(s->out, "  attempt %" PRId64,
                      field_int(job, "attempt", 0));
    (void)fputc('\n', s->out);
    if (*field_str(job, "reason"))
        (void)fprintf(s->out, " reason     %s\n",
                      safe(field_str(job, "reason"), name));
}

/* The last checkpoints that could not be written, of a training. */
static void print_save_failed(const struct show_conf *s, const json_t *reply)
{
    enum { SHOWN = 3 };
    int n = 0, seen = 0;
    char why[TEXT_CAP];
    size_t i;
    json_t *e;
    json_array_foreach(json_object_get(reply, "events"), i, e) n +=
        strcmp(field_str(e, "event"), "save_failed") == 0;
    json_array_foreach(json_object_get(reply, "events"), i, e)
    {
        if (strcmp(field_str(e, "event"), "save_failed") != 0 ||
            seen++ < n - SHOWN)
            continue;
        (void)fprintf(
            s->out, " warning    attempt %" PRId64 ": %s\n",
            field_int(e, "attempt", 0),
            safe(field_str(json_object_get(e, "detail"), "why"), why));
    }
    if (n > SHOWN)
        (void)fprintf(s->out, "            and %d before, see --events\n",
                      n - SHOWN);
}

/* Slurm's ids are bare numbers; other ids begin with a word. */
static bool is_slurm(const char *native_id)
{
    return *native_id && native_id[strspn(native_id, "0123456789")] == '\0';
}

/* The reason for the number of GPUs, for a job with a range. */
static void print_chosen(const struct show_conf *s, const json_t *reply)
{
    int64_t attempt = field_int(json_object_get(reply, "job"), "attempt", 0);
    char word[TEXT_CAP];
    size_t i;
    json_t *e;
    json_array_foreach(json_object_get(reply, "events"), i, e)
    {
        const char *why = field_str(json_object_get(e, "detail"), "why");
        if (strcmp(field_str(e, "event"), "intent") == 0 &&
            field_int(e, "attempt", 0) == attempt && *why)
            (void)fprintf(s->out, "            chosen because: %s\n",
                          safe(why, word));
    }
}

/* "1 (asked 1..4)"; without an allocation only the request: the table of
 * attempts shows what the last one had. */
static void print_gpus(const struct show_conf *s, const json_t *job, bool has)
{
    int64_t n = has ? field_int(job, "gpus", 0) : 0;
    int64_t least = field_int(job, "gpus_min", 0);
    int64_t most = field_int(job, "gpus_max", 0);
    (void)fprintf(s->out, "\n gpus       ");
    if (n > 0)
        (void)fprintf(s->out, "%" PRId64 " (", n);
    (void)fprintf(s->out, "asked %" PRId64, least);
    if (most != least)
        (void)fprintf(s->out, "..%" PRId64, most);
    (void)fprintf(s->out, "%s", n > 0 ? ")" : "");
}

/* For each attempt that began with a resize, what the resize cost. */
static void print_resizes(const struct show_conf *s, const json_t *attempts)
{
    size_t i;
    json_t *a;

    json_array_foreach(attempts, i, a)
    {
        double parts[] = {field_real(a, "checkpoint_s"),
                          field_real(a, "allocator_s"),
                          field_real(a, "start_s")};
        int64_t from = field_int(a, "resized_from", 0);
        if (from > 0)
            (void)fprintf(
                s->out,
                " resized    from %" PRId64 " to %" PRId64
                " GPUs in attempt %" PRId64
                ", %.1f s: checkpoint %.1f, allocator %.1f, start "
                "%.1f\n",
                from, field_int(a, "gpus", 0), field_int(a, "attempt", 0),
                parts[0] + parts[1] + parts[2], parts[0], parts[1], parts[2]);
    }
}

static void print_times(const struct show_conf *s, const json_t *reply)
{
    const json_t *job = json_object_get(reply, "job");
    char ran[32], limit[32], place[TEXT_CAP], native[TEXT_CAP];
    double limit_s = field_real(job, "limit_s");
    bool is_started = *field_str(job, "started");
    bool has = is_started || job_is_live(job);
    (void)fprintf(s->out, " submitted  %s", field_str(job, "submitted"));
    if (*field_str(job, "begin"))
        (void)fprintf(s->out, "   not before %s", field_str(job, "begin"));
    if (*field_str(job, "started"))
        (void)fprintf(s->out, "   started %s", field_str(job, "started"));
    if (*field_str(job, "ended"))
        (void)fprintf(s->out, "   ended %s", field_str(job, "ended"));
    (void)fprintf(
        s->out, "\n ran        %s",
        render_duration(field_real(job, "elapsed_s"), ran, sizeof(ran)));
    if (isfinite(limit_s))
        (void)fprintf(s->out, " of %s",
                      render_duration(limit_s, limit, sizeof(limit)));
    print_gpus(s, job, has);
    if (*field_str(job, "place") && has)
        (void)fprintf(s->out, "   on %s", safe(field_str(job, "place"), place));
    if (*field_str(job, "native_id") && has)
        (void)fprintf(s->out, "   %s%s%s",
                      is_slurm(field_str(job, "native_id")) ? "Slurm " : "",
                      safe(field_str(job, "native_id"), native),
                      is_started ? "" : ", not granted yet");
    (void)fputc('\n', s->out);
    if (has && field_int(job, "gpus_min", 0) != field_int(job, "gpus_max", 0))
        print_chosen(s, reply);
    int64_t position = field_int(job, "position", 0);
    if (position > 0)
        (void)fprintf(
            s->out, " queue      position %" PRId64 "; start estimate: %s\n",
            position,
            *field_str(job, "start_estimate") ? field_str(job, "start_estimate")
                                              : "none");
}

/* The values that distinguish a task of a sweep. */
static void print_vary(const struct show_conf *s, const json_t *job)
{
    json_t *vary = json_object_get(job, "vary"), *value;
    const char *key;
    char word[TEXT_CAP];
    if (!json_is_object(vary))
        return;
    (void)fprintf(s->out,
                  " job        %" PRId64 ", task %" PRId64 " of sweep %" PRId64
                  ":",
                  field_int(job, "id", 0), field_int(job, "task", 0),
                  field_int(job, "sweep", 0));
    json_object_foreach(vary, key, value)
    {
        char *text = json_is_string(value)
                         ? NULL
                         : json_dumps(value, JSON_COMPACT | JSON_ENCODE_ANY);
        const char *shown = text ? text : json_string_value(value);
        (void)fprintf(s->out, " %s", safe(key, word));
        (void)fprintf(s->out, "=%s", safe(shown ? shown : "", word));
        free(text);
    }
    (void)fputc('\n', s->out);
}

/* The character at the beginning of *io, and its form for a terminal, in which
 * forbidden bytes are \xNN. */
static void take_char(const char **io, const char *end, char raw[8],
                      char shown[40])
{
    const char *from = *io;
    (void)text_next(io, end);
    size_t n = (size_t)(*io - from);
    memcpy(raw, from, n);
    raw[n] = '\0';
    (void)render_escape(raw, shown, 40);
}

/* Quotes a word for a shell: bare, in '', or, if it has unprintable characters,
 * in $'', which bash, ksh and zsh know. A first word with '=' would set a
 * variable, and zsh expands a word that begins with it. */
static void put_word(const char *word, bool is_first, FILE *out)
{
    static const char bare[] = "abcdefghijklmnopqrstuvwxyz0123456789"
                               "ABCDEFGHIJKLMNOPQRSTUVWXYZ@%_-+:,./=";
    const char *end = word + strlen(word);
    char raw[8], shown[40];
    bool is_odd = false;
    if (word < end && word[strspn(word, bare)] == '\0' &&
        !(is_first ? strchr(word, '=') != NULL : *word == '=')) {
        (void)fputs(word, out);
        return;
    }
    for (const char *p = word; p < end && !is_odd;) {
        take_char(&p, end, raw, shown);
        is_odd = strcmp(raw, shown) != 0;
    }
    (void)fputs(is_odd ? "$'" : "'", out);
    for (const char *p = word; p < end;) {
        take_char(&p, end, raw, shown);
        (void)fputs(*raw == '\''             ? (is_odd ? "\\'" : "'\\''")
                    : *raw == '\\' && is_odd ? "\\\\"
                    : *raw == '\n'           ? "\\n"
                    : *raw == '\t'           ? "\\t"
                                             : shown,
                    out);
    }
    (void)fputc('\'', out);
}

/* One line with what determines speed and result. */
/* The last name of a path. */
static const char *last_name(const char *path, char out[TEXT_CAP])
{
    size_t end = strlen(path);
    while (end > 1 && path[end - 1] == '/')
        end--;
    size_t start = end;
    while (start > 0 && path[start - 1] != '/')
        start--;
    char name[TEXT_CAP];
    (void)snprintf(name, sizeof(name), "%.*s", (int)(end - start),
                   path + start);
    return safe(name, out);
}

/* "32/GPU", "2 x 8/GPU", or "96 in all, by 8" of a constant global batch. */
enum { BATCH_CAP = 64 };
static const char *batch_of(const json_t *train, bool has_steps,
                            char out[BATCH_CAP])
{
    int64_t all = field_int(train, "global_batch_size", 0);
    int64_t one = field_int(train, "batch_size", 0);
    int64_t steps = field_int(train, "gradient_accumulation_steps", 1);
    if (all > 0)
        (void)snprintf(out, BATCH_CAP, "%" PRId64 " in all, by %" PRId64, all,
                       one);
    else if (has_steps)
        (void)snprintf(out, BATCH_CAP, "%" PRId64 " x %" PRId64 "/GPU", one,
                       steps);
    else
        (void)snprintf(out, BATCH_CAP, "%" PRId64 "/GPU", one);
    return out;
}

static void print_llm(const struct show_conf *s, const json_t *spec)
{
    const json_t *train = json_object_get(spec, "train");
    const json_t *model = json_object_get(train, "model");
    const json_t *data = json_object_get(train, "dataset");
    const json_t *opt = json_object_get(train, "optimizer");
    int64_t length =
        field_int(json_object_get(train, "tokenizer"), "max_seq_len", 0);
    char word[TEXT_CAP], batch[BATCH_CAP];
    (void)fprintf(s->out, " workload   %s, %s",
                  last_name(field_str(json_object_get(train, "checkpointer"),
                                      "checkpoint_dir"),
                            word),
                  field_str(spec, "method"));
    if (json_is_integer(json_object_get(model, "lora_rank")))
        (void)fprintf(s->out, " of rank %" PRId64,
                      field_int(model, "lora_rank", 0));
    (void)fprintf(s->out, ", %s%s",
                  json_is_true(json_object_get(data, "packed")) ? "packed "
                                                                : "",
                  field_str(data, "template"));
    if (length > 0)
        (void)fprintf(s->out, ", up to %" PRId64 " tokens a row", length);
    (void)fprintf(s->out,
                  ", %" PRId64 " epochs, batch %s, %s, %s lr %g, seed %" PRId64
                  "\n",
                  field_int(train, "epochs", 0), batch_of(train, true, batch),
                  field_str(train, "precision"), field_str(opt, "name"),
                  field_real(opt, "lr"), field_int(train, "seed", -1));
}

/* What the program of a run says of itself. */
static void print_run(const struct show_conf *s, const json_t *spec)
{
    const char *key, *before = " config     ";
    json_t *v;

    (void)fputs(" project    ", s->out);
    put_word(field_str(spec, "project"), true, s->out);
    (void)fputc('\n', s->out);
    json_object_foreach(json_object_get(spec, "config"), key, v)
    {
        const int how = JSON_ENCODE_ANY | JSON_REAL_PRECISION(12);
        char *text = json_is_string(v) ? NULL : json_dumps(v, how);
        (void)fputs(before, s->out);
        put_word(key, true, s->out);
        (void)fputs(" = ", s->out);
        put_word(text ? text : field_str(json_object_get(spec, "config"), key),
                 true, s->out);
        (void)fputc('\n', s->out);
        before = "            ";
        free(text);
    }
}

static void print_workload(const struct show_conf *s, const json_t *job)
{
    char word[TEXT_CAP];
    const json_t *spec = json_object_get(job, "spec");
    if (strcmp(field_str(job, "kind"), "run") == 0) {
        print_run(s, spec);
        return;
    }
    if (strcmp(field_str(job, "kind"), "command") == 0) {
        const char *before = " command    ";
        size_t i;
        json_t *arg;
        json_array_foreach(json_object_get(spec, "command"), i, arg)
        {
            const char *text = json_string_value(arg);
            (void)fputs(before, s->out);
            put_word(text ? text : "", i == 0, s->out);
            before = " ";
        }
        (void)fputs(i == 0 ? " command    -\n" : "\n", s->out);
        return;
    }
    if (strcmp(field_str(job, "kind"), "llm") == 0) {
        print_llm(s, spec);
        return;
    }
    const json_t *model = json_object_get(spec, "model");
    const json_t *data = json_object_get(spec, "dataset");
    const json_t *train = json_object_get(spec, "train");
    const json_t *opt = json_object_get(train, "optimizer");
    int64_t size = field_int(data, "image_size", 0);
    char batch[BATCH_CAP];
    if (!train)
        return;
    (void)fprintf(s->out,
                  " workload   %s x%g, %s %" PRId64 "x%" PRId64 ", %" PRId64
                  " epochs, batch %s, %s, %s, "
                  "%s lr %g, seed %" PRId64 "\n",
                  safe(field_str(model, "arch"), word),
                  field_real(model, "width_mult"), field_str(data, "source"),
                  size, size, field_int(train, "epochs", 0),
                  batch_of(train, false, batch), field_str(train, "precision"),
                  field_str(train, "distribution"), field_str(opt, "name"),
                  field_real(opt, "lr"), field_int(train, "seed", -1));
}

static void print_result(const struct show_conf *s, const json_t *epochs)
{
    int c_epoch = cells_column(epochs, "epoch");
    bool is_loss = !cells_has(epochs, "eval_accuracy");
    int c_best = cells_column(epochs, is_loss ? "eval_loss" : "eval_accuracy");
    double best = NAN, at = 0;
    char text[32];
    size_t i;
    json_t *row;
    json_array_foreach(json_object_get(epochs, "rows"), i, row)
    {
        double v = show_cell(row, c_best);
        if (isnan(best) || (is_loss ? v < best : v > best)) {
            best = v;
            at = show_cell(row, c_epoch);
        }
    }
    if (is_loss && isfinite(best))
        (void)fprintf(s->out, " result     test loss %.4f (best, epoch %.0f)\n",
                      best, at);
    else if (isfinite(best))
        (void)fprintf(s->out,
                      " result     test accuracy %s (best, epoch %.0f)\n",
                      render_accuracy(best, text, sizeof(text)), at);
}

static void print_files(const struct show_conf *s, const json_t *reply,
                        const json_t *status)
{
    const json_t *job = json_object_get(reply, "job");
    char word[TEXT_CAP];
    if (*field_str(reply, "checkpoint"))
        (void)fprintf(s->out, " checkpoint %s\n",
                      safe(field_str(reply, "checkpoint"), word));
    if (*field_str(reply, "best"))
        (void)fprintf(s->out, " best       %s\n",
                      safe(field_str(reply, "best"), word));
    if (*field_str(job, "dir"))
        (void)fprintf(s->out, " directory  %s\n",
                      safe(field_str(job, "dir"), word));
    if (!status)
        return;
    (void)fprintf(s->out, " databases  %s\n",
                  safe(field_str(status, "state_db"), word));
    (void)fprintf(s->out, "            %s\n",
                  safe(field_str(status, "metrics_db"), word));
}

int show_attempts(const struct show_conf *s, const json_t *attempts,
                  struct error *err)
{
    static const struct render_column columns[] = {
        {"ATTEMPT", RENDER_RIGHT}, {"STATE", RENDER_LEFT},
        {"GPUS", RENDER_RIGHT},    {"PLACE", RENDER_LEFT},
        {"ID", RENDER_LEFT},       {"EXIT", RENDER_RIGHT},
        {"SIGNAL", RENDER_RIGHT},  {"REASON", RENDER_LEFT},
    };
    struct render_table *t = NULL;
    if (render_table_create(columns, sizeof(columns) / sizeof(*columns), &t,
                            err) < 0)
        return -1;
    size_t i;
    json_t *a;
    int rc = 0;
    json_array_foreach(attempts, i, a)
    {
        char code[16] = "-", signo[16] = "-";
        if (field_int(a, "exit_code", -1) >= 0)
            (void)snprintf(code, sizeof(code), "%" PRId64,
                           field_int(a, "exit_code", -1));
        if (field_int(a, "signal", 0) > 0)
            (void)snprintf(signo, sizeof(signo), "%" PRId64,
                           field_int(a, "signal", 0));
        if (rc == 0 && (render_table_add(t, err, "%" PRId64,
                                         field_int(a, "attempt", 0)) < 0 ||
                        render_table_add(t, err, "%s", attempt_state(a)) < 0))
            rc = -1;
        if (rc == 0)
            render_table_paint(t, show_state_paint(attempt_state(a)));
        if (rc == 0 &&
            (render_table_add(t, err, "%" PRId64, field_int(a, "gpus", 0)) <
                 0 ||
             render_table_add(t, err, "%s", field_str(a, "place")) < 0 ||
             render_table_add(t, err, "%s", field_str(a, "native_id")) < 0 ||
             render_table_add(t, err, "%s", code) < 0 ||
             render_table_add(t, err, "%s", signo) < 0 ||
             render_table_add(t, err, "%s", field_str(a, "reason")) < 0))
            rc = -1;
    }
    if (rc == 0) {
        (void)fputc('\n', s->out);
        render_table_print(t, &s->style, s->header, s->out);
    }
    render_table_destroy(t);
    return rc;
}

int show_job(const struct show_conf *s, const json_t *reply,
             const json_t *epochs, const json_t *status, struct error *err)
{
    const json_t *job = json_object_get(reply, "job");
    const json_t *attempts = json_object_get(reply, "attempts");

    print_head(s, job);
    print_save_failed(s, reply);
    print_vary(s, job);
    print_workload(s, job);
    show_parent(s, job);
    print_times(s, reply);
    print_resizes(s, attempts);
    if (epochs)
        print_result(s, epochs);
    print_files(s, reply, status);
    if (epochs && json_array_size(json_object_get(epochs, "rows")) > 0) {
        (void)fputc('\n', s->out);
        if (show_epochs(s, epochs, err) < 0)
            return -1;
    }
    /* A single attempt that went as planned is no news. */
    if (json_array_size(attempts) > 1 ||
        strcmp(field_str(job, "state"), "COMPLETED") != 0)
        return json_array_size(attempts) ? show_attempts(s, attempts, err) : 0;
    return 0;
}
