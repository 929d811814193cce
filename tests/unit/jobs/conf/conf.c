/* conf.c - mgpu.yaml: defaults, each kind of mistake, the printed form. */
#include "jobs/conf/conf.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/tap.h"
#include "tests/unit/jobs/findings.h"

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
    {"slurm without an address", V "allocator: slurm\n", "E017 2:12"},
    {"slurm", V "allocator: slurm\ncontroller: {listen: a:1}\n", ""},
    {"slurm with a bad address",
     V "allocator: slurm\ncontroller: {listen: [a]}\n", "E011 3:22"},
    {"listen without a port", V "controller: {listen: node1}\n", "E014 2:22"},
    {"listen without a host", V "controller: {listen: ':80'}\n", "E014 2:22"},
    {"labels", V "controller: {metrics_labels: [account, gpu_type]}\n", ""},
    {"label of no group", V "controller: {metrics_labels: [account, user]}\n",
     "E012 2:40"},
    {"metrics without a port", V "controller: {metrics_listen: a}\n",
     "E014 2:30"},
    {"listen on every address", V "controller: {listen: '*:0'}\n", ""},
    {"listen on IPv6", V "controller: {listen: '[::1]:65535'}\n", ""},
    {"IPv6 left open", V "controller: {listen: '[::1:80'}\n", "E014 2:22"},
    {"port too large", V "controller: {listen: 'a:65536'}\n", "E014 2:22"},
    {"port a word", V "controller: {listen: 'a:http'}\n", "E014 2:22"},
    {"host with a slash", V "controller: {listen: 'a/b:1'}\n", "E014 2:22"},
    {"url", V "controller: {url: 'http://login1:7431'}\n", ""},
    {"url without scheme", V "controller: {url: 'login1:7431'}\n", "E014 2:19"},
    {"url with a path", V "controller: {url: 'http://a:1/x'}\n", "E014 2:19"},
    {"jobs_dir", V "controller: {jobs_dir: /home/%u/jobs}\n", ""},
    {"jobs_dir of a home", V "controller: {jobs_dir: /home/%h}\n", "E015 2:24"},
    {"jobs_dir ends in %", V "controller: {jobs_dir: /home/%}\n", "E015 2:24"},
    {"controller.user", V "controller: {user: 'a b'}\n", "E014 2:20"},
    {"auth", V "auth: {remote: munge, admins: [root, _ops]}\n", ""},
    {"auth.remote", V "auth: {remote: kerberos}\n", "E012 2:16"},
    {"no admins", V "auth: {admins: []}\n", ""},
    {"an admin with a blank", V "auth: {admins: [root, 'a b']}\n", "E014 2:23"},
    {"an admin without a name", V "auth: {admins: ['']}\n", "E014 2:17"},
    {"workers_from", V "auth: {workers_from: all}\n", "E012 2:22"},
    {"partition", V "slurm: {partition: 'a,b'}\n", ""},
    {"partition empty", V "slurm: {partition: ''}\n", "E040 2:20"},
    {"partition with a newline", V "slurm: {partition: \"a\\nb\"}\n",
     "E040 2:20"},
    {"account with a blank", V "slurm: {account: a b}\n", "E040 2:18"},
    {"qos of another alphabet", V "slurm: {qos: \xd0\xb0}\n", "E040 2:14"},
    {"gpu type", V "slurm: {gpu_type: h100}\n", ""},
    {"gpu type a list", V "slurm: {gpu_type: 'h100,a100'}\n", "E040 2:19"},
    {"memory of a type", V "slurm: {gpu_memory: {h100: 80}}\n", "E023 2:28"},
    {"too little of it", V "slurm: {gpu_memory: {h100: 8K}}\n", "E023 2:28"},
    {"no type", V "slurm: {gpu_memory: {'h 100': 80G}}\n", "E014 2:22"},
    {"no memory", V "slurm: {memory_per_gpu: 0B}\n", "E023 2:25"},
    {"memory", V "slurm: {memory_per_gpu: 8G}\n", ""},
    {"launcher", V "slurm: {launcher: mpiexec}\n", "E012 2:19"},
    {"srun an option", V "slurm: {srun: -n}\n", "E014 2:15"},
    {"srun in two lines", V "slurm: {srun: \"a\\nb\"}\n", "E014 2:15"},
    {"poll interval", V "slurm: {poll_interval: 0s}\n", "E023 2:24"},
    {"no margin", V "slurm: {limit_margin: 0s}\n", ""},
    {"allocator", V "allocator: locl\n", "E012 2:12"},
    {"a program by a relative path", V "notify: {program: [tell, a]}\n",
     "E015 2:20"},
    {"a program with arguments", V "notify: {program: [/bin/tell, a, b]}\n",
     ""},
    {"mails of before", V "notify: {mail_program: /bin/mail}\n", "E018 2:10"},
    {"hosts of before", V "notify: {webhook_allow: [a.org]}\n", "E018 2:10"},
    {"authorities of before", V "notify: {ca_file: /a.pem}\n", "E018 2:10"},
    {"no key of store", V "store: {min_fre: 2G}\n", "E010 2:9"},
    {"jobs for a time", V "store: {jobs_retention: 1d}\n", ""},
    {"jobs for a time too short to be meant",
     V "store: {jobs_retention: 59m}\n", "E023 2:25"},
    {"rows for a time", V "store: {metrics_retention: 90d}\n", ""},
    {"rows for good", V "store: {metrics_retention: null}\n", ""},
    {"rows for a time too short to be meant",
     V "store: {metrics_retention: 90s}\n", "E023 2:28"},
    {"rows without a unit", V "store: {metrics_retention: 90}\n", "E024 2:28"},
    {"min_free", V "store: {min_free: 2G}\n", ""},
    {"min_free, none", V "store: {min_free: null}\n", ""},
    {"min_free without a unit", V "store: {min_free: 20}\n", "E023 2:19"},
    {"min_free too small", V "store: {min_free: 1K}\n", "E023 2:19"},
    {"a section of store", V "store: 2G\n", "E011 2:8"},
    {"backups by a relative path",
     V "store: {backup: {dir: b, every: 1h, keep: 1}}\n", "E015 2:23"},
    {"backups too often", V "store: {backup: {every: 0s}}\n", "E023 2:25"},
    {"backups without a unit", V "store: {backup: {every: 6}}\n", "E024 2:25"},
    {"no backup kept", V "store: {backup: {keep: 0}}\n", "E013 2:24"},
    {"a key of no backup", V "store: {backup: {dri: /b}}\n", "E010 2:18"},
    {"backups", V "store: {backup: {dir: /b, every: 1d, keep: 1}}\n", ""},
    {"backups no more", V "store: {backup: {dir: null}}\n", ""},
    {"jobs as a service", V "slurm: {submit_as: service}\n", "E018 2:20"},
    {"jobs as their users", V "slurm: {submit_as: user}\n", ""},
    {"jobs as somebody", V "slurm: {submit_as: anna}\n", "E012 2:20"},
    {"a group of one's own daemon", V "controller: {socket_group: hpc}\n",
     "E017 2:28"},
    {"a group of everybody's",
     V "controller: {socket_group: hpc, user: mgpu}\n", ""},
    {"no group", V "controller: {socket_group: null}\n", ""},
    {"a group of two words", V "controller: {socket_group: 'a b', user: m}\n",
     "E014 2:28"},
    {"no grace", V "scheduler: {preempt: {grace: 0s}}\n", "E023 2:30"},
    {"preempt is a section", V "scheduler: {preempt: yes}\n", "E011 2:22"},
    {"length_weight", V "scheduler: {goodput: {length_weight: 3.1}}\n",
     "E013 2:38"},
    {"speedup_exponent", V "scheduler: {goodput: {speedup_exponent: 0.2}}\n",
     "E013 2:41"},
    {"floor", V "scheduler: {goodput: {efficiency_floor: 1.1}}\n", "E013 2:41"},
    {"idle floor above the other",
     V "scheduler: {goodput: {efficiency_floor: 0.2, idle_floor: 0.3}}\n",
     "E023 2:58"},
    {"idle floor above the default",
     V "scheduler: {goodput: {idle_floor: 0.5}}\n", "E023 2:35"},
    {"floor below the default of the other",
     V "scheduler: {goodput: {efficiency_floor: 0.2}}\n", "E023 2:41"},
    {"equal floors",
     V "scheduler: {goodput: {efficiency_floor: 0, idle_floor: 0}}\n", ""},
    {"horizon", V "scheduler: {goodput: {horizon: 30s}}\n", "E023 2:32"},
    {"hysteresis none", V "scheduler: {goodput: {hysteresis: 0s}}\n", ""},
    {"hysteresis", V "scheduler: {goodput: {hysteresis: 2h}}\n", "E023 2:35"},
    {"goodput interval", V "scheduler: {goodput: {interval: 4s}}\n",
     "E023 2:33"},
    {"resizes", V "scheduler: {goodput: {max_resizes_per_hour: -1}}\n",
     "E013 2:45"},
    {"aging", V "scheduler: {goodput: {aging: 0}}\n", "E013 2:30"},
    {"aging off", V "scheduler: {goodput: {aging: null}}\n", ""},
    {"explore", V "scheduler: {goodput: {explore: 17}}\n", "E013 2:32"},
    {"priority", V "scheduler: {goodput: {priority: order}}\n", "E012 2:33"},
    {"no key of goodput", V "scheduler: {goodput: {idle_flor: 0}}\n",
     "E010 2:23"},
    {"fair share", V "scheduler: {fair_share: {half_life: 7d}}\n", ""},
    {"half life", V "scheduler: {fair_share: {half_life: 1s}}\n", "E023 2:37"},
    {"weights", V "scheduler: {fair_share: {weights: {a: 2, b: 0.5}}}\n", ""},
    {"no weight", V "scheduler: {fair_share: {weights: {a: 2, b: 0}}}\n",
     "E023 2:45"},
    {"weight below 0", V "scheduler: {fair_share: {weights: {a: -1}}}\n",
     "E023 2:39"},
    {"weight not a number", V "scheduler: {fair_share: {weights: {a: x}}}\n",
     "E023 2:39"},
    {"weight nan", V "scheduler: {fair_share: {weights: {a: nan}}}\n",
     "E023 2:39"},
    {"GPU-hours",
     V "limits: {gpu_hours: {ada: 0.5 per 7d, vision: 5000 per 30d}}\n", ""},
    {"GPU-hours of none", V "limits: {gpu_hours: {ada: 0 per 7d}}\n",
     "E023 2:27"},
    {"GPU-hours per minute", V "limits: {gpu_hours: {ada: 1 per 1m}}\n",
     "E023 2:27"},
    {"GPU-hours for ever", V "limits: {gpu_hours: {ada: 100}}\n", "E023 2:27"},
    {"GPU-hours of nobody", V "limits: {gpu_hours: {'a b': 1 per 1d}}\n",
     "E014 2:22"},
    {"weight of nobody", V "scheduler: {fair_share: {weights: {'a b': 1}}}\n",
     "E014 2:36"},
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
    {"log format", V "log: {format: xml}\n", "E012 2:15"},
    {"log as JSON", V "log: {format: json, target: journal}\n", ""},
    {"log target", V "log: {target: /var/log/mgpu}\n", "E012 2:15"},
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
        char got[200];
        int rc =
            conf_parse(rows[i].text, strlen(rows[i].text), NULL, &c, &r, &err);
        is_str(findings_text(&r, got, sizeof(got)), rows[i].want, rows[i].name);
        if (strchr(rows[i].want, 'E'))
            ok(rc == -1 && err.code == ERR_CONFIG && c.version == 77,
               "%s: refused whole, %s", rows[i].name, err.msg);
        else
            is_int(rc, 0, rows[i].name);
        if (rc == 0)
            conf_clear(&c);
        diagnostics_clear(&r);
    }
}

