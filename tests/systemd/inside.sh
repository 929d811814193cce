#!/bin/bash
# inside.sh - what an admin and users do with the package, in the machine that
# boot.sh starts: it is lost afterwards, so nothing is put back.
#
# A part of it is a function; what is said of it are lines of `ok`. The job
# `long` begins in part_jobs and goes on through all that is done to the
# daemon; it ends after the upgrade.
set -u

unit=mgpu-ctld.service
conf=/etc/mgpu/mgpu.yaml
socket=/run/mgpu/ctld.sock
n=0

# ---- TAP -----------------------------------------------------------------------
ok() { # DESCRIPTION COMMAND...: what it prints is shown when it fails
    local what=$1 said
    shift
    n=$((n + 1))
    if said=$("$@" 2>&1); then
        echo "ok $n - $what"
    else
        echo "not ok $n - $what"
        printf '%s\n' "\$ $*" "$said" | tail -n 40 | sed 's/^/#   /'
        journalctl -q -n 5 -o short-monotonic -u "$unit" | sed 's/^/#   | /'
    fi
}
fails() { ! "$@"; }
is() { [ "$1" = "$2" ] || { echo "is '$1', not '$2'" && false; }; }
has() { # TEXT PATTERN, an extended regular expression
    grep -Eq -- "$2" <<<"$1" || { echo "'$2' is not in: $1" && false; }
}
says() { has "$("${@:2}" 2>&1)" "$1"; } # PATTERN COMMAND...
until_true() { # SECONDS COMMAND...: the last try says what is wrong
    local end=$((SECONDS + $1))
    shift
    until "$@" >/dev/null 2>&1; do
        if [ "$SECONDS" -ge "$end" ]; then
            "$@"
            return
        fi
        sleep 0.2
    done
}
note() { printf '%s\n' "$*" | sed 's/^/# /'; }

# ---- words for what is looked at ---------------------------------------------
shown() { systemctl show -P "$1" "$unit"; }
shown_is() { is "$(shown "$1")" "$2"; }
pid() { shown MainPID; }
status_of() { sed -n "s/^$2:[[:space:]]*//p" "/proc/$1/status"; } # PID KEY
helper() { pgrep -P "$(pid)" -x mgpu-slurm-help; }
said() { journalctl -q -u "$unit" -o cat "$@"; }
has_said() { has "$(said "${@:2}")" "$1"; } # PATTERN OPTION...
api() { curl -sf --max-time 20 --unix-socket "$socket" "http://x$1"; }
ready() { api /readyz >/dev/null; }

as() { # USER COMMAND...: as after a login, without the manager of user units
    setpriv --reuid "$1" --regid "$1" --init-groups env -i -C "/home/$1" \
        HOME="/home/$1" USER="$1" LC_ALL=C.UTF-8 PATH=/usr/bin:/bin "${@:2}"
}
state() { # JOB
    sqlite3 :memory: "SELECT json_extract('$(api "/v1/jobs/$1" |
        sed "s/'/''/g")', '\$.job.state')"
}
state_is() { is "$(state "$1")" "$2"; }
mode_is() { is "$(stat -c '%U:%G %a' "$1")" "$2"; }

write_conf() { # LINE...: are added
    mkdir -p /etc/mgpu
    cat >"$conf" <<'YAML'
version: 1
cluster: inside
allocator: slurm
controller:
  user: mgpu
  listen: node1:7431
  url: http://node1:7431
  jobs_dir: /home/%u/.mgpu
auth: {admins: [root, carol], workers_from: nodes}
YAML
    printf '%s\n' "$@" >>"$conf"
}

