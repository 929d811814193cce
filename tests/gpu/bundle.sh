#!/bin/bash
# bundle.sh - what gpu-check, gpu-bench and first-contact need, in one folder, for a machine
# that has a driver, CUDA's libraries and perhaps PyTorch, but nothing of ours:
# no compiler, no MPI, no libyaml.
#
#   MGPU_BUILD=build/release MGPU_SRC=. LEVEL=6 bundle.sh FOLDER
#
# FOLDER gets `run` (tests/gpu/run.sh) and `payload.tar.gz`: programs without
# debug information, the libraries that they open, Open MPI with what it needs
# to start ranks on one machine, goldens, scripts, what make gpu-model predicts,
# the papers' jobs and the examples with their model. Not in it: the C library, whose version is
# remembered, and CUDA, which is far larger than the rest and has to fit the
# driver.
set -eu

build=${MGPU_BUILD:?} src=${MGPU_SRC:?} to=${1:?usage: bundle.sh FOLDER}
most_mib=60
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
root=$work/mgpu
mkdir -p "$root"/{bin,lib,deps,spare,mpi/share} "$to"

programs=()
add() { # file folder: without debug information
    mkdir -p "$root/$2"
    strip --strip-debug -o "$root/$2/${1##*/}" "$1"
    programs+=("$1")
}
for f in "$build"/bin/mgpu-*; do add "$f" bin; done
for f in unit/kernels/cuda unit/kernels/determinism unit/worker/cv_golden \
    unit/worker/cv_precision unit/worker/llm_golden unit/worker/llm_step \
    unit/worker/llm_stories mpi/nccl bench/gpu_step bench/kernels \
    bench/llm_step gpu/versions; do
    add "$build/tests/$f" "tests/${f%/*}"
done
if [ -f "$build/lib/libmgpu-cuda.so" ]; then
    add "$build/lib/libmgpu-cuda.so" lib
else
    echo "bundle.sh: a build without CUDA: for the host alone" >&2
fi
cp -r "$src/tests/golden" "$src/tests/data" "$src/tests/gpu" "$root/tests"
mkdir "$root/jobs"
cp -r "$src/jobs/paper" "$src/jobs/examples" "$root/jobs"
git -C "$src" describe --always --dirty >"$root/VERSION" 2>/dev/null ||
    echo unknown >"$root/VERSION"
cp "$build/tests/gpu/predictions.tsv" "$root" 2>/dev/null ||
    echo '# no predictions: make gpu-bundle makes them' >"$root/predictions.tsv"
getconf GNU_LIBC_VERSION | cut -d' ' -f2 >"$root/GLIBC"

# ---- Open MPI, of which one machine needs a part ---------------------------------
mpirun=$(readlink -f "$(command -v mpirun)")
add "$mpirun" bin
mv "$root/bin/${mpirun##*/}" "$root/bin/mpirun"
plugins() { # pattern...: the folder of Open MPI's or PMIx's plug-ins
    local f
    for f in "$@"; do
        [ ! -e "$f" ] || { dirname "$f" && return; }
    done
    echo "bundle.sh: no plug-ins at $*" >&2
    return 1
}
pmix=$(plugins /usr/lib/*/pmix2/lib/pmix/*.so /usr/lib/*/pmix*/*.so)
mkdir "$root/mpi/openmpi"
# Open MPI 5 has its plug-ins in its libraries, and a launcher of its own.
if mpirun --version | grep -q '(Open MPI) 4'; then
    ompi=$(plugins /usr/lib/*/openmpi/lib/openmpi3/mca_ess_hnp.so /usr/lib/*/openmpi*/mca_ess_hnp.so)
else
    ompi=
    # A link to another of PRRTE's programs, which looks at its own name.
    prte=$(readlink -f "$(command -v prterun)")
    add "$prte" bin
    [ "${prte##*/}" = prterun ] || mv "$root/bin/${prte##*/}" "$root/bin/prterun"
    cp -r /usr/share/prte "$root/mpi/share"
fi
for f in ${ompi:+"$ompi"/mca_*.so}; do
    case ${f##*/} in # other networks, other launchers, other interfaces
    *_ofi.so | *_ucx.so | *_openib.so | *_psm*.so | *_flux.so | *_slurm.so | \
        *_monitoring.so | *_jsm.so | *_netlink.so | mca_io_* | mca_f* | \
        mca_sharedfp* | mca_s[cps]ml* | mca_scoll* | mca_sshmem* | mca_memheap* | \
        mca_atomic* | mca_ras_gridengine.so) ;;
    *) add "$f" mpi/openmpi ;;
    esac
done
for f in "$pmix"/*.so; do add "$f" mpi/pmix; done
cp -r /usr/share/openmpi "$root/mpi/share" 2>/dev/null || true

# ---- libraries --------------------------------------------------------------------
# Of the C library's family all or none can be taken along; the compiler's are
# newer on a newer machine, where other programs need them, so ours are spare.
# OpenBLAS is opened, not linked.
blas=$(PATH=$PATH:/sbin:/usr/sbin ldconfig -p |
    sed -n 's/^.*libopenblas\.so\.0 .*=> //p' | head -n 1)
[ -n "$blas" ] || {
    echo "bundle.sh: no libopenblas.so.0" >&2
    exit 1
}
{
    ldd "${programs[@]}" "$blas" | awk '/=> \// { print $3 }'
    echo "$blas"
} | sort -u | while read -r f; do
    case ${f##*/} in
    ld-linux*.so* | libc.so* | libm.so* | libpthread.so* | libdl.so* | librt.so* | \
        libresolv.so* | libutil.so* | libcublas* | libcudart*) ;;
    libstdc++.so* | libgcc_s.so*) cp -L "$f" "$root/spare" ;;
    *) strip --strip-debug -o "$root/deps/${f##*/}" "$f" ;;
    esac
done

tar -C "$work" -cf - mgpu | gzip "-${LEVEL:-6}" >"$to/payload.tar.gz"
cp "$src/tests/gpu/run.sh" "$to/run"
chmod +x "$to/run"
mib=$(du -sm "$to" | cut -f1)
echo "$to: $mib MiB, $(cat "$root/VERSION")"
[ "$mib" -lt "$most_mib" ] || {
    echo "bundle.sh: more than $most_mib MiB" >&2
    exit 1
}
