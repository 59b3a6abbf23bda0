#!/usr/bin/env bash
# What each client can drive: closed loop of 32, streams of 34 events in one write, against the null server on this machine.
#
#   cargo build --release && benches/peers.sh
#   benches/peers.sh 'oha -c 32 -z ${SECONDS_EACH}s --no-tui -m POST -H "content-type: application/json" -d "$BODY" $URL'
#
# Each client is measured by the same hand: the server's own counter of answers, read twice a second (the median is its rate),
# and the CPU time of its processes. It runs twice, a quarter of SECONDS_EACH and all of it, and the difference between the runs is what a
# request costs: their start and their end, with goodput's report and charts, are in both. wrk does not read the stream; goodput
# does, and writes a row of requests.csv for each request, which `goodput calibrate` does not. A further client is a command as an argument; it
# finds URL, BASE, MODEL, BODY and SECONDS_EACH in its environment. vLLM's own runs where `vllm` is installed and TOKENIZER names one.
set -euo pipefail
cd "$(dirname "$0")/.."

GOODPUT=${GOODPUT:-target/release/goodput}
SECONDS_EACH=${SECONDS_EACH:-8}
[ "$SECONDS_EACH" -ge 4 ] || { echo "SECONDS_EACH must be at least 4" >&2; exit 2; }
WORK=$(mktemp -d)
TIMEFORMAT='%U %S'

"$GOODPUT" simulate --preset null --port 0 2>"$WORK/server" &
SERVER=$!
trap 'kill $SERVER 2>/dev/null; rm -rf "$WORK"' EXIT
until grep -q 'http://' "$WORK/server"; do sleep 0.05; done
BASE=$(grep -o 'http://[0-9.:]*' "$WORK/server")
URL=$BASE/v1/chat/completions MODEL=null
BODY='{"model":"null","stream":true,"max_tokens":32,"messages":[{"role":"user","content":"able about above accept across act add after"}]}'
export BASE URL MODEL BODY SECONDS_EACH

answers() { curl -s "$BASE/metrics" | awk '/^vllm:request_success_total/ { n += $2 } END { printf "%d", n }'; }

# One run of a client: its name and its command. Prints the number of answers and the CPU time in seconds.
once() {
    local name=$1 before after
    before=$(answers)
    (while :; do answers; echo " $(date +%s.%N)"; sleep 0.5; done) >"$WORK/samples" &
    local sampler=$!
    { time bash -c "$2" >"$WORK/out" 2>&1 || { echo "$name failed: $(tail -3 "$WORK/out")" >&2; }; } 2>"$WORK/time"
    kill $sampler; wait $sampler 2>/dev/null || true
    after=$(answers)
    echo $((after - before)) "$(tail -1 "$WORK/time" | awk '{ print $1 + $2 }')"
}

# One client: its name and its command.
pit() {
    local short long
    short=$(SECONDS_EACH=$((SECONDS_EACH / 4)) once "$1" "$2")
    long=$(once "$1" "$2")
    awk -v name="$1" -v short="$short" -v long="$long" '
        NR > 1 && $1 > n { rates[++k] = ($1 - n) / ($2 - t) }
        { n = $1; t = $2 }
        END {
            split(short, a, " "); split(long, b, " ")
            if (k == 0 || b[1] < 2 * a[1]) { print "| " name " | its second run has not twice the answers of its first | |"; exit }
            for (i = 2; i <= k; i++) for (j = i; j > 1 && rates[j] < rates[j-1]; j--) { x = rates[j]; rates[j] = rates[j-1]; rates[j-1] = x }
            printf "| %s | %d | %.4f |\n", name, rates[int((k + 1) / 2)], 1000 * (b[2] - a[2]) / (b[1] - a[1])
        }' "$WORK/samples"
}

cat >"$WORK/plan.toml" <<PLAN
name = "closed loop of 32"
[server]
url = "$BASE"
[slo]
ttft.p99 = "1s"
[workload.prompts.synthetic]
input-tokens = { fixed = 8 }
output-tokens = { fixed = 32 }
[step]
settle = "500ms"
max-duration = "10m"
[search]
concurrency = [32]
PLAN

echo "| client | req/s | CPU ms a request |"
echo "| --- | --- | --- |"
if command -v wrk >/dev/null; then
    pit "wrk -t1 (does not read the stream)" "wrk -t1 -c32 -d\${SECONDS_EACH}s -s benches/null.lua $URL"
fi
pit goodput "$GOODPUT sweep $WORK/plan.toml --set step.measure=\${SECONDS_EACH}s --out $WORK/run-\$SECONDS_EACH"
if command -v vllm >/dev/null && [ -n "${TOKENIZER:-}" ]; then
    pit "vllm bench serve" "vllm bench serve --backend openai-chat --base-url $BASE --endpoint /v1/chat/completions --model null \
        --tokenizer $TOKENIZER --dataset-name random --random-input-len 8 --random-output-len 32 --max-concurrency 32 \
        --num-prompts \$((SECONDS_EACH * 400))"
fi
for command in "$@"; do pit "${command%% *}" "$command"; done
