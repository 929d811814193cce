#!/bin/sh
# rooms.sh - folders, names, sizes and call circles stay small.
#
# usage: rooms.sh OBJECTS    the folder with the objects of all sources
#        rooms.sh --self-test
#
#   folder   a folder has at most 20 .c and .cu files
#   name     a base name occurs once; main.c, args.c and args.h are everybody's;
#            a tracked file has a letter in its base name (no file named "-")
#   header   a header has at most 400 lines, a new one 200
#   source   a .c has 40 to 600 lines, a new one at most 500
#   circle   at most 3 files call each other in a circle, and all of them are
#            in one folder (what the objects define and need says so)
#   function a public function of a .c begins with a word of the file's name, in
#            any form (plan_start in planner.c); one word may stand before it,
#            for the room (eng_commit_send in commit.c)
#   unused   a public name is used by another source of the product
#   seam     the same, of a name that tests use
#
# tests/lint/rooms.allow has what breaks a rule: RULE SIZE WHAT REASON.
# tests/lint/rooms.old has the headers and sources between the two limits that
# are older than the rules: RULE WHAT, tests/lint/rooms.seams the names that only
# tests use. They may only shrink: a row that is not needed, or that allows more
# than there is, is refused.
set -eu
allow=tests/lint/rooms.allow
old=tests/lint/rooms.old
seams=tests/lint/rooms.seams

# Paths without a letter in the base name: mistakes of a command line.
nameless() { grep -vE '[A-Za-z][^/]*$'; }

# RULE SIZE WHAT, a line for each thing that has a size.
sizes() {
    git ls-files -- 'jobs' 'kernels' 'db' 'slurm' 'worker' 'scheduler' |
        grep -E '\.(c|cu|h)$' >"$tmp/files"
    awk -F/ '/\.cu?$/ { sub("/[^/]*$", ""); n[$0]++ }
             END { for (d in n) print "folder", n[d], d }' "$tmp/files"
    awk -F/ '$NF !~ /^(main\.c|args\.[ch])$/ { n[$NF]++ }
             END { for (f in n) print "name", n[f], f }' "$tmp/files"
    xargs wc -l <"$tmp/files" |
        awk '$2 ~ /\.h$/ { print "header", $1, $2 }
             $2 ~ /\.c$/ { print "source", $1, $2 }'
}

