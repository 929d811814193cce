#!/bin/sh
# coverage.sh DIR - how much of the parser, the store and the dispatcher the unit
# and contract tests execute, from what a build in DIR (VARIANT=cov) has counted.
# Ends with 1 below 85 % of the lines or 70 % of the branches of one of them.
set -eu
command -v gcovr >/dev/null || {
    echo "coverage.sh: gcovr is not installed" >&2
    exit 69
}
# Branches that no run can take, such as those of a return, are left out.
gcovr --root . --object-directory "$1" --csv --branches \
    --exclude-throw-branches --exclude-unreachable-branches \
    --filter 'jobs/((text|schema|spec|conf|wire|log)/)?[a-z_]*\.c' --filter 'db/.*' --filter 'scheduler/engine/.*' |
    awk -F , '
    NR == 1 {
        for (i = 1; i <= NF; i++)
            at[$i] = i
        next
    }
    {
        part = $1 ~ /^db\// ? "store" : $1 ~ /^scheduler\// ? "dispatcher" : ""
        if ($1 ~ /^jobs\/(text|schema|spec|conf)\//)
            part = "parser"
        if (part == "")
            next
        lines[part] += $at["line_total"]
        lines_run[part] += $at["line_covered"]
        branches[part] += $at["branch_total"]
        branches_run[part] += $at["branch_covered"]
    }
    END {
        n = split("parser store dispatcher", parts, " ")
        for (i = 1; i <= n; i++) {
            p = parts[i]
            if (lines[p] == 0 || branches[p] == 0) {
                print p ": nothing was counted"
                bad = 1
                continue
            }
            l = 100 * lines_run[p] / lines[p]
            b = 100 * branches_run[p] / branches[p]
            printf "%-10s  %5.1f %% of %d lines  %5.1f %% of %d branches\n",
                p, l, lines[p], b, branches[p]
            if (l < 85 || b < 70)
                bad = 1
        }
        exit bad
    }'
