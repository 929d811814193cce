/* admin_status.c - print the daemon's status and the result of a reload; see
 * admin_status.h.
 */
#include "scheduler/tools/admin/admin_status.h"

#include <inttypes.h>
#include <stdio.h>

#include "scheduler/tools/admin/admin_log.h"
#include "scheduler/tools/common/client.h"
#include "scheduler/tools/common/render.h"

static void print_paused(const json_t *paused)
{
    char why[600], who[240];
    if (!json_is_object(paused))
        return;
    printf(" paused     since %s by %s%s%s\n", field_str(paused, "since"),
           admin_who(field_int(paused, "uid", -1), who, sizeof(who)),
           *field_str(paused, "why") ? ": " : "",
           render_escape(field_str(paused, "why"), why, sizeof(why)));
}

static void print_drained(const json_t *list)
{
    char node[200], why[600], who[240];
    size_t i;
    json_t *d;
    json_array_foreach(list, i, d)
    {
        printf(" drained    %s since %s by %s%s%s\n",
               render_escape(field_str(d, "node"), node, sizeof(node)),
               field_str(d, "since"),
               admin_who(field_int(d, "uid", -1), who, sizeof(who)),
               *field_str(d, "why") ? ": " : "",
               render_escape(field_str(d, "why"), why, sizeof(why)));
    }
}

static void print_jobs(const json_t *jobs)
{
    const char *state, *sep = "";
    json_t *n;
    printf(" jobs       ");
    json_object_foreach((json_t *)jobs, state, n)
    {
        if (json_integer_value(n) == 0)
            continue;
        printf("%s%lld %s", sep, (long long)json_integer_value(n), state);
        sep = ", ";
    }
    printf("%s\n", *sep ? "" : "none");
}

void admin_print_reload(const json_t *r, bool is_new)
{
    char text[1200];
    if (!json_is_object(r))
        return;
    if (!field_yes(r, "is_ok")) {
        printf(" reload     failed at %s: %s\n", field_str(r, "at"),
               render_escape(field_str(r, "why"), text, sizeof(text)));
        return;
    }
    printf(" reload     done at %s\n", field_str(r, "at"));
    if (*field_str(r, "changed"))
        printf("  in effect %s\n",
               render_escape(field_str(r, "changed"), text, sizeof(text)));
    else if (is_new)
        printf("  no setting in effect has changed\n");
    if (*field_str(r, "after_restart"))
        printf(
            "  after a restart %s\n",
            render_escape(field_str(r, "after_restart"), text, sizeof(text)));
}

static void print_kept(const json_t *k)
{
    if (field_yes(k, "waits_for_clock"))
        printf(" kept       all rows and jobs: the daemon's clock is not "
               "synchronised\n");
    if (!json_is_string(json_object_get(k, "rows_since")))
        return;
    printf(" kept       rows of jobs that ended since %s; %" PRId64
           " rows removed\n",
           field_str(k, "rows_since"), field_int(k, "rows_removed", 0));
    if (json_is_string(json_object_get(k, "jobs_since")))
        printf("            archived jobs that ended since %s; %" PRId64
               " jobs removed\n",
               field_str(k, "jobs_since"), field_int(k, "jobs_removed", 0));
}

static void print_storage(const json_t *o)
{
    char is[32], min[32];
    if (!json_is_integer(json_object_get(o, "min_free_bytes")))
        return;
    printf(" storage    %s free of store.min_free %s%s\n",
           render_bytes((double)field_int(o, "free_bytes", 0), is, sizeof(is)),
           render_bytes((double)field_int(o, "min_free_bytes", 0), min,
                        sizeof(min)),
           field_yes(o, "is_short") ? ": no job is accepted" : "");
}

static void print_metrics_damage(const json_t *d)
{
    char file[200];
    if (field_yes(d, "is_waiting"))
        printf(
            " metrics    metrics.db is damaged, rows are not stored: restart "
            "the daemon, which begins a new one\n");
    if (*field_str(d, "file"))
        printf(" metrics    metrics.db was damaged and is put aside as %s: "
               "move it away when its rows are not wanted any more\n",
               render_escape(field_str(d, "file"), file, sizeof(file)));
}

static void print_lost(const json_t *list)
{
    char why[300], file[200];
    size_t i;
    const json_t *l;
    json_array_foreach(list, i, l)
    {
        const char *rescued = field_str(l, "rescued");
        printf(" lost       %s\n",
               render_escape(field_str(l, "why"), why, sizeof(why)));
        if (*rescued)
            printf("            all that was acknowledged is in %s\n",
                   render_escape(rescued, file, sizeof(file)));
        else
            printf("            do not stop the daemon: it has not written yet "
                   "what it holds, see its log\n");
    }
}

static void print_backup(const json_t *b)
{
    char text[1200];
    const char *last = field_str(b, "last");
    if (!json_is_object(b))
        return;
    printf(" backup     %s%s, %" PRId64 " of %" PRId64 " kept in %s, next %s\n",
           *last ? "last " : "none yet", last, field_int(b, "n", 0),
           field_int(b, "keep", 0),
           render_escape(field_str(b, "dir"), text, sizeof(text)),
           field_str(b, "next"));
    if (*field_str(b, "why"))
        printf("  failed at %s: %s\n", field_str(b, "failed_at"),
               render_escape(field_str(b, "why"), text, sizeof(text)));
}

void admin_print_status(const json_t *s)
{
    const json_t *alloc = json_object_get(s, "allocator_state");
    const json_t *loop = json_object_get(s, "loop");
    char why[600], word[64];

    printf("mgpu-ctld %s  cluster %s  pid %" PRId64 "  since %s\n",
           field_str(s, "version"),
           render_escape(field_str(s, "cluster"), word, sizeof(word)),
           field_int(s, "pid", 0), field_str(s, "started"));
    print_paused(json_object_get(s, "paused"));
    print_drained(json_object_get(s, "drained"));
    admin_print_reload(json_object_get(s, "reload"), false);
    print_jobs(json_object_get(s, "jobs"));
    printf(" slots      %" PRId64 " of %" PRId64 " free, policy %s\n",
           field_int(s, "slots_free", 0), field_int(s, "slots_total", 0),
           field_str(s, "policy"));
    if (field_yes(alloc, "is_ok"))
        printf(" devices    %s, ok\n", field_str(alloc, "name"));
    else
        printf(" devices    %s, unavailable since %s: %s\n",
               field_str(alloc, "name"), field_str(alloc, "since"),
               render_escape(field_str(alloc, "why"), why, sizeof(why)));
    printf(" state      %s\n",
           render_escape(field_str(s, "state_dir"), why, sizeof(why)));
    print_metrics_damage(json_object_get(s, "metrics_damage"));
    print_lost(json_object_get(s, "lost"));
    printf(" loop       longest stall %s\n",
           render_time(field_real(loop, "longest_s"), word, sizeof(word)));
    print_kept(json_object_get(s, "kept"));
    print_storage(json_object_get(s, "storage"));
    print_backup(json_object_get(s, "backup"));
}
