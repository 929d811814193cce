/* launch_text.h - a launch.json for tests of what starts ranks. */
#ifndef MGPU_TESTS_LAUNCH_TEXT_H
#define MGPU_TESTS_LAUNCH_TEXT_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

/* in   spec  more keys of the specification, ",\"launch\":\"mpi\"", or ""
 *      more  more keys of the file, which its readers ignore, or "" */
static inline void launch_text(char *ret, size_t cap, int32_t nodes,
                               int32_t gpus_per_node, const char *spec,
                               const char *more)
{
    int n =
        snprintf(ret, cap,
                 "{\"version\":1,\"cluster\":\"test\",\"job\":1,\"attempt\":1,"
                 "\"token\":\"00\",\"url\":\"unix:/none\",\"dir\":\"/none\","
                 "\"job_dir\":\"/none\",\"heartbeat_s\":10,\"nodes\":%d,"
                 "\"gpus_per_node\":%d,\"spec\":{\"version\":1,\"name\":\"t\","
                 "\"kind\":\"command\",\"command\":[\"true\"],"
                 "\"resources\":{\"gpus\":%d,\"nodes\":%d}%s}%s}",
                 (int)nodes, (int)gpus_per_node, (int)(nodes * gpus_per_node),
                 (int)nodes, spec, more);
    if (n < 0 || (size_t)n >= cap)
        abort();
}

#endif
