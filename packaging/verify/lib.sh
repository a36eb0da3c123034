# What the scripts of this folder share: waiting with a limit, seconds, commands of the documentation, and using a server
# as a person would.
set -eu
DIST=$1 WORK=$2
HERE=$(dirname "$(realpath "$0")")
SAMPLE=$HERE/../../examples/import/bird-strikes.csv

seconds() { date +%s.%N; }
since() { echo "$1 $(seconds)" | awk '{ printf "%.1f s", $2 - $1 }'; }
fail() { echo "FAILED: $*" >&2; exit 1; }

# wait_for SECONDS WHAT COMMAND...: runs the command until it succeeds.
wait_for() {
    limit=$(($(date +%s) + $1)) what=$2
    shift 2
    until "$@" >/dev/null 2>&1; do
        [ "$(date +%s)" -lt "$limit" ] || fail "$what: not within the limit"
        sleep 0.1
    done
}

# documented PAGE HEADING NUMBER: prints one of the blocks of commands below a heading of docs/PAGE.
documented() {
    awk -v heading="$2" -v number="$3" '
        /^```sh$/ { is_code = 1; found += is_below; next }
        /^```$/ { is_code = 0 }
        /^#/ && !is_code { is_below = $0 == heading }
        is_code && is_below && found == number' "$HERE/../../docs/$1" | grep . || fail "docs/$1: no block $3 below $2"
}

# use_server PID LINK NAME: opens the sign-in link in the network of the process, uploads the sample, and imports it.
use_server() {
    pid=$1 link=$2 name=$3 began=$(seconds)
    base=${link%/sign-in/*}
    ask() { nsenter --target "$pid" --net curl --silent --show-error --fail --max-time 30 "$@"; }
    page=$(ask "$link")
    for file in $(printf %s "$page" | grep -o '/pkg/[0-9a-f]*/[a-z_]*\.\(css\|js\)' | sort -u); do
        ask --output /dev/null "$base$file"
    done
    [ -n "${file:-}" ] || fail "$name: the page names no file of the site"
    case $page in *unbuilt*) fail "$name: the program has no site" ;; esac
    cookies=$WORK/cookies
    rm -f "$cookies"
    api() { ask --cookie-jar "$cookies" --cookie "$cookies" --header "Origin: $base" "$@"; }
    api --output /dev/null --json "{\"link\": \"${link##*/}\"}" "$base/api/v1/session"
    upload=$(api --header 'Content-Type: text/csv' --header "Idempotency-Key: upload-$name" --data-binary "@$SAMPLE" \
        "$base/api/v1/uploads?filename=bird-strikes.csv" | jq --raw-output .id)
    import_upload "$name"
    echo "$name: link opened, 10,000 rows uploaded and done in $(since "$began")"
}

# import_upload NAME: imports the file that use_server has uploaded, and waits until each of its 10,000 rows is done.
import_upload() {
    job=$(api --header "Idempotency-Key: job-$1" \
        --json "{\"type\": \"import\", \"upload\": {\"id\": \"$upload\"}}" "$base/api/v1/jobs" | jq --raw-output .id)
    wait_for 60 "$1: import of 10,000 rows" is_done
}
is_done() { api "$base/api/v1/jobs/$job" | jq --exit-status '.completed_at != null and .counts.succeeded == 10000'; }

# use_restored PID NAME: in the network of the process, checks that a restored server has the person who is signed in and
# the job of the backup, and imports the restored file.
use_restored() {
    pid=$1
    is_done >/dev/null || fail "$2: the restored job is not as it was"
    import_upload "$2"
}
