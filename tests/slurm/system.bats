#!/usr/bin/env bats
# system.bats - a daemon for everybody, which root starts and which is nobody
# in particular; and one that an ordinary user has for himself.
#
# Users are accounts that every Debian has, by their numbers: nothing here
# makes one.

# shellcheck disable=SC2030,SC2031 # each test is a process
bats_require_minimum_version 1.5.0
load helpers

one=games two=mail admin=news
ctld_user=daemon

setup_file() {
    [ "$(id -u)" = 0 ] || skip "needs root"
    slurm_up --nodes 2 --gpus 2
}
teardown_file() { [ -z "${TB:-}" ] || slurm_down; }

setup() {
    [ "$(id -u)" = 0 ] || skip "needs root"
    set_scripts
    # Where everybody may pass; bats' own directories are closed.
    ctld_dir=$TB/tmp/$BATS_TEST_NUMBER
    jobs=$ctld_dir/jobs
    install -d -o "$ctld_user" -m 755 "$ctld_dir"
    install -d -m 1777 "$jobs" "$ctld_dir/tmp"
    ran=$ctld_dir/tmp/ran go=$ctld_dir/tmp/go
    say_ran="echo \"\$MGPU_JOB_ID.\$MGPU_ATTEMPT.\$MGPU_RANK\" >>$ran"
    wait_go="until [ -e $go ]; do sleep 0.1; done"
}
teardown() {
    [ "$(id -u)" = 0 ] || return 0
    touch "$go"
    for user in "$one" "$two" "$(grouped)"; do
        scancel --quiet --user "$user"
    done
    slurm_calm
}

# as USER COMMAND...: with the groups that the system gives the user.
as_user() { # USER: the words before a command, in `become`
    become=(setpriv --reuid "$1" --regid "$(id -g "$1")" --init-groups
        env HOME=/ XDG_RUNTIME_DIR=)
}
as() {
    local become
    as_user "$1"
    shift
    "${become[@]}" "$@"
}

# The configuration, as root would write it; "key: value" lines are added to
# the controller's.
system_conf() {
    MGPU_URL=unix:$ctld_dir/sock
    export MGPU_URL
    {
        cat <<YAML
version: 1
cluster: test
allocator: slurm
controller:
  listen: 127.0.0.1:$MGPU_TEST_PORT
  url: http://127.0.0.1:$MGPU_TEST_PORT
  state_dir: $ctld_dir/state
  socket: $ctld_dir/sock
YAML
        for line in "$@"; do echo "  $line"; done
        cat <<YAML
slurm:
  conf: $SLURM_CONF
  poll_interval: 1s
  call_timeout: 2s
  reconcile_after: 5s
watchdog: {heartbeat: 1s, node_lost_after: 20s}
auth: {admins: [root, $admin]}
YAML
    } >"$ctld_dir/mgpu.yaml"
}