static void test_values(void)
{
    static const char text[] =
        V "cluster: lab\nallocator: local\n"
          "controller: {state_dir: state, socket: /run/m.sock,\n"
          " listen: '10.0.0.5:7431', url: 'http://a:7431',\n"
          " metrics_listen: '127.0.0.1:9431',\n"
          " jobs_dir: /h/%u/mgpu, user: mgpu}\n"
          "auth: {remote: munge, munge_socket: /run/munge.s,\n"
          " admins: [root, ops], workers_from: any}\n"
          "slurm: {conf: slurm.conf, partition: gpu, account: lab,\n"
          " qos: long, constraint: ib&nvlink, reservation: maint,\n"
          " gpu_type: h100, exclusive: yes, cpus_per_gpu: 8,\n"
          " memory_per_gpu: 16G, launcher: mpirun, srun: /opt/srun,\n"
          " mpirun: /opt/ompi/mpirun, mpi: pmix_v4, poll_interval: 2s,\n"
          " call_timeout: 9s, reconcile_after: 1m, limit_margin: 5m,\n"
          " submit_ahead: 3}\n"
          "local: {gpus: auto, cpu_slots: 3, bind: yes, mpirun: /opt/mpirun}\n"
          "scheduler: {policy: fifo, interval: 2s,\n"
          " preempt: {enabled: yes, grace: 30s, min_runtime: 1h},\n"
          " goodput: {length_weight: 1, aging: 1.5, explore: 4,\n"
          "  max_resizes_per_hour: 0, horizon: 1h, priority: weight},\n"
          " fair_share: {half_life: 7d, weights: {vision: 2.5}}}\n"
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
    ok(c.local.bind, "slots with cores of their own");
    is_str(c.local.mpirun, "/opt/mpirun", "mpirun");
    is_str(c.controller.listen, "10.0.0.5:7431", "listen");
    is_str(c.controller.url, "http://a:7431", "url");
    is_str(c.controller.metrics_listen, "127.0.0.1:9431", "metrics_listen");
    is_str(c.controller.jobs_dir, "/h/%u/mgpu", "jobs_dir");
    is_str(c.controller.user, "mgpu", "user");
    is_int(c.auth.remote, AUTH_MUNGE, "remote");
    is_str(c.auth.munge_socket, "/run/munge.s", "munge_socket");
    is_int((long long)c.auth.admins.n, 2, "admins");
    is_str(c.auth.admins.items[1], "ops", "the second");
    is_int(c.auth.workers_from, WORKERS_FROM_ANY, "workers_from");
    is_str(c.slurm.conf, "/etc/mgpu/slurm.conf", "slurm.conf");
    is_str(c.slurm.partition, "gpu", "partition");
    is_str(c.slurm.account, "lab", "account");
    is_str(c.slurm.qos, "long", "qos");
    is_str(c.slurm.constraint, "ib&nvlink", "constraint");
    is_str(c.slurm.reservation, "maint", "reservation");
    is_str(c.slurm.gpu_type, "h100", "gpu_type");
    ok(c.slurm.exclusive, "exclusive");
    is_int(c.slurm.cpus_per_gpu, 8, "cpus_per_gpu");
    is_int(c.slurm.memory_per_gpu_bytes, 16LL << 30, "memory_per_gpu");
    is_int(c.slurm.launcher, LAUNCHER_MPIRUN, "launcher");
    is_str(c.slurm.srun, "/opt/srun", "srun");
    is_str(c.slurm.mpirun, "/opt/ompi/mpirun", "mpirun on the nodes");
    is_str(c.slurm.mpi, "pmix_v4", "mpi");
    ok(c.slurm.poll_interval_s == 2 && c.slurm.call_timeout_s == 9 &&
           c.slurm.reconcile_after_s == 60 && c.slurm.limit_margin_s == 300 &&
           c.slurm.submit_ahead == 3,
       "times");
    is_str(c.scheduler.policy, "fifo", "policy");
    ok(c.scheduler.interval_s == 2, "interval");
    ok(c.scheduler.preempt.enabled && c.scheduler.preempt.grace_s == 30 &&
           c.scheduler.preempt.min_runtime_s == 3600,
       "preempt");
    ok(c.scheduler.goodput.length_weight == 1 &&
           c.scheduler.goodput.aging == 1.5 &&
           c.scheduler.goodput.horizon_s == 3600 &&
           c.scheduler.goodput.idle_floor == 0.25,
       "goodput");
    is_int(c.scheduler.goodput.explore, 4, "explore");
    is_int(c.scheduler.goodput.priority, PRIORITY_WEIGHT, "priority");
    is_int(c.scheduler.goodput.max_resizes_per_hour, 0, "resizes");
    ok(c.scheduler.fair_share.half_life_s == 7 * 86400, "half life");
    is_str(c.scheduler.fair_share.weights.pairs[0].value, "2.5", "weight");
    is_int(c.limits.max_jobs_per_user, 5, "jobs per user");
    is_int(c.limits.max_log_bytes, 2LL << 30, "log bytes");
    is_int(c.limits.max_spec_bytes, 1 << 20, "spec bytes, the default");
    ok(c.watchdog.node_lost_after_s == 60, "node_lost_after");
    is_int(c.log.level, LOG_DEBUG, "log level");
    conf_clear(&c);
    conf_clear(&c);
    conf_clear(NULL);
    diagnostics_clear(&r);
}

