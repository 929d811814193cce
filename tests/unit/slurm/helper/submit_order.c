/* submit_order.c - submissions of one user go one after the other, in the order
 * in which they came; those of another do not wait. */
#include "slurm/helper/submit_order.h"

#include "tests/tap.h"

static struct submit_order o;
static _Atomic int n_left, n_left_before; /* when the second one went */

static void *second(void *arg)
{
    (void)arg;
    submit_order_wait(&o, 2);
    n_left_before = n_left;
    submit_order_leave(&o, 2);
    return NULL;
}

int main(void)
{
    pthread_t t;
    submit_order_init(&o);
    submit_order_enter(&o, 1, 1000);
    submit_order_enter(&o, 2, 1000);
    submit_order_enter(&o, 3, 2000);
    submit_order_enter(&o, 4, 1000);
    ok(submit_order_is_first(&o, 1), "the first goes");
    ok(!submit_order_is_first(&o, 2), "the next of the user does not");
    ok(submit_order_is_first(&o, 3), "that of another user does");
    submit_order_wait(&o, 3);
    submit_order_leave(&o, 3);
    if (pthread_create(&t, NULL, second, NULL) != 0)
        return 1;
    ok(!submit_order_is_first(&o, 4), "nor the last");
    n_left = 1;
    submit_order_leave(&o, 1);
    (void)pthread_join(t, NULL);
    is_int(n_left_before, 1, "the second waited for the first");
    ok(submit_order_is_first(&o, 4), "then it is the last one's turn");
    submit_order_leave(&o, 4);
    submit_order_leave(&o, 4);
    submit_order_enter(&o, 5, 1000);
    ok(submit_order_is_first(&o, 5) && submit_order_is_first(&o, 99),
       "and nobody is there any more");
    return tap_done();
}
