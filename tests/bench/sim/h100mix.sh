#!/bin/sh
# h100mix.sh - a trace of jobs of the papers, and the table of their speeds.
#
# usage: h100mix.sh tables
#        h100mix.sh pair cold|known
#        h100mix.sh mix SEED JOBS LOAD GPUS REQUEST     Poisson arrivals
#        h100mix.sh rush SEED JOBS SECONDS REQUEST      all within SECONDS
# REQUEST: elastic, 1, 4, habits (of users), expert (efficiency >= 0.7)
#
# Seconds on 1 to 4 H100: MobileNetV2 at 500 px from tables 2 and 3, Llama-3-8B
# LoRA on alpaca from table 5; samsum and slimorca by their rows of table 4. The
# small pictures are assumed, after figure 2: 300 px has an efficiency of 0.6 on
# four GPUs, 100 px gains nothing. 60 % of the jobs are cv, a third of these
# small; they take 15 % of the GPU time. A restart takes 20 s (cv) or 60 s
# (LoRA), assumed. The random numbers are of a generator of our own, so that
# every awk draws the same.
set -eu

exec awk -v what="$1" -v a="${2:-}" -v b="${3:-}" -v c="${4:-}" -v d="${5:-}" \
    -v e="${6:-}" "$(cat "$(dirname "$0")/draw.awk")"'
    function class(name, part, iters, restart, expert, t1, t2, t3, t4) {
        n++; cname[n] = name; cpart[n] = part; citers[n] = iters
        crestart[n] = restart; cexpert[n] = expert
        t[n, 1] = t1; t[n, 2] = t2; t[n, 3] = t3; t[n, 4] = t4
        mean += part * t1
    }
    function job(at, k, request) {
        printf "{\"t\":%.3f,\"name\":\"%s-%d\",\"class\":\"%s\",", at, cname[k],
            ++jobs, cname[k]
        printf "\"iterations\":%d,\"gpus\":\"%s\"}\n", citers[k], request
    }
    function request_of(k, word,    x) {
        x = draw() # one number for each job, whatever is asked
        if (word == "elastic") return "1..4"
        if (word == "expert") return cexpert[k]
        if (word != "habits") return word
        if (k <= 6) return x < 0.6 ? 1 : x < 0.8 ? 2 : 4
        return x < 0.2 ? 1 : x < 0.4 ? 2 : 4
    }
    function pick(    x, k) {
        x = draw()
        for (k = 1; k < n && x >= cpart[k]; k++) x -= cpart[k]
        return k
    }
    BEGIN {
        class("cv-fp64-500", .10, 18750, 20, 4, 6266, 3339, 2318, 1937)
        class("cv-fp32-500", .10, 18750, 20, 4, 3721, 2094, 1483, 1256)
        class("cv-fp16-500", .10, 18750, 20, 3, 2477, 1445, 1049, 919)
        class("cv-fp32-pin-500", .10, 18750, 20, 3, 2921, 1733, 1283, 1165)
        class("cv-fp32-300", .10, 18750, 20, 2, 1500, 917, 722, 625)
        class("cv-fp32-100", .10, 18750, 20, 1, 600, 600, 600, 600)
        class("lora-alpaca", .188, 25880, 60, 4, 19912, 12030, 7795, 6092)
        class("lora-samsum", .172, 8184, 60, 4, 6297, 3804, 2465, 1927)
        class("lora-slimorca", .04, 181745, 60, 4, 139833, 84482, 54741, 42782)
        if (what == "tables") {
            print "class,gpu_type,nodes,gpus_per_node,t_iter_s,restart_s"
            for (k = 1; k <= n; k++)
                for (g = 1; g <= 4; g++)
                    printf "%s,,1,%d,%.9f,%d\n", cname[k], g,
                        t[k, g] / citers[k], crestart[k]
        } else if (what == "pair") {
            for (g = 1; a == "known" && g <= 4; g++) { # 500 iterations on each
                save3 = citers[3]; save7 = citers[7]
                citers[3] = citers[7] = 500
                job(2000 * g, 3, g); job(2000 * g + 1000, 7, g)
                citers[3] = save3; citers[7] = save7
            }
            job(20000, 3, "1..4"); job(20000, 7, "1..4")
        } else if (what == "mix") {
            seed_draws(a); rate = c * d / mean
            for (i = 0; i < b; i++) {
                at += -log(1 - draw()) / rate
                k = pick(); job(at, k, request_of(k, e))
            }
        } else if (what == "rush") {
            seed_draws(a)
            for (i = 0; i < b; i++) {
                at = c * draw()
                k = pick(); job(at, k, request_of(k, d))
            }
        }
    }'
