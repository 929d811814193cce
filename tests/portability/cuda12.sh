#!/bin/sh
# cuda12.sh - all that knows CUDA, built with the toolkit of Debian 13.
#
# usage: cuda12.sh DIR
#
# Debian 13 has nvcc, cuBLASLt and CUPTI 12.4 in non-free, and NCCL 2.22 in
# contrib. They are installed in a chroot in DIR, which is kept for the next
# time (7 GB). `make cuda-parts` builds there, and a warning is an error. This
# tree is mounted read-only; what is built is in DIR/out.
#
# Needs root, debootstrap and a mirror of Debian (MIRROR=). All mounts are in a
# mount namespace, so they end with the command. JOBS= as make's.
set -eu

src=$(realpath "$(dirname "$0")/../..")
mkdir -p "$1/out"
dir=$(realpath "$1")
root=$dir/root
mirror=${MIRROR:-http://deb.debian.org/debian}

die() {
    echo "cuda12.sh: $*" >&2
    exit 1
}
[ "$(id -u)" = 0 ] || die "needs root, for a chroot"
for program in debootstrap unshare; do
    command -v $program >/dev/null || die "there is no $program"
done

packages=$(sed 's/#.*//' "$src/.ci/packages" | tr -s ' \n' ' ')
packages="$packages nvidia-cuda-toolkit libcupti-dev libnccl-dev"

inside() { # COMMAND, for a shell in the chroot
    # shellcheck disable=SC2016 # for the shell in the namespace
    unshare --mount --propagation private sh -euc '
        mount --bind "$1" "$3/src"
        mount -o remount,bind,ro "$3/src"
        mount --bind "$2" "$3/src/build"
        mount -t proc proc "$3/proc"
        mount --rbind /sys "$3/sys"
        mount --rbind /dev "$3/dev"
        exec chroot "$3" sh -euc "cd /src; $4"' \
        sh "$src" "$dir/out" "$root" "$1"
}

# A chroot starts no daemons.
make_root() {
    rm -rf --one-file-system "$root"
    debootstrap --variant=minbase \
        --components=main,contrib,non-free,non-free-firmware \
        trixie "$root" "$mirror" || return 1
    mkdir "$root/src"
    printf '#!/bin/sh\nexit 101\n' >"$root/usr/sbin/policy-rc.d"
    chmod +x "$root/usr/sbin/policy-rc.d"
}
add_packages() {
    inside "export DEBIAN_FRONTEND=noninteractive
        apt-get update -qq
        apt-get install -y -qq --no-install-recommends $packages
        apt-get clean" || return 1
    echo "$packages" >"$root/packages"
}
if ! echo "$packages" | cmp -s - "$root/packages"; then
    echo "installing Debian 13 with CUDA 12.4 in $root: 7 GB, 9 GB on the way"
    { [ -d "$root/src" ] || make_root && add_packages; } >"$dir/log" 2>&1 || {
        tail -n 5 "$dir/log" >&2
        die "see $dir/log"
    }
fi

# cc has -Werror from the Makefile. LC_ALL: a chroot has no other locale.
inside "export LC_ALL=C.UTF-8
    export NVCC_APPEND_FLAGS='-Werror all-warnings -Xcompiler -Werror'
    make -j${JOBS:-2} CUDA=1 NCCL=1 CUPTI=1 NVTX=1 cuda-parts
    dpkg-query -W -f '\${Package} \${Version}\n' g++-13 nvidia-cuda-toolkit \
        libcublaslt12 libcupti-dev libnccl-dev"
