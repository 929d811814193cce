/* export.c - the checksum of TensorBoard's records, and the formats' names. */
#include "scheduler/tools/export/export.h"

#include <string.h>

#include "tests/tap.h"

int main(void)
{
    unsigned char zeroes[32] = {0}, rise[32];
    struct error err = ERROR_INIT;
    enum export_format f = EXPORT_CSV;
    for (int i = 0; i < 32; i++)
        rise[i] = (unsigned char)i;
    ok(export_crc32c("123456789", 9) == 0xe3069283u, "the check value");
    ok(export_crc32c(zeroes, 32) == 0x8a9136aau, "RFC 3720, 32 zeroes");
    ok(export_crc32c(rise, 32) == 0x46dd794eu, "RFC 3720, 0 to 31");
    ok(export_crc32c("", 0) == 0, "nothing");
    ok(export_format_of("tensorboard", &f, &err) == 0 &&
           f == EXPORT_TENSORBOARD,
       "a format");
    ok(export_format_of("parquet", &f, &err) == -1 && err.code == ERR_USAGE,
       "%s", err.msg);
    return tap_done();
}
