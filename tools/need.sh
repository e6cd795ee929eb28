#!/bin/sh
# Installs a Debian package where this user may, or asks for it by name.
set -eu
package=$1
if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    echo "Installing the system package $package."
    apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq "$package" >/dev/null
else
    echo "The system package $package is missing. Install it (Debian: apt-get install $package) and try again."
    exit 1
fi
