/*
 * Tide: an embeddable actor runtime for elastic parameter-server machine learning.
 *
 * All public headers. tide/actor.h alone is enough for actors and messages between nodes (libtide-actor); the others
 * need libtide: tables, checkpoints, actors in Lua. tide/message.h makes and reads message bodies with msgpack-c.
 * docs/guides/embedding.md is the guide.
 *
 * Conventions
 *   Errors     fallible functions return 0 or a negative TIDE_E... code; tide_error_message() has the details
 *              of the last failure on the calling fiber (or thread).
 *   Ownership  pointers are borrowed for the call unless the comment says *takes*, *gives* or *shares*.
 *   Threads    "inside" = called by an actor of the node (handler or fiber); "outside" = any other thread of the
 *              host; "any" = both. Times are nanoseconds of the node's monotonic clock unless the name says else.
 */
#ifndef TIDE_H
#define TIDE_H

#include "tide/actor.h"
#include "tide/checkpoint.h"
#include "tide/clock.h"
#include "tide/lua.h"
#include "tide/placement.h"
#include "tide/sampler.h"
#include "tide/stats.h"
#include "tide/table.h"

#endif
