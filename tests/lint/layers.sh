#!/bin/sh
# layers.sh - every #include points down, and each library has one door.
#
# The first table is the architecture: a layer's folder, then the layers that
# it may include. A folder of a layer belongs to it. The second names, for each
# outside header, the file suffix (or file) that may include it. Composition
# roots (main files) may see all that they compose.
set -eu

layer() { # FOLDER
    case $1 in
    jobs/base | jobs/http) echo jobs/base ;;
    scheduler/*/*)         layer "${1%/*}" ;;
    scheduler/* | worker/model_tool) echo "$1" ;;
    *)                     echo "${1%%/*}" ;;
    esac
}

allowed() { # LAYER
    case $1 in
    jobs/base)          echo "jobs/base" ;;
    jobs)               echo "jobs jobs/base" ;;
    kernels)            echo "kernels jobs/base" ;;
    db)                 echo "db jobs jobs/base" ;;
    slurm)              echo "slurm jobs jobs/base" ;;
    worker)             echo "worker kernels jobs jobs/base" ;;
    # The models of the worker behind the command line of the tools.
    worker/model_tool)  echo "$1 worker scheduler/tools kernels jobs jobs/base" ;;
    scheduler/policy)   echo "scheduler/policy jobs jobs/base" ;;
    scheduler/engine)   echo "scheduler/engine scheduler/policy db slurm jobs jobs/base" ;;
    # The simulator drives the engine; its command line is that of the tools.
    scheduler/sim)      echo "$1 scheduler/tools scheduler/engine scheduler/policy db slurm jobs jobs/base" ;;
    scheduler/tools)    echo "scheduler/tools jobs jobs/base" ;;
    scheduler/web)      echo "$1 scheduler/tools jobs jobs/base" ;;
    scheduler/*)        echo "$1 scheduler/engine scheduler/policy db slurm jobs jobs/base" ;;
    *)                  echo "" ;;
    esac
}

# The only name from slurm/ and db/ that the engine may see is the seam.
engine_sees() {
    case $1 in
    slurm/alloc.h | db/event_store.h) return 0 ;;
    slurm/* | db/*) return 1 ;;
    esac
}

# The trainer, checkpoints, optimizers and all else of the worker see a network
# through model.h and its data through batch.h. One file names the networks.
worker_sees() { # FILE INCLUDE
    case $1:$2 in
    worker/model_kind.c:worker/cv/* | worker/model_kind.c:worker/llm/*) return 0 ;;
    worker/cv/*:worker/cv/* | worker/cv/*:worker/data/*) return 0 ;;
    worker/llm/*:worker/llm/* | worker/llm/*:worker/data/*) return 0 ;;
    worker/data/*:worker/data/*) return 0 ;;
    *:worker/cv/* | *:worker/llm/* | *:worker/data/*) return 1 ;;
    esac
}

door() {
    case $1 in
    slurm/slurm*)   echo '_slurm' ;;
    sqlite3.h)      echo '_sqlite' ;;
    yaml.h)         echo '_yaml' ;;
    mpi.h)          echo '_mpi' ;;
    nccl.h)         echo '_nccl' ;;
    cuda* | cublas*) echo '_cuda' ;;
    cblas.h)        echo '_host' ;;
    dnnl*)          echo '_dnnl' ;;
    cupti*)         echo '_cupti' ;;
    nvtx3/*)        echo '_nvtx' ;;
    event2/* | curl/*) echo 'http_*' ;;
    zlib.h)         echo 'idx|gz' ;;
    openssl/*)      echo '_ssl' ;;
    munge.h)        echo '_munge' ;;
    jpeglib.h | jerror.h) echo '_jpeg' ;;
    png.h)          echo '_png' ;;
    sentencepiece*) echo '_spm' ;;
    pcre2.h)        echo 'pretokenize' ;;
    utf8proc.h)     echo 'unicode_text' ;;
    esac
}

fits() { # base name, door
    case $2 in
    '') return 0 ;;
    'http_*') case $1 in http_* | event_loop | main) return 0 ;; esac ;;
    'idx|gz') case $1 in *idx* | *gz*) return 0 ;; esac ;;
    *) case $1 in *"$2") return 0 ;; esac ;;
    esac
    return 1
}

bad=$(find jobs scheduler worker kernels db slurm \
        \( -name '*.[ch]' -o -name '*.cu' -o -name '*.cpp' \) |
    while read -r f; do
        here=$(layer "${f%/*}")
        base=${f##*/}
        sed -n 's/^#include *\([<"]\)\([^">]*\).*/\1 \2/p' "$f" |
        while read -r kind inc; do
            if [ "$kind" = '"' ]; then
                case " $(allowed "$here") " in
                *" $(layer "${inc%/*}") "*) ;;
                *) echo "$f: may not include \"$inc\"" ;;
                esac
                case $here in
                scheduler/engine) engine_sees "$inc" ||
                    echo "$f: the engine sees only seams, not \"$inc\"" ;;
                worker) worker_sees "$f" "$inc" ||
                    echo "$f: sees models and data only through" \
                        "model.h and batch.h, not \"$inc\"" ;;
                esac
            elif ! fits "${base%.*}" "$(door "$inc")"; then
                echo "$f: <$inc> belongs in a $(door "$inc") file"
            fi
        done
    done)
[ -z "$bad" ] || { echo "$bad"; exit 1; }
