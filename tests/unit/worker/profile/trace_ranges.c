/* trace_ranges.c - a tool that NVTX loads sees our ranges, nested as they are.
 */
#include "worker/profile/trace_ranges.h"

#include <stdlib.h>
#include <string.h>

#include "jobs/base/buf.h"
#include "tests/fake/fake.h"
#include "tests/tap.h"

int main(void)
{
#if HAVE_NVTX
    char dir[] = "/tmp/mgpu-ranges-XXXXXX", tool[512], out[64];
    struct buf seen = BUF_INIT;
    struct error err = ERROR_INIT;
    fake_path("nvtx.so", tool, sizeof(tool));
    if (mkdtemp(dir) == NULL)
        return 1;
    (void)snprintf(out, sizeof(out), "%s/out", dir);
    (void)setenv("NVTX_INJECTION64_PATH", tool, 1);
    (void)setenv("FAKE_NVTX_OUT", out, 1);
    range_begin("iteration");
    range_begin("forward");
    range_end();
    range_begin("backward");
    range_end();
    range_end();
    range_begin("evaluation");
    range_end();
    ok(buf_read_file(&seen, out, 4096, &err) == 0, "the tool was told %s",
       err.msg);
    is_str(buf_str(&seen), "iteration\n  forward\n  backward\nevaluation\n",
           "of each range, and in which other it is");
    buf_clear(&seen);
    (void)unlink(out);
    ok(rmdir(dir) == 0, "nothing is left");
#else
    range_begin("iteration");
    range_end();
    ok(true, "a build without NVTX");
#endif
    return tap_done();
}
