/* spec_look.h - who is asked for the job that train.resume_from names. */
#ifndef MGPU_JOBS_SPEC_SPEC_LOOK_H
#define MGPU_JOBS_SPEC_SPEC_LOOK_H

#include "jobs/base/error.h"

struct job_spec;
struct spec_look {
    /* Looks for the job that s names, as "12:best".
     * err  ERR_INVAL s may not go on from it; ERR_NOTFOUND its checkpoint is
     *      not on this machine; anything else: nobody can tell */
    int (*parent)(void *arg, const struct job_spec *s, const char *named,
                  struct error *err);
    void *arg;
};

#endif
