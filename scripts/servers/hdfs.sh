#!/usr/bin/env bash
# A real HDFS on loopback, for tests.
#
#   hdfs.sh fetch               downloads Hadoop's jars to build/servers (65 MB, once)
#   hdfs.sh start FOLDER [N]    starts a name node and N data nodes (2); writes their addresses to FOLDER/env
#   hdfs.sh stop FOLDER         ends the processes of FOLDER
#
# FOLDER/env sets TEST_HDFS (hdfs://host:port), TEST_WEBHDFS (http://host:port) and HADOOP_CONF_DIR.
# RECHECK: half the time in milliseconds after which the name node counts a silent data node as dead (2000).
# Needs Java, and Maven to fetch. For tests only.
set -euo pipefail
cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/../.."
version=3.4.3
jars=$PWD/build/servers/hdfs-$version
# shellcheck source-path=SCRIPTDIR/../..
source scripts/servers/ports.sh

fetch() {
    [[ -f $jars/complete ]] && return
    mkdir -p "$jars"
    # The client is only a "provided" dependency of the server.
    local artifact dependencies=
    for artifact in hadoop-common hadoop-hdfs hadoop-hdfs-client; do
        dependencies+="<dependency><groupId>org.apache.hadoop</groupId><artifactId>$artifact</artifactId><version>$version</version></dependency>"
    done
    cat >"$jars/pom.xml" <<END
<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>thalweg.tests</groupId><artifactId>hdfs</artifactId><version>1</version><packaging>pom</packaging>
  <dependencies>$dependencies</dependencies>
</project>
END
    mvn --batch-mode --quiet --file "$jars/pom.xml" -Dmaven.repo.local="$PWD/build/servers/maven" \
        dependency:copy-dependencies -DincludeScope=runtime -DoutputDirectory="$jars/lib" >&2
    touch "$jars/complete"
}

# properties: a Hadoop configuration of the "name value" lines on standard input.
properties() {
    local name value
    echo '<?xml version="1.0"?><configuration>'
    while read -r name value; do
        echo "<property><name>$name</name><value>$value</value></property>"
    done
    echo '</configuration>'
}

# run NAME CONFIGURATION CLASS: starts a server and records its PID.
run() {
    setsid java --add-opens java.base/java.lang=ALL-UNNAMED -Xms32m -Xmx256m -XX:+UseSerialGC \
        -Djava.net.preferIPv4Stack=true -cp "$2:$state/name:$jars/lib/*" "$3" \
        >"$state/logs/$1.log" 2>&1 </dev/null &
    echo $! >"$state/processes/$1"
}