# ---- a machine with a cluster ------------------------------------------------
set_up_slurm() {
    echo node1 >/proc/sys/kernel/hostname
    printf '%s\n' "127.0.0.1 localhost" "10.9.0.1 node1" >/etc/hosts
    # With lo alone, names have no address (AI_ADDRCONFIG).
    ip link add net0 type dummy
    ip address add 10.9.0.1/24 dev net0
    ip link set net0 up
    # srun opens it by this name, which only libpmix-dev has.
    ln -sf libpmix.so.2 /usr/lib/x86_64-linux-gnu/pmix2/lib/libpmix.so
    ln -sf pmix2/lib/libpmix.so /usr/lib/x86_64-linux-gnu/libpmix.so
    ldconfig
    mkdir -p /etc/slurm
    for i in 0 1; do ln -sf /dev/null "/etc/slurm/gpu$i"; done
    echo 'NodeName=node1 Name=gpu Type=none File=/etc/slurm/gpu[0-1] Flags=nvidia_gpu_env' \
        >/etc/slurm/gres.conf
    echo PMIxCollFence=ring >/etc/slurm/mpi.conf
    cat >/etc/slurm/slurm.conf <<'CONF'
ClusterName=inside
SlurmctldHost=node1
SlurmUser=slurm
AuthType=auth/munge
StateSaveLocation=/var/lib/slurm/slurmctld
SlurmdSpoolDir=/var/lib/slurm/slurmd
SlurmctldPidFile=/run/slurmctld.pid
SlurmdPidFile=/run/slurmd.pid
MailProg=/bin/true
SlurmdParameters=config_overrides
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
MpiDefault=none
GresTypes=gpu
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
SchedulerParameters=batch_sched_delay=0,sched_interval=2,bf_interval=2
AccountingStorageType=accounting_storage/none
NodeName=node1 CPUs=16 RealMemory=1800 Gres=gpu:none:2 State=UNKNOWN
PartitionName=batch Nodes=ALL Default=YES DefMemPerCPU=50
CONF
    systemctl restart munge slurmctld slurmd
}
node_idle() { is "$(sinfo -h -o %T)" idle; }

make_users() {
    for user in alice bob carol; do
        useradd --create-home --shell /bin/bash "$user"
        chmod 700 "/home/$user"
    done
}

# ---- parts -------------------------------------------------------------------
part_install() {
    ok "apt installs the package with what it needs" \
        apt-get install -y --no-install-recommends /srv/inside/mgpu.deb
    ok "its account has a group of its own, no shell and no password" \
        has "$(getent passwd mgpu) $(id -gn mgpu) $(getent shadow mgpu)" \
        ':/var/lib/mgpu:/usr/sbin/nologin mgpu mgpu:!\*?:'
    ok "the state is the account's alone" mode_is /var/lib/mgpu "mgpu:mgpu 700"
    ok "others find the socket's directory" mode_is /run/mgpu "mgpu:mgpu 755"
    ok "systemd knows the unit" shown_is LoadState loaded
    ok "nothing was started" shown_is ActiveState inactive
    ok "nothing was enabled" shown_is UnitFileState disabled
    ok "dpkg finds its files as they were packed" is "$(dpkg --verify mgpu)" ""
    systemctl enable -q "$unit"
    ok "it is enabled for the next start" shown_is UnitFileState enabled
    systemctl start "$unit"
    ok "without a configuration there is no start, and no failure" \
        is "$(shown ActiveState) $(shown ConditionResult)" "inactive no"
}

is_over() { is "$(shown ActiveState) $(shown SubState)" "failed failed"; }
part_wrong_conf() {
    write_conf "limits: {max_jobs_per_usr: 3}"
    ok "a wrong configuration: systemctl start fails" \
        fails timeout 120 systemctl start "$unit"
    ok "the unit fails and is not started for ever" until_true 120 is_over
    ok "nor a moment later" is_over
    ok "the journal has the place" has_said "mgpu.yaml:10:.*max_jobs_per_usr"
    ok "and what was meant" has_said "did you mean 'max_jobs_per_user'"
    note "starts: $(shown NRestarts) more, ExecMainStatus $(shown ExecMainStatus)"
    systemctl reset-failed "$unit"
}

part_start() {
    write_conf
    ok "a good one: systemctl start returns with success" \
        timeout 120 systemctl start "$unit"
    ok "and then the daemon is ready" ready
    ok "systemctl is-active" systemctl is-active "$unit"
    ok "it says nothing that would have to be looked at" shown_is StatusText ""
    ok "the daemon is nobody in particular" \
        is "$(status_of "$(pid)" Uid | tr -s '\t' ' ')" \
        "$(id -u mgpu) $(id -u mgpu) $(id -u mgpu) $(id -u mgpu)"
    ok "and has no powers" is "$(status_of "$(pid)" CapPrm)" 0000000000000000
    ok "its helper is root" has "$(status_of "$(helper)" Uid)" '^0'
    ok "every user may connect" mode_is "$socket" "mgpu:mgpu 666"
}

