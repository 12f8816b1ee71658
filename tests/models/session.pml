/*
 * A session: exactly once, in order, between two living incarnations, over connections that break.
 * Page: docs/internals/membership.md.
 *
 * One direction of one session: a sender with FRAMES frames and a ring of RING, a receiver. No
 * frame carries a number:
 * its place is implied by the connection's order. A connection breaks at any moment (BREAKS times):
 * what was written and not read is lost from any point on, what was read was read. The two ends
 * notice independently. hello carries the receiver's count R; the sender drops its ring below R and
 * continues from R + 1. Acknowledgements are cumulative and may be lost with their connection. The
 * receiver's process may be replaced by a new incarnation (RESTARTS times).
 *
 * Frames carry their number here as a ghost, so that the receiver can check what it counts by
 * position: next = last + 1, nothing twice, nothing missing. At the end every frame was received,
 * or session_lost was reported at the sender.
 *
 * Weakenings, each must be refuted:
 *   OFFBYONE  the sender continues from R (or R + 2)                    NORESUME  it continues from what it sent last
 *   EARLYTRIM the ring is trimmed when a frame is written             SAMELIFE  a new incarnation gets the old session
 *   STILLREAD the receiver answers hello while it still reads the old connection
 *   DROPFULL  a full ring drops its oldest frame instead of stopping admission
 *
 * States: base 3,577; FRAMES=8 RING=4 BREAKS=4 RESTARTS=2 13,300.
 */
#ifndef FRAMES
#define FRAMES 6
#endif
#ifndef RING
#define RING 3
#endif
#ifndef BREAKS
#define BREAKS 3
#endif
#ifndef RESTARTS
#define RESTARTS 1
#endif

chan wire = [FRAMES + 1] of { byte };  /* sender -> receiver, present connection */
chan old = [FRAMES + 1] of { byte };   /* what is left of the connection before (STILLREAD) */
chan acks = [2] of { byte };           /* cumulative */
chan hello = [1] of { byte, byte };    /* R, incarnation */

byte made;        /* frames admitted: 1..made */
byte trimmed;     /* the ring holds trimmed+1 .. made */
byte written;     /* on this connection, up to here */
byte received;    /* R, by position */
byte life = 1, known = 1;
byte breaks, restarts;
bit up_sender = 1, up_receiver = 1, lost;

inline get(c, f) {
    c?f;
    received++;
    assert(f == received); /* its place is its number: nothing twice, nothing missing, in order */
    f = 0
}

active proctype sender() {
    byte r, i;
end:
    do
    :: atomic { /* admission: credit only while the ring has room */
        made < FRAMES && !lost &&
#ifdef DROPFULL
        true -> if :: made - trimmed >= RING -> trimmed++ :: else fi; made++
#else
        made - trimmed < RING -> made++
#endif
       }
    :: atomic {
        up_sender && !lost && written < made -> 
        written++;
        wire!written;
#ifdef EARLYTRIM
        if :: trimmed < written -> trimmed = written :: else fi
#endif
       }
    :: atomic { up_sender && acks?[r] -> acks?r; if :: r > trimmed -> trimmed = r :: else fi; r = 0 }
    :: atomic { /* a new connection: the peer's hello */
        !up_sender && nempty(hello) ->
        hello?r,i;
        if
#ifndef SAMELIFE
        :: i != known -> lost = 1 /* another life of the peer: session_lost goes up */
        :: i == known && (r < trimmed || r > made) -> lost = 1 /* outside the ring */
        :: i == known && r >= trimmed && r <= made ->
#else
        :: true ->
#endif
#ifdef OFFBYONE
            if :: r > 0 -> written = r - 1 :: r < made -> written = r + 1 :: else -> written = r fi;
#else
#ifndef NORESUME
            written = r;
#endif
#endif
            if :: r > trimmed -> trimmed = r :: else fi;
            if :: written < trimmed -> written = trimmed :: else fi; /* the ring has nothing older */
            up_sender = 1
        fi;
        r = 0; i = 0
       }
    od
}

active proctype receiver() {
    byte f;
end:
    do
    :: atomic { up_receiver && nempty(wire) -> get(wire, f) }
#ifdef STILLREAD
    :: atomic { nempty(old) -> get(old, f) }
#endif
    :: atomic { up_receiver && nfull(acks) && received > trimmed -> acks!received }
    :: atomic { /* the old connection is done with; dials again. The sender may or may not have noticed */
        !up_receiver && !up_sender && empty(hello) && !lost ->
        hello!received,life;
        up_receiver = 1
       }
    :: atomic { restarts < RESTARTS && !lost -> /* killed and started again */
        restarts++; life++; received = 0;
        up_receiver = 0; up_sender = 0;
        do :: nempty(wire) -> wire?f :: empty(wire) -> break od;
        do :: nempty(old) -> old?f :: empty(old) -> break od;
        do :: nempty(acks) -> acks?f :: empty(acks) -> break od;
        do :: nempty(hello) -> hello?f,_ :: empty(hello) -> break od;
        f = 0
       }
    od
}

/* Breaks: the kernel of the receiver still delivers a prefix of what was written; the rest is gone. */
active proctype network() {
    byte f;
end:
    do
    :: atomic {
        breaks < BREAKS && up_sender && up_receiver && !lost ->
        breaks++;
        up_sender = 0;
#ifdef STILLREAD
        do :: nempty(wire) && nfull(old) -> wire?f; old!f :: true -> break od;
#else
        do /* a prefix is read before the receiver sees the end */
        :: nempty(wire) -> get(wire, f)
        :: true -> break
        od;
#endif
        up_receiver = 0;
        do :: nempty(wire) -> wire?f :: empty(wire) -> break od;
        do :: nempty(acks) -> acks?f :: empty(acks) -> break od;
        do :: nempty(hello) -> hello?f,_ :: empty(hello) -> break od;
        f = 0
       }
    od
}

active proctype end_of_all() {
    atomic {
        timeout ->
        assert(lost || (received == FRAMES && made == FRAMES));
        assert(!lost || restarts > 0) /* only a new incarnation loses a session */
    }
}
