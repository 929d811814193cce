#!/bin/bash
# doctor.sh - what this machine has of all that the programs of a bundle use,
# with versions; of run.sh, which has looked for the libraries. Fails where one
# is missing.
set -eu
root=${MGPU_ROOT:?} device=${DEVICE:-cuda}

# Where it is, and the line of its --version that has a number.
tool() { # name place...
    local name=$1 at
    shift
    at=$(command -v "$name") || for at; do [ ! -x "$at" ] || break; done
    if [ -x "$at" ]; then
        echo "$name $("$at" --version 2>/dev/null | grep -m 1 '[0-9]\.[0-9]' || echo '?') $at"
    else
        echo "no $name"
    fi
}
echo "bundle $MGPU_COMMIT, C library $MGPU_LIBC"
nvidia-smi -L 2>/dev/null || echo "no nvidia-smi"
[ "$device" = host ] || "$root/tests/gpu/versions" "$MGPU_CUDA"
tool compute-sanitizer /usr/local/cuda/bin/compute-sanitizer
tool ncu /opt/nvidia/nsight-compute/*/ncu /usr/local/cuda/bin/ncu
"$PYTHON" - torch torchvision transformers peft <<'END' 2>&1 | tail -n 4
import importlib.metadata as metadata
import sys

for name in sys.argv[1:]:
    try:
        print(name, metadata.version(name))
    except metadata.PackageNotFoundError:
        print("no", name)
END
mpirun -n 2 --oversubscribe --bind-to none sh -c 'echo a rank starts'
[ -z "$MGPU_MISSING" ] || {
    echo "missing: $MGPU_MISSING"
    exit 1
}
