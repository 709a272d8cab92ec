#!lua flags=no-writes,allow-stale
-- The queries that redis_exporter makes in addition to its own: pass this file as --script.
--
-- The first line declares that the script writes nothing. Without it the script would wait while writes are paused, by
-- CLIENT PAUSE or a failover, and would be refused on a replica that has lost its master.

-- How many locks are shown with their names: those that were waited for the most, as far as LOCK.TOP knows them.
local TOP = 0

local answer = {}

local function add(name, value)
    answer[#answer + 1] = name
    answer[#answer + 1] = value
end

for name, value in string.gmatch(redis.call('INFO', 'lock'), '(lock_[%w_]+):(%d+)') do
    add(name, value)
end
-- Waiting clients count against this limit. Not every version of the exporter shows it.
add('maxclients', string.match(redis.call('INFO', 'clients'), 'maxclients:(%d+)'))

if TOP > 0 then
    local sums = {}
    for _, reply in ipairs(redis.call('LOCK.TOP', 'COUNT', TOP)) do
        local lock = {}
        for i = 1, #reply, 2 do lock[reply[i]] = reply[i + 1] end
        -- A label must be UTF-8; a name may be any bytes, and long. Names that look the same afterwards are added up.
        local shown = string.gsub(string.sub(lock.lock, 1, 100), '[^ -~]', '?')
        for _, field in ipairs({'waiters', 'usec'}) do
            local key = string.format('lock_top_%s:%d:%s', field, lock.db, shown)
            sums[key] = (sums[key] or 0) + lock[field]
        end
    end
    -- As a string: a number would lose its last digits.
    for key, sum in pairs(sums) do add(key, string.format('%.0f', sum)) end
end

return answer
