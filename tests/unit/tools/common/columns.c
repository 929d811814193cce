/* columns.c - what the columns of a list ask the daemon for. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "jobs/base/buf.h"
#include "jobs/wire/json_scan.h"
#include "scheduler/tools/common/columns.h"
#include "tests/tap.h"

static json_t *load(const char *text)
{
    json_t *o = json_loads(text, 0, NULL);
    if (!o)
        exit(1);
    return o;
}

static void text_of(const struct field *f, json_t *job,
                    char ret[COLUMN_TEXT_CAP])
{
    struct members m;
    json_members_of_json(job, &m);
    f->text(&m, ret, COLUMN_TEXT_CAP);
}

/* Of the job, what a column says that it looks at. */
static json_t *part_of(const json_t *job, const char *members)
{
    json_t *part = json_object();
    while (*members) {
        char name[40];
        size_t n = strcspn(members, ",");
        (void)snprintf(name, sizeof(name), "%.*s", (int)n, members);
        if (json_object_set(part, name, json_object_get(job, name)) < 0)
            tap_diag("'%s' is no member of a job", name);
        members += n + (members[n] == ',');
    }
    return part;
}

/* The daemon is asked for what the columns look at, and for no more. */
int main(void)
{
    static const char job_text[] =
        "{\"display_id\":\"12\",\"id\":12,\"name\":\"m\",\"user\":\"anna\","
        "\"kind\":\"cv\",\"state\":\"RUNNING\",\"reason\":\"Preempted\","
        "\"priority\":3,\"gpus_min\":1,\"gpus_max\":4,\"gpus\":3,"
        "\"to_gpus\":null,\"from_gpus\":null,"
        "\"attempt\":2,\"exit_code\":7,\"place\":\"n1:0\","
        "\"native_id\":\"4711\",\"position\":5,\"account\":\"a\","
        "\"partition\":\"p\",\"parent_display_id\":\"3\",\"labels\":{\"k\":"
        "\"v\"},\"submitted\":\"s\","
        "\"started\":\"b\",\"ended\":\"e\",\"elapsed_s\":61.0,"
        "\"limit_s\":600.0,\"left_s\":539.0,\"start_estimate\":\"f\","
        "\"iteration\":10,\"iterations_total\":20,\"epoch\":1,"
        "\"tokenised\":null,"
        "\"start_in_s\":120.0,\"loss\":0.5,\"t_iter_s\":0.1,\"eta_s\":1.0,"
        "\"eval_loss\":0.6,\"eval_accuracy\":0.9}";
    struct error err = ERROR_INIT;
    char help[4096] = "", want[COLUMN_TEXT_CAP], got[COLUMN_TEXT_CAP];
    int n = 0, n_other = 0;
    FILE *f = fmemopen(help, sizeof(help), "w");
    columns_help(f);
    (void)fclose(f);
    *strstr(help, "\nFormats") = '\0';
    for (char *p = strchr(help, '\n'); p && p[1];
         p = strchr(p + 1, '\n'), n++) {
        char name[24] = "";
        struct columns c;
        (void)sscanf(p, " %23s", name);
        for (int k = 0; k < 3; k++) {
            static const char *const states[] = {"RUNNING", "QUEUED", "FAILED"};
            struct buf members = BUF_INIT;
            json_t *job = load(job_text);
            (void)json_object_set_new(job, "state", json_string(states[k]));
            if (k == 1) /* as one that holds nothing */
                (void)json_object_set_new(job, "gpus", json_integer(0));
            bool is_read = columns_parse(name, &c, &err) == 0 &&
                           columns_members(&c, NULL, &members, &err) == 0;
            json_t *part = part_of(job, buf_str(&members));
            text_of(c.at[0], job, want);
            text_of(c.at[0], part, got);
            n_other +=
                !is_read || strcmp(got, want) != 0 ||
                (c.at[0]->is_number && !json_object_get(part, c.at[0]->key));
            if (strcmp(got, want) != 0)
                tap_diag("%s: '%s', of %s '%s'", name, want, buf_str(&members),
                         got);
            json_decref(part);
            json_decref(job);
            buf_clear(&members);
        }
    }
    ok(n > 30, "%d columns", n);
    is_int(n_other, 0, "each says the same of what it asks for");
    struct buf members = BUF_INIT;
    struct columns c;
    ok(columns_parse("id,gpus,rate,st", &c, &err) == 0 &&
           columns_members(&c, "-id", &members, &err) == 0,
       "of several, and an order");
    is_str(buf_str(&members),
           "display_id,gpus,gpus_min,gpus_max,to_gpus,from_gpus,state,"
           "t_iter_s,reason,id",
           "each once");
    json_t *job = load("{\"gpus\":2,\"to_gpus\":4,\"from_gpus\":2}");
    text_of(c.at[1], job, got);
    is_str(got, "2>4", "a job that is resized");
    json_decref(job);
    buf_clear(&members);
    job = load("{\"state\":\"STARTING\",\"tokenised\":0.41,"
               "\"iteration\":null}");
    ok(columns_parse("step", &c, &err) == 0, "the column of iterations");
    text_of(c.at[0], job, got);
    is_str(got, "tokenising 41 %", "before the first of them");
    (void)json_object_set_new(job, "state", json_string("FAILED"));
    text_of(c.at[0], job, got);
    is_str(got, "-", "not of a job that has ended");
    json_decref(job);
    return tap_done();
}
