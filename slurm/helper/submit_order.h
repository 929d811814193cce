/* submit_order.h - submissions of one user reach Slurm in the order in which
 * the daemon sent them, although several threads execute them: with the same
 * priority Slurm starts the job with the lower id first. */
#ifndef MGPU_SLURM_HELPER_SUBMIT_ORDER_H
#define MGPU_SLURM_HELPER_SUBMIT_ORDER_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

enum { SUBMIT_ORDER_CAP = 16 }; /* as many threads, or more */
struct submit_order {
    pthread_mutex_t lock;
    pthread_cond_t has_left;
    uint64_t turn; /* of the next one that enters */
    struct {
        uint64_t id, turn; /* id 0: unused */
        uid_t uid;
    } in[SUBMIT_ORDER_CAP];
};
void submit_order_init(struct submit_order *o);

/* Called in the order of the commands, before a thread executes them.
 * in   id  of the command */
void submit_order_enter(struct submit_order *o, uint64_t id, uid_t uid);
/* No submission of this user that has entered before is under way. */
bool submit_order_is_first(struct submit_order *o, uint64_t id);
void submit_order_wait(struct submit_order *o, uint64_t id);
/* Slurm has the submission, or it has failed; no effect if it has left. */
void submit_order_leave(struct submit_order *o, uint64_t id);

#endif
