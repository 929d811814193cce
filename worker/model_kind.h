/* model_kind.h - the model and the data source of a kind of job. */
#ifndef MGPU_WORKER_MODEL_KIND_H
#define MGPU_WORKER_MODEL_KIND_H

#include "jobs/spec/spec.h"
#include "worker/comm/comm.h"
#include "worker/model.h"

/* A kind makes its own configuration from the specification, the data type and
 * the properties of the data. */
struct model_kind {
    const char *name; /* "cv" */
    /* Prefix of the error when the plan does not fit: the keys to lower. */
    const char *too_large;
    /* Optional: in its place, what the plan consists of, and which values
     * would save how much. Plain text without an end of line. */
    void (*advise)(const struct job_spec *spec, enum dtype dt,
                   const struct batch_info *data, int32_t ranks, char *ret,
                   size_t cap);

    /* Opens the data of training and evaluation.
     * err  ERR_INVAL the data does not fit the specification */
    int (*open_data)(const struct batch_env *env, struct batch_source **ret,
                     struct error *err);

    /* Plans what create() takes on each of `ranks` ranks; allocates nothing.
     * err  ERR_INVAL a value is out of range; it is named */
    int (*plan)(const struct job_spec *spec, enum dtype dt,
                const struct batch_info *data, int32_t ranks,
                struct model_plan *ret, struct error *err);

    /* Optional: gives the data what it needs of the model, which is as init()
     * left it, before the first iteration and before a checkpoint is read.
     * Every rank calls it. */
    int (*prepare)(const struct batch_env *env, struct batch_source *source,
                   struct model *m, struct error *err);

    /* The device and the communicator over its memory are borrowed and outlive
     * the model, as does spec.
     * err  as plan(); ERR_NOMEM */
    int (*create)(struct device *d, struct comm *comm,
                  const struct job_spec *spec, enum dtype dt,
                  const struct batch_info *data, struct model **ret,
                  struct error *err);
};

/* err  ERR_INVAL jobs of the kind train nothing */
int model_kind_find(const struct job_spec *spec, const struct model_kind **ret,
                    struct error *err) MUST_CHECK;

#endif
