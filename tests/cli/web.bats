#!/usr/bin/env bats
# web.bats - mgpu-web: who is answered, and what it passes on to the daemon.
#
# S19: a page of another origin, another name (DNS rebinding), another user,
# paths that leave /v1, large and slow requests, after a logout.

load helpers

setup() {
    cd "$BATS_TEST_TMPDIR" || exit 1
    web_pid='' other_dir=''
}
teardown() {
    web_stop
    ctld_stop
    [ -z "$other_dir" ] || rm -rf "${other_dir:?}"
}

# web_start [OPTION...]: $base and $token are what the printed URL has, and the
# file `jar` has the cookie.
web_start() {
    : >url # of one before
    "$MGPU_BIN/mgpu-web" "$@" >url 2>web.err 3>&- &
    web_pid=$!
    wait_for 30 web_up_or_gone
    [ "$(wc -l <url)" -eq 1 ]
    base=$(sed 's,/?token=.*,,' url)
    token=$(sed 's,.*/?token=,,' url)
    port=${base##*:}
}
web_up_or_gone() { [ -s url ] || ! kill -0 "$web_pid" 2>/dev/null; }
web_stop() {
    local status=0 pid=$web_pid
    web_pid=
    [ -n "$pid" ] || return 0
    kill "${1:--TERM}" "$pid" 2>/dev/null || :
    wait "$pid" || status=$?
    return "$status"
}

# ask PATH [curl's options...]: the body goes to `body`, the head to `head`;
# prints the status. Each reply has the headers that protect the page.
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
enter() { [ "$(ask "/?token=$token" -c jar)" = 303 ]; }
code() { json '$.error.code' <body; }
# post PATH [curl's options...]: as the page does it.
post() {
    local path=$1 text=${content:-"{}"}
    shift
    ask "$path" -b jar -H "Origin: ${origin-$base}" -H 'X-Mgpu-Web: 1' \
        --data-binary "$text" "$@"
}

@test "S19: the token opens the page, and nothing else does" {
    ctld_start
    web_start
    [[ $(cat url) =~ ^http://127\.0\.0\.1:[0-9]+/\?token=[0-9a-f]{64}$ ]]
    [ "$(ask /)" = 403 ]
    grep -qx 'Open the URL with the token: .*' body
    [ "$(wc -l <body)" -eq 1 ]
    for wrong in '' x "${token%?}" "${token}0" "${token:0:63}g"; do
        [ "$(ask "/?token=$wrong")" = 403 ]
        not grep -qi '^Set-Cookie' head
    done
    for path in /index.html /app.js /web/config /v1/jobs; do
        [ "$(ask "$path")" = 403 ]
        [ "$(ask "$path?token=$token")" = 403 ]
        [ "$(ask "$path" -b "mgpu-web-$port=$token")" = 403 ]
    done
    enter
    grep -qi '^Location: /.$' head
    grep -Eqi "^Set-Cookie: mgpu-web-$port=[0-9a-f]{64}; Path=/; HttpOnly; SameSite=Strict.$" head
    not grep -q "$token" head jar
    [ "$(ask / -b jar)" = 200 ]
    grep -qi '<!doctype html>' body
    grep -qi '^Content-Type: text/html; charset=utf-8' head
    grep -qi '^Cache-Control: no-cache' head
    # A browser that has the file gets no second copy.
    etag=$(sed -n 's/^ETag: \(.*\).$/\1/Ip' head)
    [ "$(ask / -b jar -H "If-None-Match: $etag")" = 304 ]
    [ ! -s body ]
    [ "$(ask / -b jar -H 'If-None-Match: "x"')" = 200 ]
    # The cookie of another port says nothing here.
    sed "s/mgpu-web-$port/mgpu-web-1/" jar >other
    [ "$(ask / -b other)" = 403 ]
    [ ! -s web.err ]
    web_stop
    not grep -rq "$token" "$ctld_dir"
}

@test "S19: another name, another origin, another site" {
    ctld_start
    web_start
    enter
    for host in "localhost:$port" "[::1]:$port" "127.0.0.1:$port"; do
        cookie=$(awk 'END { print $6 "=" $7 }' jar)
        [ "$(ask /v1/jobs -H "Cookie: $cookie" -H "Host: $host")" = 200 ]
    done
    for host in evil.example "evil.example:$port" localhost \
        "localhost.evil.example:$port" "127.0.0.1:1" "10.0.0.1:$port" \
        "127.0.0.1:$port.evil.example" "127.0.0.1:0$port:"; do
        for path in / "/?token=$token" /v1/jobs /web/config; do
            [ "$(ask "$path" -b "$cookie" -H "Host: $host")" = 403 ]
            not grep -qi '^Set-Cookie' head
        done
    done
    for origin in null http://evil.example "http://127.0.0.1:1" \
        "https://127.0.0.1:$port" "http://localhost:$port" "$base.evil"; do
        [ "$(ask /v1/jobs -b jar -H "Origin: $origin")" = 403 ]
        [ "$(post /v1/jobs/1/cancel)" = 403 ]
    done
    unset origin
    for site in cross-site same-site; do
        [ "$(ask /v1/jobs -b jar -H "Sec-Fetch-Site: $site")" = 403 ]
        [ "$(ask /app.js -b jar -H "Sec-Fetch-Site: $site")" = 403 ]
    done
    [ "$(ask /v1/jobs -b jar -H 'Sec-Fetch-Site: same-origin')" = 200 ]
    # What changes something needs the header and an origin.
    job=$(submit_command waits sleep 600)
    cancel() {
        ask "/v1/jobs/$job/cancel" -b jar --data-binary '{}' "$@"
    }
    [ "$(cancel)" = 403 ]
    [ "$(cancel -H "Origin: $base")" = 403 ]
    [ "$(cancel -H 'X-Mgpu-Web: 1')" = 403 ]
    [ "$(cancel -H "Origin: $base" -H 'X-Mgpu-Web: 2')" = 403 ]
    [ "$(ask "/v1/jobs/$job/cancel" -H "Origin: $base" -H 'X-Mgpu-Web: 1' \
        --data-binary '{}')" = 403 ]
    not job_is "$job" CANCELLED
    [ "$(cancel -H "Origin: $base" -H 'X-Mgpu-Web: 1')" = 200 ]
    wait_for 60 job_is "$job" CANCELLED
}

@test "S19: no path leaves /v1 and the files of the page" {
    ctld_start
    web_start
    enter
    for path in /../etc/passwd /..%2f..%2fetc/passwd /%2e%2e/index.html \
        //etc/passwd /./index.html /index.html/ /page/index.html /metrics \
        /web/../v1/jobs; do
        status=$(ask "$path" -b jar)
        [ "$status" = 404 ] || [ "$status" = 400 ] || [ "$status" = 403 ]
    done
    for path in /v1/../metrics /v1/jobs/../../metrics /v1/%2e%2e/metrics \
        /v1/%2E./metrics /v1//jobs /v1/./jobs '/v1/jobs%2f1' '/v1/jobs\1' \
        /v1/jobs/1%00 /v1/jobs/%zz '/v1/jobs#x' /v1/jobs/%252e; do
        [ "$(ask / -b jar --request-target "$path")" = 400 ]
        [ "$(code)" = INVAL ]
    done
    [ "$(ask '/v1/jobs?name=a%2Fb%2e&user=me' -b jar)" = 200 ]
    for target in "$base/v1/jobs" http://evil.example/v1/jobs '*' v1/jobs; do
        status=$(ask / -b jar --request-target "$target")
        [ "$status" = 404 ] || [ "$status" = 400 ]
    done
    # A file of a folder of the page, and nothing else below its name.
    [ "$(ask /compare/axes.js -b jar)" = 200 ]
    grep -qi '^Content-Type: text/javascript' head
    [ "$(ask /compare/axes.js)" = 403 ]
    for path in /compare /compare/ /compare/app.js /compare%2faxes.js \
        /compare/../app.js /compare/axes.js/ /app.js/axes.js /x/compare/axes.js \
        /compare/..%2fapp.js; do
        status=$(ask "$path" -b jar)
        [ "$status" = 404 ] || [ "$status" = 400 ]
    done
    for method in PUT DELETE OPTIONS PATCH TRACE; do
        [ "$(ask /v1/jobs -b jar -X "$method")" = 405 ]
    done
}

@test "S19: large and slow requests are bounded" {
    ctld_start
    web_start
    enter
    big=$(head -c 20000 /dev/zero | tr '\0' x)
    [ "$(ask /v1/jobs -b jar -H "X-Big: $big")" = 431 ]
    head -c 3000000 /dev/zero >large
    # evhttp's own answer, which has none of our headers.
    status=$(curl --silent --max-time 60 -o body -w '%{http_code}' -b jar \
        -H "Origin: $base" -H 'X-Mgpu-Web: 1' --data-binary @large \
        "$base/v1/jobs")
    echo "$status" && cat body
    [ "$status" = 413 ]
    # A head that does not end is answered after ten seconds.
    exec 4<>"/dev/tcp/127.0.0.1/$port"
    printf 'GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n' >&4
    timeout 300 cat <&4 >slow
    exec 4>&-
    head -n 1 slow | grep -q ' 408 '
    grep -qi '^Content-Security-Policy: ' slow
    [ "$(ask /v1/jobs -b jar)" = 200 ]
}

@test "the daemon's answers pass through, cookies do not" {
    ctld_start
    web_start
    enter
    [ "$(ask /web/config -b jar)" = 200 ]
    [ "$(json '$.user' <body)" = "$(id -un)" ]
    [ "$(json '$.cluster' <body)" = local ]
    [ "$(json '$.read_only' <body)" = 0 ]
    [ "$(ask /v1/jobs -b jar)" = 200 ]
    [ "$(json '$.schema' <body)" = mgpu.queue/1 ]
    grep -qi '^Content-Type: application/json' head
    [ "$(ask /v1/jobs/77 -b jar)" = 404 ]
    [ "$(code)" = NOTFOUND ]
    content='{"spec":{"version":1}}'
    [ "$(post /v1/jobs)" = 400 ]
    # With the rights of this user, and exactly once for a key.
    content='{"spec":{"version":1,"kind":"command","command":["sh","-c","seq 200000"],"resources":{"gpus":1}}}'
    for _ in 1 2; do
        status=$(post /v1/jobs -H 'Idempotency-Key: once')
        [ "$status" = 201 ] || [ "$status" = 200 ]
        [ "$(json '$.id' <body)" = 1 ]
    done
    [ "$(json '$.job.user' <<<"$(api GET /v1/jobs/1)")" = "$(id -un)" ]
    wait_for 60 job_is 1 COMPLETED
    # A log of 1.3 MB, to a client that takes it slowly.
    api GET /v1/jobs/1/logs >direct
    [ "$(ask /v1/jobs/1/logs -b jar --limit-rate 1M)" = 200 ]
    cmp direct body
}

@test "streams come line by line, and end with their client" {
    ctld_start
    web_start
    enter
    seen() { grep -q '"name":"told"' watched; }
    sockets() { find "/proc/$web_pid/fd" -lname 'socket:*' | wc -l; }
    no_more_sockets() { [ "$(sockets)" -eq "$before" ]; }
    first_gone() { before=$(sockets) && [ "$before" -le 4 ]; }
    wait_for 60 first_gone
    submit_command first sleep 600
    curl --silent --no-buffer -b jar "$base/v1/watch" >watched 3>&- &
    stream=$!
    wait_for 60 test -s watched
    submit_command told sleep 600
    wait_for 60 seen
    # Its connection to the daemon ends, too.
    kill "$stream"
    wait "$stream" || :
    wait_for 60 no_more_sockets
    # A daemon that ends cuts the stream: the client sees that it is not whole.
    curl --silent --no-buffer -b jar "$base/v1/watch" >again 3>&- &
    stream=$!
    wait_for 60 test -s again
    ctld_kill
    status=0
    wait "$stream" || status=$?
    [ "$status" -ne 0 ]
    # One that goes on is no reason to fall at the end.
    ctld_start
    curl --silent --no-buffer -b jar "$base/v1/watch" >third 3>&- &
    stream=$!
    wait_for 60 test -s third
    web_stop
    wait "$stream" || :
}

@test "a daemon that is away is an error in JSON, and its return is seen" {
    ctld_dir=$BATS_TEST_TMPDIR/d
    web_start --url "unix:$BATS_TEST_TMPDIR/d/sock"
    enter
    [ "$(ask / -b jar)" = 200 ]
    [ "$(ask /web/config -b jar)" = 200 ]
    [ -z "$(json '$.cluster' <body)" ]
    [ "$(ask /v1/jobs -b jar)" = 503 ]
    [ "$(code)" = UNAVAIL ]
    grep -q "no daemon answers at 'unix:.*/d/sock'" body
    ctld_start
    [ "$(ask /v1/jobs -b jar)" = 200 ]
}

@test "the URL comes before the daemon's answer" {
    ctld_start
    kill -STOP "$ctld_pid"
    web_start --url "unix:$ctld_dir/sock"
    kill -CONT "$ctld_pid"
    enter
    [ "$(ask /web/config -b jar)" = 200 ]
    [ "$(json '$.cluster' <body)" = local ]
}

@test "--read-only passes on no request that changes something" {
    ctld_start
    web_start --read-only
    enter
    [ "$(ask /web/config -b jar)" = 200 ]
    [ "$(json '$.read_only' <body)" = 1 ]
    job=$(submit_command waits sleep 600)
    [ "$(ask "/v1/jobs/$job" -b jar)" = 200 ]
    [ "$(post "/v1/jobs/$job/cancel")" = 403 ]
    [ "$(code)" = DENIED ]
    grep -q 'read-only' body
    not job_is "$job" CANCELLED
    # What it changes is the page's own.
    cp jar kept
    [ "$(post /web/logout)" = 200 ]
    [ "$(ask / -b kept)" = 403 ]
}

@test "a logout makes the cookie worthless" {
    ctld_start
    web_start
    enter
    [ "$(ask /web/logout -b jar -X POST)" = 403 ]
    [ "$(ask / -b jar)" = 200 ]
    cp jar kept
    submit_command waits sleep 600
    curl --silent --no-buffer -b jar "$base/v1/watch" >watched 3>&- &
    stream=$!
    wait_for 60 test -s watched
    [ "$(post /web/logout)" = 200 ]
    grep -qi "^Set-Cookie: mgpu-web-$port=; .*Max-Age=0" head
    # What the page was reading ends, too.
    stream_gone() { not kill -0 "$stream" 2>/dev/null; }
    wait_for 60 stream_gone
    not wait "$stream"
    [ "$(ask / -b kept)" = 403 ]
    enter
    [ "$(ask / -b jar)" = 200 ]
}

@test "S19: a unix socket is the user's own" {
    ctld_start
    mkdir -m 700 mine
    mkdir -m 777 open
    run timeout 60 "$MGPU_BIN/mgpu-web" --listen "unix:$PWD/open/sock"
    [ "$status" -eq 64 ]
    [[ $output == *"your own directory"* ]]
    web_start --listen unix:mine/sock
    [ "$(stat -c %a mine/sock)" = 600 ]
    grep -q "ssh -NL 8080:$(pwd -P)/mine/sock" web.err # from anywhere
    run timeout 60 "$MGPU_BIN/mgpu-web" --listen unix:mine/sock
    [ "$status" -eq 73 ]
    [[ $output == *"process $web_pid: stop it, or use another socket"* ]]
    # ssh may give it any port.
    base=http://localhost:9999
    [ "$(ask "/?token=$token" -c jar --unix-socket mine/sock)" = 303 ]
    grep -qi '^Set-Cookie: mgpu-web-9999=' head
    [ "$(ask /v1/jobs -b jar --unix-socket mine/sock)" = 200 ]
    [ "$(ask /v1/jobs -b jar --unix-socket mine/sock \
        -H 'Host: evil.example:9999')" = 403 ]
    web_stop
    [ ! -e mine/sock ]
}

@test "S19: another user on the socket is refused, even root" {
    [ "$(id -u)" -eq 0 ] || skip "needs root"
    other_dir=$(mktemp -d /tmp/mgpu-web.XXXXXX)
    chown nobody "$other_dir"
    cp "$MGPU_BIN/mgpu-web" "$other_dir/"
    setpriv --reuid nobody --clear-groups -- "$other_dir/mgpu-web" \
        --url unix:/nowhere/sock --listen "unix:$other_dir/sock" \
        >url 2>web.err 3>&- &
    web_pid=$!
    wait_for 30 web_up_or_gone
    token=$(sed 's,.*/?token=,,' url)
    base=http://localhost:9999
    [ "$(ask "/?token=$token" --unix-socket "$other_dir/sock")" = 403 ]
    grep -q 'another user' body
    as_nobody() { setpriv --reuid nobody --clear-groups -- "$@"; }
    [ "$(as_nobody curl --silent -o /dev/null -w '%{http_code}' \
        --unix-socket "$other_dir/sock" "$base/?token=$token")" = 303 ]
}

@test "S19: another user of the machine has no use for the cookie" {
    [ "$(id -u)" -eq 0 ] || skip "needs root"
    web_start --url unix:/nowhere/sock
    enter
    cookie=$(awk 'END { print $6 "=" $7 }' jar)
    as_nobody() {
        setpriv --reuid nobody --clear-groups -- curl --silent \
            -o /dev/null -w '%{http_code}' "$@"
    }
    # The connection ends before a request: curl may not read why.
    refused() { [[ $(as_nobody "$@" || :) =~ ^(403|000)$ ]]; }
    refused -b "$cookie" "$base/web/config"
    refused "$base/?token=$token"
    [ "$(ask /web/config -b jar)" = 200 ]
    # More connections than there is room for.
    mkfifo held
    # shellcheck disable=SC2016 # for the other shell
    setpriv --reuid nobody --clear-groups -- bash -c '
        for _ in $(seq 150); do exec {fd}<>"/dev/tcp/127.0.0.1/$1"; done
        echo all && exec sleep 600' - "$port" >held 2>/dev/null 3>&- &
    holder=$!
    read -r line <held
    [ "$line" = all ]
    status=$(ask /web/config -b jar)
    kill "$holder"
    [ "$status" = 200 ]
    # A machine without IPv6 has no ::1.
    grep -qE '^0{31}1 ' /proc/net/if_inet6 || return 0
    web_stop
    web_start --url unix:/nowhere/sock --listen '[::1]:0'
    enter
    refused "$base/?token=$token"
}

@test "other addresses than loopback need --read-only" {
    for where in 0.0.0.0:0 '*:0' '[::]:0' 192.0.2.1:80 example.org:80; do
        run timeout 60 "$MGPU_BIN/mgpu-web" --url unix:/nowhere/sock --listen "$where"
        [ "$status" -eq 64 ]
        [[ $output == *"only 127.0.0.1 unless --read-only"*"not encrypted"* ]]
    done
    for where in x :80 127.0.0.1 127.0.0.1:x 127.0.0.1:99999 unix:; do
        run timeout 60 "$MGPU_BIN/mgpu-web" --url unix:/nowhere/sock --listen "$where"
        [ "$status" -ne 0 ]
    done
    run timeout 60 "$MGPU_BIN/mgpu-web" word
    [ "$status" -eq 64 ]
    web_start --url unix:/nowhere/sock --read-only --listen '0.0.0.0:0'
    base=http://127.0.0.1:$port
    enter
    [ "$(ask / -b jar -H "Host: 198.51.100.7:$port")" = 403 ] # no cookie
    cookie=$(awk 'END { print $6 "=" $7 }' jar)
    [ "$(ask / -H "Cookie: $cookie" -H "Host: 198.51.100.7:$port")" = 200 ]
    [ "$(ask / -H "Cookie: $cookie" -H "Host: $(hostname):$port")" = 200 ]
    [ "$(ask / -H "Cookie: $cookie" -H "Host: evil.example:$port")" = 403 ]
}

@test "signals end it, and a full disk is an error" {
    for signal in -TERM -INT -HUP; do
        mkdir -p -m 700 mine
        rm -f url
        # Bash has a program in the background ignore SIGINT.
        web_start --url unix:/nowhere/sock --listen "unix:$PWD/mine/sock"
        web_stop "$signal"
        [ ! -e mine/sock ]
    done
    run timeout 60 bash -c '"$MGPU_BIN/mgpu-web" --url unix:/nowhere/sock >/dev/full'
    [ "$status" -eq 74 ]
}

# simulate [curl's options...]: two settings, as the page sends them.
simulate() { post /web/whatif "$@"; }

@test "two settings run on the past, and mgpu-sim reads them" {
    ctld_start
    job=$(submit_command short true)
    wait_for 60 job_is "$job" COMPLETED
    web_start
    enter
    [ "$(ask /web/whatif -b jar)" = 200 ]
    [ -z "$(json '$.why' <body)" ]
    content='{"policies":["fifo","backfill:preempt.enabled=true"]}'
    [ "$(simulate)" = 200 ]
    [ "$(json '$.status' <body)" = 0 ]
    [ "$(json '$.figures.schema' <body)" = mgpu.sim/1 ]
    [ "$(json '$.figures.runs[1].policy' <body)" = backfill ]
    [ "$(json '$.figures.runs[1].jobs' <body)" = 1 ]
    content='{"policies":["fifo","backfill"],"since":"2099-01-01T00:00:00Z"}'
    [ "$(simulate)" = 200 ]
    [ "$(json '$.status' <body)" != 0 ]
    [ -z "$(json '$.figures' <body)" ]
    # Every text is the value of its option, and goes to no shell.
    for word in 'fifo:x=$(touch${IFS}hit)' '--help' 'fifo --jobs hit' \
        '; touch hit' 'fifo\n--jobs=hit' '../../bin/sh' 'nothing:x'; do
        content="{\"policies\":[\"fifo\",\"$word\"]}"
        [ "$(simulate)" = 200 ]
        [ "$(json '$.status' <body)" = 2 ]
        [ -n "$(json '$.said' <body)" ]
    done
    content='{"policies":["fifo","fifo"],"since":"now --jobs hit"}'
    [ "$(simulate)" = 200 ]
    [ "$(json '$.status' <body)" = 2 ]
    [ ! -e hit ] && [ ! -e /hit ]
    for content in '' '[' '{"policies":["fifo"]}' '{"policies":["fifo",7]}' \
        '{"policies":["fifo","a\u0000b"]}' '{"policies":["fifo",""]}' \
        '{"policies":["fifo","fifo"],"options":["--jobs=hit"]}'; do
        content=${content:- }
        [ "$(simulate)" = 400 ]
        [ "$(code)" = INVAL ]
    done
}

@test "S19: nobody else runs a simulation" {
    ctld_start
    web_start
    enter
    content='{"policies":["fifo","fifo"]}'
    origin=http://evil.example
    [ "$(simulate)" = 403 ]
    unset origin
    [ "$(ask /web/whatif -b jar --data-binary "$content")" = 403 ]
    [ "$(ask /web/whatif -b jar -H "Origin: $base" --data-binary "$content")" = 403 ]
    [ "$(simulate -H 'Sec-Fetch-Site: same-site')" = 403 ]
    [ "$(simulate -H "Host: evil.example:$port")" = 403 ]
    [ "$(ask /web/whatif -H "Origin: $base" -H 'X-Mgpu-Web: 1' \
        --data-binary "$content")" = 403 ]
    [ "$(ask /web/whatif)" = 403 ]
    web_stop
    web_start --read-only
    enter
    [ "$(simulate)" = 405 ]
    [ "$(ask /web/whatif -b jar)" = 404 ]
}

@test "a simulation is one at a time, and ends with its client and its page" {
    ctld_start
    mkdir bin
    cp "$MGPU_BIN/mgpu-web" bin
    sim_ran() { [ -s pid ]; }
    MGPU_BIN=$PWD/bin web_start --url "unix:$ctld_dir/sock"
    enter
    content='{"policies":["fifo","fifo"]}'
    [ "$(simulate)" = 409 ]
    grep -q 'mgpu-sim is not beside mgpu-web' body
    printf '#!/bin/sh\necho $$ >%s\nexec sleep 600\n' "$PWD/pid" >bin/mgpu-sim
    chmod +x bin/mgpu-sim
    for end in client logout program; do
        curl --silent -b jar -H "Origin: $base" -H 'X-Mgpu-Web: 1' \
            --data-binary "$content" "$base/web/whatif" >first 3>&- &
        client=$!
        wait_for 60 sim_ran
        [ "$(simulate)" = 409 ]
        grep -q 'a simulation runs already' body
        sim=$(cat pid) && rm pid
        kill -0 "$sim"
        case $end in
        client) kill "$client" ;;
        logout) [ "$(content='{}' post /web/logout)" = 200 ] && enter ;;
        program) web_stop ;;
        esac
        wait "$client" || :
        wait_for 60 process_gone "$sim"
    done
}