# start FOLDER N: tries up to three times, with other ports if one was taken before its server listened.
start() {
    fetch
    local tries
    for tries in 1 2 3; do
        attempt "$1" "$2" && return
        stop "$1"
        grep -qs BindException "$1"/logs/*.log || break
        echo "hdfs.sh: a port was taken before its server listened; try $tries of 3" >&2
    done
    tail -n 20 "$1"/logs/*.log >&2
    echo "hdfs.sh: the servers are not ready" >&2
    return 1
}

# alive: all servers are running.
alive() {
    local file
    for file in "$state"/processes/*; do
        kill -0 "$(<"$file")" 2>/dev/null || return
    done
}

attempt() {
    state=$1
    local nodes=$2 node ports common
    rm -rf "$state"
    # Data nodes ask a dead data node ten times, a second apart, for the length of a block that is being written, unless
    # they have that block and are on another machine; here all are on one machine.
    # The web servers require folders for their pages, which may be empty.
    mkdir -p "$state"/{logs,processes,name/webapps/{hdfs,datanode,static}}
    state=$(cd "$state" && pwd)
    mapfile -t ports < <(free_ports $((2 + 3 * nodes)))
    local address=127.0.0.1:${ports[0]} web=127.0.0.1:${ports[1]}
    properties >"$state/name/core-site.xml" <<END
fs.defaultFS hdfs://$address
hadoop.tmp.dir $state/tmp
ipc.client.connect.max.retries 1
ipc.client.connect.retry.interval 100
END
    common="dfs.namenode.rpc-address $address
dfs.namenode.http-address $web
dfs.namenode.name.dir file://$state/names
dfs.replication $((nodes < 3 ? nodes : 3))
dfs.permissions.enabled false
dfs.namenode.safemode.extension 0
dfs.namenode.datanode.registration.ip-hostname-check false
dfs.namenode.fs-limits.min-block-size 4096
dfs.namenode.file.close.num-committed-allowed 1
dfs.client.block.write.replace-datanode-on-failure.policy NEVER
dfs.heartbeat.interval 1
dfs.namenode.heartbeat.recheck-interval ${RECHECK:-2000}"
    properties >"$state/name/hdfs-site.xml" <<<"$common"
    cat >"$state/name/log4j.properties" <<'END'
log4j.rootLogger=WARN,console
log4j.appender.console=org.apache.log4j.ConsoleAppender
log4j.appender.console.layout=org.apache.log4j.PatternLayout
log4j.appender.console.layout.ConversionPattern=%d{ISO8601} %p %c{1}: %m%n
END
    java -cp "$state/name:$jars/lib/*" org.apache.hadoop.hdfs.server.namenode.NameNode -format -nonInteractive -force \
        >"$state/logs/format.log" 2>&1
    run name-node "$state/name" org.apache.hadoop.hdfs.server.namenode.NameNode
    for ((node = 0; node < nodes; node++)); do
        mkdir -p "$state/data-$node"
        cp "$state/name/core-site.xml" "$state/name/log4j.properties" "$state/data-$node/"
        properties >"$state/data-$node/hdfs-site.xml" <<END
$common
dfs.datanode.data.dir file://$state/data-$node/blocks
dfs.datanode.hostname 127.0.0.1
dfs.datanode.address 127.0.0.1:${ports[2 + 3 * node]}
dfs.datanode.http.address 127.0.0.1:${ports[3 + 3 * node]}
dfs.datanode.ipc.address 127.0.0.1:${ports[4 + 3 * node]}
dfs.blockreport.initialDelay 0
END
        run "data-node-$node" "$state/data-$node" org.apache.hadoop.hdfs.server.datanode.DataNode
    done
    cat >"$state/env" <<END
export TEST_HDFS=hdfs://$address TEST_WEBHDFS=http://$web HADOOP_CONF_DIR=$state/name
END
    # Ready once the name node counts all data nodes and has left safe mode.
    local tries answer
    for ((tries = 0; tries < 600; tries++)); do
        answer=$(curl --silent --max-time 2 "http://$web/jmx?qry=Hadoop:service=NameNode,name=FSNamesystemState") || true
        if [[ $answer == *"\"NumLiveDataNodes\" : $nodes"* && $answer == *'"FSState" : "Operational"'* ]]; then
            return
        fi
        alive || return
        sleep 0.1
    done
    return 1
}

stop() {
    local file process tries
    for file in "$1"/processes/*; do
        [[ ! -f $file ]] || kill "$(<"$file")" 2>/dev/null || true
    done
    for file in "$1"/processes/*; do
        [[ -f $file ]] || continue
        process=$(<"$file")
        for ((tries = 0; tries < 50; tries++)); do
            kill -0 "$process" 2>/dev/null || break
            sleep 0.1
        done
        kill -9 "$process" 2>/dev/null || true
        rm -f "$file"
    done
}

case ${1:-} in
    fetch) fetch ;;
    start) start "${2:?start needs a folder}" "${3:-2}" ;;
    stop) stop "${2:?stop needs a folder}" ;;
    *) sed -n '2,/^set/{/^set/!s/^# \{0,1\}//p}' "${BASH_SOURCE[0]}" >&2 && exit 2 ;;
esac
