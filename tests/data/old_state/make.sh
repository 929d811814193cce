#!/bin/sh
# make.sh - how state.tar.gz was made: BIN=folder-of-programs sh make.sh
#
# The programs are those of version 0.1.0 before sealed values, clock spans,
# the SQL of an administrator, mails and webhooks were removed. The archive has
# a mgpu.yaml and a state directory: two jobs that have begun (one ended, one
# waits for its retry), and four that are queued or held. Five of the six
# have a sealed value of `env`; two have a `notify`.
set -eu
B=$BIN
W=${DIR:-/srv/mgpu-before}
rm -rf $W; mkdir -p $W; chmod 700 $W; cd $W; mkdir -m 700 d
cat >mgpu.yaml <<E
version: 1
notify:
  mail_program: /usr/bin/true
  webhook_allow: ['127.0.0.1:9']
store: {metrics_retention: 3650d}
E
export MGPU_URL=unix:$W/d/sock
$B/mgpu-ctld --local --slots 1 --state-dir $W/state --socket $W/d/sock --config $W/mgpu.yaml >d/log 2>&1 &
pid=$!
trap 'kill $pid 2>/dev/null||:' EXIT
for i in $(seq 100); do $B/mgpu-stat >/dev/null 2>&1 && break; sleep 0.1; done
head() { printf 'version: 1\nkind: command\nworkdir: /\nname: %s\nresources: {gpus: 1}\n' "$1"; }
{ head ended; cat <<'E'
command: [sh, -c, 'for i in 1 2 3; do echo "{\"iteration\":$i,\"t_iter\":0.5}"; done >>$MGPU_METRICS']
env: {HF_TOKEN: hf_plain00}
notify: {email: alice, on: [begin, end, fail]}
E
} >ended.yaml
{ head queued; cat <<'E'
command: ['true']
env: {HF_TOKEN: hf_queued0, MODE: fast}
E
} >queued.yaml
{ head again; cat <<'E'
command: ['false']
env: {DB_PASSWORD: hunter22}
retry: {max: 1, on: [exit], backoff: 1h}
E
} >again.yaml
{ head told; cat <<'E'
command: ['true']
notify: {email: alice@example.org, webhook: 'http://127.0.0.1:9/x?token=s3cret', on: [begin, end, fail]}
E
} >told.yaml
{ head vary; cat <<'E'
command: ['true']
sweep: {zip: {env.API_KEY: [first, second], env.N: [0, 1]}}
E
} >vary.yaml
$B/mgpu-submit --wait --quiet ended.yaml
$B/mgpu-submit --quiet again.yaml
for i in $(seq 100); do $B/mgpu-stat --events 2 | grep -q requeue && break; sleep 0.1; done
$B/mgpu-admin --quiet pause
$B/mgpu-admin --quiet policy set limits.max_jobs_per_user=50
$B/mgpu-submit --quiet queued.yaml
$B/mgpu-submit --quiet told.yaml
$B/mgpu-submit --quiet --hold queued.yaml
$B/mgpu-submit --quiet vary.yaml
$B/mgpu-stat -t all
$B/mgpu-stat --sql 'SELECT count(*) AS n FROM v_job'
sleep 1
kill $pid; wait $pid || :
trap - EXIT
cat d/log
rm -f state/lock
tar --sort=name --owner=0 --group=0 --numeric-owner -cf - mgpu.yaml state |
    gzip -9n >state.tar.gz
