-- What wrk posts to the null server, to see how many requests a second it answers: chats whose streams have 34 events in one write
-- (the role, 31 tokens, the usage, [DONE]).
--
--   goodput simulate --preset null --port 8000 &
--   wrk -t1 -c32 -d10s -s benches/null.lua http://127.0.0.1:8000/v1/chat/completions
--
-- TOKENS=n and WORDS=n in the environment change the length of the answer and of the prompt.
local tokens = os.getenv("TOKENS") or "31"
local words = string.rep("word ", tonumber(os.getenv("WORDS") or "50"))

wrk.method = "POST"
wrk.headers["content-type"] = "application/json"
wrk.body = '{"messages":[{"role":"user","content":"' .. words .. '"}],"stream":true,'
    .. '"stream_options":{"include_usage":true},"max_tokens":' .. tokens .. "}"
