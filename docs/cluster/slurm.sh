#!/bin/bash
# kartrl on several machines of a Slurm cluster: sbatch docs/cluster/slurm.sh [options of kartrl train]
# To have it save and end before its time: scancel --batch --signal=TERM JOB
#SBATCH --job-name=kartrl
#SBATCH --nodes=4
#SBATCH --ntasks-per-node=1
#SBATCH --exclusive
#SBATCH --mem=0
#SBATCH --time=12:00:00
#SBATCH --signal=B:TERM@120
set -euo pipefail

# This runs on the first machine, which is the learner's.
address=$(hostname --ip-address | awk '{print $1}')
port=$((6380 + SLURM_JOB_ID % 1000)) # another job's may be there too
export RAY_USAGE_STATS_ENABLED=0 RAY_AUTH_MODE=token
RAY_AUTH_TOKEN=$(head -c 32 /dev/urandom | od -An -tx1 | tr -d ' \n')
export RAY_AUTH_TOKEN
trap 'kill $(jobs -p) 2>/dev/null; wait' EXIT # Ray, on all machines

# Two of its CPUs are for the learner, the others for a node.
ray start --head --node-ip-address="$address" --port=$port --include-dashboard=false \
    --num-cpus=$((SLURM_CPUS_ON_NODE - 2)) --block &
ray=$!
until ray health-check --address "$address:$port" 2>/dev/null; do
    kill -0 $ray
    sleep 2
done
others=$((SLURM_JOB_NUM_NODES - 1))
if ((others > 0)); then
    srun --nodes=$others --ntasks=$others --exclude="$SLURMD_NODENAME" --cpu-bind=none \
        bash -c 'exec ray start --address="$0" --num-cpus="$SLURM_CPUS_ON_NODE" --block' "$address:$port" &
fi

# Not by srun, which would kill it at SIGTERM. Slurm's comes two minutes before the end: the learner saves and ends.
kartrl train --plain --ray "$address:$port" "$@" &
learner=$!
trap 'kill -TERM $learner' TERM
wait $learner || wait $learner
