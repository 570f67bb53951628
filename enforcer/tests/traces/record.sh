#!/bin/sh
# Records the traces of this folder in a guest and prints them, each line led by its file's name:
#   cargo xtask vm --file enforcer/tests/traces/record.sh sh /bin/record.sh |
#     enforcer/tests/traces/keep.sh
# To be done again when the gate asks for other commands than it did.
set -eu
root=/sys/fs/cgroup

# cgroup NAME MIB: a cgroup with that limit and no swap.
cgroup() {
    mkdir "$root/$1"
    [ ! -e "$root/$1/memory.swap.max" ] || echo 0 >"$root/$1/memory.swap.max"
    echo $(($2 * 1048576)) >"$root/$1/memory.max"
}

# workload NAME WORDS...: starts it there and waits until it is ready.
workload() {
    name=$1
    shift
    enforcer-workload "$@" --cgroup "$root/$name" --for 600s >"/tmp/$name.out" &
    until grep -q ready "/tmp/$name.out"; do usleep 20000; done
}

# shrink NAME OPTIONS...: the exit code is in the trace's own verdict.
shrink() {
    name=$1
    shift
    enforcer shrink "$name" --observe=600ms --watch=600ms --budget=5s --state-dir=/tmp/state \
        --trace="/tmp/$name.trace" "$@" >/dev/null 2>&1 || true
}

cgroup committed 40
workload committed cache --file /data/trace-cache --size 30Mi --anon 3Mi
shrink committed --to=25Mi --window=1500ms

cgroup refused 40
workload refused tmpfs --dir /tmp --size 30Mi
shrink refused --to=25Mi --window=1500ms

cgroup rolled-back 64
workload rolled-back gap --base 12Mi --burst 30Mi --on high --delay 300ms
shrink rolled-back --to=32Mi --window=30s

cgroup bursts 64
workload bursts bursts --base 8Mi --burst 16Mi --period 500ms --duty 200ms
enforcer record bursts --duration=2s --out=/tmp/bursts.trace >/dev/null

for trace in /tmp/*.trace; do
    name=${trace##*/}
    while read -r line; do echo "TRACE $name $line"; done <"$trace"
done
