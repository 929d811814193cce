#!/bin/sh
# sass.sh - what nvcc made of the kernels, read from their machine code: no GPU
# is needed.
#
# usage: sass.sh OBJECT...           objects of nvcc
#        sass.sh --facts OBJECT...   what is read of them, judged by nobody
#        sass.sh --self-test         needs nvcc
#
# The tables "Instructions per value" and "Local memory" of kernels/README.md
# say what is allowed:
#
#   loop    the hot loop of a kernel, the innermost one with the most
#           instructions, has at most so many per value that it stores (or
#           loads, if it stores none)
#   local   no kernel spills registers to local memory, nor has arrays there
#   narrow  a kernel of width W >= 4 has fewer than W stores of two bytes: the
#           tail of a flat array; no loop has stores of one or two bytes, but
#           for such a tail, the instance for vectors of one value, and the
#           kernels that the table names, which do work on single values. A
#           vector has 16 bytes at most: a larger number is no width, but the
#           size of a head
#   tile    the loop of an attention kernel over tiles executes at most so many
#           instructions of a thread per pair of a query and a key
#
# The loop over tiles is the smallest one with the products of a tile. What its
# forward branches skip is left out if it neither multiplies nor fetches: masks,
# and values that are not finite. A nested loop that fetches passes as often as
# the table says.
#
# cuobjdump is in PATH, beside nvcc, or where `sh .ci/deps sass` puts it. Exits
# with 77 and one line where there is none.
set -eu
table=${SASS_TABLE:-kernels/README.md}
nvcc=${NVCC:-$(command -v nvcc || echo /usr/local/cuda/bin/nvcc)}
PATH=$PATH:${nvcc%/*}:$PWD/build/sass/nvidia/cu13/bin

# Of a listing, a line per function: its name, instructions of local memory,
# stores of two bytes; of its hot loop instructions, bytes stored and loaded; of
# its loop over tiles instructions, those in loops that fetch, products, and
# loads of less than four bytes; stores of less in any loop.
facts() {
    awk '
        function pad(x) {
            sub(/^0x/, "", x)
            return substr("00000000" x, length(x) + 1)
        }
        function bytes(op) {
            return op ~ /\.128/ ? 16 : op ~ /\.64/ ? 8 : \
                op ~ /\.[US]16/ ? 2 : op ~ /\.[US]8/ ? 1 : 4
        }
        function has(from, last, what,    k) {
            for (k = from; k <= last; k++)
                if (op[k] ~ what)
                    return 1
            return 0
        }
        # Into path, fetch, mma and narrow.
        function tiles(    i, k, n, first, last, inner) {
            path = fetch = mma = narrow = first = 0
            for (i = 1; i <= loops; i++) {
                n = 0
                for (k = lo[i]; k <= hi[i]; k++)
                    n += op[k] ~ /^HMMA/
                if (n >= 8 && maybe[hi[i]] && (!first || hi[i] - lo[i] < last - first)) {
                    first = lo[i]; last = hi[i]; mma = n
                }
            }
            for (k = first; first && k <= last; k++) {
                inner = 0
                for (i = 1; i <= loops; i++)
                    if (lo[i] > first && hi[i] < last && k >= lo[i] && \
                        k <= hi[i] && has(lo[i], hi[i], "^LDGSTS"))
                        inner = 1
                path += !inner
                fetch += inner
                narrow += op[k] ~ /^LDG.*\.[US](8|16)/
                if (to[k] > k && to[k] <= last && \
                    (!maybe[k] || !has(k + 1, to[k] - 1, "^(HMMA|LDGSTS)")))
                    k = to[k] - 1
            }
        }
        # Stores of less than four bytes in any loop. What goes back in any
        # case returns from a slow path.
        function few_in_loops(    i, k, depth, n) {
            split("", deeper)
            for (i = 1; i <= loops; i++)
                if (maybe[hi[i]]) {
                    deeper[lo[i]]++
                    deeper[hi[i] + 1]--
                }
            for (k = 1; k <= n_op; k++) {
                depth += deeper[k]
                n += depth > 0 && op[k] ~ /^STG?\..*[US](8|16)/
            }
            return n + 0
        }
        function flush(    i, j, k, n, st, ld, best, b_st, b_ld, inner) {
            if (f == "")
                return
            tiles()
            for (i = 1; i <= loops; i++) {
                inner = 1
                for (j = 1; j <= loops; j++)
                    if (j != i && lo[j] >= lo[i] && hi[j] <= hi[i])
                        inner = 0
                n = st = ld = 0
                for (k = lo[i]; inner && k <= hi[i]; k++) {
                    n++
                    if (op[k] ~ /^ST[GS]?\./) st += bytes(op[k])
                    if (op[k] ~ /^LDG?\./) ld += bytes(op[k])
                }
                if (n > best && st + ld > 0) {
                    best = n; b_st = st; b_ld = ld
                }
            }
            print f, loc + 0, u16 + 0, best + 0, b_st + 0, b_ld + 0, \
                path, fetch, mma, narrow, few_in_loops()
        }
        /Function :/ {
            flush()
            f = $3; loops = n_op = loc = u16 = 0
            split("", at); split("", to); split("", from)
            next
        }
        $1 ~ /^\/\*[0-9a-f]+\*\/$/ && $2 !~ /^\/\*/ {
            a = substr($1, 3, length($1) - 4)
            name = $2 ~ /^@/ ? $3 : $2
            op[++n_op] = name
            maybe[n_op] = $2 ~ /^@/ || $0 ~ /BRA !?U?P/
            at[pad(a)] = n_op
            n = split(from[pad(a)], branch, " ")
            for (i = 1; i <= n; i++)
                to[branch[i]] = n_op
            if (name ~ /^(LDL|STL)/) loc++
            if (name ~ /^STG?\..*[US]16/) u16++
            if (name ~ /^BRA/ && match($0, /0x[0-9a-f]+/)) {
                where = pad(substr($0, RSTART, RLENGTH))
                if (!(where in at)) {
                    from[where] = from[where] " " n_op
                } else if (at[where] < n_op) {
                    lo[++loops] = at[where]; hi[loops] = n_op
                }
            }
        }
        END { flush() }'
}

