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
finish() {
    [ $? -eq 0 ] || inside journalctl --no-pager --lines 40 --unit treeline 2>/dev/null || true
    podman rm --force --time 5 $NAME >/dev/null 2>&1 || true
}
trap finish EXIT
trap 'exit 1' TERM INT

lintian --fail-on error --suppress-tags no-manual-page,non-standard-file-perm "$DEB"
echo "lintian: no error"

rm -rf "$WORK/root"
began=$(seconds)
mmdebstrap --quiet --variant=minbase --include=systemd,systemd-sysv,dbus bookworm "$WORK/root"
echo "clean Debian root: $(since "$began")"
cp "$DEB" "$WORK/root/root/treeline.deb"
podman rm --force $NAME >/dev/null 2>&1 || true
podman run --detach --name $NAME --privileged --systemd=always --network slirp4netns --ulimit nofile=1024:20000 \
    --ulimit nproc=4096:4096 --rootfs "$WORK/root" /lib/systemd/systemd >/dev/null
is_running() { inside systemctl is-system-running | grep -q 'running\|degraded'; }
wait_for 60 "systemd" is_running

# The three commands of docs/installing.md.
began=$(seconds)
inside apt-get update --quiet=2
inside env DEBIAN_FRONTEND=noninteractive apt-get install --yes --quiet=2 /root/treeline.deb >"$WORK/apt.log" 2>&1 ||
    { tail -30 "$WORK/apt.log"; fail "apt-get install"; }
installed=$(since "$began")
inside systemctl enable --quiet --now treeline
find_link() { inside journalctl --output cat --unit treeline | grep -o 'http://127[^ ]*/sign-in/[^ ]*'; }
wait_for 60 "sign-in link" find_link
outside=$(podman inspect --format '{{.State.Pid}}' $NAME)
wait_for 30 "sign-in page" nsenter --target "$outside" --net curl --fail --max-time 5 "$(find_link)"
echo "deb: installed with PostgreSQL in $installed, sign-in page after $(since "$began")"
inside env TREELINE_LISTEN=127.0.0.1:3000 treeline-server health || fail "treeline-server health"
use_server "$outside" "$(find_link)" deb

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
inside systemctl stop treeline

# The tutorial for developers as written, by a user with no compiler: docs/tutorials/developer.md.
inside env DEBIAN_FRONTEND=noninteractive apt-get install --yes --quiet=2 curl >/dev/null 2>&1
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
inside env DEBIAN_FRONTEND=noninteractive apt-get purge --yes --quiet=2 treeline >/dev/null 2>&1
inside test -d /var/lib/treeline || fail "purge removed the data"
! inside test -e /etc/default/treeline || fail "purge left the settings"
echo "deb: stopped, purged; the data is still there"
