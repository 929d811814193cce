/* conf.c - any bytes as mgpu.yaml; what is accepted prints to itself. */
#include "jobs/conf/conf.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size);

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size)
{
    struct conf c, again;
    struct spec_report r;
    struct buf one = BUF_INIT, two = BUF_INIT;
    struct error err = ERROR_INIT;
    char *text = malloc(size + 1);
    if (!text)
        return 0;
    if (size > 0)
        memcpy(text, data, size);
    int rc = conf_parse(text, size, "/etc/mgpu.yaml", &c, &r, &err);
    if ((rc == 0) != (r.n_errors == 0))
        abort();
    if (diagnostics_print(&r, "f", text, size, &one, &err) < 0)
        abort();
    diagnostics_clear(&r);
    buf_reset(&one);
    if (rc == 0) {
        if (conf_print(&c, &one, &err) < 0 ||
            conf_parse(one.data, one.len, NULL, &again, &r, &err) < 0 ||
            conf_print(&again, &two, &err) < 0 ||
            strcmp(one.data, two.data) != 0)
            abort();
        diagnostics_clear(&r);
        conf_clear(&again);
        conf_clear(&c);
    }
    buf_clear(&one);
    buf_clear(&two);
    free(text);
    return 0;
}
