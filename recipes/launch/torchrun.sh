#!/usr/bin/env bash
# Several machines: run it on each of them. The folder of the recipe lies where all of them see it.
#   HEAD=node1:29500 NODES=2 GPUS=4 recipes/launch/torchrun.sh recipes/selection_arm_lora.yaml
# One machine: torchrun --standalone --nproc-per-node 4 "$(command -v arm)" train recipes/selection_arm_lora.yaml
set -euo pipefail
recipe=$1

export OMP_NUM_THREADS=1
exec torchrun --nnodes "${NODES:-1}" --nproc-per-node "${GPUS:-1}" \
    --rdzv-backend c10d --rdzv-endpoint "${HEAD:-localhost:29500}" --rdzv-id "arm-$(basename "$recipe" .yaml)" \
    "$(command -v arm)" train "$recipe"
