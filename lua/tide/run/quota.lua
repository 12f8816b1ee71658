-- How often a client may ask a published group (tide.run.group): `quota = {rate =, outstanding =}` of tide.actor. A
-- client is one connection to the cluster: a process that uses Tide's client, or a dashboard with all calls that have
-- its token. The rate is a bucket that holds one second of it.
local core = require "tide.core"
local errors = require "tide.errors"

local quota = {}
quota.__index = quota

local CLIENTS_MAX <const> = 1024 -- buckets that are kept; full ones are forgotten first
local BUSY_RETRY_S <const> = 0.05

---@param of? {rate?: number, outstanding?: integer} calls a second, and at one time; of each client
---@return table
function quota.new(of)
  of = of or {}
  return setmetatable({rate = of.rate, outstanding = of.outstanding, clients = {}, count = 0}, quota)
end

local function refill(self, bucket, now)
  local burst <const> = math.max(1, self.rate)
  bucket.tokens = math.min(burst, bucket.tokens + (now - bucket.at) * self.rate)
  bucket.at = now
  return bucket.tokens >= burst and bucket.pending == 0
end

local function forget_idle(self, now)
  for client, bucket in pairs(self.clients) do
    if self.rate and refill(self, bucket, now) or not self.rate and bucket.pending == 0 then
      self.clients[client], self.count = nil, self.count - 1
    end
  end
end

local function bucket_of(self, client, now)
  local bucket = self.clients[client]
  if bucket then return bucket end
  if self.count >= CLIENTS_MAX then forget_idle(self, now) end
  bucket = {tokens = math.max(1, self.rate or 1), at = now, pending = 0}
  self.clients[client], self.count = bucket, self.count + 1
  return bucket
end

---Counts one more call of a client.
---@param from string its address
---@return table|nil bucket for `done`; nil: unlimited
---@return tide.error? err it has as many as it may
function quota:take(from)
  if not (self.rate or self.outstanding) then return nil end
  local now <const> = core.now()
  local bucket <const> = bucket_of(self, from:match "^%d+", now)
  if self.outstanding and bucket.pending >= self.outstanding then
    return nil, errors.new("T0601", {message = ("this client has %d calls of the group pending, its quota"):format(
      bucket.pending), retry_after_s = BUSY_RETRY_S})
  end
  if self.rate then
    refill(self, bucket, now)
    if bucket.tokens < 1 then
      return nil, errors.new("T0601", {message = ("this client asks the group more than %g times a second, its quota")
        :format(self.rate), retry_after_s = (1 - bucket.tokens) / self.rate})
    end
    bucket.tokens = bucket.tokens - 1
  end
  bucket.pending = bucket.pending + 1
  return bucket
end

---A call has been answered.
---@param bucket? table
function quota.done(bucket)
  if bucket then bucket.pending = bucket.pending - 1 end
end

return quota
