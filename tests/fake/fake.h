/* fake.h - where the libraries of this folder are, beside the tests. */
#ifndef MGPU_TESTS_FAKE_H
#define MGPU_TESTS_FAKE_H

#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* build/VARIANT/tests/unit/.../TEST -> build/VARIANT/tests/fake/NAME */
static inline void fake_path(const char *name, char *ret, size_t cap)
{
    char exe[400] = "";
    ssize_t n = readlink("/proc/self/exe", exe, sizeof(exe) - 1);
    exe[n > 0 ? n : 0] = '\0';
    char *unit = NULL;
    for (char *p = exe; (p = strstr(p, "/tests/unit/")) != NULL; p++)
        unit = p;
    if (unit != NULL)
        unit[sizeof("/tests") - 1] = '\0';
    (void)snprintf(ret, cap, "%s/fake/%s", exe, name);
}

#endif
