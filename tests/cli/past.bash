# past.bash - a job whose attempts a test chooses, and a replay's beside them.
# shellcheck shell=bash

# same_sizes STATE_DIR EVENTS: each job has the attempts of the record, with
# their numbers of GPUs; what nobody has claimed did not run.
same_sizes() {
    sqlite3 -readonly -separator ' ' "$1/state.db" "SELECT j.name,
        (SELECT group_concat(gpus, ' ') FROM (SELECT gpus FROM attempt AS a
            WHERE a.job = j.job AND claimed_at > 0 ORDER BY attempt))
        FROM job AS j ORDER BY name" >recorded
    awk -F, '$3 == "start" {
            gpus = 0
            n = split($4, word, " ")
            for (i = 1; i <= n; i++) gpus += substr(word[i], index(word[i], ":") + 1)
            sizes[$2] = sizes[$2] " " gpus
        }
        END { for (name in sizes) print name sizes[name] }' "$2" | sort >repeated
    diff recorded repeated
}

# saver GPUS [NAME]: a command that saves when it is told to stop, and ends when
# `done` is there.
saver() {
    cat >saver.sh <<'END'
trap 'exit 0' TERM
while [ ! -e done ]; do sleep 0.05; done
END
    cat >saver.yaml <<END
version: 1
kind: command
name: ${2:-saver}
command: [sh, saver.sh]
saves: true
resources: {gpus: $1}
END
    "$MGPU_BIN/mgpu-submit" --parsable saver.yaml
}
runs_on() { # JOB GPUS
    job_is "$1" RUNNING &&
        [ "$(api GET "/v1/jobs/$1" | json '$.job.gpus')" = "$2" ]
}
