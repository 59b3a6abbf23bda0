#!/usr/bin/env bash
# Serves a model of gguf.py with llama.cpp's llama-server on 127.0.0.1 only, until it is stopped.
#   serve_llamacpp.sh NAME PORT [llama-server flags...]      NAME such as embedder-small
# Env: LAB (~/lab): llama-server is $LAB/llamacpp/build/bin/llama-server, models are in $LAB/models.
# Stop it with: kill "$(cat "$LAB/run/NAME-PORT.pid")"
set -euo pipefail
LAB=${LAB:-$HOME/lab}
name=$1 port=$2
shift 2
case $name in
chat-*) flags=(--jinja --ctx-size 8192) ;;
embedder-*) flags=(--embeddings --pooling mean --ctx-size 2048 --ubatch-size 512) ;;
reranker-*) flags=(--reranking --ctx-size 2048 --ubatch-size 512) ;;
*)
    echo "serve_llamacpp.sh: unknown model $name: its name begins with chat, embedder or reranker" >&2
    exit 2
    ;;
esac
mkdir -p "$LAB/run"
echo $$ >"$LAB/run/$name-$port.pid"
# The engine and the client share this machine.
exec "$LAB/llamacpp/build/bin/llama-server" --model "$LAB/models/$name.gguf" --alias "$name" --host 127.0.0.1 --port "$port" \
    --offline --metrics --parallel 4 --threads 1 "${flags[@]}" "$@"
