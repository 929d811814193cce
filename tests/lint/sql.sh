#!/bin/sh
# sql.sh - no text from outside becomes SQL: statements are prepared, their
# values bound, and what is put together is made of our own words.
#
#   sql.sh [FILE...]       default: all C files
#   sql.sh --self-test     plants statements that are put together
set -eu

# The one that names a table or a view, from a table of constants.
known='SELECT * FROM %s AS t'

scan() {
    awk -v known="$known" '
    FNR == 1 { is_db = FILENAME ~ /_sqlite\.c$/ }
    /sqlite3_v?mprintf|sqlite3_snprintf|sqlite3_str_/ {
        print FILENAME ":" FNR ": SQL by a format"; n++
    }
    /sqlite3_(exec|prepare)/ && !is_db && FILENAME !~ /^tests\// {
        print FILENAME ":" FNR ": SQLite outside of *_sqlite.c"; n++
    }
    /"[^"]*(SELECT|INSERT|UPDATE|DELETE|WHERE|VALUES)[^"]*%[-.*0-9]*[sc]/ {
        if (index($0, known) == 0) {
            print FILENAME ":" FNR ": a value in the text of a statement"; n++
        }
    }
    END { exit n > 0 }' "$@"
}

if [ "${1:-}" = --self-test ]; then
    dir=$(mktemp -d)
    trap 'rm -r "$dir"' EXIT
    i=0
    while IFS= read -r line; do
        i=$((i + 1))
        printf '%s\n' "$line" >"$dir/$i.c"
        if scan "$dir/$i.c" >/dev/null; then
            echo "sql.sh does not see: $line" && exit 1
        fi
    done <<'END'
buf_addf(b, err, "SELECT * FROM job WHERE name = '%s'", name);
snprintf(sql, sizeof(sql), "DELETE FROM job WHERE name = %.9s", id);
char *sql = sqlite3_mprintf("%Q", name);
sqlite3_exec(db, sql, NULL, NULL, NULL);
END
    printf '%s\n' 'prepare(db, "SELECT * FROM job WHERE name = ?1");' \
        >"$dir/fine_sqlite.c"
    scan "$dir/fine_sqlite.c"
    exit 0
fi
# shellcheck disable=SC2046 # names of ours have no blanks
[ $# -gt 0 ] || set -- $(find db scheduler jobs worker slurm -name "*.c")
scan "$@"
