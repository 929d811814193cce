#!/bin/sh
# docs.sh - what documents say of the tree is true.
#
# usage: docs.sh ROOMS...     ROOMS: LAYER:FOLDER,FOLDER... as the Makefile links
#        docs.sh --self-test
#
#   link     a relative link of a Markdown file names a file of the tree
#   file     a source that CONTRIBUTING.md or docs/architecture.md names exists,
#            under that path or the end of one
#   layer    the table of CONTRIBUTING.md has the folders of the Makefile, in
#            the same order
#   readme   README.md has at most 150 lines
# shellcheck disable=SC2016 # the back quotes of Markdown
set -eu

# FILE TARGET of each relative link in the files.
links() {
    grep -noE '\]\([^)#:]+(#[^)]*)?\)' /dev/null "$@" |
        sed -E 's/^([^:]*):[0-9]+:\]\(([^)#]+).*/\1 \2/'
}

# The sources between back quotes: no pattern, no place holder.
sources() {
    grep -ohE '`[A-Za-z0-9_/.-]+\.(c|h|cu|sh|mk|5)`' "$@" | tr -d '`' | sort -u
}

# LAYER:FOLDER,FOLDER... of the rows of a table.
table() {
    awk -F'|' '$2 ~ /`/ && NF == 6 {
        layer = $2; folders = $4
        if (!match(layer, /`[^`]*`/)) next
        layer = substr(layer, RSTART + 1, RLENGTH - 2)
        gsub(/[` ]+/, " ", folders)
        sub(/^ /, "", folders); sub(/ $/, "", folders)
        gsub(/ /, ",", folders)
        if (layer != "jobs/base") print layer ":" folders }' "$1"
}

check() { # TREE-LIST DOCUMENTS...; prints what is wrong
    tree=$1
    shift
    links "$@" | while read -r file to; do
        dir=$(dirname "$file")
        [ -e "$dir/$to" ] || echo "$file: no file $to"
    done
    for doc in CONTRIBUTING.md docs/architecture.md; do
        [ -e "$doc" ] || continue
        sources "$doc" | while read -r f; do
            grep -qE "(^|/)$f\$" "$tree" || echo "$doc: no source $f"
        done
    done
}

tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT

if [ "$1" = --self-test ]; then
    cd "$tmp"
    mkdir docs
    printf '%s\n' 'see [a](docs/a.md#x), [b](b.md), [c](https://c/d.md)' >r.md
    echo '`x/y.c` `z.c` `*_sqlite.c` `<name>.c`' >docs/architecture.md
    touch docs/a.md
    printf '%s\n' a/x/y.c a/zz.c >tree
    [ "$(check tree r.md)" = 'r.md: no file b.md
docs/architecture.md: no source z.c' ]
    echo '| `db` | storage | `mem sqlite` | jobs |' >t.md
    [ "$(table t.md)" = db:mem,sqlite ]
    exit 0
fi

git ls-files >"$tmp/tree"
# shellcheck disable=SC2046 # no document has a blank in its name
check "$tmp/tree" $(grep '\.md$' "$tmp/tree") >"$tmp/bad"
table CONTRIBUTING.md | sort >"$tmp/table"
printf '%s\n' "$@" | sort >"$tmp/rooms"
diff "$tmp/table" "$tmp/rooms" |
    sed -n 's/^< /CONTRIBUTING.md, not the Makefile: /p
            s/^> /the Makefile, not CONTRIBUTING.md: /p' >>"$tmp/bad"
[ "$(wc -l <README.md)" -le 150 ] || echo 'README.md: over 150 lines' >>"$tmp/bad"
[ ! -s "$tmp/bad" ] || {
    sed 's/^/docs: /' "$tmp/bad"
    exit 1
}
