#!/bin/sh
# gpu_model.sh - predicts a training step on an H100 and an H200; no GPU is
# needed, but cuobjdump is (tests/lint/sass.sh says where it is looked for). See
# gpu_model.c.
#
#   gpu_model.sh PROGRAM OBJECT... [-- OPTION... [TSV]]
#
# Exits with 77 and one line where there is no cuobjdump, with --check with 1 if
# a goal is missed.
set -eu
program=$1
shift
facts=$(mktemp)
trap 'rm -f "$facts"' EXIT

objects=
while [ $# -gt 0 ] && [ "$1" != -- ]; do
    objects="$objects $1"
    shift
done
[ $# -eq 0 ] || shift
# shellcheck disable=SC2086 # names without blanks
sh tests/lint/sass.sh --facts $objects >"$facts"
"$program" "$facts" "$@"
