#!/usr/bin/env bash
# Stores on real servers: the promises of `conformance::store`, and each trap that was met in the libraries below, on an
# HDFS of two data nodes and on an S3 server, both on loopback. Then layouts on both, and BP files in them.
#
#   LONG=1 does the same on an HDFS of three data nodes, and all of the promises of layouts
set -euo pipefail
cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/../.."
# shellcheck source-path=SCRIPTDIR/../..
source scripts/machine.sh
# shellcheck disable=SC2154  # of machine.sh
[[ ${CI:-} != true ]] || wants "${server_packages[@]}"
work=$PWD/build/stores
rm -rf "$work"
mkdir -p "$work"
# What Hadoop or AWS are told elsewhere on this machine is not for here.
unset HADOOP_CONF_DIR HADOOP_HOME AWS_PROFILE AWS_SESSION_TOKEN
# shellcheck disable=SC2317  # the trap calls it
cleanup() {
    scripts/servers/hdfs.sh stop "$work/hdfs"
    scripts/servers/s3.sh stop "$work/s3"
    scripts/servers/s3.sh stop "$work/s3-tls"
    rm -rf "$work"/hdfs/data-*/blocks
}
trap cleanup EXIT

source scripts/build.sh
build_all
stores=$built/examples/stores how=$([[ ${LONG:-0} != 1 ]] || echo long)
failed=0

# missing COMMAND...: the first of them that this machine lacks.
missing() {
    local command
    for command in "$@"; do
        command -v "$command" >/dev/null || { echo "$command" && return; }
    done
}

if [[ ! -x $(echo build/servers/versitygw-*/versitygw) && -n $(missing go) ]]; then
    echo "skipped: stores on S3: there is no go to build the server with"
elif ! scripts/servers/s3.sh start "$work/s3"; then
    echo "not ok s3: the server starts" && failed=1
else
    # shellcheck disable=SC1091  # made by s3.sh
    (source "$work/s3/env" && "$stores" "$TEST_S3/folder" part=5242880 && "$built/examples/far" "$TEST_S3/far" "$how") || failed=1
fi

# A mount is made without a request: a bucket that does not exist is told by the check of the table, and by the first call.
no_bucket() {
    # shellcheck disable=SC1091  # made by s3.sh
    source "$work/s3/env"
    printf '[[mount]]\npath = "/none"\nlayout = "container"\nstore = "s3://no-such-bucket/x"\n' >"$work/none.toml"
    export THALWEG_MOUNTS=$work/none.toml
    if "$thalweg" config check >"$work/said"; then return 1; fi
    grep -q '^fails  /none .*NoSuchBucket' "$work/said" || return 1
    if "$thalweg" ls /none/a.bp 2>"$work/said"; then return 1; fi
    grep -q 'cannot open in s3://no-such-bucket/x/a.bp.*NoSuchBucket' "$work/said"
}
if [[ -e $work/s3/env ]]; then
    if (no_bucket); then
        echo "ok s3: a bucket that does not exist is told by the check of mounts and by the first call"
    else
        echo "not ok s3: a bucket that does not exist is told by the check of mounts and by the first call" && failed=1
    fi
fi

# Through TLS: all promises again, and a server whose certificate nobody vouches for is refused with that reason.
through_tls() {
    # shellcheck disable=SC1091  # made by s3.sh
    source "$work/s3-tls/env"
    SSL_CERT_FILE=$work/s3-tls/certificate.pem "$stores" "$TEST_S3/folder" part=5242880 || return 1
    printf '[[mount]]\npath = "/tls"\nlayout = "container"\nstore = "%s"\n' "$TEST_S3" >"$work/tls.toml"
    if SSL_CERT_FILE=/etc/ssl/certs/ca-certificates.crt THALWEG_MOUNTS=$work/tls.toml "$thalweg" ls /tls/file >"$work/said" 2>&1; then
        return 1
    fi
    sed 's/^/  /' "$work/said"
    grep -q 'invalid peer certificate' "$work/said"
}
if [[ ! -x $(echo build/servers/versitygw-*/versitygw) || -n $(missing openssl) ]]; then
    echo "skipped: S3 through TLS: there is no server or no openssl"
elif scripts/servers/s3.sh start "$work/s3-tls" tls && (through_tls); then
    echo "ok s3: through TLS, and a server that no certificate vouches for is refused"
else
    echo "not ok s3: through TLS, and a server that no certificate vouches for is refused" && failed=1
fi

if [[ -n $(missing java curl) ]]; then
    echo "skipped: stores on HDFS: there is no $(missing java curl)"
elif [[ ! -f $(echo build/servers/hdfs-*/complete) && -n $(missing mvn) ]]; then
    echo "skipped: stores on HDFS: there is no mvn to fetch the servers with"
elif ! scripts/servers/hdfs.sh start "$work/hdfs" $((${LONG:-0} == 1 ? 3 : 2)); then
    echo "not ok hdfs: the servers start" && failed=1
else
    # shellcheck disable=SC1091  # made by hdfs.sh
    (source "$work/hdfs/env" && "$stores" "$TEST_HDFS/folder" && "$built/examples/far" "$TEST_HDFS/far" "$how") || failed=1
fi

# One of three data nodes is killed, and the name node goes on naming it: it counts a node as dead after ten minutes here, as
# clusters do.
if [[ -n $(missing java curl) || (! -f $(echo build/servers/hdfs-*/complete) && -n $(missing mvn)) ]]; then
    echo "skipped: a data node that dies: no server, as above"
else
    scripts/servers/hdfs.sh stop "$work/hdfs"
    if ! RECHECK=300000 scripts/servers/hdfs.sh start "$work/hdfs" 3; then
        echo "not ok hdfs: three data nodes start" && failed=1
    else
        # shellcheck disable=SC1091  # made by hdfs.sh
        source "$work/hdfs/env"
        node=$work/hdfs/processes/data-node-1
        "$built/examples/far" "$TEST_HDFS/far?replication=2&block=1048576" dies "$(<"$node")" ||
            { echo "not ok hdfs: an output goes on when a data node dies" && failed=1; }
    fi
    scripts/servers/hdfs.sh stop "$work/hdfs"
    if ! RECHECK=300000 scripts/servers/hdfs.sh start "$work/hdfs" 3; then
        echo "not ok hdfs: three data nodes start once more" && failed=1
    else
        # shellcheck disable=SC1091  # made by hdfs.sh
        source "$work/hdfs/env"
        # shellcheck disable=SC2086  # no word where it is empty
        "$stores" dead "$TEST_HDFS/dead" "$(<"$node")" $how ||
            { echo "not ok hdfs: a dead data node is passed over" && failed=1; }
    fi
fi
exit "$failed"
