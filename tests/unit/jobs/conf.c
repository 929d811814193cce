/* conf.c - mgpu.yaml: defaults, each kind of mistake, the printed form. */
#include "jobs/conf.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/tap.h"

#define V "version: 1\n"

static const struct {
    const char *name, *text, *want; /* findings: "CODE line:column" */
} rows[] = {
    {"empty file", "", "E001 1:1"},
    {"version alone", V, ""},
    {"no version", "cluster: a\n", "W001 1:1"},
    {"version 2", "version: 2\n", "E011 1:10"},
    {"unknown key", V "clster: a\n", "E010 2:1"},
    {"unknown section", V "local:\n  gpu: 1\n", "E010 3:3"},
    {"cluster name", V "cluster: 'a b'\n", "E014 2:10"},
    {"relative path", V "controller: {state_dir: x}\n", "E015 2:25"},
    {"clients", V "controller: {max_clients: 7}\n", "E013 2:27"},
    {"slurm is for later", V "allocator: slurm\n", "E018 2:12"},
    {"allocator", V "allocator: locl\n", "E012 2:12"},
    {"later section", V "slurm: {submit_as: user}\n", "E018 2:1"},
    {"later key", V "scheduler: {weights: {age: 1}}\n", "E018 2:13"},
    {"later policy", V "scheduler: {policy: profile}\n", "E018 2:21"},
    {"policy", V "scheduler: {policy: fifi}\n", "E012 2:21"},
    {"policy fifo", V "scheduler: {policy: fifo}\n", ""},
    {"gpus", V "local: {gpus: some}\n", "E013 2:15"},
    {"gpus auto", V "local: {gpus: auto}\n", ""},
    {"gpus none", V "local: {gpus: 0}\n", ""},
    {"slots none", V "local: {cpu_slots: 0}\n", "E013 2:20"},
    {"mpirun empty", V "local: {mpirun: ''}\n", "E014 2:17"},
    {"mpirun an option", V "local: {mpirun: -x}\n", "E014 2:17"},
    {"interval without unit", V "scheduler: {interval: 5}\n", "E024 2:23"},
    {"interval zero", V "scheduler: {interval: 0s}\n", "E023 2:23"},
    {"size without unit", V "limits: {max_spec_bytes: 1000}\n", "E023 2:26"},
    {"size too large", V "limits: {max_spec_bytes: 2M}\n", "E023 2:26"},
    {"heartbeat against loss",
     V "watchdog: {heartbeat: 60s, node_lost_after: 90s}\n", "E023 2:45"},
    {"heartbeat against default", V "watchdog: {heartbeat: 60s}\n",
     "E023 2:23"},
    {"log level", V "log: {level: loud}\n", "E012 2:14"},
    {"notes", V "x-admin: [root]\n", ""},
    {"two mistakes", V "allocator: x\nlog: {level: y}\n",
     "E012 2:12 E012 3:14"},
};

static void test_rows(void)
{
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct conf c = {.version = 77};
        struct spec_report r;
        struct error err = ERROR_INIT;
        char got[200] = "";
        size_t len = 0;
        int rc =
            conf_parse(rows[i].text, strlen(rows[i].text), NULL, &c, &r, &err);
        for (size_t j = 0; j < r.n; j++)
            len += (size_t)snprintf(got + len, sizeof(got) - len, "%s%s %d:%d",
                                    j ? " " : "", r.findings[j].code,
                                    r.findings[j].line, r.findings[j].column);
        is_str(got, rows[i].want, rows[i].name);
        if (strchr(rows[i].want, 'E'))
            ok(rc == -1 && err.code == ERR_CONFIG && c.version == 77,
               "%s: refused whole, %s", rows[i].name, err.msg);
        else
            is_int(rc, 0, rows[i].name);
        if (rc == 0)
            conf_clear(&c);
        spec_report_clear(&r);
    }
}

