#!/bin/sh
# prose.sh - comments, messages and manual pages are in plain English, and a
# commit's subject begins with a verb.
#
# usage: prose.sh | prose.sh --self-test
#
# The phrases below are riddles: they hide who acts, or name a thing of the
# field by a word of daily life. tests/lint/prose.allow has the files that still
# have some, and how many: COUNT FILE. It may only shrink.
set -eu
allow=tests/lint/prose.allow
riddles='\bWho [a-z]+ .*,|is told of|nobody ever|\ba deed\b|this life|goes by|of which|(^|[.:] |^[ /]*\* )Of (a|what)\b'
verbs='accept add advise allow announce answer apply ask attend avoid backfill begin bench bind block
bound build cancel cap carry change check choose clamp clean clear close collect colour
compare compile compute continue copy correct count cover credit cut decide declare decode
define delete demote derive describe detect disable distinguish divide do
document drain draw drop embed emulate enable encode end enforce ensure exclude expand expect explain
export expose extract fail fill find fit fix fold follow forbid forget format free generate
give go group grow guard guess hand handle hash hide hold identify ignore implement import improve
include inline install introduce join judge keep kill know label launch learn leave let limit
link lint list load lock log look lower make map mark match measure mention
merge migrate move multiply name note number offer omit open order pack pad parse pass pin place
plan predict prefer prepare preserve print promote prove provide publish put query queue quote
raise read rebuild recognize record recover reduce refactor refuse register
reject release reload remove rename resize reorder repeat replace replay report require
reserve reset resolve restart restore resume retry return reuse revert rewrite
round run save say scale schedule search select send separate serve set share
shorten show shrink simplify skip smooth sort specify spell split spread start state stop store
stream strip submit sum support sweep switch sync take teach tell test tidy time tokenise tolerate
trace track train translate trim try turn unify update use validate verify wait
warn watch weigh widen wrap write'

count_riddles() { # FILE...
    grep -cE "$riddles" "$@" /dev/null | sed -n 's/^\(.*\):\([1-9][0-9]*\)$/\2 \1/p'
}

has_verb() { # SUBJECT
    verb=${1#*: }
    verb=${verb%% *}
    [ "$1" != "${1#*: }" ] || return 1
    # shellcheck disable=SC2086,SC2116 # a list of words, without its lines
    case " $(echo $verbs) " in *" $verb "*) ;; *) return 1 ;; esac
}

if [ "${1-}" = --self-test ]; then
    tmp=$(mktemp)
    trap 'rm -f "$tmp"' EXIT
    printf '%s\n' ' * Who waits for a state, hears of it.' 'it is told of' \
        ' * Of what is left nobody knows.' 'the engine restarts' \
        'Who is this?' >"$tmp"
    [ "$(count_riddles "$tmp" | cut -d' ' -f1)" = 3 ]
    has_verb 'stat: report the final state'
    if has_verb 'tools: who waited for a state' || has_verb 'no area'; then
        exit 1
    fi
    exit 0
fi

# shellcheck disable=SC2046 # names without blanks
bad=$(count_riddles $(git ls-files 'jobs/*.[ch]' 'kernels/*' 'db/*' 'slurm/*' \
        'worker/*' 'scheduler/*' 'man/*' | grep -E '\.([ch]|cu|[1-8])$') |
    awk -v list="$allow" '
        BEGIN { while ((getline < list) > 0)
                    if ($1 != "#" && NF) allowed[$2] = $1 }
        { got[$2] = $1 }
        END { for (f in got)
                  if (got[f] > allowed[f] + 0)
                      print f ": " got[f] " riddles, allowed " allowed[f] + 0
                  else if (got[f] < allowed[f])
                      print list ": " f " needs only " got[f]
              for (f in allowed) if (!(f in got))
                  print list ": not needed any more: " f }' | sort)
# Where there is no history there are no subjects.
since=$(git log --diff-filter=A --format=%H -- tests/lint/prose.sh 2>/dev/null |
    tail -n 1)
subjects=$([ -z "$since" ] ||
    git log --no-merges --format=%s "$since..HEAD" | while read -r s; do
        has_verb "$s" || printf 'no verb after the area: %s\n' "$s"
    done)
[ -z "$bad$subjects" ] || { printf '%s\n' "$bad" "$subjects"; exit 1; }