# What systemd was asked to shut off, seen from within.
within() { nsenter -t "$(helper)" -m -- "$@"; }
part_sandbox() {
    local p
    for p in "$(pid)" "$(helper)"; do
        ok "$(ps -o comm= "$p") has a filter of system calls" \
            is "$(status_of "$p" Seccomp)" 2
        ok "and gains no privileges" is "$(status_of "$p" NoNewPrivs)" 1
        # CHOWN 0, DAC_OVERRIDE 1, DAC_READ_SEARCH 2, FOWNER 3, KILL 5,
        # SETGID 6, SETUID 7
        ok "nor has more than seven capabilities in reach" \
            is "$(status_of "$p" CapBnd)" 00000000000000ef
    done
    ok "/usr cannot be written to" fails within touch /usr/x
    ok "nor /etc" fails within touch /etc/x
    ok "nor the kernel's variables" fails within sh -c 'echo 1 >/proc/sys/kernel/panic'
    ok "nor control groups" fails within mkdir /sys/fs/cgroup/x
    ok "no disk is among its devices" fails within test -e /dev/vda
    ok "homes are there" within test -d /home/alice
    ok "systemd has left nothing out that this kernel could not do" \
        fails has_said 'not supported|ignoring'
    p=$(systemd-analyze security --no-pager "$unit" | tail -n 1)
    note "$p"
    ok "systemd-analyze security says 3.1" has "$p" ': 3\.1 '
}

long_id=
part_jobs() {
    local id out
    ok "a user's command runs, and --wait ends with its exit code" \
        is "$(printf '%s\n' 'version: 1' 'kind: command' 'name: seven' \
            'command: [sh, -c, "id -un; exit 7"]' 'retry: {max: 0}' \
            'resources: {time_limit: 10m}' >/home/alice/seven.yaml
        as alice timeout 300 mgpu-submit --wait seven.yaml >/tmp/seven 2>&1
        echo $?)" 7
    id=1
    ok "the log is what it printed, as its user" \
        says '^(\[0\] )?alice$' as alice mgpu-stat --logs $id
    ok "the shipped example trains on two ranks" \
        as alice timeout 900 mgpu-submit --wait --template cv-synthetic \
        --set train.device=host --set train.epochs=1 --set resources.gpus=2 \
        --set dataset.image_size=32 --set dataset.train_samples=256 \
        --set dataset.eval_samples=64 --set resources.time_limit=30m
    out=$(as alice mgpu-stat --epochs 2)
    note "$out"
    ok "with a loss for its epoch" has "$out" '^ *1 +.*[0-9]\.[0-9]'
    ok "it is in the user's list" says seven as alice mgpu-stat --since 1d
    out=/home/alice/.mgpu/2
    ok "all of its files are the user's" is "$(find /home/alice/.mgpu ! -user alice)" ""
    ok "and closed to all others" is "$(find $out -type d ! -perm 700
        find $out -type f ! -perm 600)" ""
    chmod 711 /home/alice
    ok "another user does not read them" fails as bob cat $out/1/log
    chmod 700 /home/alice
    ok "nor the log through the daemon" fails as bob mgpu-stat --logs 2
    ok "root has no jobs here" \
        says "root's jobs are not run here" mgpu-submit /home/alice/seven.yaml

    cat >/home/alice/long.yaml <<'YAML'
version: 1
kind: command
name: long
command: [sh, -c, 'echo $MGPU_ATTEMPT >>~/ran; until [ -e ~/go ]; do sleep 0.2; done; echo over']
YAML
    long_id=$(as alice mgpu-submit --parsable long.yaml)
    ok "a long job begins" until_true 120 test -s /home/alice/ran
    ok "another user does not end it" fails as bob mgpu-cancel "$long_id"
    ok "nor pauses the daemon" fails as bob mgpu-admin pause
    ok "an administrator pauses it" as carol mgpu-admin --reason tests pause
    id=$(as bob mgpu-submit --parsable --set name=waits --set 'command=[true]' - \
        <<<$'version: 1\nkind: command')
    ok "what is submitted waits" \
        until_true 60 says Paused as bob mgpu-stat --why "$id"
    ok "drains a node" as carol mgpu-admin --reason tests drain node1
    ok "which users see" until_true 30 says tests as bob mgpu-stat --nodes
    ok "and resumes both" as carol mgpu-admin resume node1
    as carol mgpu-admin --quiet resume
    ok "what waited runs" until_true 120 state_is "$id" COMPLETED
    ok "slurmd has the long job, not the unit" \
        grep -q slurmd "/proc/$(pgrep -u alice -n mgpu-worker)/cgroup"
}

