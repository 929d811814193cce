/* end_cause.c - find slurmstepd's last message in the job's output; see
 * end_cause.h. */
#include "slurm/batch/end_cause.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { TAIL_BYTES = 8192 }; /* the line was written a moment ago */

/* The last line about this job; NULL: there is none. */
static const char *last_about(const char *text, const char *slurm_id)
{
    char begin[64];
    const char *last = NULL;
    (void)snprintf(begin, sizeof(begin), "*** JOB %.32s ON ", slurm_id);
    for (const char *p = text; (p = strstr(p, begin)); p++)
        last = p;
    return last;
}

const char *end_cause_word(const char *text, const char *slurm_id)
{
    static const struct {
        const char *says, *word;
    } reasons[] = {
        {" DUE TO TIME LIMIT ***", "TIMEOUT"},
        {" DUE TO PREEMPTION ***", "PREEMPTED"},
        {" DUE TO NODE FAILURE,", "NODE_FAIL"},
        {" DUE TO JOB REQUEUE ***", "REQUEUED"},
    };
    static const char verb[] = " CANCELLED AT ";
    const char *line = last_about(text, slurm_id);
    const char *end = line ? strchrnul(line, '\n') : NULL;
    const char *at = line ? strstr(line, verb) : NULL;
    if (!at || at > end)
        return "ENDED";
    for (size_t i = 0; i < sizeof(reasons) / sizeof(reasons[0]); i++) {
        const char *found = strstr(at, reasons[i].says);
        if (found && found < end)
            return reasons[i].word;
    }
    /* Only the time follows. */
    const char *stop = at + strlen(verb);
    stop += strcspn(stop, " \n");
    return strncmp(stop, " ***", 4) == 0 ? "CANCELLED" : "ENDED";
}

const char *end_cause_read(const char *dir, const char *slurm_id)
{
    char path[PATH_MAX];
    char text[TAIL_BYTES + 1];
    struct stat st;
    ssize_t n = -1;
    int len = snprintf(path, sizeof(path), "%s/slurm-%.32s.out", dir, slurm_id);
    int fd = len > 0 && len < PATH_MAX
                 ? open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW)
                 : -1;
    if (fd < 0)
        return "ENDED";
    if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode)) {
        off_t at = st.st_size > TAIL_BYTES ? st.st_size - TAIL_BYTES : 0;
        n = pread(fd, text, TAIL_BYTES, at);
    }
    (void)close(fd);
    n = n > 0 ? n : 0;
    text[n] = '\0';
    for (ssize_t i = 0; i < n; i++) { /* the job's output may hold any byte */
        if (text[i] == '\0')
            text[i] = '\n';
    }
    return end_cause_word(text, slurm_id);
}
