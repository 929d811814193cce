/* program_models.c - what the classes of a program learn from each other; see
 * class_models.h and program_class.h.
 *
 * A program has a model of its own under its name, which its jobs teach beside
 * those of their classes. The class comes first: on a size that it has run on
 * counts what it measured. On any other counts what the program measured, as
 * many times as fast as the class is on the sizes that both have run on: so a
 * member of a sweep over the batch is not taken for as fast as the first, but
 * its speed-up is.
 */
#include <stdlib.h>
#include <string.h>

#include "scheduler/engine/engine_internal.h"
#include "scheduler/engine/teach.h"

void eng_program_link(struct engine *e, const struct job_record *rec,
                      struct eng_model *m)
{
    struct eng_model *of = NULL;

    if (rec->has_own_rates || !rec->own.program ||
        (m->program && strcmp(m->program->class, rec->own.program) == 0))
        return;
    if (eng_models_get(&e->models, rec->own.program, m->gpu_type, m->m.is_weak,
                       &of, NULL) == 0)
        m->program = of;
}

struct eng_model *eng_program_find(const struct engine *e,
                                   const struct job_record *rec,
                                   const char *gpu_type)
{
    return rec->own.program && !rec->has_own_rates
               ? eng_models_find(&e->models, rec->own.program, gpu_type)
               : NULL;
}

const struct eng_model *eng_program_look(const struct engine *e,
                                         const struct job_record *rec,
                                         const struct eng_model *m)
{
    const struct eng_model *p = m->program;

    if (p && rec->own.program && !rec->has_own_rates &&
        strcmp(p->class, rec->own.program) == 0)
        return p;
    return eng_program_find(e, rec, m->gpu_type);
}

struct eng_model *eng_program_of(struct engine *e, const struct job_record *rec)
{
    struct eng_model *m = NULL;

    return rec->own.program &&
                   eng_models_get(&e->models, rec->own.program,
                                  eng_model_type(e, rec),
                                  engine_is_weak(&rec->job), &m, NULL) == 0
               ? m
               : NULL;
}

/* Whether the program has run on a size on which the class has not. */
static bool has_more(const struct throughput *program,
                     const struct throughput *class)
{
    for (int32_t i = 0; i < program->n; i++)
        if (!throughput_row(class, program->rows[i].nodes,
                            program->rows[i].per_node))
            return true;
    return false;
}

const struct throughput *eng_program_speed(struct eng_model *m)
{
    struct eng_model *p = m->program;

    if (!p || !has_more(&p->m, &m->m))
        return &m->m;
    if (p->needs_fit) {
        throughput_fit(&p->m);
        p->needs_fit = false;
    }
    if (m->m.n == 0)
        return &p->m;
    if (!m->borrowing && !(m->borrowing = malloc(sizeof(*m->borrowing))))
        return &m->m;
    *m->borrowing = m->m;
    throughput_borrow(m->borrowing, &p->m);
    return m->borrowing;
}
