#!/usr/bin/env bash
# Serves a model of models.py with vLLM on the CPU, on 127.0.0.1 only, until it is stopped.
#   serve.sh NAME PORT [vllm serve flags...]      NAME such as embedder-tiny
# Env: LAB (~/lab): vLLM is $LAB/vllm/bin/vllm, models are in $LAB/models.
# Stop it with: kill "$(cat "$LAB/run/NAME-PORT.pid")"
set -euo pipefail
LAB=${LAB:-$HOME/lab}
name=$1 port=$2
shift 2
case $name in
chat-* | vision-*) flags=(--max-model-len 2048) ;;
whisper-*) flags=() ;;
embedder-*) flags=(--runner pooling --convert embed) ;;
reranker-* | classifier-*) flags=(--runner pooling --convert classify) ;;
*)
    echo "serve.sh: unknown model $name: its name begins with chat, vision, whisper, embedder, reranker or classifier" >&2
    exit 2
    ;;
esac
mkdir -p "$LAB/run"
export VLLM_NO_USAGE_STATS=1 DO_NOT_TRACK=1 HF_HUB_OFFLINE=1 TRANSFORMERS_OFFLINE=1
export VLLM_CPU_KVCACHE_SPACE=${VLLM_CPU_KVCACHE_SPACE:-1}
# The engine, its API server and the client share this machine.
export VLLM_CPU_OMP_THREADS_BIND=${VLLM_CPU_OMP_THREADS_BIND:-nobind} OMP_NUM_THREADS=${OMP_NUM_THREADS:-1}
echo $$ >"$LAB/run/$name-$port.pid"
exec "$LAB/vllm/bin/vllm" serve "$LAB/models/$name" --served-model-name "$name" --dtype bfloat16 \
    --host 127.0.0.1 --port "$port" --max-num-seqs 32 --enforce-eager "${flags[@]}" "$@"