/* In two pieces: a string of C99 may be no longer than 4095 bytes. */
static const char golden_head[] =
    "version: 1                              # restart\n"
    "cluster: \"local\"                        # restart\n"
    "controller:\n"
    "  state_dir: null                       # restart\n"
    "  socket: null                          # restart\n"
    "  socket_group: null                    # restart\n"
    "  max_clients: 2048                     # restart\n"
    "  listen: null                          # restart\n"
    "  url: null                             # restart\n"
    "  metrics_listen: null                  # restart\n"
    "  metrics_labels: []                    # live\n"
    "  web_listen: null                      # live\n"
    "  web_token_file: null                  # live\n"
    "  web_hosts: []                         # live\n"
    "  web_group: null                       # live\n"
    "  jobs_dir: null                        # restart\n"
    "  user: null                            # restart\n"
    "auth:\n"
    "  remote: none                          # restart\n"
    "  munge_socket: null                    # restart\n"
    "  admins: [\"root\"]                      # live\n"
    "  workers_from: nodes                   # restart\n"
    "allocator: auto                         # restart\n"
    "local:\n"
    "  gpus: \"auto\"                          # restart\n"
    "  cpu_slots: \"auto\"                     # restart\n"
    "  bind: false                           # restart\n"
    "  mpirun: \"mpirun\"                      # restart\n"
    "slurm:\n"
    "  conf: null                            # restart\n"
    "  partition: null                       # live\n"
    "  account: null                         # live\n"
    "  qos: null                             # live\n"
    "  constraint: null                      # live\n"
    "  reservation: null                     # live\n"
    "  gpu_type: null                        # live\n"
    "  exclusive: false                      # live\n"
    "  cpus_per_gpu: 4                       # live\n"
    "  memory_per_gpu: null                  # live\n"
    "  gpu_memory: {}                        # live\n"
    "  submit_as: user                       # restart\n"
    "  launcher: srun                        # restart\n"
    "  srun: \"srun\"                          # restart\n"
    "  mpirun: \"mpirun\"                      # restart\n"
    "  mpi: \"pmix\"                           # restart\n"
    "  poll_interval: 1s                     # restart\n"
    "  call_timeout: 5s                      # restart\n"
    "  reconcile_after: 30s                  # restart\n"
    "  limit_margin: 2m                      # restart\n"
    "  submit_ahead: 1                       # restart\n"
    "  resize_patience: 1m                   # restart\n"
    "scheduler:\n"
    "  policy: goodput                       # live\n"
    "  interval: 1s                          # live\n"
    "  preempt:\n"
    "    enabled: false                      # live\n"
    "    grace: 2m                           # live\n"
    "    min_runtime: 10m                    # live\n"
    "  goodput:\n"
    "    length_weight: 0.6                  # live\n"
    "    speedup_exponent: 0.85              # live\n"
    "    efficiency_floor: 0.4               # live\n"
    "    idle_floor: 0.25                    # live\n"
    "    hysteresis: 2m                      # live\n"
    "    horizon: 30m                        # live\n"
    "    interval: 1m                        # live\n"
    "    min_runtime: 1m                     # live\n"
    "    max_resizes_per_hour: 6             # live\n"
    "    aging: 2                            # live\n"
    "    explore: 2                          # live\n"
    "    priority: strict                    # live\n"
    "  fair_share:\n"
    "    half_life: 7d                       # live\n"
    "    weights: {}                         # live\n";
