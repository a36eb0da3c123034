#!/bin/sh
# deb.sh DIST WORK: installs the Debian package in a clean Debian under a real systemd and uses it. As root, in a mount
# namespace of its own.
. "$(dirname "$0")/lib.sh"
NAME=treeline-verify-deb
DEB=$(ls "$DIST"/treeline_*.deb)
# Old crun refuses version 1 and 2 of control groups side by side; this hides one in this namespace only.
umount /sys/fs/cgroup/unified 2>/dev/null || true
podman() { command podman --root "$WORK/store" --runroot "$WORK/run" --storage-driver vfs "$@"; }
inside() { podman exec $NAME "$@"; }
load=
finish() {
    [ $? -eq 0 ] || inside journalctl --no-pager --lines 40 --unit treeline 2>/dev/null || true
    [ -z "$load" ] || kill "$load" 2>/dev/null || true
    podman rm --force --time 5 $NAME >/dev/null 2>&1 || true
}
trap finish EXIT
trap 'exit 1' TERM INT

# The programs have the names of their functions, which CPU profiles show.
lintian --fail-on error --suppress-tags no-manual-page,non-standard-file-perm,unstripped-binary-or-object "$DEB"
echo "lintian: no error"

rm -rf "$WORK/root"
began=$(seconds)
mmdebstrap --quiet --variant=minbase --include=systemd,systemd-sysv,dbus bookworm "$WORK/root"
echo "clean Debian root: $(since "$began")"
podman rm --force $NAME >/dev/null 2>&1 || true
podman run --detach --name $NAME --privileged --systemd=always --network slirp4netns --ulimit nofile=1024:20000 \
    --ulimit nproc=4096:4096 --rootfs "$WORK/root" /lib/systemd/systemd >/dev/null
is_running() { inside systemctl is-system-running | grep -q 'running\|degraded'; }
wait_for 60 "systemd" is_running

# Nobody answers questions here.
mkdir -p "$WORK/root/etc/apt/apt.conf.d" "$WORK/root/root/backup"
echo 'APT::Get::Assume-Yes "true";' >"$WORK/root/etc/apt/apt.conf.d/90answers"
apt_get() {
    inside env DEBIAN_FRONTEND=noninteractive apt-get --quiet=2 "$@" >"$WORK/apt.log" 2>&1 ||
        { tail -30 "$WORK/apt.log"; fail "apt-get $*"; }
}
apt_get update
apt_get install sudo
echo 'Defaults env_keep += "DEBIAN_FRONTEND"' >"$WORK/root/etc/sudoers.d/answers"

# walk NAME PAGE HEADING NUMBER: runs commands of the documentation, in the folder /root/backup.
walk() {
    documented "$2" "$3" "$4" >"$WORK/root/root/$1.sh"
    sed --in-place "s/_amd64/_$(dpkg --print-architecture)/" "$WORK/root/root/$1.sh"
    inside env DEBIAN_FRONTEND=noninteractive timeout 300 sh -e -c "cd /root/backup && . /root/$1.sh" >"$WORK/$1.log" 2>&1 ||
        { tail -30 "$WORK/$1.log"; fail "the commands of docs/$2, $3"; }
}

# The three commands of docs/installing.md: the last one prints the link.
cp "$DEB" "$WORK/root/root/backup/"
began=$(seconds)
apt_get update
walk install installing.md '## Debian and Ubuntu' 1
link=$(grep -o 'http://127[^ ]*/sign-in/[^ ]*' "$WORK/install.log") || fail "the commands of docs/installing.md print no link"
outside=$(podman inspect --format '{{.State.Pid}}' $NAME)
nsenter --target "$outside" --net curl --silent --output /dev/null --fail --max-time 5 "$link" || fail "sign-in page"
echo "deb: installed with PostgreSQL, sign-in page after $(since "$began")"
inside env TREELINE_LISTEN=127.0.0.1:3000 treeline-server health || fail "treeline-server health"
use_server "$outside" "$link" deb
# Requests give the profile its samples. curl does not send what follows #.
while :; do ask --output /dev/null "$base/sign-in#[1-100]" || true; done 2>/dev/null &
load=$!
api "$base/debug/pprof/profile?seconds=2" >"$WORK/profile"
kill $load
wait $load 2>/dev/null || true
load=
grep -q 'tokio::runtime' "$WORK/profile" || fail "a CPU profile names no functions: $(head -1 "$WORK/profile")"

