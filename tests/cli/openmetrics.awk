# openmetrics.awk - is this text what OpenMetrics 1.0 says? Prints what is not,
# and ends with 1 then.
function bad(why) { print "line " NR ": " why; n_bad++ }
function ends(text, tail) {
    return length(text) >= length(tail) &&
        substr(text, length(text) - length(tail) + 1) == tail
}
/^$/ { bad("an empty line") }
is_over { bad("something after # EOF") }
$0 == "# EOF" { is_over = 1; next }
/^#/ {
    if ($0 !~ /^# (HELP|TYPE|UNIT) [a-zA-Z_:][a-zA-Z0-9_:]* .+$/)
        bad("not HELP, TYPE or UNIT")
    if ($3 != family) { # a family is in one piece
        if ($3 in types || $3 in helps)
            bad("family " $3 " again")
        family = $3
        n_samples = 0
    }
    if (n_samples > 0)
        bad($2 " after samples")
    if ($2 == "HELP" && helps[$3]++) bad("HELP twice")
    if ($2 == "TYPE") {
        if ($3 in types) bad("TYPE twice")
        types[$3] = $4
        if ($4 !~ /^(gauge|counter|histogram|info)$/) bad("type " $4)
    }
    if ($2 == "UNIT") {
        if (units[$3]++) bad("UNIT twice")
        if (!ends($3, "_" $4)) bad($3 " does not end in its unit " $4)
    }
    next
}
{
    if (!match($0, /^[a-zA-Z_:][a-zA-Z0-9_:]*/)) { bad("no name"); next }
    name = substr($0, 1, RLENGTH)
    rest = substr($0, RLENGTH + 1)
    labels = ""
    if (match(rest, /^\{([a-zA-Z_][a-zA-Z0-9_]*="([^"\\\n]|\\["\\n])*",?)*\}/)) {
        labels = substr(rest, 1, RLENGTH)
        rest = substr(rest, RLENGTH + 1)
    }
    if (rest !~ /^ ([-+]?([0-9]+(\.[0-9]*)?([eE][-+]?[0-9]+)?|Inf)|NaN)$/)
        bad("value of " name)
    if (seen[name labels]++) bad(name labels " twice")
    type = types[family]
    fits = 0
    if (type == "gauge") fits = name == family
    if (type == "counter") fits = name == family "_total"
    if (type == "info") fits = name == family "_info"
    if (type == "histogram")
        fits = name ~ ("^" family "_(bucket|sum|count)$")
    if (!fits) bad(name " is no sample of " family ", a " type)
    if (type == "counter" && rest ~ /^ -/) bad("a counter below 0")
    if (ends(family, "_seconds") && !(family in units)) bad("no UNIT of " family)
    if (type == "histogram" && ends(name, "_bucket")) {
        if (labels !~ /le="/) bad("a bucket without le")
        if (n_buckets > 0 && rest + 0 < last) bad("buckets that fall")
        last = rest + 0
        n_buckets++
        is_inf = labels ~ /le="\+Inf"/
    } else if (type == "histogram" && ends(name, "_count")) {
        if (!is_inf) bad("no bucket +Inf")
        if (rest + 0 != last) bad("the count is not that of +Inf")
        n_buckets = 0
        last = 0
    }
    n_samples++
    n_all++
}
END {
    if (!is_over) { print "no # EOF"; n_bad++ }
    if (n_all < 1) { print "no samples"; n_bad++ }
    for (f in types) if (!(f in helps)) { print "no HELP of " f; n_bad++ }
    exit n_bad > 0
}
