#!/bin/sh
# Runs as root in the finished root filesystem, without network: prepares the caches that programs would make at first use.
set -eu

# A home that looks lived in by nobody yet; version control keeps no empty folders.
mkdir -p /etc/skel/Desktop /etc/skel/Documents /etc/skel/Downloads /etc/skel/Pictures

fc-cache --system-only --force
for theme in /usr/share/icons/*/; do
    if [ -e "$theme/index.theme" ]; then gtk-update-icon-cache --quiet --force "$theme"; fi
done
update-mime-database /usr/share/mime
update-desktop-database /usr/share/applications
glib-compile-schemas /usr/share/glib-2.0/schemas

rm -rf /var/lib/apt/lists/* /var/cache/apt/* /var/cache/debconf/*-old /var/lib/dpkg/*-old /var/log/apt /var/log/*.log
