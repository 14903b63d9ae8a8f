#!/usr/bin/env bash
# Obtains Chromium for the tests of the dashboard, from Debian. Does nothing where it is.
set -euo pipefail
command -v chromium >/dev/null && exit 0
if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
  echo "Install Chromium (apt-get install chromium), then try again." >&2
  exit 1
fi
apt-get update -qq
apt-get install -y -qq --no-install-recommends chromium fonts-dejavu-core >/dev/null