static const char golden_tail[] =
    "limits:\n"
    "  max_jobs_per_user: 1000               # live\n"
    "  max_gpus_per_user: null               # live\n"
    "  max_gpus_per_account: null            # live\n"
    "  max_running_per_user: null            # live\n"
    "  max_running_per_account: null         # live\n"
    "  gpu_hours: {}                         # live\n"
    "  max_ended_jobs: 10000                 # live\n"
    "  max_sweep: 4096                       # live\n"
    "  max_spec_bytes: 1M                    # live\n"
    "  max_log_bytes: 1G                     # live\n"
    "  rpc_rate: null                        # live\n"
    "  rpc_burst: 60                         # live\n"
    "  max_clients_per_user: null            # live\n"
    "store:\n"
    "  metrics_retention: null               # live\n"
    "  jobs_retention: null                  # live\n"
    "  min_free: null                        # live\n"
    "  backup:\n"
    "    dir: null                           # live\n"
    "    every: 6h                           # live\n"
    "    keep: 8                             # live\n"
    "watchdog:\n"
    "  heartbeat: 10s                        # live\n"
    "  node_lost_after: 90s                  # live\n"
    "  run_lost_after: 10m                   # live\n"
    "  stall_factor: 20                      # live\n"
    "  stall_min: 5m                         # live\n"
    "notify:\n"
    "  program: []                           # live\n"
    "log:\n"
    "  level: info                           # live\n"
    "  format: text                          # live\n"
    "  target: auto                          # restart\n";

