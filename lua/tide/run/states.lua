-- The life of a run as its controller has it: states, events, and what is done at an event (tide.machine). The table is
-- drawn in docs/internals/run-life.md.
--
-- What the states need to remember is `rest` of the controller: of a pause, and of the time without workers.
local machine = require "tide.machine"

-- Events that every state of a run has that has not ended.
local function living(row)
  row.fail, row.cancel = row.fail or "failed", row.cancel or "cancelled"
  return row
end

-- Of states in which workers run, and may end the run.
local function with_workers(row)
  row.stop, row.finish = row.stop or "stopping", row.finish or "finished"
  row.all_lost = row.all_lost or {"placed", "end_leavers"}
  return living(row)
end

-- Of states in which the run has no workers.
local function without_workers(row)
  row.stop, row.release = "stopping", {"suspended", "stay_suspended"}
  return living(row)
end

return machine.define {
  name = "the life of a run", first = "starting",
  order = {"starting", "running", "pausing", "paused", "leaving", "yielding", "suspending", "parking", "suspended",
           "asking", "waking", "parked", "placed", "stopping", "finished", "failed", "cancelled"},
  groups = {
    held_back = {"pausing", "paused"},     -- a worker that comes to a report or requests a chunk waits
    to_leave = {"leaving", "yielding"},    -- workers leave at the next report
    departing = {"suspending", "parking"}, -- workers were asked to leave, and some are still there
    away = {"suspended", "asking", "waking", "parked", "placed"}, -- no worker has begun
    by_policy = {"parked", "placed"},      -- of those: a scheduling policy gives it slots
    coming_back = {"waking", "placed"},    -- of those: workers start
    resting = {"pausing", "paused", "leaving", "yielding", "suspending", "parking"},
    over = {"finished", "failed", "cancelled"},
    ending = {"stopping", "finished", "failed", "cancelled"},
  },
  rows = {
    starting = living {begin = "running", stop = "stopping"},
    running = with_workers {
      pause = "pausing", release = {"leaving", "begin_to_leave"}, yield = {"yielding", "begin_to_leave"},
      lost = {"parking", "leave_together"},
    },
    pausing = with_workers {
      rest = "paused", resume = {"running", "go_on"}, release = {"leaving", "begin_to_leave"},
      yield = {"yielding", "begin_to_leave"}, lost = {"suspending", "leave_together"},
    },
    paused = with_workers {
      resume = {"running", "go_on"}, release = {"leaving", "begin_to_leave"},
      yield = {"yielding", "begin_to_leave"}, lost = {"suspending", "leave_together"},
    },
    leaving = with_workers {
      release = "leaving", resume = {"running", "go_on"}, tell = {"suspending", "let_all_leave"},
      lost = {"suspending", "leave_together"},
    },
    yielding = with_workers {
      yield = "yielding", release = "leaving", resume = {"running", "go_on"}, stay = {"running", "go_on"},
      tell = {"parking", "let_all_leave"}, lost = {"parking", "leave_together"},
    },
    suspending = with_workers {
      release = "suspending", left = {"suspended", "suspend"}, lost = {"suspending", "leave_together"},
    },
    parking = with_workers {
      release = "suspending", left = {"parked", "suspend"}, lost = {"parking", "leave_together"},
    },
    suspended = without_workers {ask = {"asking", "ask_for_slots"}, wake = {"waking", "wake_there"}},
    asking = without_workers {granted = "waking", ordered = "placed", refused = {"suspended", "not_awake"}},
    waking = without_workers {awake = {"running", "begin_again"}, alone = {"suspended", "not_awake"}},
    parked = without_workers {place = "placed"},
    placed = without_workers {
      place = "placed", take = "parked", awake = {"running", "begin_again"}, alone = {"parked", "still_parked"},
    },
    stopping = living {begin = "stopping", stop = "stopping", finish = "finished"},
    finished = living {stop = "finished"},
    failed = {stop = "failed"},
    cancelled = {stop = "cancelled"},
  },
}
