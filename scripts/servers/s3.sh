#!/usr/bin/env bash
# A real S3 server on loopback, for tests: versitygw over a folder.
#
#   s3.sh fetch           builds it in build/servers (a minute and a half, once)
#   s3.sh start FOLDER [tls]
#                         starts a server with an empty bucket "bucket"; writes its address to FOLDER/env; tls: with a certificate
#                         that FOLDER/certificate.pem vouches for
#   s3.sh stop FOLDER     ends the process of FOLDER
#
# FOLDER/env sets TEST_S3 (s3://bucket) and AWS_ENDPOINT_URL, AWS_REGION, AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY.
# Needs Go to build. For tests only.
set -euo pipefail
cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/../.."
version=v1.8.0
server=$PWD/build/servers/versitygw-$version/versitygw
# shellcheck source-path=SCRIPTDIR/../..
source scripts/servers/ports.sh

fetch() {
    [[ -x $server ]] && return
    # Go's caches stay in their usual places.
    GOBIN=$(dirname "$server") GOFLAGS=-buildvcs=false \
        go install "github.com/versity/versitygw/cmd/versitygw@$version" >&2
}

start() {
    fetch
    local state=$1 port tries
    rm -rf "$state"
    mkdir -p "$state/objects/bucket"
    state=$(cd "$state" && pwd)
    port=$(free_ports 1)
    # Unique to this run, so that tests recognize them in messages.
    local key=thalweg-test-key secret scheme=http tls=()
    secret=secret-$RANDOM$RANDOM$RANDOM
    if [[ ${2:-} == tls ]]; then
        scheme=https
        openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=127.0.0.1 -addext subjectAltName=IP:127.0.0.1 \
            -addext basicConstraints=CA:FALSE -keyout "$state/key.pem" -out "$state/certificate.pem" 2>"$state/log"
        tls=(--cert "$state/certificate.pem" --key "$state/key.pem")
    fi
    ROOT_ACCESS_KEY=$key ROOT_SECRET_KEY=$secret setsid "$server" --port "127.0.0.1:$port" --quiet "${tls[@]}" \
        posix "$state/objects" >"$state/log" 2>&1 </dev/null &
    echo $! >"$state/process"
    cat >"$state/env" <<END
export TEST_S3=s3://bucket AWS_ENDPOINT_URL=$scheme://127.0.0.1:$port AWS_REGION=us-east-1
export AWS_ACCESS_KEY_ID=$key AWS_SECRET_ACCESS_KEY=$secret
END
    for ((tries = 0; tries < 200; tries++)); do
        curl --silent --insecure --output /dev/null --max-time 1 "$scheme://127.0.0.1:$port/" && return
        kill -0 "$(<"$state/process")" 2>/dev/null || break
        sleep 0.05
    done
    cat "$state/log" >&2
    stop "$state"
    echo "s3.sh: the server is not ready" >&2
    return 1
}

stop() {
    [[ -f $1/process ]] || return 0
    local process tries
    process=$(<"$1/process")
    kill "$process" 2>/dev/null || true
    for ((tries = 0; tries < 50; tries++)); do
        kill -0 "$process" 2>/dev/null || break
        sleep 0.1
    done
    kill -9 "$process" 2>/dev/null || true
    rm -f "$1/process"
}

case ${1:-} in
    fetch) fetch ;;
    start) start "${2:?start needs a folder}" "${3:-}" ;;
    stop) stop "${2:?stop needs a folder}" ;;
    *) sed -n '2,/^set/{/^set/!s/^# \{0,1\}//p}' "${BASH_SOURCE[0]}" >&2 && exit 2 ;;
esac
