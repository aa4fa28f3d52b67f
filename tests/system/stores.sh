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

# A file that another program has put into a bucket, with its subfiles, is read by its URL as it is read where it lies.
by_url() {
    # shellcheck disable=SC1091  # made by s3.sh
    source "$work/s3/env"
    local of=tests/fixtures/foreign file command
    mkdir -p "$work/s3/objects/bucket/runs"
    for file in adios1-types adios1-subfiles; do
        cp -r "$of/$file.bp" "$of/$file.bp.dir" "$work/s3/objects/bucket/runs/"
        for command in "ls -la" "stat --json" "verify" "plot --title t --size 60x20"; do
            local what=()
            [[ $command != plot* ]] || mapfile -t what < <("$thalweg" ls "$of/$file.bp" -l | awk 'NR > 1 && $1 != "string" { print $2; exit }')
            # shellcheck disable=SC2086  # the command and its options
            "$thalweg" $command "$TEST_S3/runs/$file.bp" "${what[@]}" >"$work/there" 2>&1 || true
            # shellcheck disable=SC2086
            "$thalweg" $command "$of/$file.bp" "${what[@]}" >"$work/here" 2>&1 || true
            # Names differ, and a store allocates nothing on a device.
            sed -i -E "s#(s3://bucket/runs/|$of/|runs/)##g; /on_device/d" "$work/there" "$work/here"
            [[ -s $work/here ]] && diff "$work/here" "$work/there" || return 1
        done
    done
    "$thalweg" watch "$TEST_S3/runs/adios1-types.bp" --steps 1 --timeout 60s >"$work/there" || return 1
    [[ -s $work/there ]] || return 1
    if "$thalweg" ls "$TEST_S3/runs/none.bp" 2>"$work/there"; then return 1; fi
    grep -q 'none.bp' "$work/there"
}
if [[ -e $work/s3/env ]]; then
    if (by_url); then
        echo "ok s3: a file in a bucket is read by its URL, with subfiles"
    else
        echo "not ok s3: a file in a bucket is read by its URL, with subfiles" && failed=1
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

# Data servers of a partition over any store. A client writes and syncs, another one reads; the servers are started again, and a third
# one reads. The names are in a folder.
below_servers() { # below_servers NAME URL: fails with the first of its commands
    {
        printf 'name = %s\nstripe_size = 4k\nahpios_server = localhost:%s\n' "$1" "${2//SERVER/0}"
        printf 'ahpios_server = localhost:%s\nmetadata = localhost:%s\n' "${2//SERVER/1}" "$folder/names"
    } >"$folder/p.cfg"
    printf '[[mount]]\npath = "/mnt/below"\nlayout = "partition"\npartition = "%s"\n' "$folder/p.cfg" >"$THALWEG_MOUNTS"
    "$thalweg" partition create "$folder/p.cfg"
    "$thalweg" partition start "$folder/p.cfg"
    "$thalweg" run -- python3 -c 'import os
file = os.open("/mnt/below/synced", os.O_WRONLY | os.O_CREAT)
os.pwrite(file, b"synced " * 9000, 0)
os.fsync(file)
os.pwrite(file, b"closed ", 63_000)
os.close(file)'
    "$thalweg" run -- bash -c 'seq 1 30000 >/mnt/below/numbers'
    "$thalweg" run -- bash -c 'seq 1 30000 | cmp - /mnt/below/numbers'
    "$thalweg" partition stop "$folder/p.cfg"
    "$thalweg" partition start "$folder/p.cfg"
    "$thalweg" run -- bash -c 'seq 1 30000 | cmp - /mnt/below/numbers'
    "$thalweg" run -- python3 -c 'assert open("/mnt/below/synced", "rb").read() == b"synced " * 9000 + b"closed "'
    # Written again in the middle, and killed: what was closed is there.
    "$thalweg" run -- bash -c 'printf changed | dd of=/mnt/below/numbers bs=1 seek=100000 conv=notrunc status=none'
    for server in 0 1; do
        kill -9 "$("$thalweg" partition status "$folder/p.cfg" --json | python3 -c "import json, sys; print(json.load(sys.stdin)['servers'][$server]['pid'])")"
    done
    "$thalweg" partition start "$folder/p.cfg"
    "$thalweg" run -- python3 -c 'got = open("/mnt/below/numbers", "rb").read()
wanted = b"".join(b"%d\n" % n for n in range(1, 30001))
assert got == wanted[:100000] + b"changed" + wanted[100007:]'
    "$thalweg" run -- rm /mnt/below/synced /mnt/below/numbers
    "$thalweg" partition check "$folder/p.cfg"
}
below() { # below NAME URL [ENV]: TEST_S3 and TEST_HDFS in the URL are those of ENV
    local folder=$work/below-$1 status
    mkdir -p "$folder/run"
    chmod 0700 "$folder/run"
    # Not behind || or if: there a failure in the middle goes unseen.
    set +e
    (
        # shellcheck disable=SC1090  # made by s3.sh and hdfs.sh
        [[ -z ${3:-} ]] || source "$3"
        export THALWEG_MOUNTS=$folder/mounts.toml XDG_RUNTIME_DIR=$folder/run
        url=${2/TEST_S3/${TEST_S3:-}}
        # shellcheck disable=SC2064  # the folder of now
        trap "'$thalweg' partition stop '$folder/p.cfg' --patience 20" EXIT
        set -e
        below_servers "$1" "${url/TEST_HDFS/${TEST_HDFS:-}}"
    ) >"$folder/said" 2>&1
    status=$?
    set -e
    if [[ $status == 0 ]]; then
        echo "ok $1 below the servers of a partition"
    else
        echo "not ok $1 below the servers of a partition" && failed=1
        sed 's/^/  /' "$folder/said"
    fi
}
mkdir -p "$work/tiered/"{fast,slow}.{0,1}
below tiered "tiered:posix:$work/tiered/fast.SERVER=>posix:$work/tiered/slow.SERVER"
[[ ! -e $work/s3/env ]] || below s3 TEST_S3/below.SERVER "$work/s3/env"
[[ ! -e $work/hdfs/env ]] || below hdfs TEST_HDFS/below.SERVER "$work/hdfs/env"

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