long_goes_on() {
    is "$(state "$long_id") $(cat /home/alice/ran)" "RUNNING 1"
}

policy_of() { mgpu-admin policy show | grep -F "$1"; }
part_reload() {
    local before
    before=$(pid)
    write_conf "limits: {max_jobs_per_user: 77}"
    ok "systemctl reload" systemctl reload "$unit"
    ok "takes up what was changed" until_true 30 says 77 policy_of max_jobs_per_user
    write_conf "limits: {max_jobs_per_user: many}"
    ok "of a bad file systemctl reload says so" fails systemctl reload "$unit"
    ok "and the journal where" has_said 'mgpu.yaml:10:'
    ok "what was in force stays so" says 77 policy_of max_jobs_per_user
    ok "the daemon is the same, and active" is "$(pid) $(shown ActiveState)" "$before active"
    kill -HUP "$(pid)"
    ok "with a bare SIGHUP the unit's status says it" until_true 30 \
        shown_is StatusText "reload failed, see the log"
    ok "as an error in the journal" until_true 30 has_said 'reload|mgpu.yaml' -p err
    write_conf
    ok "and a good file clears it" systemctl reload "$unit"
    ok "in the status, too" until_true 30 shown_is StatusText ""
    for ((i = 0; i < 10; i++)); do
        write_conf "limits: {max_jobs_per_user: $((110 + i))}"
        systemctl reload "$unit" || break
    done
    ok "of ten in a row the last one counts" \
        until_true 30 says '\<119\>' policy_of max_jobs_per_user
}

# What the daemon is worth without its life.
again() { [ "$(pid)" != "$1" ] && [ "$(pid)" != 0 ] && ready; }
part_lives() {
    local before t
    before=$(pid)
    ok "systemctl restart while a job runs" timeout 120 systemctl restart "$unit"
    ok "it is another daemon, and ready" again "$before"
    ok "the job goes on" until_true 60 long_goes_on
    t=$SECONDS
    ok "systemctl stop" timeout 60 systemctl stop "$unit"
    note "took $((SECONDS - t)) s"
    ok "within its time-out" test $((SECONDS - t)) -lt 15
    ok "nothing of it is left" fails pgrep -f 'mgpu-(ctld|slurm-helper)'
    ok "the result is success" shown_is Result success
    systemctl start "$unit"
    ok "the job goes on" until_true 60 long_goes_on
    before=$(pid)
    kill -KILL "$before"
    ok "killed: systemd starts it again" until_true 60 again "$before"
    ok "the job goes on" until_true 60 long_goes_on
    ok "one restart is counted" shown_is NRestarts 1
    before=$(pid)
    kill -KILL "$(helper)"
    ok "its helper killed: both are started again" until_true 60 again "$before"
    ok "the job goes on" until_true 60 long_goes_on
    before=$(pid)
    kill -STOP "$before"
    t=$SECONDS
    ok "stopped: the watchdog has it started again" until_true 240 again "$before"
    note "took $((SECONDS - t)) s"
    ok "as the journal says" has_said 'Watchdog timeout'
    ok "the job goes on" until_true 60 long_goes_on
    ok "one helper is there" is "$(pgrep -cx mgpu-slurm-help)" "$(pgrep -P "$(pid)" -cx mgpu-slurm-help)"
}

part_logs() {
    ok "the journal has the daemon's first line" has_said 'ready version='
    ok "by priority" has_said 'ready version=' -p notice
    ok "what is no more than said is not among warnings" fails has_said 'ready version=' -p warning
    write_conf 'log: {target: file}'
    systemctl restart "$unit"
    ok "with log.target: file it is in ctld.log" grep -q 'ready version=' /var/lib/mgpu/ctld.log
    ok "logrotate" logrotate -f /etc/logrotate.d/mgpu
    ok "put it away" test -e /var/lib/mgpu/ctld.log.1
    ok "and the log goes on in a new file" until_true 30 grep -q 'reopened the log' /var/lib/mgpu/ctld.log
    ok "which is the daemon's alone" mode_is /var/lib/mgpu/ctld.log "mgpu:mgpu 600"
    write_conf
    systemctl restart "$unit"
}

