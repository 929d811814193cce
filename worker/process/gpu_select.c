/* gpu_select.c - see gpu_select.h. */
#include "worker/process/gpu_select.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int too_few(int32_t visible, int32_t local_rank, const char *list,
                   struct error *err)
{
    const char *quote = list != NULL ? "'" : "";
    return error_set(err, ERR_UNAVAIL,
                     "rank %d of this node sees %d GPUs, none of them its "
                     "own: CUDA_VISIBLE_DEVICES is %s%.80s%s",
                     local_rank, visible, quote,
                     list != NULL ? list : "not set", quote);
}

int gpu_index(int32_t visible, int32_t local_rank, int32_t *ret,
              struct error *err)
{
    if (visible != 1 && local_rank >= visible)
        return too_few(visible, local_rank, getenv("CUDA_VISIBLE_DEVICES"),
                       err);
    *ret = visible == 1 ? 0 : local_rank;
    return 0;
}

/* The n-th of a list that may have only one. */
static const char *nth(const char *list, int32_t n, size_t *ret_len)
{
    const char *at = list, *comma = strchr(list, ',');
    for (int32_t i = 0; i < n && comma != NULL; i++) {
        at = comma + 1;
        comma = strchr(at, ',');
    }
    *ret_len = comma != NULL ? (size_t)(comma - at) : strlen(at);
    return at;
}

int gpu_own(const char *list, int32_t local_rank, char *ret, size_t cap,
            struct error *err)
{
    char number[16];
    int32_t visible = 1, index = 0;
    if (list == NULL) {
        (void)snprintf(number, sizeof(number), "%d", local_rank);
        list = number;
    }
    for (const char *p = list; *p != '\0'; p++)
        visible += *p == ',';
    if (gpu_index(visible, local_rank, &index, NULL) < 0)
        return too_few(visible, local_rank, list, err);
    size_t n = 0;
    const char *own = nth(list, index, &n);
    if (n >= cap)
        return error_set(err, ERR_LIMIT, "the name of a GPU is too long");
    memcpy(ret, own, n);
    ret[n] = '\0';
    return 0;
}
