/* known_cards.c - see known_cards.h.
 *
 * A card has less than its name says, and CUDA gives less than nvidia-smi's
 * total. Free is CUDA's total: what a process that has the card alone is given,
 * its context included.
 *
 * src  Totals of nvidia-smi: its tables in public logs. Free: PyTorch's message
 *      "GPU 0 has a total capacity of 79.10 GiB", which is cudaMemGetInfo()'s
 *      total, in public logs; it varies by 0.1 GiB with the driver, and the
 *      lowest is taken. */
#include "worker/model_tool/known_cards.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "jobs/text/scalar.h"

static const struct {
    const char *name;
    int32_t free; /* hundredths of a GiB */
} cards[] = {
    /* The smaller of H100 and A100 (81,920 MiB in nvidia-smi, 79.15 GiB). */
    {"80G", 7910},
    /* GH200 of 96 GB: 97,871 MiB in nvidia-smi. An H20 has as much there, and
     * 95.00 GiB or more for CUDA. */
    {"96G", 9450},
    {"H100", 7910},  /* of 80 GB, SXM: 81,559 MiB in nvidia-smi */
    {"H200", 13972}, /* 143,771 MiB in nvidia-smi */
};
enum { CARDS = sizeof(cards) / sizeof(cards[0]) };

int known_card_find(const char *text, int64_t *ret_free, struct error *err)
{
    char hint[SCALAR_HINT_CAP], names[80] = "";
    for (int i = 0; i < CARDS; i++) {
        const size_t n = strlen(names);
        if (strcasecmp(text, cards[i].name) == 0) {
            *ret_free = ((int64_t)cards[i].free << 30) / 100;
            return 0;
        }
        (void)snprintf(names + n, sizeof(names) - n, "%s%s", i > 0 ? ", " : "",
                       cards[i].name);
    }
    if (scalar_size(text, ret_free, hint, NULL) == 0 && *ret_free > 0)
        return 0;
    return error_set(err, ERR_USAGE,
                     "--device: '%.40s' is none of %s, and not the free memory "
                     "of a GPU, such as 40G",
                     text, names);
}
