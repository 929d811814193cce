#!/bin/sh
# needs.sh - whether this machine can build what make gpu-check and make
# gpu-bench run. Where it cannot, names what is missing and the way that is left:
# the bundle, which brings everything but the driver and CUDA's libraries.
#
#   CC= CXX= NVCC= DEVICE=cuda|host needs.sh WHAT      WHAT: gpu-check, gpu-bench
#
# Exit status 69: something is missing.
set -u

what=${1:?usage: needs.sh gpu-check|gpu-bench}
# ccache cc is two words.
cc=${CC:-cc} cxx=${CXX:-c++} nvcc=${NVCC:-nvcc}
missing=
lacks() { missing="$missing${missing:+, }$1"; }

program() { command -v "$1" >/dev/null 2>&1 || lacks "${2:-$1}"; }
for words in "$cc" "$cxx"; do
    # shellcheck disable=SC2086
    set -- $words
    for word; do program "$word"; done
done
program mpicc
program mpirun
[ "${DEVICE:-cuda}" = host ] || program "$nvcc" nvcc

header() { # language header of-what
    # shellcheck disable=SC2086 # ccache cc
    printf '#define PCRE2_CODE_UNIT_WIDTH 8\n#include <stdio.h>\n#include <%s>\n' "$2" |
        { if [ "$1" = c ]; then $cc -E -x c -; else $cxx -E -x c++ -; fi; } \
            >/dev/null 2>&1 || lacks "$2 ($3)"
}
header c yaml.h libyaml
header c event2/event.h libevent
header c jansson.h Jansson
header c curl/curl.h libcurl
header c openssl/evp.h OpenSSL
header c sqlite3.h SQLite
header c jpeglib.h libjpeg
header c png.h libpng
header c zlib.h zlib
header c pcre2.h PCRE2
header c cblas.h OpenBLAS
header c++ sentencepiece_processor.h SentencePiece

[ -n "$missing" ] || exit 0
{
    echo "$what: this machine cannot build mgpu, it lacks: $missing"
    echo "$what: run make gpu-bundle on one that can, copy build/release/gpu-bundle here, and run gpu-bundle/run ${what#gpu-} (docs/gpu.md)"
} >&2
exit 69
