#!/bin/sh
# logs.sh - goodput beside backfill on the first 3,000 jobs of each log that a
# folder has in the Standard Workload Format.
#
# MGPU_BIN: the folder of the programs. MGPU_TRACES: the folder, with *.swf or
# *.swf.gz; without it nothing runs. The Parallel Workloads Archive makes its logs
# available to researchers, without a licence to pass them on, so none is here.
# Their jobs have processors: each counts as a GPU, on the nodes that the head of
# the log tells. No parameter was chosen by them.
set -eu

if [ -z "${MGPU_TRACES:-}" ]; then
    echo 'logs of others: skipped, MGPU_TRACES names no folder with *.swf'
    exit 0
fi
log=$(mktemp -d)
trap 'rm -rf "$log"' EXIT
n=0
for file in "$MGPU_TRACES"/*.swf "$MGPU_TRACES"/*.swf.gz; do
    [ -e "$file" ] || continue
    n=$((n + 1))
    gzip -cdf "$file" | awk '/^;/ || n++ < 3000' >"$log/log.swf"
    # "; MaxNodes: 100": nodes of as many processors as fit.
    cluster=$(awk '/^;/ && $2 == "MaxNodes:" { nodes = int($3) }
        /^;/ && $2 == "MaxProcs:" { procs = int($3) }
        END { if (nodes < 1 || nodes > procs) nodes = procs
              if (nodes > 0) print nodes "x" int(procs / nodes) }' \
        "$log/log.swf")
    name=$(basename "${file%.gz}" .swf)
    if [ -z "$cluster" ]; then
        echo "$file: the head has no MaxProcs" >&2
        exit 1
    fi
    "$(dirname "$0")/shares.sh" "$(echo "$name" | cut -c1-22)" \
        "swf:$log/log.swf" "$cluster"
done
if [ "$n" = 0 ]; then
    echo "MGPU_TRACES: no *.swf and no *.swf.gz in '$MGPU_TRACES'" >&2
    exit 1
fi
