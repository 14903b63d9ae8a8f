#!/usr/bin/env bash
# Obtains Prometheus and promtool for the tests, from Debian. Does nothing where they are.
set -euo pipefail
command -v prometheus >/dev/null && command -v promtool >/dev/null && exit 0
if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
  echo "Install Prometheus (apt-get install prometheus), then try again." >&2
  exit 1
fi
apt-get update -qq
# The tests start their own: no service is wanted.
RUNLEVEL=1 apt-get install -y -qq --no-install-recommends prometheus >/dev/null