# Runs it, started by root or by somebody else, and waits for it.
launch() { # [USER]
    local become=(env)
    [ $# = 0 ] || as_user "$1"
    MGPU_TESTBED=$TB "${become[@]}" "$MGPU_BIN/mgpu-ctld" \
        --config "$ctld_dir/mgpu.yaml" >>"$ctld_dir/ctld.log" 2>&1 3>&- &
    ctld_pid=$!
    wait_for 30 ctld_up_or_gone
    kill -0 "$ctld_pid" 2>/dev/null || return 1
}

system_start() {
    system_conf "user: $ctld_user" "jobs_dir: $jobs/%u"
    launch
}

# submit_as USER NAME GPUS SCRIPT [OPTION...]: prints the job's id.
submit_as() {
    local file=$ctld_dir/tmp/$2
    printf '%s\n' "$4" >"$file.sh"
    cat >"$file.yaml" <<YAML
version: 1
kind: command
name: $2
command: [sh, $file.sh]
resources: {gpus: $3}
checkpoint: {grace: 2s}
YAML
    chmod 644 "$file.sh" "$file.yaml"
    as "$1" "$MGPU_BIN/mgpu-submit" --parsable "${@:5}" "$file.yaml"
}

# A file has two seconds to be read, which a loaded machine may take.
log_is_read() { # USER JOB
    as "$1" "$MGPU_BIN/mgpu-stat" --logs "$2" >"$BATS_TEST_TMPDIR/log" || return
    not grep -q '^\[mgpu: ' "$BATS_TEST_TMPDIR/log"
}
# Without the ranks' labels.
log_of() { # USER JOB
    wait_for 60 log_is_read "$@"
    sed 's/^\[[0-9]*\] //' "$BATS_TEST_TMPDIR/log"
}

proc() { # PID KEY: a line of its status, without the key
    sed -n "s/^$2:[[:space:]]*//p" "/proc/$1/status" | tr '\t' ' '
}
helper_pid() { pgrep -P "$ctld_pid" -x mgpu-slurm-help; }

# Of this cluster, whoever its daemon is.
helper_gone() { ! pgrep -f "mgpu-slurm-helper .*$TB" >/dev/null; }

# An account that is in a group besides its own, if there is one.
grouped() {
    local user
    for user in $(getent group | sed -n 's/.*:\([a-z_-][a-z0-9_-]*\)$/\1/p'); do
        [ "$(id -u "$user" 2>/dev/null || echo 0)" = 0 ] || {
            echo "$user"
            return
        }
    done
    echo "$one"
}

@test "mgpu-ctld prepares its directories and gives up root for good" {
    system_start
    uid=$(id -u "$ctld_user")
    [ "$(proc "$ctld_pid" Uid)" = "$uid $uid $uid $uid" ]
    [ "$(proc "$ctld_pid" CapEff)" = 0000000000000000 ]
    [ "$(proc "$ctld_pid" CapPrm)" = 0000000000000000 ]
    [ "$(proc "$ctld_pid" NoNewPrivs)" = 1 ]
    run ! grep -w 0 <<<"$(proc "$ctld_pid" Groups)"
    [ "$(stat -c '%U %a' "$ctld_dir/state")" = "$ctld_user 700" ]
    [ "$(stat -c '%U %a' "$ctld_dir/sock")" = "$ctld_user 666" ]
    [ -z "$(find "$ctld_dir/state" ! -user "$ctld_user")" ]
    [ "$(proc "$(helper_pid)" Uid)" = '0 0 0 0' ]
    grep -q 'mode=system' "$ctld_dir/ctld.log"
    ctld_term
    wait_for 30 helper_gone
}

@test "S13: a socket for a group is that group's, and nobody else connects" {
    group=$(id -gn "$ctld_user")
    system_conf "user: $ctld_user" "jobs_dir: $jobs/%u" "socket_group: $group"
    launch
    [ "$(stat -c '%U %G %a' "$ctld_dir/sock")" = "$ctld_user $group 660" ]
    run as "$one" "$MGPU_BIN/mgpu-stat"
    [ "$status" -eq 77 ]
    [[ $output == *"permission denied"*controller.socket_group* ]]
    run "$MGPU_BIN/mgpu-stat" # root
    [ "$status" -eq 0 ]
    ctld_term
    wait_for 30 helper_gone
    for no in root nobody-is-in-it; do
        system_conf "user: $ctld_user" "jobs_dir: $jobs/%u" "socket_group: $no"
        run "$MGPU_BIN/mgpu-ctld" --config "$ctld_dir/mgpu.yaml"
        [ "$status" -eq 78 ]
        [[ $output == *"controller.socket_group: "*"'$no'"* ]]
    done
}

@test "files that root had open when it started the daemon do not reach it" {
    system_conf "user: $ctld_user" "jobs_dir: $jobs/%u"
    install -m 600 /dev/null "$ctld_dir/roots"
    launch 20<"$ctld_dir/roots"
    for pid in "$ctld_pid" "$(helper_pid)"; do
        [ -e "/proc/$pid/fd/1" ]
        run ! grep "$ctld_dir/roots" <(ls -l "/proc/$pid/fd")
    done
}

@test "each job is its user's: uid, gid, groups, and files for nobody else" {
    system_start
    users="$one $two $(grouped)"
    for user in $users; do
        submit_as "$user" "id-$user" 2 id
    done
    for id in 1 2 3; do wait_for 90 job_is "$id" COMPLETED; done
    id=0
    for user in $users; do
        id=$((id + 1))
        # Lines of it: a sanitizer may have words of its own.
        [ "$(log_of "$user" "$id" | grep -cxF "$(as "$user" id)")" = 2 ]
        dir=$jobs/$user/$id
        [ "$(api GET "/v1/jobs/$id" | json '$.job.dir')" = "$dir" ]
        [ -z "$(find "$jobs/$user" ! -user "$user")" ]
        [ -z "$(find "$dir" -type d ! -perm 700)" ]
        [ -z "$(find "$dir" -type f ! -perm 600)" ]
        [ "$(find "$dir/1" -type f | wc -l)" -gt 5 ]
    done
}

@test "users see and end what is theirs; an administrator all; root has none" {
    system_start
    id=$(submit_as "$one" paper-layout 1 "$say_ran; $wait_go; echo over")
    wait_for 60 has_run "$id.1.0"
    for path in "/v1/jobs/$id/logs" "/v1/jobs/$id/events"; do
        run as "$two" curl -s --unix-socket "$ctld_dir/sock" "http://x$path"
        [[ $output == *'"DENIED"'* || $output == *'"NOTFOUND"'* ]]
    done
    run as "$two" "$MGPU_BIN/mgpu-cancel" "$id"
    [ "$status" -ne 0 ]
    run as "$two" cat "$jobs/$one/$id/1/log"
    [ "$status" -ne 0 ]
    job_runs "$id"
    run submit_as root mine 1 true
    [ "$status" -eq 77 ]
    [[ $output == *"root's jobs are not run here"* ]]
    touch "$go"
    wait_for 60 job_is "$id" COMPLETED
    log_of "$admin" "$id" | grep -qx over
    # A report of the jobs of this name.
    run -0 as "$two" "$MGPU_BIN/mgpu-stat" --report layout
    [[ $output == *"of other users, left out: 1 job" ]]
    run -0 as "$admin" "$MGPU_BIN/mgpu-stat" --report layout
    [[ $output != *"of other users"* ]]
    rm "$go" "$ran"
    id=$(submit_as "$two" other 1 "$say_ran; $wait_go")
    wait_for 60 has_run "$id.1.0"
    as "$admin" "$MGPU_BIN/mgpu-cancel" "$id"
    wait_for 60 job_is "$id" CANCELLED
}

# Who submits to Slurm is root, who may use all of it.
@test "partitions that are root's, or a group's: for nobody else" {
    scontrol create partitionname=roots nodes=ALL rootonly=yes
    scontrol create partitionname=group nodes=ALL allowgroups="$(id -gn "$two")"
    system_start
    no=$(submit_as "$one" a 1 "$say_ran" --set resources.partition=roots)
    also=$(submit_as "$one" b 1 "$say_ran" --set resources.partition=batch,roots)
    other=$(submit_as "$one" c 1 "$say_ran" --set resources.partition=group)
    yes=$(submit_as "$two" d 1 "$say_ran" --set resources.partition=group)
    for id in $no $also $other; do
        wait_for 60 job_is "$id" HELD
        job_field "$id" reason
    done
    for id in $no $also; do
        reason_like "$id" "*could not be started: *'roots' is only for root*"
    done
    if slurm_is_from 23 2; then
        reason_like "$other" "*not in group permitted*groups allowed: $(id -gn "$two") *"
    else
        reason_like "$other" '*group not permitted*scontrol show partition'
    fi
    wait_for 60 job_is "$yes" COMPLETED
    [ "$(cat "$ran")" = "$yes.1.0" ]
    # Nor is the default one, once it is root's.
    scontrol update partitionname=roots default=yes
    no=$(submit_as "$one" e 1 "$say_ran")
    wait_for 60 job_is "$no" HELD
    scontrol update partitionname=batch default=yes
    scontrol delete partitionname=roots
    scontrol delete partitionname=group
}

@test "rows that ranks wrote while the daemon was down are read as their user" {
    system_start
    id=$(submit_as "$one" away 1 "$say_ran; $wait_go
        echo '{\"iteration\":1,\"loss\":0.5}' >>\$MGPU_METRICS
        echo the end; exit 3")
    wait_for 60 has_run "$id.1.0"
    ctld_kill
    wait_for 30 helper_gone
    touch "$go"
    wait_for 60 test -e "$jobs/$one/$id/1/exit"
    system_start
    wait_for 60 job_is "$id" FAILED
    [ "$(job_field "$id" exit_code)" = 3 ]
    log_of "$one" "$id" | grep -qx 'the end'
    [ "$(sql metrics "SELECT count(*) FROM v_iteration WHERE job = $id")" = 1 ]
    run ! grep 'without all its rows' "$ctld_dir/ctld.log"
}

@test "the helper is killed: the daemon says so and ends, the job does not" {
    system_start
    id=$(submit_as "$one" goes-on 1 "$say_ran; $wait_go; exit 4")
    wait_for 60 has_run "$id.1.0"
    kill -KILL "$(helper_pid)"
    status=0
    wait "$ctld_pid" || status=$?
    ctld_pid=
    [ "$status" -eq 69 ]
    grep -q 'mgpu-slurm-helper has died of signal 9' "$ctld_dir/ctld.log"
    wait_for 30 helper_gone
    slurm_is "$(sql state "SELECT native_id FROM v_attempt")" RUNNING
    system_start
    wait_for 60 job_runs "$id"
    touch "$go"
    wait_for 60 job_has_ended "$id"
    [ "$(job_field "$id" exit_code)" = 4 ]
    [ "$(cat "$ran")" = "$id.1.0" ] # it ran once
}

@test "a reader of files that dies is replaced" {
    system_start
    id=$(submit_as "$one" talks 1 "echo hello")
    wait_for 60 job_is "$id" COMPLETED
    says_hello() { log_of "$one" "$id" | grep -qx hello; }
    says_hello
    for pid in $(pgrep -P "$(helper_pid)"); do kill -KILL "$pid"; done
    wait_for 60 says_hello
    kill -0 "$ctld_pid"
}

@test "unsafe modes and owners are refused with status 78" {
    system_conf "user: $ctld_user" "jobs_dir: $jobs/%u"
    chmod 666 "$ctld_dir/mgpu.yaml"
    run "$MGPU_BIN/mgpu-ctld" --config "$ctld_dir/mgpu.yaml"
    [ "$status" -eq 78 ]
    [[ $output == *'can be changed by others'* ]]
    chmod 600 "$ctld_dir/mgpu.yaml"
    install -d -o "$two" "$ctld_dir/state"
    run "$MGPU_BIN/mgpu-ctld" --config "$ctld_dir/mgpu.yaml"
    [ "$status" -eq 78 ]
    [[ $output == *"give it to '$ctld_user'"* ]]
    rmdir "$ctld_dir/state"
    ln -s "$ctld_dir/tmp" "$ctld_dir/state"
    chown -h "$two" "$ctld_dir/state"
    run "$MGPU_BIN/mgpu-ctld" --config "$ctld_dir/mgpu.yaml"
    [ "$status" -eq 78 ]
    wait_for 60 helper_gone # that of the test before may still be ending
    chmod 644 "$ctld_dir/mgpu.yaml"
    run as "$two" "$MGPU_BIN/mgpu-ctld" --config "$ctld_dir/mgpu.yaml"
    [ "$status" -eq 78 ]
    [[ $output == *"only root can become"* ]]
}

@test "an ordinary user's own daemon" {
    chown "$one" "$ctld_dir"
    system_conf "jobs_dir: $jobs/mine"
    chmod 644 "$ctld_dir/mgpu.yaml"
    launch "$one"
    [ "$(stat -c '%U %a' "$ctld_dir/sock")" = "$one 600" ]
    id=$(submit_as "$one" own 2 id)
    wait_for 90 job_is "$id" COMPLETED
    [ "$(log_of "$one" "$id" | grep -cxF "$(as "$one" id)")" = 2 ]
    [ -z "$(find "$jobs/mine" ! -user "$one")" ]
    run submit_as "$two" other 1 true
    [ "$status" -ne 0 ]
    # S11: the ranks look for it as the user, in that user's home.
    id=$(submit_as "$one" hush 2 true --set 'secrets=[NO_SUCH_OF_A_TEST]')
    wait_for 90 job_is "$id" HELD
    home=$(getent passwd "$one" | cut -d: -f6)
    log_of "$one" "$id" |
        grep -F "open '$home/.config/mgpu/secrets/NO_SUCH_OF_A_TEST': No such"
    # It ends with its helper, too.
    kill -KILL "$(helper_pid)"
    status=0
    wait "$ctld_pid" || status=$?
    ctld_pid=
    [ "$status" -eq 69 ]
    grep -q 'mgpu-slurm-helper has died of signal 9' "$ctld_dir/ctld.log"
}

@test "Slurm refuses an ordinary user a longer limit: the job keeps its own" {
    chown "$one" "$ctld_dir"
    system_conf "jobs_dir: $jobs/mine"
    chmod 644 "$ctld_dir/mgpu.yaml"
    launch "$one"
    id=$(submit_as "$one" timed 1 "$wait_go" --set resources.time_limit=10m)
    wait_for 90 job_is "$id" RUNNING
    update() { as "$one" "$MGPU_BIN/mgpu-admin" --quiet update "$id" "$@"; }
    has() { # SECONDS here, and TIME in Slurm
        [ "$(api GET "/v1/jobs/$id" | json '$.job.limit_s') $(
            squeue -h -n timed -o %l)" = "$1 $2" ]
    }
    has 600.0 12:00
    update time_limit=1h
    says_no() {
        as "$one" "$MGPU_BIN/mgpu-stat" --events "$id" |
            grep 'update .*ccess/permission denied'
    }
    wait_for 60 says_no
    has 600.0 12:00
    update time_limit=5m
    wait_for 60 has 300.0 7:00
}

@test "--background: both write to the log, which is the daemon's" {
    system_conf "user: $ctld_user" "jobs_dir: $jobs/%u"
    MGPU_TESTBED=$TB "$MGPU_BIN/mgpu-ctld" --background \
        --config "$ctld_dir/mgpu.yaml" 3>&-
    ctld_pid=$(cat "$ctld_dir/state/lock")
    [ "$(stat -c '%U %a' "$ctld_dir/state/ctld.log")" = "$ctld_user 600" ]
    log=$ctld_dir/state/ctld.log
    has_children() { [ "$(pgrep -c -P "$(helper_pid)")" = 2 ]; }
    wait_for 30 has_children
    for pid in $(pgrep -P "$(helper_pid)"); do kill -KILL "$pid"; done
    wait_for 30 grep -q 'helper: .* died of signal 9' "$log"
    kill "$ctld_pid"
    gone() { ! kill -0 "$ctld_pid" 2>/dev/null; }
    wait_for 30 gone
    grep -q 'ctld: stopped' "$log"
    ctld_pid=
}

@test "daemon and helper that are stopped together exit with 0" {
    system_start
    kill -TERM "$ctld_pid" "$(helper_pid)"
    status=0
    wait "$ctld_pid" || status=$?
    ctld_pid=
    [ "$status" -eq 0 ]
    grep -q 'ctld: stopped' "$ctld_dir/ctld.log"
}