static void is_golden(const struct buf *out, const char *name)
{
    char text[sizeof(golden_head) + sizeof(golden_tail)];
    (void)snprintf(text, sizeof(text), "%s%s", golden_head, golden_tail);
    is_str(buf_str(out), text, name);
}

static void test_print(void)
{
    struct conf c, again;
    struct spec_report r;
    struct error err = ERROR_INIT;
    struct buf out = BUF_INIT;
    is_int(conf_default(&c, &err), 0, "the defaults are legal");
    is_int(conf_print(&c, &out, &err), 0, "prints");
    is_golden(&out, "every value, and when it is read");
    is_int(conf_parse(out.data, out.len, NULL, &again, &r, &err), 0,
           "what is printed can be read");
    struct buf twice = BUF_INIT;
    is_int(conf_print(&again, &twice, &err), 0, "and printed");
    is_golden(&twice, "to the same");
    conf_clear(&c);
    conf_clear(&again);
    diagnostics_clear(&r);
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
    static const char text[] = "cluster: a\nallocator: cloud\n";
    if (!ok(fd >= 0 && write(fd, text, sizeof(text) - 1) > 0, "a file"))
        return;
    is_int(conf_load(path, &c, &out, &err), -1, "a bad file");
    is_int(err.code, ERR_CONFIG, "is a configuration error");
    ok(strstr(err.msg, "1 error, 1 warning") != NULL, "counted: %s", err.msg);
    ok(strstr(buf_str(&out), ":2:12: error[E012]: ") != NULL &&
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

static void note(void *arg, const char *path, bool live)
{
    struct buf *b = arg;
    if (buf_addf(b, NULL, "%s%s ", path, live ? "!" : "") < 0)
        abort();
}

static void test_changes(void)
{
    static const char one[] =
        V "cluster: a\nauth: {admins: [root, x]}\nslurm: {partition: p}\n";
    static const char two[] =
        V "cluster: b\nauth: {admins: [root, y]}\nslurm: {account: p}\n"
          "limits: {max_log_bytes: 2G}\nlog: {level: debug}\n"
          "scheduler: {policy: fifo, interval: 2s}\n";
    struct conf a, b;
    struct spec_report report;
    struct buf out = BUF_INIT;
    struct error err = ERROR_INIT;
    is_int(conf_parse(one, strlen(one), NULL, &a, &report, &err), 0, "one");
    diagnostics_clear(&report);
    is_int(conf_parse(two, strlen(two), NULL, &b, &report, &err), 0, "another");
    diagnostics_clear(&report);
    conf_changes(&a, &a, note, &out);
    is_str(buf_str(&out), "", "nothing has changed");
    conf_changes(&a, &b, note, &out);
    is_str(buf_str(&out),
           "cluster auth.admins! slurm.partition! slurm.account! "
           "scheduler.policy! scheduler.interval! limits.max_log_bytes! "
           "log.level! ",
           "what has changed, and what of it is live");
    buf_clear(&out);
    conf_clear(&a);
    conf_clear(&b);
}

struct found {
    const char *path;
    char value[64];
    int32_t line;
};

static void find_value(void *arg, const struct conf_value *v)
{
    struct found *f = arg;
    if (strcmp(v->path, f->path) != 0)
        return;
    (void)snprintf(f->value, sizeof(f->value), "%s", v->value);
    f->line = v->line;
}

static void is_from(const struct conf *c, const char *path, const char *value,
                    int32_t line)
{
    struct found f = {.path = path, .line = -2};
    struct error err = ERROR_INIT;
    is_int(conf_each_value(c, find_value, &f, &err), 0, "values");
    is_str(f.value, value, path);
    is_int(f.line, line, "and its line");
}

static void test_with(void)
{
    static const char text[] = V "limits:\n  max_gpus_per_user: 4\n";
    static const struct spec_set good[] = {
        {"limits.max_gpus_per_user", "null", NULL},
        {"watchdog.heartbeat", "1m30s", NULL},
        {"watchdog.node_lost_after", "3m", NULL}};
    static const struct spec_set bad[] = {
        {"limits.max_gpus_per_user", "5", NULL},
        {"watchdog.heartbeat", "1m", NULL}};
    struct conf base, c = {.version = 0};
    struct spec_report report;
    struct buf out = BUF_INIT;
    struct error err = ERROR_INIT;

    is_int(conf_parse(text, strlen(text), NULL, &base, &report, &err), 0,
           "a base");
    diagnostics_clear(&report);
    is_from(&base, "limits.max_gpus_per_user", "4", 3);
    is_from(&base, "scheduler.policy", "goodput", CONF_BUILT_IN);
    is_int(conf_with(&base, good, 3, &c, &out, &err), 0, "three keys on top");
    is_from(&c, "limits.max_gpus_per_user", "null", CONF_SET);
    is_from(&c, "watchdog.heartbeat", "90s", CONF_SET);
    is_from(&c, "limits.max_jobs_per_user", "1000", CONF_BUILT_IN);
    conf_clear(&c);
    is_int(conf_with(&base, bad, 2, &c, &out, &err), -1, "not with the rest");
    is_int(err.code, ERR_CONFIG, "is an error of the configuration");
    ok(strstr(buf_str(&out), "--set: error[E023]: 'watchdog.node_lost_after' "
                             "must be at least twice") != NULL,
       "with the words of the file's: %s", buf_str(&out));
    conf_clear(&base);
    is_int(conf_default(&base, &err), 0, "without a file");
    is_int(conf_with(&base, good, 3, &c, &out, &err), 0, "they go, too");
    is_int((long)c.watchdog.heartbeat_s, 90, "and are in it");
    conf_clear(&c);
    conf_clear(&base);
    buf_clear(&out);
    is_int(conf_key_of("limits.max_gpus_per_user"), CONF_POLICY, "policy");
    is_int(conf_key_of("slurm.submit_ahead"), CONF_POLICY_AT_START, "start");
    is_int(conf_key_of("auth.admins"), CONF_OTHER, "another key");
    is_int(conf_key_of("limits"), CONF_OTHER, "a section");
    is_int(conf_key_of("limits.max_gpu"), CONF_UNKNOWN, "none");
}

int main(void)
{
    test_with();
    test_changes();
    test_rows();
    test_values();
    test_print();
    test_load();
    return tap_done();
}
