#!/bin/sh
# checked.sh - every status of CUDA, cuBLAS, NCCL, CUPTI and NVML is looked at.
#
#   checked.sh [FILE...]       default: all files that may call them
#   checked.sh --self-test     plants calls that nobody checks, and others
#
# A call that is a statement of its own throws its status away: that is a
# finding. So is one behind (void), but for those that give something back,
# where nothing can be done about a failure, and those that wait before it. A
# kernel launch has no status: cudaGetLastError() has to follow. What dlsym()
# has found is called by a member: of nccl, cuda or api, and NVML's by the
# names that nvml_library.h gives them.
set -eu

scan() {
    awk '
    # The text without comments, strings and preprocessor lines; one statement
    # at a time, cut at ; { and }.
    function flush_file() {
        if (file != "") statements(file, text)
        text = ""
    }
    FNR == 1 { flush_file(); file = FILENAME; in_comment = 0; continued = 0 }
    {
        line = $0
        if (continued || line ~ /^[ \t]*#/) {
            continued = line ~ /\\$/
            line = ""
        }
        gsub(/\\"/, "", line)
        gsub(/"[^"]*"/, "\"\"", line)
        out = ""
        while (line != "") {
            if (in_comment) {
                i = index(line, "*/")
                if (!i) { line = ""; break }
                line = substr(line, i + 2)
                in_comment = 0
            } else {
                i = index(line, "/*")
                if (!i) { out = out line; break }
                out = out substr(line, 1, i - 1) " "
                line = substr(line, i + 2)
                in_comment = 1
            }
        }
        sub(/\/\/.*/, "", out)
        text = text out " \001" FNR "\002 "
    }
    END { flush_file(); exit bad }

    # if (...), for (...), while (...), else, do and labels before a statement
    function bare(s,    depth, i, c) {
        for (;;) {
            sub(/^[ \t]+/, "", s)
            if (s ~ /^(else|do)[^A-Za-z0-9_]/) { sub(/^(else|do)/, "", s); continue }
            if (s ~ /^(case [^:]*|default|[a-z_]+):[^:]/) { sub(/^[^:]*:/, "", s); continue }
            if (s !~ /^(if|for|while|switch) *\(/) return s
            depth = 0
            for (i = index(s, "("); i <= length(s); i++) {
                c = substr(s, i, 1)
                if (c == "(") depth++
                if (c == ")" && --depth == 0) break
            }
            s = substr(s, i + 1)
        }
    }
    # At ; { and }, but not inside parentheses.
    function cut(t, parts,    n, i, c, depth, from) {
        n = 0; depth = 0; from = 1
        for (i = 1; i <= length(t); i++) {
            c = substr(t, i, 1)
            if (c == "(") depth++
            if (c == ")") depth--
            if (depth == 0 && (c == ";" || c == "{" || c == "}")) {
                parts[++n] = substr(t, from, i - from)
                from = i + 1
            }
        }
        parts[++n] = substr(t, from)
        return n
    }
    function statements(name, t,    n, i, s, line, parts, m) {
        line = 1
        n = cut(t, parts)
        for (i = 1; i <= n; i++) {
            s = parts[i]
            # The line on which it begins.
            while (match(s, /^[ \t]*\001[0-9]+\002/)) {
                m = substr(s, RSTART, RLENGTH); gsub(/[^0-9]/, "", m)
                line = m + 1
                s = substr(s, RLENGTH + 1)
            }
            at = line
            while (match(s, /\001[0-9]+\002/)) {
                m = substr(s, RSTART + 1, RLENGTH - 2)
                line = m + 1
                s = substr(s, 1, RSTART - 1) substr(s, RSTART + RLENGTH)
            }
            gsub(/[ \t]+/, " ", s)
            judge(name, at, bare(s), i < n ? parts[i + 1] : "")
        }
    }
    function judge(name, line, s, next_s,    call, is_void) {
        if (s ~ /<<</ && next_s !~ /cudaGetLastError/)
            say(name, line, "a launch without cudaGetLastError()")
        is_void = sub(/^\(void\) */, "", s)
        if (!match(s, /^(((cuda|cublas|cublasLt|cudnn|nccl|cupti|nvml|cu)[A-Z][A-Za-z0-9_]*)|([a-z_]+(->|\.)(nccl|cuda|api|nvml)(->|\.)[A-Za-z0-9_]+)|(([a-z_]+(->|\.))+(init|shutdown|get_[a-z_]+))) *\(/))
            return
        call = substr(s, 1, RLENGTH - 1)
        if (is_void && call ~ /(Free|Destroy|Unregister|GetLastError|destroy|abort|shutdown|StreamSynchronize|FlushAll)(_v[0-9])? *$/)
            return
        say(name, line, (is_void ? "the status is thrown away: " : "nobody looks at the status: ") call)
    }
    function say(name, line, what) {
        print name ":" line ": " what
        bad = 1
    }' "$@"
}

self_test() {
    dir=$(mktemp -d)
    trap 'rm -rf "$dir"' EXIT
    cat >"$dir/bad.c" <<'BAD'
int f(struct x *m)
{
    cudaMemcpyAsync(a, b, n, k, s);
    if (a > 0)
        cudaEventRecord(e, s);
    for (int i = 0; i < n; i++)
        (void)ncclGroupStart();
    m->nccl.group_end(); /* (void) in a comment */
    (void)m->cuda.event_record(e, s);
    else
        cublasLtMatmul(lt, "}",
                       2);
    kernel<<<1, 2>>>(x);
    m->get_memory(m->device, &now);
    w->n.get_event(w->set, &e, 1);
    (void)n.init();
    return 0;
}
BAD
    cat >"$dir/good.c" <<'GOOD'
/* cudaMemcpyAsync(a); */
#define X cudaFoo();
int cudaOwn(int x)
{
    int rc = cudaMemcpyAsync(a, b);
    rc = m->nccl.group_start();
    if (cuda_check((int)cudaEventRecord(e), "x", err) < 0 ||
        blas_check(cublasLtCreate(&lt), err) < 0)
        return check(cudaGetDevice(&d));
    say("cudaMemcpy(a); cudaFree(b);");
    (void)cudaFree(p);
    for (i = 0; i < 2; i++)
        (void)m->cuda.event_destroy(e);
    code = m->init();
    (void)m->shutdown();
    kernel<<<1, 2>>>(x);
    e->failed = (int)cudaGetLastError();
    return cudaFree(x) == 0;
}
GOOD
    found=$(scan "$dir/bad.c") && { echo "checked.sh: found nothing" >&2; exit 1; }
    lines=$(printf '%s\n' "$found" | sed 's/^[^:]*:\([0-9]*\):.*/\1/' | tr '\n' ' ')
    [ "$lines" = '3 4 6 8 9 10 13 14 15 16 ' ] || {
        echo "checked.sh: planted at 3 4 6 8 9 10 13 14 15 16, found at $lines" >&2
        exit 1
    }
    scan "$dir/good.c" || { echo "checked.sh: these are checked" >&2; exit 1; }
    echo ok
}

if [ "${1-}" = --self-test ]; then
    self_test
elif [ $# -gt 0 ]; then
    scan "$@"
else
    # Named by their doors (layers.sh); a launch may be in any kernel.
    # shellcheck disable=SC2046
    scan jobs/base/nvml_library.c slurm/local/nvml.c $(find kernels worker \( -name '*_cuda.c' -o -name '*_nccl.c' \
        -o -name '*_cupti.c' -o -name 'gpu_memory.c' -o -name 'gpu_use.c' -o -name '*.cu' \
        -o -name 'exec*.h' \))
fi
