#!/bin/sh
# ablation.sh - goodput with one of its terms left out, on the same traces.
#
# MGPU_BIN: the folder of the programs. MGPU_ABLATION: the folders of mgpu-sim
# without a term, from one changed source each (ablation/*.sed, `make
# sim-ablation`); aging is left out by its own key.
# A line has the figures of all terms first. Hours; of the traces that hurt
# (attacks.sh) and of what a user gains (truth.sh) minutes; of the pair seconds.
# SUITES: of goodput.sh. SEEDS: of attacks.sh and truth.sh.
set -eu

bin=${MGPU_BIN:?set MGPU_BIN to the folder of the mgpu programs}
without=${MGPU_ABLATION:?set MGPU_ABLATION to the folder of make sim-ablation}
here=$(cd "$(dirname "$0")" && pwd)
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
terms='all aging probe pause fixed limits'

# The key comes behind the name of the policy, and behind keys that are there.
mkdir "$tmp/aging"
cat >"$tmp/aging/mgpu-sim" <<END
#!/bin/sh
for word; do
    shift
    case \$word in goodput | goodput:*)
        by=:
        case \$word in *:*) by=, ;; esac
        word=\$word\${by}goodput.aging=null
        ;;
    esac
    set -- "\$@" "\$word"
done
exec "$bin/mgpu-sim" "\$@"
END
chmod +x "$tmp/aging/mgpu-sim"

# A missed goal is what a table without a term is about.
play() { # TERM
    case $1 in
        all) MGPU_BIN=$bin ;;
        aging) MGPU_BIN=$tmp/aging ;;
        *) MGPU_BIN=$without/$1 ;;
    esac
    export MGPU_BIN
    ALONE=1 sh "$here/goodput.sh" >"$tmp/$1.goodput" || true
    sh "$here/attacks.sh" >"$tmp/$1.attacks" || true
    LOADS=.85 TRICKS=fixed4 HALF_LIVES=null sh "$here/truth.sh" >"$tmp/$1.truth" || true
    CASES=limits sh "$here/cases.sh" >"$tmp/$1.cases" || true
}

# rows TERM: NAME|FIGURE of what it printed
rows() {
    awk '/^[^ ]/ { suite = $0; sub(/:.*/, "", suite); sub(/^The papers. /, "", suite) }
         / JCT +[0-9].*p99/ && !/objective|Pollux|SJF/ {
             match($0, /JCT +[0-9.]+/); jct = substr($0, RSTART + 3, RLENGTH - 3)
             match($0, /makespan +[0-9.]+/); span = substr($0, RSTART + 8, RLENGTH - 8)
             name = substr($0, 3, 24); sub(/ +$/, "", name)
             if (name == "goodput, elastic")
                 name = suite ~ /^Headline/ ? "rush" : "mix " ++n
             printf "%s: mean, makespan|%.3f %.1f\n", name, jct, span }
         /classes known: makespan|cold start: makespan/ {
             sub(/,/, "", $4); printf "pair, %s %s makespan|%d\n", $1, $2, $4 }' "$tmp/$1.goodput"
    awk '/^Three jobs of all/ { wide = 1 }
         /^A job of 16 h/ { high = 1 }
         / s, goodput / { sub(/,$/, "", $2)
             gsub(/,/, ""); printf "restarts of %d s: mean, p99|%.1f %.1f\n", $1, $5, $7 }
         wide && /^  goodput / { printf "16 GPUs beside small jobs: longest wait|%.1f\n", $NF; wide = 0 }
         /longest wait of these/ { printf "classes that never ran: longest wait|%.1f\n", $NF }
         /of that job:/ { printf "high priority: its time|%.1f\n", $NF }' "$tmp/$1.attacks"
    awk '/^[.]85/ { print "load .85: honest, 4 GPUs fixed|" $2 " " $4 }' "$tmp/$1.truth"
    awk '/reach their limit:/ { print "24 jobs with limits: reach it|" $NF }' "$tmp/$1.cases"
}

for term in $terms; do
    play "$term"
    rows "$term" >"$tmp/$term.rows"
done
for term in $terms; do sed "s/^/$term|/" "$tmp/$term.rows"; done |
    awk -F'|' -v terms="$terms" '
        !($2 in seen) { seen[$2] = 1; names[++n] = $2 }
        { figure[$2, $1] = $3 }
        END { k = split(terms, t, " ")
              printf "%-42s", "without"
              for (i = 1; i <= k; i++) printf "%-14s", t[i] == "all" ? "-" : t[i]
              for (j = 1; j <= n; j++) {
                  printf "\n%-42s", names[j]
                  for (i = 1; i <= k; i++) printf "%-14s", figure[names[j], t[i]] }
              print "" }'