# Names functions as the tables do: `f<bf16,4>`.
named() {
    c++filt | awk '
        {
            n = NF
            name = $0
            sub(/( [0-9]+)+$/, "", name)
            sub(/^void /, "", name)
            gsub(/\(anonymous namespace\)::/, "", name)
            sub(/\(.*/, "", name)
            gsub(/__nv_bfloat16/, "bf16", name)
            gsub(/__half/, "f16", name)
            gsub(/ /, "", name)
            for (i = n - 9; i <= n; i++)
                name = name " " $i
            print name
        }'
}

# Facts against the tables; prints each row of the first with what is reached.
judge() { # FACTS
    awk -v table="$table" '
        function fail(why) { print "sass: " name ": " why; bad = 1 }
        function bare(s) { gsub(/[` ]/, "", s); return s }
        BEGIN {
            while ((getline line < table) > 0) {
                if (line ~ /^\| kernel, as compiled/) part = "loop"
                else if (line ~ /^\| kernel with local/) part = "local"
                else if (line ~ /^\| kernel of tiles/) part = "tile"
                else if (line ~ /^\| kernel of single/) part = "single"
                else if (line !~ /^\|/) part = ""
                n = split(line, col, "|")
                if (part == "" || line !~ /^\| `/) continue
                if (part == "loop") limit[bare(col[2])] = col[3] + 0
                else if (part == "tile") {
                    pairs[bare(col[2])] = col[3] + 0
                    passes[bare(col[2])] = col[4] + 0
                    most[bare(col[2])] = col[5] + 0
                } else if (part == "single") {
                    n = split(bare(col[2]), kernel, ",")
                    for (i = 1; i <= n; i++) single[kernel[i]] = 1
                } else
                    may[bare(col[2])] = 1
            }
        }
        {
            name = family = $1
            sub(/<.*/, "", family)
            args = name
            sub(/^[^<]*</, "", args)
            sub(/>$/, "", args)
            split(args, arg, ",")
            size = arg[1] ~ /16$/ ? 2 : arg[1] == "double" ? 8 : 4
            if ($2 > 0 && !(family in may))
                fail($2 " instructions use local memory")
            width = (arg[2] ~ /^[0-9]+$/ ? arg[2] : arg[1]) + 0
            if (width > 16)
                width = 0
            if (width >= 4 && $3 >= width)
                fail($3 " stores of two bytes")
            if (width != 1 && $11 > 0 && $11 >= width) {
                needs[family] = 1
                if (!(family in single))
                    fail($11 " stores of less than four bytes in its loops")
            }
            if (name in pairs) {
                seen[name] = 1
                per = ($7 + $8 * passes[name]) / pairs[name]
                printf "%s: %.1f per pair, of %s\n", name, per, most[name]
                if ($9 == 0)
                    fail("no product on tensor cores")
                else if (per > most[name])
                    fail(sprintf("%.1f instructions per pair, more than %s",
                                 per, most[name]))
                if ($10 > 0)
                    fail($10 " loads of less than four bytes")
            }
            if (!(name in limit))
                next
            seen[name] = 1
            values = ($5 > 0 ? $5 : $6) / size
            per = values > 0 ? $4 / values : 1e9
            printf "%s: %.1f per value, of %s\n", name, per, limit[name]
            if (per > limit[name])
                fail(sprintf("%.1f instructions per value, more than %s", per,
                             limit[name]))
        }
        END {
            for (name in limit)
                if (!(name in seen)) fail("no kernel of that name")
            for (name in pairs)
                if (!(name in seen)) fail("no kernel of that name")
            for (name in single)
                if (!(name in needs)) fail("works on vectors, its row is to go")
            exit bad
        }' "$1"
}

read_all() { # OBJECT...
    tmp=$(mktemp -d)
    trap 'rm -rf "$tmp"' EXIT
    for o; do
        cuobjdump -sass "$o" >"$tmp/listing" || exit 1
        facts <"$tmp/listing"
    done | named >"$tmp/facts"
    [ -s "$tmp/facts" ] || { echo "sass: no machine code in $*" >&2; exit 1; }
}

# Kernels with one fault each are refused for it, and a good one is not.
self_test() {
    command -v "$nvcc" >/dev/null || {
        echo 'sass: not run: no nvcc' >&2
        exit 77
    }
    dir=$(mktemp -d)
    "$nvcc" -arch=sm_90 -cubin -o "$dir/o" tests/lint/sass_faults.cu
    sed -n 's/^\/\/ //p' tests/lint/sass_faults.cu >"$dir/table"
    if SASS_TABLE=$dir/table sh "$0" "$dir/o" >"$dir/out"; then
        echo 'sass: a kernel with a fault passes' >&2
        exit 1
    fi
    sed -n 's/^sass: \([a-z]*\).*: \(.*\)/\1: \2/p' "$dir/out" |
        sed 's/[0-9.]* instructions/N instructions/; s/^\([a-z]*: \)[0-9]* stores/\1N stores/' |
        sort >"$dir/found"
    printf '%s\n' 'beside: N instructions per pair, more than 12' \
        'gone: no kernel of that name' \
        'heads: N stores of less than four bytes in its loops' \
        'local: N instructions use local memory' \
        'narrow: N stores of less than four bytes in its loops' \
        'narrow: N stores of two bytes' \
        'once: N stores of less than four bytes in its loops' \
        'outer: N stores of less than four bytes in its loops' \
        'scalar: no product on tensor cores' \
        'slow: N instructions per value, more than 12' \
        'wide: works on vectors, its row is to go' >"$dir/want"
    diff "$dir/want" "$dir/found" || { cat "$dir/out"; exit 1; }
    rm -rf "$dir"
}

if ! command -v cuobjdump >/dev/null || ! command -v nvdisasm >/dev/null; then
    echo 'sass: not run: no cuobjdump and nvdisasm (sh .ci/deps sass)' >&2
    exit 77
fi
case ${1-} in
--self-test) self_test ;;
--facts)
    shift
    read_all "$@"
    cat "$tmp/facts"
    ;;
*)
    read_all "$@"
    judge "$tmp/facts"
    ;;
esac
