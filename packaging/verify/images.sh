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
podman() { rootless podman --storage-driver vfs --cgroup-manager cgroupfs --events-backend file "$@"; }
finish() {
    code=$?
    [ $code -eq 0 ] || for name in standalone small; do podman logs --tail 30 $name 2>&1 || true; done
    podman rm --all --force --time 5 >/dev/null 2>&1 || true
    rootless podman --storage-driver vfs unshare rm -rf "$home/.local" "$home/run" >/dev/null 2>&1 || true
    remove_account
    rm -rf "${home%/home}"
    exit $code
}
trap finish EXIT
trap 'exit 1' TERM INT
rootless mkdir -m 700 -p "$home/run"

# start NAME IMAGE OPTION...: as docs/installing.md says, but in a network without an outside.
start() {
    name=$1 image=$2
    shift 2
    podman run --detach --name "$name" --read-only --tmpfs /tmp --cap-drop all --security-opt no-new-privileges \
        --ulimit nofile=1024:20000 --ulimit nproc=4096:4096 --cgroups disabled --env TREELINE_ALLOW_PLAINTEXT=1 \
        "$@" "$image" >/dev/null
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

for kind in treeline-standalone treeline; do
    archive=$(ls "$DIST/$kind"-[0-9]*.oci.tar)
    began=$(seconds)
    podman load --quiet <"$archive" >/dev/null
    echo "$kind: $(stat --format %s "$archive" | awk '{ printf "%.1f MB", $1 / 1e6 }'), loaded in $(since "$began")"
done
images=$(podman images --format '{{.Repository}}:{{.Tag}}')
began=$(seconds)
start standalone "$(echo "$images" | grep standalone)" --network none --volume data:/var/lib/treeline
wait_for 60 "standalone: ready" is_ready standalone
echo "treeline-standalone: ready after $(since "$began"), its new database included"
sandboxed standalone
use_server "$(pid_of standalone)" "$(find_link standalone)" treeline-standalone

# The small image beside it, on the same database; its data folder holds the same files and the same key.
began=$(seconds)
start small "$(echo "$images" | grep -v standalone)" --network none --volume data:/var/lib/treeline \
    --env 'DATABASE_URL=postgres:///treeline?host=/var/lib/treeline/postgres/run&user=treeline'
wait_for 60 "treeline: ready" is_ready small
echo "treeline: ready after $(since "$began")"
sandboxed small
link=$(podman exec small /usr/bin/treeline-server sign-in-link | grep -o 'http://[^ ]*')
use_server "$(pid_of small)" "$link" treeline
for name in small standalone; do
    began=$(seconds)
    podman stop --time 60 $name >/dev/null
    [ "$(podman inspect --format '{{.State.ExitCode}}' $name)" = 0 ] || fail "$name: did not stop well"
    echo "$name: stopped in $(since "$began")"
done