static void test_values(void)
{
    static const char text[] =
        V "cluster: lab\nallocator: local\n"
          "controller: {state_dir: state, socket: /run/m.sock}\n"
          "local: {gpus: auto, cpu_slots: 3, mpirun: /opt/mpirun}\n"
          "scheduler: {policy: fifo, interval: 2s}\n"
          "limits: {max_jobs_per_user: 5, max_log_bytes: 2G}\n"
          "watchdog: {heartbeat: 5s, node_lost_after: 1m}\n"
          "log: {level: debug}\n";
    struct conf c;
    struct spec_report r;
    struct error err = ERROR_INIT;
    if (!ok(conf_parse(text, strlen(text), "/etc/mgpu/mgpu.yaml", &c, &r,
                       &err) == 0,
            "a full file: %s", err.msg))
        return;
    is_str(c.cluster, "lab", "cluster");
    is_str(c.controller.state_dir, "/etc/mgpu/state", "relative to the file");
    is_str(c.controller.socket, "/run/m.sock", "socket");
    is_int(c.allocator, ALLOCATOR_LOCAL, "allocator");
    is_int(c.local.gpus, CONF_AUTO, "gpus");
    is_int(c.local.cpu_slots, 3, "slots");
    is_str(c.local.mpirun, "/opt/mpirun", "mpirun");
    is_str(c.scheduler.policy, "fifo", "policy");
    ok(c.scheduler.interval_s == 2, "interval");
    is_int(c.limits.max_jobs_per_user, 5, "jobs per user");
    is_int(c.limits.max_log_bytes, 2LL << 30, "log bytes");
    is_int(c.limits.max_spec_bytes, 1 << 20, "spec bytes, the default");
    ok(c.watchdog.node_lost_after_s == 60, "node_lost_after");
    is_int(c.log.level, LOG_DEBUG, "log level");
    conf_clear(&c);
    conf_clear(&c);
    conf_clear(NULL);
    spec_report_clear(&r);
}

static const char golden[] =
    "version: 1                              # restart\n"
    "cluster: \"local\"                        # restart\n"
    "controller:\n"
    "  state_dir: null                       # restart\n"
    "  socket: null                          # restart\n"
    "  max_clients: 2048                     # restart\n"
    "allocator: auto                         # restart\n"
    "local:\n"
    "  gpus: \"auto\"                          # restart\n"
    "  cpu_slots: \"auto\"                     # restart\n"
    "  mpirun: \"mpirun\"                      # restart\n"
    "scheduler:\n"
    "  policy: backfill                      # restart\n"
    "  interval: 1s                          # restart\n"
    "limits:\n"
    "  max_jobs_per_user: 1000               # restart\n"
    "  max_spec_bytes: 1M                    # restart\n"
    "  max_log_bytes: 1G                     # restart\n"
    "watchdog:\n"
    "  heartbeat: 10s                        # restart\n"
    "  node_lost_after: 90s                  # restart\n"
    "log:\n"
    "  level: info                           # restart\n";

static void test_print(void)
{
    struct conf c, again;
    struct spec_report r;
    struct error err = ERROR_INIT;
    struct buf out = BUF_INIT;
    is_int(conf_default(&c, &err), 0, "the defaults are legal");
    is_int(conf_print(&c, &out, &err), 0, "prints");
    is_str(buf_str(&out), golden, "every value, and when it is read");
    is_int(conf_parse(out.data, out.len, NULL, &again, &r, &err), 0,
           "what is printed can be read");
    struct buf twice = BUF_INIT;
    is_int(conf_print(&again, &twice, &err), 0, "and printed");
    is_str(buf_str(&twice), golden, "to the same");
    conf_clear(&c);
    conf_clear(&again);
    spec_report_clear(&r);
    buf_clear(&out);
    buf_clear(&twice);
}

static void test_load(void)
{
    char path[] = "/tmp/mgpu-conf.XXXXXX";
    struct conf c = {.version = 77};
    struct error err = ERROR_INIT;
    struct buf out = BUF_INIT;
    int fd = mkstemp(path);
    static const char text[] = "cluster: a\nallocator: slurm\n";
    if (!ok(fd >= 0 && write(fd, text, sizeof(text) - 1) > 0, "a file"))
        return;
    is_int(conf_load(path, &c, &out, &err), -1, "a bad file");
    is_int(err.code, ERR_CONFIG, "is a configuration error");
    ok(strstr(err.msg, "1 error, 1 warning") != NULL, "counted: %s", err.msg);
    ok(strstr(buf_str(&out), ":2:12: error[E018]: ") != NULL &&
           strstr(buf_str(&out), "warning[W001]") != NULL,
       "findings are printed");
    is_int(c.version, 77, "and the result untouched");
    ok(ftruncate(fd, 11) == 0, "the first line alone");
    buf_reset(&out);
    is_int(conf_load(path, &c, &out, &err), 0, "is fine");
    is_str(c.cluster, "a", "and read");
    conf_clear(&c);
    (void)close(fd);
    (void)unlink(path);
    is_int(conf_load(path, &c, &out, &err), -1, "a missing file");
    is_int(err.code, ERR_NOTFOUND, "is not found");
    buf_clear(&out);
}

int main(void)
{
    test_rows();
    test_values();
    test_print();
    test_load();
    return tap_done();
}
