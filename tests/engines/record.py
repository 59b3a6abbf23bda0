#!/usr/bin/env python3
"""Record the answers of a real server to one small request of every API it may have.

  record.py --base http://127.0.0.1:8111 --model embedder-tiny --kind embedder --out DIR

Writes DIR/NAME.txt in the form of tests/fixtures/wire: the request, then one line per socket read,
"+<ms since just before the request was written> <bytes> <the bytes as Python writes them>". Vectors are shortened to a few numbers
(`--whole` retains them): only a body's content-length changes with them, and an answer with a shortened vector is one read.
"""
import argparse
import base64
import json
import pathlib
import random
import re
import socket
import struct
import time
import urllib.parse

WORDS = "the value of the object is a list of names and each name is bound to the class ".split()
# Numbers of a vector that are retained.
RETAINED = 3
# Words that exceed the context of every model of models.py.
TOO_MANY = 5000


def words(n):
    return " ".join(WORDS[i % len(WORDS)] for i in range(n))


def chat(n=40, **more):
    return {"messages": [{"role": "user", "content": words(n)}], "max_tokens": 12, "ignore_eos": True, **more}


def image(**more):
    # A grey square of 56x56 pixels in PNG, made with the standard library alone.
    import zlib

    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    rows = (b"\0" + b"\x80" * 56 * 3) * 56
    png = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", 56, 56, 8, 2, 0, 0, 0))
    png += chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")
    url = "data:image/png;base64," + base64.b64encode(png).decode()
    content = [{"type": "text", "text": words(8)}, {"type": "image_url", "image_url": {"url": url}}]
    return {"messages": [{"role": "user", "content": content}], "max_tokens": 12, "ignore_eos": True, **more}


STREAMED = {"stream": True, "stream_options": {"include_usage": True}}
TEXTS = {"input": [words(12), words(20)]}
DOCUMENTS = {"query": words(4), "documents": [words(12), words(20), words(7)]}
PAIRS = {"text_1": words(4), "text_2": [words(12), words(20), words(7)]}
# A form: `file` is a WAV file of noise of so many seconds, or the text of a file that is none.
FORM = {"language": "en", "max_completion_tokens": 12}
TEXT_ERRORS = {
    "error-too-long": {"input": [words(12), words(TOO_MANY)]},
    "error-empty": {"input": []},
    "error-bad-model": {**TEXTS, "model": "no-such-model"},
}

# The requests of each kind of model: name, path, body without the model.
REQUESTS = {
    "chat": [
        ("chat-stream", "/v1/chat/completions", chat(**STREAMED)),
        ("chat-nostream", "/v1/chat/completions", chat()),
        ("completions-stream", "/v1/completions", {"prompt": words(40), "max_tokens": 12, "ignore_eos": True, **STREAMED}),
        ("responses-stream", "/v1/responses", {"input": words(40), "max_output_tokens": 12, "stream": True}),
        ("messages-stream", "/v1/messages", {
            "messages": [{"role": "user", "content": words(40)}], "max_tokens": 12, "stream": True}),
    ],
    "vision": [("chat-image-stream", "/v1/chat/completions", image(**STREAMED))],
    "embedder": [
        ("embeddings-float", "/v1/embeddings", TEXTS),
        ("embeddings-base64", "/v1/embeddings", {**TEXTS, "encoding_format": "base64"}),
        ("embeddings-empty-text", "/v1/embeddings", {"input": [""]}),
        ("pooling", "/pooling", TEXTS),
        ("pooling-error-task", "/pooling", {**TEXTS, "task": "token_embed"}),
        *[(f"embeddings-{name}", "/v1/embeddings", body) for name, body in TEXT_ERRORS.items()],
        *[(f"pooling-{name}", "/pooling", body) for name, body in TEXT_ERRORS.items()],
        ("score-bi-encoder", "/score", PAIRS),
        ("classify-error-not-served", "/classify", TEXTS),
    ],
    "reranker": [
        ("rerank", "/v1/rerank", DOCUMENTS),
        ("rerank-top_n", "/v1/rerank", {**DOCUMENTS, "top_n": 2}),
        ("rerank-error-too-long", "/v1/rerank", {**DOCUMENTS, "documents": [words(TOO_MANY)]}),
        ("rerank-error-empty", "/v1/rerank", {**DOCUMENTS, "documents": []}),
        ("rerank-error-bad-model", "/v1/rerank", {**DOCUMENTS, "model": "no-such-model"}),
        ("score", "/score", PAIRS),
        ("score-error-too-long", "/score", {**PAIRS, "text_2": [words(TOO_MANY)]}),
        ("score-error-empty", "/score", {**PAIRS, "text_2": []}),
        ("score-error-bad-model", "/score", {**PAIRS, "model": "no-such-model"}),
    ],
    "whisper": [
        ("transcriptions", "/v1/audio/transcriptions", {**FORM, "file": 3.25}),
        ("transcriptions-verbose", "/v1/audio/transcriptions", {**FORM, "file": 3.25, "response_format": "verbose_json"}),
        ("transcriptions-two-windows", "/v1/audio/transcriptions", {**FORM, "file": 40}),
        ("transcriptions-error-no-audio", "/v1/audio/transcriptions", {**FORM, "file": "no audio"}),
        ("transcriptions-error-no-file", "/v1/audio/transcriptions", {**FORM, "file": None}),
        ("transcriptions-error-bad-model", "/v1/audio/transcriptions", {**FORM, "file": 3.25, "model": "no-such-model"}),
    ],
    "classifier": [
        ("classify", "/classify", TEXTS),
        *[(f"classify-{name}", "/classify", body) for name, body in TEXT_ERRORS.items()],
    ],
}


