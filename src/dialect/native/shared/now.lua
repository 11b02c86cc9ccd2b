-- The server's clock, read once per run: us in microseconds, now in milliseconds. Every deadline and
-- every token of the run comes from it.
local clock = redis.call('TIME')
local us = clock[1] * 1000000 + clock[2]
local now = (us - us % 1000) / 1000
