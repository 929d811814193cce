/* spec_policy.h - the section `policy` of a job specification: see
 * mgpu-job(5). */
#ifndef MGPU_JOBS_SPEC_SPEC_POLICY_H
#define MGPU_JOBS_SPEC_SPEC_POLICY_H

#include <stdbool.h>
#include <stdint.h>

/* What the number of GPUs of a range is chosen for. */
enum spec_goal { GOAL_NONE, GOAL_EFFICIENCY, GOAL_SPEED, GOAL_FIT };

struct spec_policy {
    int32_t priority;      /* -50..50; low -50, normal 0, high 50 */
    char *account, *qos;   /* NULL: mgpu.yaml's default */
    bool preemptible;      /* a job of higher priority may preempt it */
    enum spec_goal goal;   /* NONE: as the administrator has it */
    double min_efficiency; /* of a size; 0: as the administrator has it */
    bool force_queue;      /* accept it although no present node fits */
    char *begin;           /* timestamp.h; NULL: at once */
};

#endif
