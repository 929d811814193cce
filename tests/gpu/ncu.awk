# ncu.awk - a table of what ncu measured of each kernel, beside what is
# predicted of it.
#
#   awk -v names=KERNELS -f ncu.awk CSV
#
# CSV is of --csv --page raw --print-units base; KERNELS has lines of a kernel's
# name, launches of a step, ms and MB of a launch. Fails without a kernel.
BEGIN {
    FS = "\",\""
    while ((getline line < names) > 0) {
        split(line, x, " ")
        n++
        name[n] = x[1]
        ms[x[1]] = x[3]
        mb[x[1]] = x[4]
    }
}
function value(field) {
    field = $(column[field])
    gsub(/[",]/, "", field)
    return field + 0
}
# The function's name: before its template's arguments, behind its namespaces.
function base(text) {
    gsub(/"/, "", text)
    sub(/^void +/, "", text)
    gsub(/<unnamed>::|\(anonymous namespace\)::|[A-Za-z_0-9]+::/, "", text)
    sub(/[<(].*/, "", text)
    return text
}
/"Kernel Name"/ {
    for (i = 1; i <= NF; i++) {
        field = $i
        gsub(/"/, "", field)
        column[field] = i
    }
    next
}
!column["Kernel Name"] { next }
$(column["ID"]) !~ /^"?[0-9]+"?$/ { next } # units
{
    k = base($(column["Kernel Name"]))
    if (!(k in count))
        order[++kinds] = k
    count[k]++
    us[k] += value("gpu__time_duration.sum") / 1e3
    moved[k] += value("dram__bytes.sum") / 1e6
    dram[k] += value("dram__throughput.avg.pct_of_peak_sustained_elapsed")
    issue[k] += value("smsp__issue_active.avg.pct_of_peak_sustained_active")
    tensor[k] += value("sm__pipe_tensor_op_hmma_cycles_active.avg.pct_of_peak_sustained_active")
}
END {
    printf "   %-20s %8s %9s %9s %6s %9s %9s %6s %6s %7s\n", "kernel", "launches", "us", \
        "predicted", "of it", "MB", "predicted", "DRAM %", "issue%", "tensor%"
    for (i = 1; i <= kinds; i++) {
        k = order[i]
        c = count[k]
        is_known = k in ms && ms[k] + 0 != 0
        printf "   %-20s %8d %9.1f %9s %6s %9.2f %9s %6.0f %6.0f %7.0f\n", k, c, us[k] / c, \
            is_known ? sprintf("%.1f", 1000 * ms[k]) : "-", \
            is_known ? sprintf("%.2f", us[k] / c / (1000 * ms[k])) : "-", \
            moved[k] / c, is_known ? sprintf("%.2f", mb[k]) : "-", \
            dram[k] / c, issue[k] / c, tensor[k] / c
    }
    exit kinds == 0
}
