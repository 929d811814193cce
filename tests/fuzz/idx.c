/* idx.c - any bytes as an IDX file, plain or gzip: what is read is as large
 * as its header says. The first byte chooses what the file should be. */
#include "worker/data/image/idx.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size);

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size)
{
    int32_t dim[IDX_DIMS] = {-1, -1, -1, -1};
    uint8_t *bytes = NULL;
    struct error err = ERROR_INIT;
    char path[64];
    if (size < 1)
        return 0;
    int32_t dims = 1 + data[0] % IDX_DIMS, items = data[0] >> 2;
    int fd = memfd_create("idx", MFD_CLOEXEC);
    if (fd < 0 || write(fd, data + 1, size - 1) != (ssize_t)(size - 1))
        abort();
    (void)snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    if (idx_read(path, dims, items, dim, &bytes, &err) == 0) {
        int64_t n = items ? items : dim[0];
        volatile unsigned sum = 0;
        if (items > dim[0])
            abort();
        for (int32_t i = 1; i < dims; i++)
            n *= dim[i];
        for (int64_t i = 0; i < n; i++)
            sum += bytes[i];
        free(bytes);
    } else if (err.code == ERR_NONE || err.msg[0] == '\0' || bytes ||
               dim[0] != -1) {
        abort();
    }
    (void)close(fd);
    return 0;
}
