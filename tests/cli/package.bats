#!/usr/bin/env bats
# package.bats - what `make install` and `make deb` leave: programs that run
# from another root, units that name them, a dashboard of metrics that exist.

bats_require_minimum_version 1.5.0
load helpers

teardown() { ctld_stop; }

cuda() { if [ -e "$MGPU_BIN/../lib/libmgpu-cuda.so" ]; then echo 1; else echo 0; fi; }

@test "the Debian package installs in a root of its own, and runs there" {
    stage=$BATS_TEST_TMPDIR/deb root=$BATS_TEST_TMPDIR/root
    env -u MAKEFLAGS -u MAKELEVEL make -s -C "$MGPU_SRC" NOBUILD=1 \
        VARIANT="$(basename "$(dirname "$MGPU_BIN")")" CUDA="$(cuda)" \
        prefix=/usr DESTDIR="$stage/root" install >/dev/null
    run sh "$MGPU_SRC/contrib/deb/build" "$stage"
    [ "$status" -eq 0 ]
    deb=$output
    [ "$(dpkg-deb --field "$deb" Package)" = mgpu ]
    dpkg-deb --field "$deb" Depends | grep -q 'libsqlite3-0.*openmpi-bin'
    # It is opened, so that no tool finds it.
    dpkg-deb --field "$deb" Depends | grep -q 'libopenblas0-openmp | libopenblas0'
    dpkg-deb --field "$deb" Recommends | grep -q 'libdnnl2 | libdnnl3.6'
    mkdir -p "$root"/var/lib/dpkg/updates "$root"/var/lib/dpkg/info
    : >"$root/var/lib/dpkg/status"
    if [ "$(id -u)" -eq 0 ]; then # what it needs is not in this root
        # There is no shell in it either: the scripts are told where it is.
        in_root() { dpkg --root="$root" --log=/dev/null --force-depends --force-script-chrootless "$@"; }
        in_root -i "$deb"
        dpkg --root="$root" --verify mgpu
    else
        dpkg-deb --extract "$deb" "$root"
    fi
    for tool in ctld worker submit stat cancel admin; do
        run "$root/usr/bin/mgpu-$tool" --version
        [ "$status" -eq 0 ]
        [ "${lines[0]}" = "mgpu-$tool $(dpkg-deb --field "$deb" Version)" ]
    done
    [ -e "$root/usr/share/man/man8/mgpu-admin.8.gz" ]
    # Where Debian's python3 looks.
    cmp "$MGPU_SRC/contrib/python/mgpu.py" "$root/usr/lib/python3/dist-packages/mgpu.py"
    for unit in system user; do
        grep -q '^ExecStart=/usr/bin/mgpu-ctld ' \
            "$root/usr/lib/systemd/$unit/mgpu-ctld.service"
    done
    grep -q '^ExecStart=/usr/bin/mgpu-web --cluster ' \
        "$root/usr/lib/systemd/system/mgpu-web.service"
    grep -qx /etc/logrotate.d/mgpu <(dpkg-deb --info "$deb" conffiles)
    # The model and the rows of kind llm are beside their job; licences are said.
    doc=$root/usr/share/doc/mgpu
    "$root/usr/bin/mgpu-worker" --standalone "$doc/examples/llama-lora.yaml" \
        --alone --device host --dir "$BATS_TEST_TMPDIR/lora" >/dev/null
    [ -s "$BATS_TEST_TMPDIR/lora/out/adapter_model.safetensors" ]
    for f in stories260K/model.safetensors stories260K/LICENSE story-names/train.jsonl; do
        cmp "$MGPU_SRC/jobs/examples/$f" "$doc/examples/$f"
    done
    grep -A2 'examples/stories260K/\*$' "$doc/copyright" | grep -qx 'License: Expat'
    grep -qF 'THE SOFTWARE IS PROVIDED "AS IS"' "$doc/copyright"
    grep -A2 'examples/story-names/\*$' "$doc/copyright" | grep -qx 'License: CDLA-Sharing-1.0'
    zcat "$root/usr/share/doc/mgpu/changelog.gz" | head -1 | grep -q '^mgpu ('
    if command -v lintian >/dev/null; then
        run lintian --fail-on error "$deb"
        [ "$status" -eq 0 ] || { echo "$output" && false; }
    fi
    # The daemon of the package finds its worker there.
    dir=$BATS_TEST_TMPDIR/d
    MGPU_BIN=$root/usr/bin ctld_start
    id=$(submit_command one true)
    wait_for 60 job_is "$id" COMPLETED
    [ -d "$dir/state" ]
    [ "$(id -u)" -eq 0 ] || return 0
    # An upgrade under a daemon that runs, and what is left of a removal: what
    # an administrator has changed until it is purged, and the records always.
    if command -v systemd-sysusers >/dev/null; then
        grep -q '^mgpu:' "$root/etc/passwd"
        [ "$(stat -c %a "$root/var/lib/mgpu")" = 700 ]
    fi
    mkdir -p "$root/var/lib/mgpu"
    echo record >"$root/var/lib/mgpu/state.db"
    echo '# ours' >>"$root/etc/logrotate.d/mgpu"
    in_root --force-confold -i "$deb"
    ctld_ready
    id=$(submit_command two true)
    wait_for 60 job_is "$id" COMPLETED
    grep -q '# ours' "$root/etc/logrotate.d/mgpu"
    enabled=$root/etc/systemd/system/multi-user.target.wants/mgpu-ctld.service
    mkdir -p "$(dirname "$enabled")"
    ln -s /usr/lib/systemd/system/mgpu-ctld.service "$enabled"
    in_root --remove mgpu
    [ -L "$enabled" ]
    [ ! -e "$root/usr/bin/mgpu-ctld" ] && [ -e "$root/etc/logrotate.d/mgpu" ]
    run in_root --purge mgpu
    [ "$status" -eq 0 ]
    [[ $output == *"/var/lib/mgpu with the jobs' records is left"* ]]
    [ ! -e "$root/etc/logrotate.d/mgpu" ]
    [ ! -L "$enabled" ]
    [ "$(cat "$root/var/lib/mgpu/state.db")" = record ]
}

