#!/bin/sh
# tables.sh - what docs/{ctld,reliability,security,seeing}.md say of tests is so: each
# id has a line, each file that a line names is there, and what it quotes
# of one stands in it; a make target is one.
#
#   tables.sh              of this tree
#   tables.sh --self-test  plants lines that are not true
#
# A line's last cell is read from left to right: `file` "words of it", "more".
# A file is looked for in tests/, in tests/slurm/ and in the tree; `*` stands
# for several, and then the words are those of one of them.
set -eu

rows() { # FILE: "id TAB cell" per line of a table
    awk -F ' [|] ' '/^\|/ && !/^\|[ -]*-/ {
        id = $1; sub(/^\| */, "", id)
        cell = $NF; sub(/ *\|$/, "", cell)
        if (cell != "test" && cell != "target") print id "\t" cell
    }' "$1"
}

place() { # WORD: the files it may be, one a line
    for at in tests/$1 tests/slurm/$1 $1; do
        [ ! -f "$at" ] || echo "$at"
    done
}

check_cell() { # ID CELL
    files=
    # shellcheck disable=SC2016 # backquotes of the table
    printf '%s\n' "$2" | grep -oE '`[^`]+`|"[^"]+"' | while IFS= read -r word; do
        bare=${word#?} bare=${bare%?}
        case $word in
        '`make '*)
            target=${bare#make } target=${target%% *}
            cat Makefile tests/*.mk tests/*/*.mk contrib/*.mk |
                grep -qE "^$target( [^:=]*)?:" ||
                echo "$1: no target of make: $bare"
            files=
            ;;
        '`'*.[ch]'`' | '`'*.bats'`' | '`'*.sh'`' | '`'*.bash'`')
            files=$(place "$bare")
            [ -n "$files" ] || echo "$1: no such file: $bare"
            ;;
        '`'*) files= ;;
        *)
            # shellcheck disable=SC2086 # several
            if [ -n "$files" ] && ! grep -qF -e "$bare" $files; then
                echo "$1: not in" $files": $word"
            fi
            ;;
        esac
    done
}

check() { # FILE IDS...
    file=$1
    shift
    rows "$file" >"$tmp/rows"
    for id; do
        cut -f 1 "$tmp/rows" | tr ' ' '\n' | grep -qx "$id" ||
            echo "$file: no line for $id"
    done
    while IFS="$(printf '\t')" read -r id cell; do
        check_cell "$file: $id" "$cell"
    done <"$tmp/rows"
}

ids() { # PREFIX LAST WIDTH [FIRST]
    seq -f "$1%0$3.0f" "${4:-1}" "$2"
}

tmp=$(mktemp -d)
trap 'rm -r "$tmp"' EXIT

if [ "${1:-}" = --self-test ]; then
    cat >"$tmp/doc" <<'END'
| id | what | test |
|---|---|---|
| F01 | fine | `cli/ctld.bats` "F33: SIGHUP", `make crash ROUNDS=N`, `ctld.bats`, `jobs/state.c` |
| F02 F03 | fine | `batch.bats` "each rank runs", `crash/*.h`, `fsck` "anything" |
| F04 | gone | `cli/nothing.bats` |
| F05 | renamed | `cli/ctld.bats` "F33: no such words" |
| F06 | no target | `make nonsense` |
END
    check "$tmp/doc" F01 F02 F03 F04 F05 F06 F07 >"$tmp/found" 2>&1
    printf '%s\n' "$tmp/doc: no line for F07" \
        "$tmp/doc: F01: no such file: ctld.bats" \
        "$tmp/doc: F04: no such file: cli/nothing.bats" \
        "$tmp/doc: F05: not in tests/cli/ctld.bats: \"F33: no such words\"" \
        "$tmp/doc: F06: no target of make: make nonsense" |
        diff - "$tmp/found"
    exit 0
fi
{
    # shellcheck disable=SC2046 # ids
    check docs/reliability.md $(ids F 37 2) $(ids F 44 2 40) $(ids I 10 1)
    # shellcheck disable=SC2046
    check docs/security.md $(ids S 16 2) $(ids B 24 2)
    check docs/seeing.md
    check docs/ctld.md
} >"$tmp/found"
cat "$tmp/found"
[ ! -s "$tmp/found" ]
