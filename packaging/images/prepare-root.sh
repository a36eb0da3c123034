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
    usr/share/ca-certificates var/lib/apt var/lib/dpkg var/log boot home media mnt opt srv
find usr/share/doc -type f ! -name copyright -delete

# What backups need, without Debian's wrapper, which is a Perl script.
for program in usr/lib/postgresql/*/bin/pg_dump usr/lib/postgresql/*/bin/pg_restore usr/lib/postgresql/*/bin/psql; do
    if [ -e "$program" ]; then ln -sf "/$program" usr/bin/; fi
done

# The packages of which files remain, for scanners of vulnerabilities: one file each, as in other images without dpkg.
mkdir -p var/lib/dpkg/status.d
for package in var/cache/apt/archives/*.deb; do
    dpkg-deb --fsys-tarfile "$package" | tar --list | grep -v '/$\|^\./usr/share/doc/' | while read -r file; do
        if [ -f "$file" ] && [ ! -L "$file" ]; then echo "$file"; fi
    done | grep . > /dev/null || continue
    dpkg-deb --field "$package" > "var/lib/dpkg/status.d/$(dpkg-deb --field "$package" Package)"
done
[ -n "$(ls var/lib/dpkg/status.d)" ]
rm -rf var/cache
