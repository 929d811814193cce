#!/bin/bash
# boot.sh - the Debian package under a real systemd, in a virtual machine:
# what a unit shuts off is shut off there as on any machine of an admin.
#
# usage: boot.sh DEB DIR
#
# Prints what inside.sh says there, as TAP. DIR keeps the machine's disk for
# the next time (1 GB), which only reads it; console.log has what its kernel
# and systemd said. Needs root, debootstrap, qemu-system-x86_64 and, for the
# disk, a mirror of Debian 12 (MIRROR=). ACCEL=kvm is faster where there is one
# that works. LIMIT= is in seconds; PARTS= are those of inside.sh to do, all of
# them without it.
set -euo pipefail

deb=$(realpath "$1")
here=$(realpath "$(dirname "$0")")
mkdir -p "$2"
dir=$(realpath "$2")
tree=$dir/tree
mirror=${MIRROR:-http://deb.debian.org/debian}
limit=${LIMIT:-3600}

die() {
    echo "Bail out! $*"
    exit 1
}
[ "$(id -u)" = 0 ] || die "needs root, to make the disk"
for program in debootstrap qemu-system-x86_64 mke2fs dpkg-deb; do
    command -v "$program" >/dev/null || die "there is no $program"
done

# What a login node has that is its cluster's controller and only node, too.
packages=systemd,systemd-sysv,udev,dbus,dbus-user-session,libpam-systemd
packages+=,linux-image-cloud-amd64,procps,logrotate,curl,sqlite3,iproute2
packages+=,munge,slurmctld,slurmd,slurm-client,libpmix2,openmpi-bin,init-system-helpers

# Starts when all else is up, and is not a part of that.
inside_unit() {
    cat <<'UNIT'
[Unit]
Description=Tests of mgpu
After=multi-user.target
[Service]
Type=exec
ExecStart=/bin/sh -ec 'mkdir -m 755 /srv/inside; tar -C /srv/inside -xf /dev/vdb; exec /srv/inside/inside.sh'
ExecStopPost=/bin/systemctl poweroff --no-block
StandardOutput=tty
StandardError=inherit
TTYPath=/dev/ttyS1
Environment=HOME=/root LC_ALL=C.UTF-8
UNIT
}

# The disk, with all that the package needs but not installed: there is no
# network inside.
make_disk() {
    rm -rf --one-file-system "$tree"
    debootstrap --variant=minbase --include="$packages" bookworm "$tree" \
        "$mirror" >"$dir/debootstrap.log" 2>&1 || return 1
    cp "$deb" "$tree/root/mgpu.deb"
    chroot "$tree" apt-get install -y --no-install-recommends \
        --download-only /root/mgpu.deb >>"$dir/debootstrap.log" 2>&1 || return 1
    rm "$tree/root/mgpu.deb"
    inside_unit >"$tree/etc/systemd/system/inside.service"
    cp "$tree"/boot/vmlinuz-* "$dir/vmlinuz"
    cp "$tree"/boot/initrd.img-* "$dir/initrd"
    mke2fs -q -t ext4 -d "$tree" "$dir/disk.part" 3G || return 1
    rm -rf --one-file-system "$tree"
    mv "$dir/disk.part" "$dir/disk"
}

# The same package, as its next version.
next_version() { # TO
    local root=$dir/next
    rm -rf "$root"
    dpkg-deb -R "$deb" "$root"
    sed -i 's/^Version: .*/&+next/' "$root/DEBIAN/control"
    dpkg-deb --root-owner-group -b "$root" "$1" >/dev/null
    rm -rf "$root"
}

# The disk is another one when something else is to be on it.
needs=$({ dpkg-deb -f "$deb" Depends; echo "$packages"; inside_unit; } | sha256sum)
if [ ! -e "$dir/disk" ] || [ "$(cat "$dir/needs" 2>/dev/null)" != "$needs" ]; then
    rm -f "$dir/needs"
    make_disk || die "no disk, see $dir/debootstrap.log"
    echo "$needs" >"$dir/needs"
fi

mkdir -p "$dir/payload"
install -m 755 "$here/inside.sh" "$dir/payload/inside.sh"
echo "${PARTS:-}" >"$dir/payload/parts"
cp "$deb" "$dir/payload/mgpu.deb"
next_version "$dir/payload/next.deb"
tar -C "$dir/payload" -cf "$dir/payload.tar" .
: >"$dir/inside.tap"

timeout -k 10 "$limit" qemu-system-x86_64 -accel "${ACCEL:-tcg}" -cpu max \
    -m 2048 -smp 1 -nodefaults -no-reboot -display none -nic none \
    -device virtio-rng-pci -kernel "$dir/vmlinuz" -initrd "$dir/initrd" \
    -append "root=/dev/vda rw console=ttyS0 clocksource=acpi_pm systemd.wants=inside.service" \
    -drive "file=$dir/disk,if=virtio,format=raw,snapshot=on" \
    -drive "file=$dir/payload.tar,if=virtio,format=raw,readonly=on" \
    -serial "file:$dir/console.log" -serial "file:$dir/inside.tap" \
    2>"$dir/qemu.log" || echo "# the machine ended with $?, see $dir/qemu.log"

# A terminal ends lines its own way.
tr -d '\r' <"$dir/inside.tap"
grep -q '^1\.\.[0-9]' "$dir/inside.tap" ||
    die "it did not come to its end, see $dir/console.log"
[ "$(grep -c '^not ok' "$dir/inside.tap")" = 0 ]
