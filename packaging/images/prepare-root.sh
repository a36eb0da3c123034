#!/bin/sh
# prepare-root.sh ROOT: makes extracted Debian packages the root folder of an image. Nothing in it was ever executed, so
# this writes what the packages' scripts would have, and removes what the server does not use.
set -eu
cd "$1"

echo 'root:x:0:0:root:/root:/usr/sbin/nologin
treeline:x:10001:10001:Treeline:/var/lib/treeline:/usr/sbin/nologin' > etc/passwd
echo 'root:x:0:
treeline:x:10001:' > etc/group
echo 'hosts: files dns' > etc/nsswitch.conf
mkdir -p etc/ssl/certs
cat usr/share/ca-certificates/mozilla/*.crt > etc/ssl/certs/ca-certificates.crt
install -d -m 1777 tmp
install -d -m 700 -o 10001 -g 10001 var/lib/treeline

# PostgreSQL's just-in-time compiler is off in the private cluster. Licenses stay.
rm -rf usr/lib/*/libLLVM* usr/lib/*/libz3* usr/lib/postgresql/*/lib/bitcode usr/lib/postgresql/*/lib/llvmjit* \
    usr/share/man usr/share/info usr/share/locale usr/share/i18n usr/share/perl* usr/lib/*/perl* usr/bin/perl* usr/bin/*perl* \
    usr/lib/*/libperl* usr/lib/*/gconv usr/share/bash-completion usr/share/lintian usr/share/debconf usr/bin/openssl \
    usr/share/ca-certificates var/cache var/lib/apt var/lib/dpkg var/log boot home media mnt opt srv
find usr/share/doc -type f ! -name copyright -delete
