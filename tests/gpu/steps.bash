# steps.bash - the steps of a Llama that are measured, and what is predicted of
# them; bench.sh and first-contact read it with `.`.
#
#   STEPS=      file of the steps, steps.txt
#   PREDICTED=  table of make gpu-model; without it nothing is predicted
#   LLM_SHAPE=  SHAPE ROWS TOKENS TYPE for all of them, in place of their own
# shellcheck shell=bash

steps_file=${STEPS:-$(dirname "${BASH_SOURCE[0]}")/steps.txt}

# Of a step: METHOD SHAPE ROWS TOKENS TYPE HOW DOCUMENTS OURS_S THEIRS_S; 1:
# there is none of this name.
step_named() { # name
    awk -v name="$1" -v shape="${LLM_SHAPE:-}" '
        /^#/ || NF != 10 || $1 != name { next }
        { split(shape, s, " ")
          for (i = 1; i <= 4; i++)
              if (s[i] != "")
                  $(i + 2) = s[i]
          sub(/^[^ ]+ /, ""); print; found = 1; exit }
        END { exit !found }' "$steps_file"
}
step_names() { awk '!/^#/ && NF == 10 { print $1 }' "$steps_file"; }

# The card's column in the table of predictions; nothing: it is not in there.
card_column() { # name of nvidia-smi
    case $1 in *H100*) echo 1 ;; *H200*) echo 2 ;; esac
}
# "RATE CAREFUL" of the table's row; nothing where it has none.
predicted() { # column kind key
    [ -n "$1" ] && [ -f "${PREDICTED:-}" ] || return 0
    awk -F '\t' -v c="$1" -v kind="$2" -v key="$3" '
        $1 == kind && $2 == key { print $(2 + c), $(4 + c); exit }' "$PREDICTED"
}
by() { # a b: a / b; nothing where one is missing
    awk -v a="${1:-0}" -v b="${2:-0}" 'BEGIN { if (a > 0 && b > 0) printf "%.2f", a / b }'
}