def wav(seconds):
    """Returns a WAV file of noise: 16 kHz, one channel of 16 bits."""
    noise = random.Random(1).randbytes(int(seconds * 16000) * 2)
    head = struct.pack("<4sI8sIHHIIHH4sI", b"RIFF", 36 + len(noise), b"WAVEfmt ", 16, 1, 1, 16000, 32000, 2, 16, b"data", len(noise))
    return head + noise


def form(body):
    """Returns a body as a form. Its file comes last."""
    fields = {name: str(value).encode() for name, value in body.items() if name != "file"}
    parts = [f'--BOUNDARY\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n'.encode() + value for name, value in fields.items()]
    if (file := body["file"]) is not None:
        head = b'--BOUNDARY\r\nContent-Disposition: form-data; name="file"; filename="audio.wav"\r\nContent-Type: audio/wav\r\n\r\n'
        parts.append(head + (file.encode() if isinstance(file, str) else wav(file)))
    return b"\r\n".join([*parts, b"--BOUNDARY--\r\n"])


def ask(base, path, body):
    """Sends a request on a connection of its own. Returns the request and the reads with their times in ms. Of a form, the request has the
    fields as JSON."""
    url = urllib.parse.urlsplit(base)
    is_form = body is not None and "file" in body
    data = form(body) if is_form else json.dumps(body).encode() if body is not None else b""
    head = [f"{'GET' if body is None else 'POST'} {path} HTTP/1.1", f"Host: {url.hostname}:{url.port}", "Connection: close"]
    if body is not None:
        kind = "multipart/form-data; boundary=BOUNDARY" if is_form else "application/json"
        head += [f"Content-Type: {kind}", f"Content-Length: {len(data)}"]
    head = ("\r\n".join(head) + "\r\n\r\n").encode()
    request, shown = head + data, head + (json.dumps(body).encode() if is_form else data)
    reads = []
    with socket.create_connection((url.hostname, url.port), timeout=120) as conn:
        start = time.perf_counter()
        conn.sendall(request)
        while data := conn.recv(1 << 20):
            reads.append(((time.perf_counter() - start) * 1000, data))
        end = (time.perf_counter() - start) * 1000
    return shown, reads, end


def shortened(reads):
    """Returns the reads with the vectors cut to a few numbers, if there are any."""
    whole = b"".join(data for _, data in reads)
    head, _, body = whole.partition(b"\r\n\r\n")
    number = rb"-?[0-9.]+(?:[eE][-+]?[0-9]+)?"
    short = re.sub(rb"\[(" + rb",".join([number] * RETAINED) + rb")(?:," + number + rb"){5,}\]", rb"[\1]", body)
    short = re.sub(rb'("embedding":"[A-Za-z0-9+/]{16})[A-Za-z0-9+/]{20,}=*"', rb'\1"', short)
    if short == body:
        return reads
    head = re.sub(rb"(?i)(content-length: )[0-9]+", lambda m: m[1] + str(len(short)).encode(), head)
    return [(reads[-1][0], head + b"\r\n\r\n" + short)]


def text(request, reads, end):
    shown = request if len(request) < 3000 else request[:1000] + b"...[cut]..." + request[-100:]
    lines = ["> " + shown.decode().replace("\r\n", "\n> "), ""]
    lines += [f"+{at:9.3f} {len(data):6d} {data!r}" for at, data in reads]
    return "\n".join([*lines, f"+{end:9.3f} EOF", ""])


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--base", required=True, help="address of the server")
    ap.add_argument("--model", required=True, help="the name under which it serves the model")
    ap.add_argument("--kind", required=True, choices=REQUESTS)
    ap.add_argument("--out", required=True, type=pathlib.Path)
    ap.add_argument("--whole", action="store_true", help="write vectors in full")
    args = ap.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    for name, path, body in [(f"models-{args.kind}", "/v1/models", None), *REQUESTS[args.kind]]:
        if body is not None:
            body = {"model": args.model, **body}
            # The first request of a kind compiles kernels.
            ask(args.base, path, body)
        request, reads, end = ask(args.base, path, body)
        reads = reads if args.whole else shortened(reads)
        (args.out / f"{name}.txt").write_text(text(request, reads, end))
        print(f"{name:30s} {reads[0][1][9:12].decode()} {end:8.1f} ms {sum(len(d) for _, d in reads):6d} bytes")


if __name__ == "__main__":
    main()