# What the product's objects define and need (U): FILE SYMBOL, and nm's letter.
symbols() { # OBJECTS
    find "$1/jobs" "$1/kernels" "$1/db" "$1/slurm" "$1/worker" \
        "$1/scheduler" -name '*.o' | while read -r o; do
        f=${o#"$1/"}
        f=${f%.o} # an object may be older than the last move of its source
        [ ! -e "$f.c" ] && [ ! -e "$f.cu" ] || echo "$o"
    done | xargs nm -A -g |
        awk -v root="$1/" '
            { split($0, part, ":"); f = substr(part[1], length(root) + 1)
              sub(/\.o$/, "", f); n = split(part[2], w, " ")
              if (w[n - 1] ~ /^[A-Z]$/)
                  print f, w[n], w[n - 1] }'
}

# Of symbols: FROM TO, when FROM needs a symbol that TO defines.
calls() {
    awk '$3 == "U" { need[$1 SUBSEP $2] }
         $3 != "U" { has[$2] = $1 }
         END { for (k in need) { split(k, p, SUBSEP)
               if (p[2] in has && has[p[2]] != p[1] && p[1] !~ /\/main$/)
                   print p[1], has[p[2]] } }' | sort -u
}

# Of symbols: RULE 1 SYMBOL, of those of C that no other object needs. WORDS has
# the words of the tests.
lonely() { # WORDS
    awk -v words="$1" '
         BEGIN { while ((getline < words) > 0) tested[$1] }
         $3 == "U" { need[$2] }
         $3 ~ /[TDBR]/ && $2 !~ /^(_Z|main$)/ { has[$2] }
         END { for (s in has) if (!(s in need))
                   print s in tested ? "seam" : "unused", 1, s }'
}

# Of symbols: function NUMBER FILE NAME..., for the public functions of a .c that
# do not say their file.
misnamed() {
    awk '
        function is_form(a, b) {
            return a == b || a "s" == b || a == b "s" ||
                (length(a) > 3 && index(b, a) == 1) ||
                (length(b) > 3 && index(a, b) == 1)
        }
        $3 == "T" && $2 !~ /^_/ && $2 != "main" {
            file = $1; sub(/.*\//, "", file)
            nf = split(file, of, "_"); np = split($2, part, "_")
            for (i = 1; i <= 2 && i <= np; i++)
                for (k = 1; k <= nf; k++)
                    if (is_form(part[i], of[k])) next
            n[$1]++; names[$1] = names[$1] " " $2
        }
        END { for (f in n) print "function", n[f], f names[f] }'
}

# A program that lacks a part, as CUDA=0, does not say who uses the rest.
is_whole() { # OBJECTS
    git ls-files jobs kernels db slurm worker scheduler | grep '\.cu*$' |
        grep -v '_cuda\.cu*$' | while read -r f; do
        [ -e "$1/${f%.*}.o" ] || exit 1
    done
}

# circle SIZE FOLDER[+FOLDER...] FILE..., from lines FROM TO.
circles() {
    awk '
        function visit(v,    i, n, to) {
            at[v] = low[v] = ++clock; stack[++depth] = v; on[v] = 1
            n = split(out[v], to, " ")
            for (i = 1; i <= n; i++)
                if (!(to[i] in at)) {
                    visit(to[i])
                    if (low[to[i]] < low[v]) low[v] = low[to[i]]
                } else if (on[to[i]] && at[to[i]] < low[v])
                    low[v] = at[to[i]]
            if (low[v] == at[v]) close_circle(v)
        }
        function close_circle(v,    n, u, d, files, folders) {
            n = 0; files = ""; folders = ""
            do {
                u = stack[depth--]; on[u] = 0; n++; files = files " " u
                d = u; sub("/[^/]*$", "", d)
                if (index("+" folders "+", "+" d "+") == 0)
                    folders = folders (folders == "" ? "" : "+") d
            } while (u != v)
            if (n > 1) print "circle", n, folders files
        }
        { out[$1] = out[$1] " " $2; seen[$1]; seen[$2] }
        END { for (v in seen) if (!(v in at)) visit(v) }'
}

# The rows that break a rule: RULE SIZE WHAT [FILES]
broken() {
    awk -v soft="$1" '
        function is_bad() {
            if ($1 == "folder")
                return $2 > 20
            if ($1 == "name") return $2 > 1
            if ($1 == "function") return 1
            if ($1 == "header") return $2 > (soft ? 200 : 400)
            if ($1 == "source") return $2 < 40 || $2 > (soft ? 500 : 600)
            return $2 > 3 || $3 ~ /\+/
        }
        is_bad()'
}

# Rows against a list: what is missing there, grew, or is not needed any more.
compare() { # LIST, rows
    awk -v list="$1" '
        BEGIN { has_sizes = list ~ /allow$/
                while ((getline < list) > 0) {
                    if ($1 == "#" || !NF) continue
                    if (has_sizes) allowed[$1 " " $3] = $2
                    else allowed[$1 " " $2] = 0
                    if (has_sizes && NF < 4)
                        print list ": no reason: " $0 } }
        { key = $1 " " $3; got[key] = got[key] > $2 ? got[key] : $2
          more[key] = substr($0, length($1 $2 $3) + 4) }
        END {
            for (k in got) {
                split(k, p, " ")
                is_small = p[1] == "source" && got[k] < 40
                if (!(k in allowed))
                    print k ": " got[k] (more[k] ? " of " more[k] : "")
                else if (!has_sizes) continue
                else if (!is_small && got[k] > allowed[k])
                    print k ": " got[k] ", " list " allows " allowed[k]
                else if (got[k] < allowed[k])
                    print list ": " k " needs only " got[k]
            }
            for (k in allowed) if (!(k in got))
                print list ": not needed any more: " k
        }'
}

tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT

if [ "$1" = --self-test ]; then
    [ "$(printf '%s\n' - a/- a/1.2 a/b.c 0x | nameless | tr '\n' ' ')" = \
        '- a/- a/1.2 ' ]
    printf '%s\n' 'a/x a/y' 'a/y b/z' 'b/z a/x' 'b/z b/w' 'b/w c/v' >"$tmp/g"
    got=$(circles <"$tmp/g" | awk '{ print $1, $2 }')
    [ "$got" = 'circle 3' ]
    [ "$(circles <"$tmp/g" | broken '' | wc -l)" = 1 ]
    printf '%s\n' 'a/x f T' 'b/y f U' 'a/x g T' 'b/y h D' 'c/main main T' \
        'b/y _Z1v T' 'b/y weak W' >"$tmp/symbols"
    echo h >"$tmp/words"
    [ "$(calls <"$tmp/symbols")" = 'b/y a/x' ]
    [ "$(lonely "$tmp/words" <"$tmp/symbols" | sort | tr '\n' ' ')" = \
        'seam 1 h unused 1 g ' ]
    got=$(printf '%s T\n' 'a/work_queue work_queue_create' 'a/plan eng_step' \
        'a/planner eng_plan_end' 'a/tree node_child' | misnamed | sort)
    [ "$(echo "$got" | tr '\n' ' ')" = \
        'function 1 a/plan eng_step function 1 a/tree node_child ' ]
    printf '%s\n' 'folder 20 a' 'folder 21 b' 'name 2 c.c' 'name 1 d.c' \
        'header 401 e.h' 'header 400 f.h' 'source 39 g.c' 'source 600 h.c' \
        'circle 3 a x y z' 'circle 2 a+b x y' >"$tmp/rows"
    got=$(broken '' <"$tmp/rows" | awk '{ printf "%s ", $3 }')
    [ "$got" = 'b c.c e.h g.c a+b ' ]
    printf '%s\n' 'header 410 e.h why' 'name 2 d.c why' >"$tmp/list.allow"
    got=$(broken '' <"$tmp/rows" | compare "$tmp/list.allow" | sort)
    [ "$(echo "$got" | wc -l)" = 6 ]
    case $got in *'header e.h needs only 401'*) ;; *) exit 1 ;; esac
    case $got in *'not needed any more: name d.c'*) ;; *) exit 1 ;; esac
    exit 0
fi

if git ls-files | nameless >"$tmp/nameless"; then
    printf 'rooms: a file without a letter in its name: %s\n' \
        "$(cat "$tmp/nameless")"
    exit 1
fi
sizes >"$tmp/rows"
symbols "$1" >"$tmp/symbols"
calls <"$tmp/symbols" | circles >>"$tmp/rows"
if is_whole "$1"; then
    misnamed <"$tmp/symbols" >>"$tmp/rows"
else
    grep -v '^function ' "$allow" >"$tmp/rooms.allow"
    allow=$tmp/rooms.allow
fi
broken '' <"$tmp/rows" >"$tmp/hard"
broken 1 <"$tmp/rows" | grep -vxFf "$tmp/hard" >"$tmp/soft" || :
git grep -howE '[a-z0-9_]+' -- tests contrib ':!tests/lint' ':!*.bats' |
    sort -u >"$tmp/words"
bad=$(compare "$allow" <"$tmp/hard"; compare "$old" <"$tmp/soft"
    ! is_whole "$1" ||
        lonely "$tmp/words" <"$tmp/symbols" | compare "$seams")
[ -z "$bad" ] || { printf 'rooms: %s\n' "$bad"; exit 1; }
