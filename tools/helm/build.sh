#!/usr/bin/env bash
# Obtains Helm, for the tests of deploy/chart: the one on the path, else the cache, else a build with Go.
#
#   build.sh          as above; a second run does nothing
#   build.sh --where  print the program if it is there; build nothing
#   build.sh --tidy   write go.mod and go.sum anew after a change in versions.env
#
# Exit status 3: there is neither Helm nor Go.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=versions.env
source "$here/versions.env"
cannot() { echo "no helm: $*" >&2; exit 3; }

cache=${MUSTER_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/muster}
helm=$cache/helm/$HELM_VERSION/helm
found=$(command -v helm || { [ ! -x "$helm" ] || echo "$helm"; })

find_go() {
  # The second is what tools/kube/build.sh installs where there is no Go.
  go=$(command -v go || { [ ! -x "$cache/go/bin/go" ] || echo "$cache/go/bin/go"; })
  [ -n "$go" ] || cannot "install Helm or Go, then try again"
}

case ${1:-} in
  --where)
    [ -n "$found" ] || cannot "run tools/helm/build.sh"
    echo "$found"; exit ;;
  --tidy)
    find_go
    cd "$here"
    printf 'module muster.invalid/tools/helm\n\ngo 1.25.0\n\nrequire helm.sh/helm/v3 %s\n' "$HELM_VERSION" >go.mod
    "$go" mod tidy; exit ;;
esac
[ -z "$found" ] || exit 0
find_go
mkdir -p "${helm%/*}"
(cd "$here" && CGO_ENABLED=0 GOFLAGS=-mod=readonly nice "$go" build -trimpath -buildvcs=false \
  -ldflags "-s -w -X helm.sh/helm/v3/internal/version.version=$HELM_VERSION" -o "$helm.partial" helm.sh/helm/v3/cmd/helm) ||
  cannot "building it failed (see above)"
mv "$helm.partial" "$helm"
echo "helm: $helm"
