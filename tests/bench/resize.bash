# resize.bash - what a resize of a job costs, from the word to stop to the next
# iteration. Sourced with `dir`, a directory of one's own, and `state_db` set.
# shellcheck shell=bash

sql() { sqlite3 -readonly -cmd '.timeout 5000' "${state_db:?}" "$1"; }

until_runs() { # JOB GPUS
    [ -p "${dir:?}/never" ] || mkfifo "$dir/never"
    for _ in $(seq 2400); do
        [ -z "$(sql "SELECT 1 FROM v_attempt WHERE job = $1 AND gpus = $2
            AND running_at > 0 AND ended_at IS NULL")" ] || return 0
        read -rt 0.05 <>"$dir/never" || :
    done
    echo "${0##*/}: job $1 does not run on $2 GPUs" >&2
    return 1
}

resize_cost() { # JOB, that was resized from one GPU
    sql "SELECT printf('%.2f s: checkpoint %.2f, allocator %.2f, start %.2f',
        checkpoint_s + allocator_s + start_s, checkpoint_s, allocator_s, start_s)
        FROM v_attempt WHERE job = $1 AND resized_from = 1"
}
