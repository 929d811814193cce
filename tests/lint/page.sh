#!/bin/sh
# page.sh - the files of mgpu-web's page are safe to serve to a browser.
#
# usage: page.sh [FOLDER]      default: scheduler/web/page
#        page.sh --self-test   plants what is refused
#
#   html     text becomes no markup: no innerHTML and the like
#   code     text becomes no code: no eval, Function, timers with a text,
#            javascript: links
#   inline   index.html has no script, style or handler of its own
#   origin   no file names another origin (but the name space of SVG)
#   store    nothing is kept in the browser
#   head     a file begins with a comment that says what it is
#   size     at most 20 files in a folder, each of at most 600 lines; folders have
#            no folders
set -eu

found() { # RULE PATTERN FILES...
    rule=$1 pattern=$2
    shift 2
    ! grep -nE "$pattern" /dev/null "$@" | sed "s/^/$rule: /" | grep . || bad=1
}

# Both of this folder and of those in it; no name has a space.
files() { # FOLDER PATTERN
    find "$1" -type f -name "$2" | LC_ALL=C sort
}

# shellcheck disable=SC2046 # names without spaces
check() { # FOLDER; prints what is wrong
    bad=0
    found html '(inner|outer)HTML|insertAdjacentHTML|document\.write|createContextualFragment|DOMParser|setHTML' $(files "$1" '*.js')
    found code "(^|[^A-Za-z.])eval *\(|new Function|set(Timeout|Interval)\( *[\"'\`]|javascript:" $(files "$1" '*.js') "$1"/*.html
    found inline "<script>|<style|[ ]on[a-z]+ *=|[ ]style *=" "$1"/*.html
    sed 's|http://www.w3.org/2000/svg||g' $(files "$1" '*') |
        grep -nE '(https?|wss?)://|["'\''(]//[a-z]|@import' | sed 's/^/origin: /' | grep . && bad=1
    found store 'localStorage|sessionStorage|indexedDB|document\.cookie' $(files "$1" '*.js')
    for f in $(files "$1" '*'); do
        base=$(basename "$f")
        sed 2q "$f" | grep -qE "^(//|/\*|<!--) $base - " || {
            echo "head: $f: begins with no comment '$base - what it is'"
            bad=1
        }
        [ "$(wc -l <"$f")" -le 600 ] || {
            echo "size: $f: more than 600 lines"
            bad=1
        }
    done
    for d in "$1" "$1"/*/; do
        [ ! -d "$d" ] || [ "$(find "$d" -maxdepth 1 -type f | wc -l)" -le 20 ] || {
            echo "size: $d: more than 20 files"
            bad=1
        }
    done
    ! find "$1" -mindepth 2 -type d | sed 's/^/size: a folder in a folder: /' | grep . || bad=1
    return "$bad"
}

plant() { # RULE FILE LINE: the line in that file is found by that rule
    printf '%s\n' "$3" >>"$dir/$2"
    if check "$dir" >"$dir.out" || ! grep -q "^$1: " "$dir.out"; then
        echo "page.sh: rule $1 does not find: $3"
        exit 1
    fi
    sed -i '$d' "$dir/$2"
}

self_test() {
    dir=$(mktemp -d)
    trap 'rm -r "$dir" "$dir.out"' EXIT
    printf '// a.js - an example.\n// evaluate(text)\n' >"$dir/a.js"
    mkdir "$dir/part"
    printf '// c.js - a part.\n' >"$dir/part/c.js"
    printf '<!DOCTYPE html>\n<!-- b.html - an example. -->\n<script src="a.js"></script>\n' >"$dir/b.html"
    check "$dir" || exit 1
    plant html a.js 'node.innerHTML = text;'
    plant html a.js "node.insertAdjacentHTML('beforeend', text);"
    plant html part/c.js 'node.outerHTML = text;'
    plant origin part/c.js "import x from 'https://example.org/x.js';"
    plant head part/d.js 'no comment'
    rm "$dir/part/d.js"
    plant code a.js 'eval(text);'
    plant code a.js 'const f = new Function(text);'
    plant code a.js "setTimeout('go()', 1);"
    plant code b.html '<a href="javascript:go()">go</a>'
    plant inline b.html '<script>go();</script>'
    plant inline b.html '<p onclick="go()">go</p>'
    plant inline b.html '<p style="color: red">go</p>'
    plant origin a.js "import x from 'https://example.org/x.js';"
    plant origin a.js "fetch('//example.org/');"
    plant store a.js 'localStorage.x = 1;'
    plant size a.js "$(yes '// a line' | head -600)"
    printf '<!DOCTYPE html>\n' >"$dir/b.html"
    if check "$dir" >"$dir.out" || ! grep -q '^head: .*b.html' "$dir.out"; then
        echo 'page.sh: rule head does not find a file without its comment'
        exit 1
    fi
}

case ${1-} in
--self-test) self_test ;;
*) check "${1:-scheduler/web/page}" ;;
esac