# A group that may connect, in which the daemon has to be.
part_group() {
    groupadd gpu
    usermod -aG gpu mgpu
    usermod -aG gpu alice
    sed -i 's/^  user: mgpu$/&\n  socket_group: gpu/' "$conf"
    systemctl restart "$unit"
    ok "a socket for a group" mode_is "$socket" "mgpu:gpu 660"
    ok "a member connects" as alice mgpu-stat --status
    ok "nobody else does" says 'permission denied.*socket_group' as bob mgpu-stat
    write_conf
    systemctl restart "$unit"
    ok "and again everybody" as bob mgpu-stat --status
}

known() { mgpu-stat --since 1d --no-header --format job,user,name,state; }
knows() { is "$(known)" "$1"; }
part_upgrade() {
    local before jobs
    before=$(pid)
    jobs=$(known)
    ok "an upgrade" apt-get install -y --no-install-recommends /srv/inside/next.deb
    ok "of the version that was asked for" has "$(dpkg -s mgpu)" '^Version: .*\+next$'
    ok "replaces the daemon" until_true 60 again "$before"
    ok "and not its jobs" until_true 60 long_goes_on
    ok "it knows what was known" until_true 30 knows "$jobs"
    touch /home/alice/go
    ok "the long job ends" until_true 120 state_is "$long_id" COMPLETED
    ok "and began once in all that time" is "$(cat /home/alice/ran)" 1
    ok "its log is whole" says 'over$' as alice mgpu-stat --logs "$long_id"
}

# A daemon of one's own, for as long as the user has a manager.
own() { as alice env XDG_RUNTIME_DIR="/run/user/$(id -u alice)" "$@"; }
own_shown() { own systemctl --user show -P "$1" "$unit"; }
own_again() { [ "$(own_shown MainPID)" != "$1" ] && own mgpu-stat --status; }
own_state_is() { says "$2" own mgpu-stat "$1"; }
part_own() {
    local before id
    loginctl enable-linger alice
    until_true 60 test -S "/run/user/$(id -u alice)/systemd/private"
    ok "systemctl --user enable --now" own timeout 120 systemctl --user enable --now "$unit"
    ok "it is active and answers" own mgpu-stat --status
    ok "and takes a slot's job" own timeout 300 mgpu-submit --wait \
        --template command-hello
    rm -f /home/alice/go /home/alice/ran
    id=$(own mgpu-submit --parsable long.yaml)
    until_true 60 test -s /home/alice/ran
    before=$(own_shown MainPID)
    ok "restarted while a job runs" own timeout 120 systemctl --user restart "$unit"
    ok "the job goes on" until_true 60 own_state_is "$id" RUNNING
    before=$(own_shown MainPID)
    kill -KILL "$before"
    ok "killed, it is started again" until_true 60 own_again "$before"
    ok "the job goes on" until_true 60 own_state_is "$id" RUNNING
    touch /home/alice/go
    ok "and ends" until_true 60 own_state_is "$id" COMPLETED
    ok "once begun" is "$(cat /home/alice/ran)" 1
    ok "systemctl --user stop" own timeout 60 systemctl --user disable --now "$unit"
}

part_purge() {
    ok "apt removes it" apt-get remove -y mgpu
    ok "the daemon has been stopped" fails pgrep -x mgpu-ctld
    ok "its configuration stays" test -s "$conf"
    ok "apt purges it" apt-get purge -y mgpu
    ok "no program is left" is "$(compgen -c mgpu-)" ""
    ok "nor the rule for logrotate" fails test -e /etc/logrotate.d/mgpu
    ok "nor a link to a unit that is gone" \
        is "$(find /etc/systemd -name 'mgpu*')" ""
    ok "the records are there, and whose they were" mode_is /var/lib/mgpu/state.db "mgpu:mgpu 600"
    ok "the users' files, too" test -d /home/alice
    ok "systemd has no unit that failed for it" \
        is "$(systemctl list-units --failed --no-legend 'mgpu*')" ""
}

note "$(uname -sr), $(systemctl --version | head -n 1), $(cat /etc/debian_version)"
set_up_slurm
make_users
ok "systemd is process 1" is "$(cat /proc/1/comm)" systemd
ok "Slurm's node is idle" until_true 60 node_idle
parts=$(cat "$(dirname "$0")/parts")
for part in ${parts:-install wrong_conf start sandbox jobs reload lives logs group upgrade own purge}; do
    note "$part, $(cut -d' ' -f1 /proc/uptime) s after the start"
    "part_$part"
done
note "over, $(cut -d' ' -f1 /proc/uptime) s after the start"
echo "1..$n"
