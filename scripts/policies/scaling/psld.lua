-- PSLD's other lever: how many servers. Reconstructed from the paper's abstract; the placement half is placement/psld.
--
--  * out: all servers together are busy for more than `full` of the time, so they are what iterations wait for, and one
--    more would take more than `gain` off that;
--  * in: without one server the others would be busy for less than `spare` of the time each. The newest one leaves; its
--    slots go to the others, and placement/psld evens them out.
-- Only a state that lasts `patience` decisions counts, and after a change nothing is decided for `rest` of them.
local policy = {
  api = 1, kind = "scaling", name = "psld", version = 1,
  params = { full = 0.7, gain = 0.10, spare = 0.5, patience = 4, rest = 8, least = 1, most = 8 },
  needs = { "server.load" }, every = 0.5, on = { "leave" }, min_gap = 0.2,
}

function policy.init(params) return { params = params, out = 0, inside = 0, rests = 0 } end

function policy.decide(st, view)
  local p, n, busy = st.params, 0, 0
  for _, s in ipairs(view.servers) do
    if s.state == "up" then
      if not s.cpu_s then return {} end -- it has only just come
      n, busy = n + 1, busy + s.cpu_s
    end
  end
  if n == 0 then return {} end
  st.rests = math.max(st.rests - 1, 0)
  local most = math.min(p.most, view.servers_max or p.most)
  st.out = n < most and busy / n > p.full and 1 / (n + 1) > p.gain and st.out + 1 or 0
  st.inside = n > p.least and busy / (n - 1) < p.spare and st.inside + 1 or 0
  if st.rests > 0 or math.max(st.out, st.inside) < p.patience then return {} end
  local count = st.out >= p.patience and n + 1 or n - 1
  st.out, st.inside, st.rests = 0, 0, p.rest
  return { servers = count, why = ("%d servers are busy for %.0f %% of the time"):format(n, 100 * busy / n) }
end

return policy
