#!/usr/bin/env bats
# web_cluster.bats - mgpu-web --cluster: a page of the cluster for many.
#
# S20: who may see it, that it shows nothing of a job but what any user sees of
# the jobs of others, and that it changes nothing. The daemon is the user's own,
# where mgpu-web has every right: what is hidden, the page hides.

# shellcheck disable=SC2030,SC2031 # each test sets its base
load helpers

setup() {
    cd "$BATS_TEST_TMPDIR" || exit 1
    web_pid=''
    token=$(printf '%064d' 7)
}
teardown() {
    web_stop
    ctld_stop
}

# conf KEY: VALUE...: writes mgpu.yaml with these keys of controller.
conf() {
    local key
    printf 'version: 1\ncluster: lab\ncontroller:\n' >mgpu.yaml
    for key; do printf '  %s\n' "$key" >>mgpu.yaml; done
}
# web_start [WORD]...: $base is what mgpu-web prints, $port its port. The words
# are its options; without any it asks the daemon of the test.
web_start() {
    : >url
    [ $# -gt 0 ] || set -- --url "unix:${ctld_dir:-/nowhere}/sock"
    "$MGPU_BIN/mgpu-web" --cluster --config mgpu.yaml "$@" \
        >url 2>web.err 3>&- &
    web_pid=$!
    wait_for 30 web_up_or_gone
    [ "$(wc -l <url)" -eq 1 ]
    base=$(sed 's,/$,,' url)
    port=${base##*:}
}
web_up_or_gone() { [ -s url ] || ! kill -0 "$web_pid" 2>/dev/null; }
web_stop() {
    local status=0 pid=$web_pid
    web_pid=
    [ -n "$pid" ] || return 0
    kill "$pid" 2>/dev/null || :
    wait "$pid" || status=$?
    return "$status"
}
# reload N: mgpu.yaml is read again, for the Nth time.
reload() {
    kill -HUP "$web_pid"
    n_read=$1
    wait_for 30 was_read
}
was_read() { [ "$(grep -c '^mgpu-web: ' web.err)" -ge "$n_read" ]; }
# refused KEY...: mgpu-web does not start; its words are in $output.
refused() {
    conf "$@"
    run timeout 60 "$MGPU_BIN/mgpu-web" --cluster --config mgpu.yaml \
        --url unix:/nowhere/sock
    [ "$status" -eq 78 ]
}

# ask PATH [curl's options...]: as in web.bats.
ask() {
    local path=$1 name
    shift
    : >body
    curl --silent --max-time 20 --path-as-is -D head -o body \
        -w '%{http_code}\n' "$@" "$base$path" || return
    for name in Content-Security-Policy X-Content-Type-Options \
        Referrer-Policy X-Frame-Options Cross-Origin-Resource-Policy; do
        grep -qi "^$name: " head || { echo "no $name" && cat head; }
    done
}
code() { json '$.error.code' <body; }

# A job whose every text that is its user's alone says hush.
submit_hushed() {
    cat >job.yaml <<END
version: 1
kind: command
name: seen
labels: {team: hush}
env: {A: hush-env}
command: [sh, -c, 'echo hush-log; echo "{\"hush_metric\": 1}" >"\$MGPU_METRICS"; sleep 600']
resources: {gpus: 1}
END
    "$MGPU_BIN/mgpu-submit" --quiet job.yaml && job=1 # the first
    wait_for 60 job_is "$job" RUNNING
    wait_for 60 has_log
}
has_log() { api GET "/v1/jobs/$job/logs" | grep -q hush-log; }

@test "S20: the page shows the queue and the nodes, and nothing of a job" {
    ctld_start
    submit_hushed
    conf 'web_listen: "127.0.0.1:0"'
    web_start
    [[ $base =~ ^http://127\.0\.0\.1:[0-9]+$ ]]
    [ "$(ask /)" = 200 ]
    grep -qi '<!doctype html>' body
    [ "$(ask /web/config)" = 200 ]
    [ "$(json '$.read_only' <body)" = 1 ]
    [ "$(json '$.is_cluster' <body)" = 1 ]
    [ "$(json '$.cluster' <body)" = lab ]
    [ -z "$(json '$.user' <body)" ] && [ -z "$(json '$.uid' <body)" ]
    # The user sees it all; the page does not.
    api GET "/v1/jobs" | grep -q hush
    for path in /v1/jobs '/v1/jobs?user=me' '/v1/jobs?values=*' \
        '/v1/jobs?fields=id,name,labels,vary,loss' /v1/nodes \
        '/v1/gpus?since=1' "/v1/jobs?label=team%3Dhush"; do
        [ "$(ask "$path")" = 200 ]
        not grep -q hush body
        not grep -q "$BATS_TEST_TMPDIR" body
    done
    [ "$(json '$.jobs' <body)" = '[]' ] # by its label it is not found
    [ "$(ask /v1/jobs)" = 200 ]
    [ "$(json '$.jobs[0].name' <body)" = seen ]
    [ "$(json '$.jobs[0].state' <body)" = RUNNING ]
    curl --silent --no-buffer "$base/v1/watch" >watched 3>&- &
    stream=$!
    seen() { grep -q '"name":"seen"' watched; }
    wait_for 60 seen
    not grep -q hush watched
    kill "$stream"
    wait "$stream" || :
    for path in "/v1/jobs/$job" "/v1/jobs/$job/logs" \
        "/v1/jobs/$job/logs?follow=1" "/v1/jobs/$job/events" \
        "/v1/jobs/$job/values" "/v1/jobs/$job/curve?of=hush_metric" \
        "/v1/jobs/$job/why" "/v1/jobs/$job/iterations" /v1/status \
        "/v1/watch?job=$job" /v1/usage /v1/policy /v1/admin/log \
        /v1/admin/plan "/v1/jobs/"; do
        status=$(ask "$path")
        [ "$status" = 403 ] || [ "$status" = 400 ]
        not grep -q hush body
    done
    [ "$(ask /metrics)" = 404 ]
}

@test "S20: it changes nothing" {
    ctld_start
    submit_hushed
    conf 'web_listen: "127.0.0.1:0"'
    web_start
    for path in "/v1/jobs/$job/cancel" "/v1/jobs/$job/hold" /v1/jobs \
        /v1/admin/pause /web/logout; do
        [ "$(ask "$path" -X POST)" = 403 ]
        [ "$(ask "$path" -H "Origin: $base" -H 'X-Mgpu-Web: 1' \
            --data-binary '{}')" = 403 ]
        [ "$(code)" = DENIED ]
    done
    for method in PUT DELETE OPTIONS PATCH TRACE; do
        [ "$(ask /v1/jobs -X "$method")" = 405 ]
    done
    job_is "$job" RUNNING
}

@test "S20: another name, another origin, paths that leave /v1" {
    ctld_start
    conf 'web_listen: "127.0.0.1:0"' 'web_hosts: [gpu.example.org]'
    web_start
    for host in evil.example "evil.example:$port" localhost "10.0.0.1:$port" \
        "127.0.0.1:1" "gpu.example.org.evil.example:$port" \
        "sub.gpu.example.org"; do
        for path in / /v1/jobs /web/config; do
            [ "$(ask "$path" -H "Host: $host")" = 403 ]
        done
    done
    # A proxy has its own port.
    for host in "localhost:$port" gpu.example.org "GPU.example.org:8443"; do
        [ "$(ask /v1/jobs -H "Host: $host")" = 200 ]
    done
    [ "$(ask /v1/jobs -H 'Host: gpu.example.org' \
        -H 'Origin: https://gpu.example.org')" = 200 ]
    for origin in null https://evil.example "http://127.0.0.1:1"; do
        [ "$(ask /v1/jobs -H "Origin: $origin")" = 403 ]
    done
    for site in cross-site same-site; do
        [ "$(ask /v1/jobs -H "Sec-Fetch-Site: $site")" = 403 ]
    done
    for path in /v1/../metrics /v1/jobs/../status /v1/%2e%2e/metrics \
        /v1//jobs '/v1/jobs%2f1' /v1/jobs/%2e /v1/./jobs; do
        [ "$(ask / --request-target "$path")" = 400 ]
    done
    for path in /../etc/passwd /..%2f..%2fetc/passwd /page/index.html; do
        status=$(ask "$path")
        [ "$status" = 404 ] || [ "$status" = 400 ] || [ "$status" = 403 ]
    done
    big=$(head -c 20000 /dev/zero | tr '\0' x)
    [ "$(ask /v1/jobs -H "X-Big: $big")" = 431 ]
    # There is nothing to send.
    status=$(head -c 5000 /dev/zero | curl --silent --max-time 60 -o body \
        -w '%{http_code}' -H "Origin: $base" -H 'X-Mgpu-Web: 1' \
        --data-binary @- "$base/v1/jobs")
    [ "$status" = 413 ]
    # A head that does not end.
    exec 4<>"/dev/tcp/127.0.0.1/$port"
    printf 'GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n' >&4
    timeout 300 cat <&4 >slow
    exec 4>&-
    head -n 1 slow | grep -q ' 408 '
}

@test "S20: the token opens the page, and another one closes it" {
    ctld_start
    conf 'web_listen: "0.0.0.0:0"' 'web_token_file: token' 'web_hosts: [lab]'
    (umask 077 && echo "$token" >token)
    web_start
    not grep -q "$token" url web.err
    base=http://127.0.0.1:$port
    [ "$(ask /)" = 403 ]
    grep -q 'your administrators gave you' body
    for wrong in '' x "${token%?}" "${token}0" "${token%7}8"; do
        [ "$(ask "/?token=$wrong")" = 403 ]
        not grep -qi '^Set-Cookie' head
    done
    for path in /index.html /app.js /web/config /v1/jobs; do
        [ "$(ask "$path")" = 403 ]
        [ "$(ask "$path?token=$token")" = 403 ]
        [ "$(ask "$path" -b "mgpu-web-$port=$token")" = 403 ]
    done
    [ "$(ask "/?token=$token" -c jar)" = 303 ]
    grep -Eqi "^Set-Cookie: mgpu-web-$port=[0-9a-f]{64}; Path=/; HttpOnly; SameSite=Strict.$" head
    not grep -q "$token" head jar
    [ "$(ask /v1/jobs -b jar)" = 200 ]
    # What is wrong changes nothing, and the cookie lives on.
    chmod 644 token
    reload 1
    grep -q '^mgpu-web: .*mgpu.yaml:[0-9]*:[0-9]*: controller.web_token_file: .*others may read' web.err
    [ "$(ask /v1/jobs -b jar)" = 200 ]
    chmod 600 token
    curl --silent --no-buffer -b jar "$base/v1/watch" >watched 3>&- &
    stream=$!
    submit_hushed
    wait_for 60 test -s watched
    reload 2
    [ "$(ask /v1/jobs -b jar)" = 200 ]
    kill -0 "$stream"
    # Another token: cookies and streams end.
    printf '%064d\n' 8 >token
    reload 3
    stream_gone() { not kill -0 "$stream" 2>/dev/null; }
    wait_for 60 stream_gone
    [ "$(ask /v1/jobs -b jar)" = 403 ]
    [ "$(ask "/?token=$token")" = 403 ]
    grep -q 'another one has replaced it' body
    [ "$(ask "/?token=$(printf '%064d' 8)" -c jar)" = 303 ]
    # A restart is no reason to log in again, when the port stays.
    conf "web_listen: '0.0.0.0:$port'" 'web_token_file: token'
    web_stop
    web_start
    base=http://127.0.0.1:$port
    [ "$(ask /v1/jobs -b jar)" = 200 ]
    web_stop
    not grep -rq "$token" "$ctld_dir"
}

@test "S20: what the configuration must say" {
    refused 'max_clients: 64'
    [[ $output == *"mgpu.yaml:"*": controller.web_listen: it is not set"* ]]
    for where in '*:8765' '0.0.0.0:8765' '192.0.2.1:80' 'gpu.example.org:80'; do
        refused "web_listen: '$where'"
        [[ $output == *"mgpu.yaml:4:15: error[E017]: "*"web_token_file"* ]]
        [[ $output == *"hint: controller: {web_token_file"* ]]
    done
    run timeout 60 "$MGPU_BIN/mgpu-ctld" --check-config mgpu.yaml
    [ "$status" -eq 78 ]
    [[ $output == *"mgpu.yaml:4:15"* ]]
    for bad in short "$token$token" "${token%7}x"; do
        (umask 077 && echo "$bad" >token)
        refused 'web_listen: "127.0.0.1:0"' 'web_token_file: token'
        [[ $output == *"mgpu.yaml:5:"*"64 hexadecimal digits"*"openssl rand"* ]]
        not grep -q "$bad" <<<"$output"
    done
    echo "$token" >token
    for mode in 644 660 604; do
        chmod "$mode" token
        refused 'web_listen: "127.0.0.1:0"' 'web_token_file: token'
        [[ $output == *"mgpu.yaml:5:"*"its mode is 0$mode"* ]]
    done
    rm token
    mkfifo -m 600 token
    refused 'web_listen: "127.0.0.1:0"' 'web_token_file: token'
    [[ $output == *"no regular file"* ]]
    rm token
    refused 'web_listen: "127.0.0.1:0"' 'web_token_file: token'
    [[ $output == *"mgpu.yaml:5:"*"No such file"* ]]
    mkdir -m 700 mine
    refused "web_listen: 'unix:$PWD/mine/sock'" 'web_group: no-such-group'
    [[ $output == *"mgpu.yaml:5:"*"no group 'no-such-group'"* ]]
    mkdir -m 777 open
    conf "web_listen: 'unix:$PWD/open/sock'"
    run timeout 60 "$MGPU_BIN/mgpu-web" --cluster --config mgpu.yaml
    [ "$status" -eq 64 ]
    [[ $output == *"controller.web_listen: "*"writable by nobody else"* ]]
    run timeout 60 "$MGPU_BIN/mgpu-web" --cluster --listen 127.0.0.1:0
    [ "$status" -eq 64 ]
    run timeout 60 "$MGPU_BIN/mgpu-web" --config mgpu.yaml
    [ "$status" -eq 64 ]
}

@test "S20: a unix socket is for its group, and another address for the next" {
    ctld_start
    mkdir -m 700 mine
    group=$(id -gn)
    conf "web_listen: 'unix:$PWD/mine/sock'"
    web_start
    [ "$(stat -c %a mine/sock)" = 600 ]
    base=http://localhost:9999
    [ "$(ask /v1/jobs --unix-socket mine/sock)" = 200 ]
    [ "$(ask /v1/jobs --unix-socket mine/sock -H 'Host: evil.example')" = 403 ]
    if [ "$(id -g)" -ne 0 ] || [ "${group}" != root ]; then
        conf "web_listen: 'unix:$PWD/mine/sock'" "web_group: $group"
        reload 1
        [ "$(stat -c '%a %G' mine/sock)" = "660 $group" ]
        [ "$(ask /v1/jobs --unix-socket mine/sock)" = 200 ]
    elif getent group daemon >/dev/null; then # root may give it to any group
        conf "web_listen: 'unix:$PWD/mine/sock'" "web_group: daemon"
        reload 1
        [ "$(stat -c '%a %G' mine/sock)" = "660 daemon" ]
    fi
    # An address that is taken: the old one comes back.
    n=$(grep -c '^mgpu-web: ' web.err || :)
    conf "web_listen: 'unix:$PWD/mgpu.yaml'"
    reload $((n + 1))
    [ "$(ask /v1/jobs --unix-socket mine/sock)" = 200 ]
    conf "web_listen: 'unix:$PWD/mine/next'"
    reload $((n + 2))
    [ ! -e mine/sock ]
    [ "$(ask /v1/jobs --unix-socket mine/next)" = 200 ]
    web_stop
    [ ! -e mine/next ]
}

@test "S20: a reload finds another daemon, and closes the page" {
    ctld_start
    mkdir -m 700 mine
    conf "web_listen: 'unix:$PWD/mine/sock'" "socket: '$PWD/mine/none'"
    web_start --
    base=http://localhost:9999
    [ "$(ask /v1/jobs --unix-socket mine/sock)" = 503 ]
    conf "web_listen: 'unix:$PWD/mine/sock'" "socket: '$ctld_dir/sock'"
    reload 1
    [ "$(ask /v1/jobs --unix-socket mine/sock)" = 200 ]
    # Without web_listen there is no page.
    conf "socket: '$ctld_dir/sock'"
    reload 2
    status=0
    wait "$web_pid" || status=$?
    web_pid=
    [ "$status" -eq 78 ]
    [ ! -e mine/sock ]
    grep -q '^mgpu-web: .*controller.web_listen: it is not set' web.err
}

@test "S20: viewers do not take the daemon's room" {
    ctld_start
    conf 'web_listen: "127.0.0.1:0"'
    web_start
    # More streams than the page has, and the daemon has more than the page.
    streams=()
    for i in $(seq 50); do
        curl --silent --no-buffer -w '%{http_code}' "$base/v1/watch" \
            >"watched.$i" 3>&- &
        streams+=($!)
    done
    # curl writes the status last.
    ten_refused() { [ "$(grep -l '429$' watched.* | wc -l)" -eq 10 ]; }
    wait_for 60 ten_refused
    [ "$(grep -l '"BUSY"' watched.* | wc -l)" -eq 10 ]
    [ "$(ask /v1/jobs)" = 200 ]
    api GET /v1/status >status
    [ "$(json '$.schema' <status)" = mgpu.status/1 ]
    kill "${streams[@]}" 2>/dev/null || :
    wait "${streams[@]}" || :
    ok_again() { # the head of a stream comes at once; no job follows
        [ "$(curl --silent --max-time 2 --no-buffer -o again \
            -w '%{http_code}' "$base/v1/watch")" = 200 ]
    }
    wait_for 60 ok_again
}