@test "the units are what systemd takes" {
    command -v systemd-analyze >/dev/null || skip "no systemd here"
    for unit in system user; do
        sed "s|@bindir@|$MGPU_BIN|" \
            "$MGPU_SRC/contrib/systemd/mgpu-ctld.$unit.service" \
            >"$BATS_TEST_TMPDIR/mgpu-ctld.service"
        run systemd-analyze verify --man=no "$BATS_TEST_TMPDIR/mgpu-ctld.service"
        not grep -q mgpu-ctld.service <<<"$output"
    done
    sed "s|@bindir@|$MGPU_BIN|" "$MGPU_SRC/contrib/systemd/mgpu-web.service" \
        >"$BATS_TEST_TMPDIR/mgpu-web.service"
    run systemd-analyze verify --man=no "$BATS_TEST_TMPDIR/mgpu-web.service"
    not grep -q mgpu-web.service <<<"$output"
    # The less the better, of 10; what is left is said in the unit.
    sed "s|@bindir@|$MGPU_BIN|" "$MGPU_SRC/contrib/systemd/mgpu-ctld.system.service" \
        >"$BATS_TEST_TMPDIR/mgpu-ctld.service"
    run systemd-analyze security --offline=true --no-pager --threshold=40 \
        "$BATS_TEST_TMPDIR/mgpu-ctld.service"
    if [[ $output != *"exposure level"* ]]; then
        skip "this systemd-analyze looks at no files"
    fi
    [ "$status" -eq 0 ]
}

@test "the dashboard asks for metrics that the daemon has" {
    printf '%s\n' 'version: 1' 'controller: {metrics_labels: [account]}' \
        >"$BATS_TEST_TMPDIR/mgpu.yaml"
    ctld_start --config "$BATS_TEST_TMPDIR/mgpu.yaml"
    api GET /metrics | sed -n 's/^# TYPE \([a-z_]*\) \([a-z]*\)$/\1 \2/p' |
        while read -r name type; do
            case $type in
            counter) echo "${name}_total" ;;
            histogram) printf '%s\n' "${name}_bucket" "${name}_sum" "${name}_count" ;;
            info) echo "${name}_info" ;;
            *) echo "$name" ;;
            esac
        done | sort -u >"$BATS_TEST_TMPDIR/there"
    grep -o '"expr": *"[^"]*' "$MGPU_SRC/contrib/grafana/mgpu.json" |
        grep -o 'mgpu_[a-z_]*' | sort -u >"$BATS_TEST_TMPDIR/asked"
    [ "$(wc -l <"$BATS_TEST_TMPDIR/asked")" -ge 10 ]
    run comm -13 "$BATS_TEST_TMPDIR/there" "$BATS_TEST_TMPDIR/asked"
    [ "$output" = "" ]
    valid=$(sqlite3 :memory: \
        "SELECT json_valid(readfile('$MGPU_SRC/contrib/grafana/mgpu.json'))")
    [ "$valid" = 1 ]
}

@test "a prefix of one's own has all files, and nothing is written outside" {
    home=$BATS_TEST_TMPDIR/home
    env -u MAKEFLAGS -u MAKELEVEL make -s -C "$MGPU_SRC" NOBUILD=1 \
        VARIANT="$(basename "$(dirname "$MGPU_BIN")")" CUDA="$(cuda)" \
        prefix="$home" install >/dev/null
    [ -e "$home/etc/logrotate.d/mgpu" ]
    [ -e "$home/share/mgpu/grafana/mgpu.json" ]
    # A dry run names each file that it writes: none is outside.
    env -u MAKEFLAGS -u MAKELEVEL make -n -C "$MGPU_SRC" NOBUILD=1 \
        VARIANT="$(basename "$(dirname "$MGPU_BIN")")" CUDA="$(cuda)" \
        prefix="$home" install >"$BATS_TEST_TMPDIR/steps"
    [ "$(grep -c '/etc/' "$BATS_TEST_TMPDIR/steps")" -ge 1 ]
    [ "$(grep '/etc/' "$BATS_TEST_TMPDIR/steps" | grep -vc "$home/etc/")" -eq 0 ]
    run env -u MAKEFLAGS -u MAKELEVEL make -n -C "$MGPU_SRC" NOBUILD=1 \
        VARIANT="$(basename "$(dirname "$MGPU_BIN")")" CUDA="$(cuda)" \
        prefix=/usr/local install
    [[ $output == *" /etc/logrotate.d/mgpu"* ]]
}
