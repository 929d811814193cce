#!/bin/bash
# run - what a bundle is for, see tests/gpu/bundle.sh.
#
#   run check        tests/gpu/check.sh, with DEVICE=, PARTS=, LIMIT=
#   run bench        tests/gpu/bench.sh, with DEVICE=, SIZES=, BUDGET= ...;
#                    RESULTS= is where its files go, by default ./results
#   run doctor       what this machine has and lacks, with versions
#   run first-contact [right|fast|memcheck]...
#                    tests/gpu/first-contact, with DEVICE=, PARTS=, LIMIT=; OUT=
#                    is where its files go
#   run exec CMD...  anything else, in the same environment
#
# Unpacks into MGPU_ROOT, by default a new folder that is removed at the end;
# one that is there already is used as it is. CUDA_LIBS= names further folders
# with CUDA's libraries.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
verb=${1:-} device=${DEVICE:-cuda}
case $verb in
check | bench | doctor) ;;
exec | first-contact) shift ;;
*)
    echo "usage: run check|bench|doctor|first-contact [BLOCK...]|exec CMD..." >&2
    exit 64
    ;;
esac

if [ -z "${MGPU_ROOT:-}" ]; then
    unpacked=$(mktemp -d)
    trap 'rm -rf "$unpacked"' EXIT
    MGPU_ROOT=$unpacked/mgpu
fi
if [ ! -d "$MGPU_ROOT/bin" ]; then
    mkdir -p "$MGPU_ROOT"
    tar -xzf "$here/payload.tar.gz" -C "$MGPU_ROOT" --strip-components=1 --no-same-owner
fi
root=$MGPU_ROOT

# ---- libraries: ours, CUDA's, and what the machine says ----------------------------
loader() { ldconfig -p 2>/dev/null || /sbin/ldconfig -p 2>/dev/null || true; }
libs=$root/deps
for f in "$root"/spare/*; do
    f=${f##*/}
    case $(loader) in *"$f "*) continue ;; esac
    mkdir -p "$root/used" && cp "$root/spare/$f" "$root/used"
    libs=$libs:$root/used
done
# A PyTorch brings CUDA's libraries along, in folders of its own.
wheels() {
    "${PYTHON:-python3}" - 2>/dev/null <<'END' || true
import glob, site, sys
for d in [*site.getsitepackages(), *sys.path]:
    print(*sorted(glob.glob(d + "/nvidia/*/lib")), sep="\n")
END
}
missing=()
find_lib() { # name
    local d
    case $(loader) in *"$1 "*) return ;; esac
    for d in ${CUDA_LIBS:-} /usr/local/cuda/lib64 /usr/local/cuda/extras/CUPTI/lib64 \
        /usr/local/cuda/targets/x86_64-linux/lib /usr/local/nvidia/lib64 \
        ${LD_LIBRARY_PATH:+${LD_LIBRARY_PATH//:/ }} $wheels; do
        [ -e "$d/$1" ] || continue
        case :$libs: in *":$d:"*) ;; *) libs=$libs:$d ;; esac
        return
    done
    return 1
}
wheels=
if [ "$device" = cuda ]; then
    wheels=$(wheels)
    # 12 or 13, as the plug-in was linked.
    cuda=$(ldd "$root/lib/libmgpu-cuda.so" 2>/dev/null |
        sed -n 's/.*libcublasLt\.so\.\([0-9]*\) .*/\1/p')
    for f in libcuda.so.1 libnvidia-ml.so.1 "libcublasLt.so.${cuda:-13}" libnccl.so.2 \
        "libcupti.so.${cuda:-13}"; do
        find_lib "$f" || missing+=("$f")
    done
    # PyTorch's, not ours.
    case $verb in doctor | first-contact) find_lib libcudnn.so.9 || true ;; esac
fi

# Python has its own libraries, and must not see ours.
{
    printf '#!/bin/sh\nunset OPAL_PREFIX LD_LIBRARY_PATH\n'
    [ -z "${LD_LIBRARY_PATH:-}" ] ||
        printf "export LD_LIBRARY_PATH='%s'\n" "$LD_LIBRARY_PATH"
    printf 'exec "%s" "$@"\n' "${PYTHON:-python3}"
} >"$root/bin/python"
chmod +x "$root/bin/python"

export LD_LIBRARY_PATH=$libs${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
export PATH=$root/bin:$PATH OPAL_PREFIX=$root/mpi PYTHON=$root/bin/python
export OMPI_MCA_mca_base_component_path=$root/mpi/openmpi
export PMIX_MCA_mca_base_component_path=$root/mpi/pmix
# Of Open MPI 5: mpirun's program, which has a folder of its own, as has PMIx.
# It does not start without HOME.
if [ -e "$root/bin/prterun" ]; then
    export OMPI_PRTERUN=$root/bin/prterun
    export PRTE_PREFIX=$root/mpi PMIX_PREFIX=$root/mpi HOME=${HOME:-$root}
fi
export OMPI_MCA_plm=isolated # ranks are started here, without ssh
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
export MGPU_BIN=$root/bin MGPU_SRC=$root MGPU_TESTS=$root/tests
export MGPU_BENCH=$root/tests/bench MGPU_COMMIT=${MGPU_COMMIT:-$(cat "$root/VERSION")}
export RESULTS=${RESULTS:-$PWD/results} DEVICE=$device
export PREDICTED=${PREDICTED:-$root/predictions.tsv}
[ ! -f "$root/lib/libmgpu-cuda.so" ] || export MGPU_CUDA_PLUGIN=$root/lib/libmgpu-cuda.so

# The older of two versions is the bundle's, or this is too old a machine.
libc=$(getconf GNU_LIBC_VERSION 2>/dev/null | cut -d' ' -f2) libc=${libc:-0}
[ "$(printf '%s\n' "$libc" "$(cat "$root/GLIBC")" | sort -V | head -n 1)" = "$(cat "$root/GLIBC")" ] ||
    missing+=("a C library of version $(cat "$root/GLIBC"), for $libc")
for f in "$root"/bin/mgpu-worker "$root"/bin/mpirun; do
    while read -r lib; do missing+=("$lib"); done \
        < <(ldd "$f" 2>/dev/null | awk '/not found/ { print $1 }')
done
for f in "${missing[@]}"; do echo "run: there is no $f here" >&2; done
# For the doctor.
export MGPU_MISSING="${missing[*]}" MGPU_CUDA=${cuda:-13} MGPU_LIBC=$libc

case $verb in
doctor) "$root/tests/gpu/doctor.sh" ;;
check | bench) "$root/tests/gpu/$verb.sh" ;;
first-contact) "$root/tests/gpu/first-contact" "$@" ;;
exec) "$@" ;;
esac
