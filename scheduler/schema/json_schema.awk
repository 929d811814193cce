# json_schema.awk - write the table `documents` as JSON Schema.
#
# usage: awk -f json_schema.awk documents >mgpu.schema.json
#
# A line that the table's head does not explain is an error with its number.

function die(text) {
    printf "%s:%d: %s\n", FILENAME, FNR, text >"/dev/stderr"
    failed = 1
    exit 1
}

function quoted(text) {
    gsub(/\\/, "\\\\", text)
    gsub(/"/, "\\\"", text)
    return "\"" text "\""
}

# "string|null" as the value of "type".
function type_names(type,    n, i, names, s) {
    n = split(type, names, "|")
    for (i = 1; i <= n; i++) {
        if (names[i] !~ /^(string|integer|number|boolean|array|object|null)$/)
            die("no type '" names[i] "'")
        s = s (i > 1 ? ", " : "") quoted(names[i])
    }
    return n > 1 ? "[" s "]" : s
}

# The members of the schema of a type, without those of its fields; sets
# `closing`, what ends it, and `is_open`, whether fields may follow.
function members(type,    rest, inner) {
    closing = ""
    is_open = 0
    if (type ~ /^@/) {
        used[substr(type, 2)] = FNR
        return "\"$ref\": " quoted("#/$defs/" substr(type, 2))
    }
    if (type ~ /^"/) {
        gsub(/\|/, ", ", type)
        return "\"enum\": [" type "]"
    }
    rest = type ~ /\|null$/ ? "|null" : ""
    inner = substr(type, 2, length(type) - length(rest) - 2)
    if (type ~ /^\[.*\](\|null)?$/) {
        inner = members(inner)
        closing = closing "}"
        return "\"type\": " type_names("array" rest) ", \"items\": {" inner
    }
    if (type ~ /^[{].*[}](\|null)?$/) {
        if (inner == "any") {
            inner = "true"
        } else {
            inner = "{" members(inner)
            closing = closing "}"
        }
        return "\"type\": " type_names("object" rest) \
            ", \"additionalProperties\": " inner
    }
    if (type ~ /^object!?(\|null)?$/) {
        is_open = 1
        return (sub(/!/, "", type) ? "\"additionalProperties\": false, " : "") \
            "\"type\": " type_names(type)
    }
    if (sub(/^time/, "string", type))
        return "\"type\": " type_names(type) ", \"format\": \"date-time\""
    return "\"type\": " type_names(type)
}

# Begins a definition or a field, whose fields may follow one level deeper.
function begin(name, type, text,    s) {
    s = members(type)
    printf "%s\n%*s%s: {%s%s", (n_fields[level] ? "," : ""), level + 1, "", \
        quoted(name), text == "" ? "" : "\"description\": " quoted(text) ", ", s
    n_fields[level]++
    if (is_open) {
        level++
        n_fields[level] = 0
        required[level] = ""
        ends[level] = closing "}"
        printf ", \"properties\": {"
    } else
        printf "%s", closing "}"
}

function require(name) {
    required[level] = required[level] (required[level] == "" ? "" : ", ") \
        quoted(name)
}

function end_to(depth) {
    for (; level > depth; level--) {
        if (!n_fields[level])
            die("an object without fields ends before this line")
        printf "}, \"required\": [%s]%s", required[level], ends[level]
    }
}

BEGIN {
    level = 0
    print "{"
    print "\"$schema\": \"https://json-schema.org/draft/2020-12/schema\","
    print "\"title\": \"Documents of mgpu\","
    print "\"description\": \"What the tools print with --json and the daemon" \
        " answers. A document names its schema; fields are only ever added," \
        " and what is not known is null. Times are RFC 3339 in UTC, durations" \
        " seconds, sizes bytes.\","
    printf "\"$defs\": {"
}

/^#/ || /^$/ { next }

# = NAME SCHEMA  TEXT
/^= / {
    end_to(0)
    text = ""
    if ((i = index($0, "  ")) > 0) {
        text = substr($0, i + 2)
        $0 = substr($0, 1, i - 1)
    }
    if (NF != 3 || $2 in defined)
        die("expected '= NAME SCHEMA', each NAME once")
    defined[$2] = 1
    begin($2, "object", text)
    if ($3 != "-") {
        printf "\n%*s\"schema\": {\"const\": %s}", level + 1, "", quoted($3)
        n_fields[level]++
        require("schema")
        documents[++n_documents] = $2
    }
    next
}

#  NAME[?] TYPE  TEXT
{
    match($0, /^ +/)
    depth = RLENGTH
    text = ""
    if ((i = index(substr($0, depth + 1), "  ")) > 0) {
        text = substr($0, depth + i + 2)
        $0 = substr($0, 1, depth + i - 1)
    }
    if (NF != 2 || depth < 1 || depth > level)
        die("expected a field of the object above: ' NAME TYPE'")
    end_to(depth)
    if (!sub(/\?$/, "", $1))
        require($1)
    begin($1, $2, text)
}

END {
    if (failed)
        exit 1
    end_to(0)
    for (name in used)
        if (!(name in defined)) {
            FNR = used[name]
            die("no definition '" name "'")
        }
    printf "\n},\n\"oneOf\": ["
    for (i = 1; i <= n_documents; i++)
        printf "%s\n %s", (i > 1 ? "," : ""), \
            "{\"$ref\": \"#/$defs/" documents[i] "\"}"
    print "\n]\n}"
}
