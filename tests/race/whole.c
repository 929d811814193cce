/* whole.c - no kernel has a race: the whole contract under the checker.
 *
 * Takes a minute: .ci/nightly runs it.
 */
#include "tests/race/contract.h"

static void parts(struct device *d, const char *name)
{
    contract_device(d, name, true);
    free_of_races(name, "the whole contract");
}

int main(void)
{
    in_both_orders(parts);
    return tap_done();
}
