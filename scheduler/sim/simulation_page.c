/* simulation_page.c - what the page of --html says of its own making: the
 * assumptions, what is left out, and the command. See simulation.h. */
#include <math.h>
#include <string.h>

#include "scheduler/sim/output/sim_page.h"
#include "scheduler/sim/simulation.h"

/* The sentence on jobs whose scaling nobody measured. */
static int say_elastic(const struct simulation *s, struct buf *out,
                       struct error *err)
{
    const struct sim_args *a = s->args;
    double restart_s =
        sim_class_value(&a->conf.restarts, "", a->conf.restart_s);

    if (!a->elastic)
        return buf_addstr(
            out,
            "Each job takes its recorded GPUs for its recorded time under "
            "every policy: nobody has measured how these jobs scale.",
            err);
    if (buf_addf(out, err,
                 "Nobody has measured how these jobs scale. %zu of %zu, which "
                 "--elastic %s chooses, take a quarter to four times their "
                 "recorded GPUs under goodput, and are as fast there as "
                 "--scaling %s says. A change of size costs %g s. They tell "
                 "how much they have left",
                 s->n_elastic, s->trace.n, a->elastic,
                 a->scaling ? a->scaling : SIM_SCALING_DEFAULT, restart_s) < 0)
        return -1;
    if (a->conf.length_error > 0 &&
        buf_addf(out, err, ", wrong by a factor of e to the %g as often as not",
                 a->conf.length_error) < 0)
        return -1;
    return buf_addstr(out,
                      ", which most jobs of Slurm cannot. The figures of "
                      "goodput are worth as much as these assumptions.",
                      err);
}

static int say_assumed(const struct simulation *s, struct buf *out,
                       struct error *err)
{
    const struct sim_args *a = s->args;
    int rc;

    if (a->from_db)
        rc = buf_addstr(
            out,
            "Jobs are as fast as the daemon has measured their class. A size "
            "that it did not measure scales perfectly from the largest one "
            "below it, and a job without iterations takes as long as it took.",
            err);
    else if (a->tables)
        rc = buf_addf(out, err, "Jobs are as fast as the tables say: %s.",
                      a->tables);
    else
        rc = say_elastic(s, out, err);
    if (rc == 0 && s->recorded.jobs > 0)
        rc = buf_addstr(
            out,
            " Quotas, partitions, reservations and types of GPUs of the "
            "recorded cluster are not simulated: how far the first policy is "
            "from the column recorded says how much that matters.",
            err);
    if (rc == 0 && a->watts)
        rc = buf_addf(out, err,
                      " The energy is that of GPUs in use, which draw what "
                      "--watts %s says.",
                      a->watts);
    return rc;
}

/* A line with a title, unless the text is empty. */
static int add_line(struct buf *out, const char *title, const char *text,
                    struct error *err)
{
    size_t n = strlen(text);

    return n == 0 ? 0
                  : buf_addf(out, err, "%s%s%s", title, text,
                             text[n - 1] == '\n' ? "" : "\n");
}

static int say_notes(const struct simulation *s,
                     const struct simulation_notes *notes, struct buf *out,
                     struct error *err)
{
    struct buf left = BUF_INIT;
    int rc = sim_trace_say_left_out(&s->trace, &left, err);

    if (rc == 0)
        rc = add_line(out, "left out: ", buf_str(&left), err);
    buf_clear(&left);
    if (rc == 0)
        rc = add_line(out, "", buf_str(&s->trace.findings), err);
    if (rc == 0 && s->trace.left_out.rounded > 0)
        rc = buf_addf(out, err,
                      "jobs with more GPUs than recorded, for nodes to share "
                      "them evenly: %zu\n",
                      s->trace.left_out.rounded);
    if (rc == 0)
        rc = add_line(out,
                      "sizes without a measurement: ", buf_str(&notes->guessed),
                      err);
    if (rc == 0)
        rc = add_line(out, "not repeated: ", buf_str(&notes->missing), err);
    if (rc == 0)
        rc = add_line(out, "", buf_str(&notes->stranded), err);
    for (size_t i = 0; rc == 0 && i < s->n_runs; i++)
        if (s->runs[i].out.n_unfinished > 0)
            rc = buf_addf(out, err, "under %s %zu jobs did not complete\n",
                          s->runs[i].label, s->runs[i].out.n_unfinished);
    for (size_t i = 0; rc == 0 && i < s->n_runs; i++)
        if (s->runs[i].out.n_cut > 0)
            rc = buf_addf(out, err,
                          "under %s %zu attempts on so many nodes that only "
                          "the first of them are drawn\n",
                          s->runs[i].label, s->runs[i].out.n_cut);
    return rc;
}

/* A word as a shell reads it. */
static int add_word(struct buf *out, const char *word, struct error *err)
{
    static const char plain[] =
        "abcdefghijklmnopqrstuvwxyz"
        "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./:=,%+@-";

    if (*word && word[strspn(word, plain)] == '\0')
        return buf_addf(out, err, " %s", word);
    int rc = buf_addstr(out, " '", err);
    for (const char *p = word; rc == 0 && *p; p++)
        rc = *p == '\'' ? buf_addstr(out, "'\\''", err)
                        : buf_add(out, p, 1, err);
    return rc == 0 ? buf_addstr(out, "'", err) : rc;
}

static int say_command(const struct simulation *s, struct buf *out,
                       struct error *err)
{
    int rc = buf_addstr(out, "mgpu-sim", err);

    for (int i = 1; rc == 0 && i < s->args->argc; i++)
        rc = add_word(out, s->args->argv[i], err);
    return rc;
}

int simulation_page(const struct simulation *s,
                    const struct simulation_notes *notes, struct error *err)
{
    struct buf assumed = BUF_INIT, lines = BUF_INIT, command = BUF_INIT,
               text = BUF_INIT, sweep = BUF_INIT;
    int rc = say_assumed(s, &assumed, err);

    if (rc == 0)
        rc = say_notes(s, notes, &lines, err);
    if (rc == 0)
        rc = say_command(s, &command, err);
    if (rc == 0 && s->args->sweep)
        rc = buf_addf(&sweep, err, "%s, %.*s", s->runs[0].name,
                      (int)strcspn(s->args->sweep, "="), s->args->sweep);
    const struct sim_page page = {.conf = &s->args->conf,
                                  .recorded = &s->recorded,
                                  .runs = s->runs,
                                  .n = s->n_runs,
                                  .replicates = &s->replicates,
                                  .sweep = buf_str(&sweep),
                                  .assumed = buf_str(&assumed),
                                  .notes = buf_str(&lines),
                                  .command = buf_str(&command)};
    if (rc == 0)
        rc = sim_page(&page, &text, err);
    if (rc == 0)
        rc = sim_csv_write(s->args->html, &text, err);
    buf_clear(&assumed);
    buf_clear(&lines);
    buf_clear(&command);
    buf_clear(&text);
    buf_clear(&sweep);
    return rc;
}