main=$(inside systemctl show --property MainPID --value treeline)
[ "$(inside stat --format %U "/proc/$main")" = treeline ] || fail "the server does not run as treeline"
inside grep -q '^CapEff:.0*$' "/proc/$main/status" || fail "the server has capabilities"
inside grep -q '^NoNewPrivs:.1$' "/proc/$main/status" || fail "the server can gain privileges"
inside grep -q '^Seccomp:.2$' "/proc/$main/status" || fail "system calls are not filtered"
inside systemd-analyze security treeline --no-pager --threshold=20 | tail -1
began=$(seconds)
inside systemctl restart treeline
is_ready() { inside treeline-server health; }
wait_for 30 "restart" is_ready
echo "deb: restarted in $(since "$began")"
# An operator's command, as docs/installing.md says.
inside systemd-run --quiet --pipe --wait --uid=treeline --property=EnvironmentFile=/etc/default/treeline \
    treeline-server sign-in-link | grep -q /sign-in/ || fail "sign-in-link"
began=$(seconds)
walk back-up how-to/backup.md '## Back up' 2
echo "deb: backed up in $(since "$began")"
inside systemctl stop treeline

# The tutorial for developers as written, by a user with no compiler: docs/tutorials/developer.md.
apt_get install curl
inside useradd --create-home newcomer
awk '/^```sh$/ { inside = 1; next } /^```$/ { inside = 0 } inside' "$HERE/../../docs/tutorials/developer.md" \
    >"$WORK/root/home/newcomer/tutorial.sh"
began=$(seconds)
cat >"$WORK/root/home/newcomer/walk.sh" <<'SH'
set -eu
export TREELINE_TOKEN=$(openssl rand -hex 32) TREELINE_URL=http://127.0.0.1:3000
TREELINE_BOOTSTRAP_TOKEN=$TREELINE_TOKEN treeline-server >server.log 2>&1 &
server=$!
trap 'kill $server; wait $server || true' EXIT
for _ in $(seq 300); do treeline-server health >/dev/null 2>&1 && break; sleep 0.1; done
mkdir empty && cd empty
. ../tutorial.sh
SH
! inside sh -c 'command -v cargo || command -v rustc || command -v cc' || fail "the clean root has a compiler"
inside su - newcomer -c 'sh walk.sh' >"$WORK/tutorial.log" 2>&1 ||
    { tail -30 "$WORK/tutorial.log"; inside tail -5 /home/newcomer/server.log; fail "the tutorial for developers"; }
grep -q 'Hello, Margaret!' "$WORK/tutorial.log" || fail "the tutorial's result is missing"
echo "deb: tutorial for developers walked in $(since "$began")"

[ "$(inside systemctl show --property Result --value treeline)" = success ] || fail "the server did not stop well"
if is_ready; then fail "health says ready although the server has stopped"; fi
apt_get purge treeline
inside test -d /var/lib/treeline || fail "purge removed the data"
! inside test -e /etc/default/treeline || fail "purge left the settings"
echo "deb: stopped, purged; the data is still there"

# A new machine: the commands of docs/how-to/backup.md. The end of the input is Ctrl-D.
inside rm -rf /var/lib/treeline
began=$(seconds)
apt_get install "/root/backup/${DEB##*/}"
documented how-to/backup.md '## Restore' 2 >"$WORK/root/root/first-terminal.sh"
podman exec --detach $NAME sh -c 'until [ -e /root/restored ]; do sleep 0.1; done |
    sh /root/first-terminal.sh >/root/first-terminal.log 2>&1; touch /root/stopped' >/dev/null
wait_for 60 "private PostgreSQL" inside grep -q '^postgres:' /root/first-terminal.log
walk restore how-to/backup.md '## Restore' 3
inside touch /root/restored
wait_for 60 "end of the private PostgreSQL" inside test -e /root/stopped
inside systemctl start treeline
wait_for 30 "start after the restoration" is_ready
use_restored "$outside" restored-deb
echo "deb: installed again, restored and used in $(since "$began")"
