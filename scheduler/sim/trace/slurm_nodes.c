/* slurm_nodes.c - see slurm_nodes.h. */
#include "scheduler/sim/trace/slurm_nodes.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "slurm/helper/gres.h"

/* KINDS_MAX: as many as a cluster has groups. */
enum { NODES_MAX = 65536, NAME_CAP = 64, KINDS_MAX = 16 };

struct node {
    char name[NAME_CAP], type[GRES_TYPE_CAP];
    int32_t gpus;
    bool has_gres; /* its line was read */
};

struct nodes {
    struct node *at; /* owned */
    size_t n, cap;
};

static const char blanks[] = " \t\r";

/* Adds a node that has no GPU yet. */
static int add(struct nodes *s, const char *name, size_t len, struct error *err)
{
    if (s->n == NODES_MAX)
        return error_set(err, ERR_LIMIT, "over %d nodes", NODES_MAX);
    if (s->n == s->cap) {
        size_t cap = s->cap ? 2 * s->cap : 64;
        struct node *p = calloc(cap, sizeof(*p));
        if (!p)
            return error_set(err, ERR_NOMEM, "%zu nodes", cap);
        if (s->n > 0)
            memcpy(p, s->at, s->n * sizeof(*p));
        free(s->at);
        s->at = p;
        s->cap = cap;
    }
    s->at[s->n] = (struct node){.gpus = 0};
    (void)snprintf(s->at[s->n].name, sizeof(s->at[s->n].name), "%.*s",
                   (int)(len < NAME_CAP ? len : NAME_CAP - 1), name);
    s->n++;
    return 0;
}

/* gres ends at a blank or at the end of the line. */
static void take_gres(struct node *node, const char *gres)
{
    char text[512];
    const char *at = text;
    struct gres_gpu g;

    if (node->has_gres)
        return; /* another word of its comment */
    node->has_gres = true;
    (void)snprintf(text, sizeof(text), "%.*s", (int)strcspn(gres, blanks),
                   gres);
    while (gres_next(&at, &g)) {
        if (node->gpus == 0)
            memcpy(node->type, g.type, sizeof(node->type));
        node->gpus += g.n;
    }
    /* As a type of --cluster. */
    for (char *p = node->type; *p; p++)
        if (!isalnum((unsigned char)*p) && !strchr("_.-", *p))
            *p = '_';
}

/* A line of scontrol: NodeName= begins a node, Gres= is the present one's. */
static int scontrol_line(struct nodes *s, const char *line, struct error *err)
{
    static const char name[] = "NodeName=", gres[] = "Gres=";

    for (const char *p = line; *p; p += strspn(p, blanks)) {
        size_t n = strcspn(p, blanks);
        if (strncmp(p, name, strlen(name)) == 0 &&
            add(s, p + strlen(name), n - strlen(name), err) < 0)
            return -1;
        if (strncmp(p, gres, strlen(gres)) == 0 && s->n > 0)
            take_gres(&s->at[s->n - 1], p + strlen(gres));
        p += n;
    }
    return 0;
}

static int sinfo_line(const struct lines *l, struct nodes *s, struct error *err)
{
    const char *line = l->field[0];
    size_t n = strcspn(line, blanks);
    const char *gres = line + n + strspn(line + n, blanks);

    if (strncmp(line, "NODELIST", n) == 0) /* without --noheader */
        return 0;
    if (*gres == '\0' || memchr(line, '[', n))
        return lines_error(
            l, 0, err,
            "neither scontrol's nor sinfo's: expected the output of 'scontrol "
            "show node' or of 'sinfo --noheader --Node --format=\"%%N %%G\"'");
    if (add(s, line, n, err) < 0)
        return -1;
    take_gres(&s->at[s->n - 1], gres);
    return 0;
}

static int by_name(const void *a, const void *b)
{
    const struct node *x = a, *y = b;
    return strcmp(x->name, y->name);
}

static int by_kind(const void *a, const void *b)
{
    const struct node *x = a, *y = b;
    if (x->gpus != y->gpus)
        return x->gpus > y->gpus ? -1 : 1;
    return strcmp(x->type, y->type);
}

/* Leaves one of each name, and only those with GPUs, by kind. */
static void keep_gpu_nodes(struct nodes *s)
{
    size_t n = 0;

    if (s->n > 0)
        qsort(s->at, s->n, sizeof(*s->at), by_name);
    for (size_t i = 0; i < s->n; i++)
        if (s->at[i].gpus > 0 &&
            (n == 0 || strcmp(s->at[n - 1].name, s->at[i].name) != 0))
            s->at[n++] = s->at[i];
    s->n = n;
    if (n > 0)
        qsort(s->at, n, sizeof(*s->at), by_kind);
}

static int write_groups(const struct nodes *s, const char *file,
                        struct buf *out, struct error *err)
{
    size_t kinds = 0;

    for (size_t i = 0, next; i < s->n; i = next) {
        const struct node *one = &s->at[i];
        for (next = i + 1; next < s->n && by_kind(one, &s->at[next]) == 0;)
            next++;
        if (++kinds > KINDS_MAX)
            return error_set(err, ERR_LIMIT,
                             "%s: over %d kinds of nodes, by type and number "
                             "of GPUs",
                             file, KINDS_MAX);
        if (buf_addf(out, err, "%s%zux%" PRId32 "%s%s", i > 0 ? "," : "",
                     next - i, one->gpus, one->type[0] ? ":" : "",
                     one->type) < 0)
            return -1;
    }
    return 0;
}

int slurm_nodes_read(struct lines *l, struct buf *out, struct error *err)
{
    struct nodes s = {.n = 0};
    bool is_scontrol = false;
    int rc = 0;

    for (bool is_first = true; rc == 0 && lines_next(l, '\0');
         is_first = false) {
        if (is_first)
            is_scontrol = strncmp(l->field[0], "NodeName=", 9) == 0;
        rc = is_scontrol ? scontrol_line(&s, l->field[0], err)
                         : sinfo_line(l, &s, err);
    }
    if (rc == 0)
        keep_gpu_nodes(&s);
    if (rc == 0 && s.n == 0)
        rc = error_set(err, ERR_INVAL, "%s: no node with GPUs", l->file);
    if (rc == 0)
        rc = write_groups(&s, l->file, out, err);
    free(s.at);
    return rc;
}
