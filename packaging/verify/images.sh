#!/bin/sh
# images.sh DIST WORK: runs both images rootless, read-only, without capabilities, and uses them. As root, in a mount
# namespace of its own; the containers belong to an account that this creates and removes.
. "$(dirname "$0")/lib.sh"
USER_NAME=treeline-verify
umount /sys/fs/cgroup/unified 2>/dev/null || true
remove_account() {
    id $USER_NAME >/dev/null 2>&1 || return 0
    # Rootless podman leaves a process that keeps its namespaces.
    pkill --signal KILL --uid $USER_NAME || true
    wait_for 10 "the end of the account's processes" userdel --remove $USER_NAME
}
remove_account
# Not below WORK: another account cannot enter the home of the one that builds.
home=$(mktemp --directory /var/tmp/treeline-verify.XXXXXX)/home
chmod 755 "${home%/home}"
useradd --create-home --home-dir "$home" --shell /bin/sh $USER_NAME
rootless() {
    runuser --user $USER_NAME -- env --chdir="$home" HOME="$home" XDG_RUNTIME_DIR="$home/run" "$@"
}
# Containers run in a network without an outside.
podman() {
    if [ "$1" = run ]; then
        shift
        set -- run --cgroups disabled --network none --ulimit nofile=1024:20000 --ulimit nproc=4096:4096 "$@"
    fi
    rootless podman --storage-driver vfs --cgroup-manager cgroupfs --events-backend file "$@"
}
finish() {
    code=$?
    [ $code -eq 0 ] || for name in treeline treeline-restore small; do podman logs --tail 30 $name 2>&1 || true; done
    [ $code -eq 0 ] || tail -n 30 "$WORK/restore.log" || true
    podman rm --all --force --time 5 >/dev/null 2>&1 || true
    rootless podman --storage-driver vfs unshare rm -rf "$home/.local" "$home/run" >/dev/null 2>&1 || true
    remove_account
    rm -rf "${home%/home}"
    exit $code
}
trap finish EXIT
trap 'exit 1' TERM INT
rootless mkdir -m 700 -p "$home/run"

# start NAME IMAGE OPTION...: as docs/installing.md says.
start() {
    name=$1 image=$2
    shift 2
    podman run --detach --name "$name" --read-only --tmpfs /tmp --cap-drop all --security-opt no-new-privileges \
        --env TREELINE_ALLOW_PLAINTEXT=1 --volume treeline:/var/lib/treeline "$@" "$image" >/dev/null
}
find_link() { podman logs "$1" 2>/dev/null | grep -o 'http://127[^ ]*/sign-in/[^ ]*'; }
is_ready() { podman exec "$1" /usr/bin/treeline-server health; }
pid_of() { podman inspect --format '{{.State.Pid}}' "$1"; }
sandboxed() {
    status=/proc/$(pid_of "$1")/status
    [ "$(stat --format %u "/proc/$(pid_of "$1")")" -ge 10001 ] || fail "$1 runs as root"
    grep -q '^CapEff:.0*$' "$status" && grep -q '^NoNewPrivs:.1$' "$status" || fail "$1 has privileges"
    ! nsenter --target "$(pid_of "$1")" --mount --root touch /x 2>/dev/null || fail "$1 can write its root"
}
# packages NAME PACKAGE...: scanners find the packages in the container, and the bill of materials has all that they find.
packages() {
    found=/proc/$(pid_of "$1")/root/var/lib/dpkg/status.d name=$1
    shift
    for package in "$@"; do [ -s "$found/$package" ] || fail "$name does not name its package $package"; done
    for package in $(ls "$found"); do
        jq --exit-status --arg name "$package" 'any(.components[]; .name == $name and (.purl | startswith("pkg:deb/")))' \
            "$DIST"/treeline-*.cdx.json >/dev/null || fail "the bill of materials does not name $package of $name"
    done
}

for kind in treeline-standalone treeline; do
    archive=$(ls "$DIST/$kind"-[0-9]*.oci.tar)
    began=$(seconds)
    podman load --quiet <"$archive" >/dev/null
    echo "$kind: $(stat --format %s "$archive" | awk '{ printf "%.1f MB", $1 / 1e6 }'), loaded in $(since "$began")"
done
version=${archive##*/treeline-}
version=${version%-*}
began=$(seconds)
start treeline "treeline-standalone:$version"
wait_for 60 "treeline-standalone: ready" is_ready treeline
echo "treeline-standalone: ready after $(since "$began"), its new database included"
sandboxed treeline
packages treeline libc6 libssl3 postgresql-15
use_server "$(pid_of treeline)" "$(find_link treeline)" treeline-standalone

# The small image beside it, on the same database; its data folder holds the same files and the same key.
began=$(seconds)
start small "treeline:$version" \
    --env 'DATABASE_URL=postgres:///treeline?host=/var/lib/treeline/postgres/run&user=treeline'
wait_for 60 "treeline: ready" is_ready small
echo "treeline: ready after $(since "$began")"
sandboxed small
packages small libc6 tzdata
link=$(podman exec small /usr/bin/treeline-server sign-in-link | grep -o 'http://[^ ]*')
use_server "$(pid_of small)" "$link" treeline

# The commands of docs/how-to/backup.md, with a restoration on another machine.
mkdir -p "$WORK/backup"
rm -rf "${WORK:?}/backup/"*
documented how-to/backup.md '## In containers' 1 >"$WORK/backup/back-up.sh"
documented how-to/backup.md '## In containers' 2 >"$WORK/backup/restore.sh"
began=$(seconds)
(cd "$WORK/backup"; . ./back-up.sh)
echo "treeline-standalone: backed up in $(since "$began")"
for name in small treeline; do
    began=$(seconds)
    podman stop --time 60 $name >/dev/null
    [ "$(podman inspect --format '{{.State.ExitCode}}' $name)" = 0 ] || fail "$name: did not stop well"
    echo "$name: stopped in $(since "$began")"
    podman rm $name >/dev/null
done
podman volume rm treeline >/dev/null
began=$(seconds)
(cd "$WORK/backup"; . ./restore.sh) >"$WORK/restore.log" 2>&1
start treeline "treeline-standalone:$version"
wait_for 60 "treeline-standalone: ready after the restoration" is_ready treeline
use_restored "$(pid_of treeline)" restored-standalone
echo "treeline-standalone: restored and used in $(since "$began")"
podman stop --time 60 treeline >/dev/null
