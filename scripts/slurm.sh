#!/usr/bin/env bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# A Slurm of one node, for one command: starts slurmctld and slurmd in a folder of their own, on loopback ports of their own, runs the command with SLURM_CONF set, and ends both.
#   scripts/slurm.sh COMMAND ARG..      as root; Debian: slurmctld slurmd slurm-client; status 77 if it cannot be had
set -u
no() { echo "no Slurm here: $*" >&2; exit 77; }
for needed in srun slurmctld slurmd; do
    command -v $needed > /dev/null || no "$needed is not installed"
done
[ "$(id -u)" = 0 ] || no "the daemons need root"
home=$(mktemp -d) || exit 1
host=$(hostname -s)
port=$((20000 + $$ % 20000))
mkdir "$home/state" "$home/spool"
cat > "$home/slurm.conf" <<END
ClusterName=bellwire
SlurmctldHost=$host(127.0.0.1)
SlurmctldPort=$port
SlurmdPort=$((port + 1))
SlurmUser=root
SlurmdUser=root
AuthType=auth/none
CredType=cred/none
MpiDefault=none
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
AccountingStorageType=accounting_storage/none
JobAcctGatherType=jobacct_gather/none
StateSaveLocation=$home/state
SlurmdSpoolDir=$home/spool
SlurmctldPidFile=$home/ctld.pid
SlurmdPidFile=$home/slurmd.pid
SlurmctldLogFile=$home/ctld.log
SlurmdLogFile=$home/slurmd.log
ReturnToService=2
SlurmdParameters=config_overrides
NodeName=$host NodeAddr=127.0.0.1 CPUs=16 State=UNKNOWN
PartitionName=all Nodes=$host Default=YES MaxTime=INFINITE State=UP OverSubscribe=FORCE:4
END
export SLURM_CONF=$home/slurm.conf
slurmctld -D -i > "$home/ctld.out" 2>&1 &
ctld=$!
slurmd -D > "$home/slurmd.out" 2>&1 &
node=$!
finish() {
    kill $node $ctld 2> /dev/null
    wait $node $ctld 2> /dev/null
    [ -n "${KEEP:-}" ] || rm -rf "$home"
}
trap finish EXIT
for _ in $(seq 100); do
    srun -n 1 -t 1 true > /dev/null 2>&1 && ready=yes && break
    kill -0 $ctld 2> /dev/null && kill -0 $node 2> /dev/null || break
    sleep 0.1
done
if [ -z "${ready:-}" ]; then
    tail -n 5 "$home"/*.log "$home"/*.out >&2
    no "it did not start"
fi
"$@"
