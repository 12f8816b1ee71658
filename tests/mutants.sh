#!/bin/bash
# Mistakes planted at TIDE_MUTANT(name) (a build with -DTIDE_MUTANTS=ON): each must be found within SEEDS seeds of its
# profile, by a checker that fits, and the program without a mistake passes the seeds that found them. Mistakes in what
# the workload does not use (checkpoints, clocks, terms), or that it meets too rarely, must be found by a unit test.
# Some need a moment that a profile seldom comes to: settings behind it, separated by commas, make it come sooner.
#   tests/mutants.sh BUILD [NAME...]     SEEDS=1000 JOBS=2
# A name takes a few seconds when it is found at once, and as long as SEEDS seeds when it is not.
set -u
build=${1:?usage: tests/mutants.sh BUILD [NAME...]}
shift
seeds=${SEEDS:-1000}
jobs=${JOBS:-2}

# words PROFILE,SETTING,...: the options of tide sim
words() { sed 's/^/--profile /; s/,/ --set /g' <<<"$1"; }

# name, profile and settings, the checkers that may find it
leaving=leave_s=1,join_s=1.5,latency_us=50000,jitter=1
parking=leave_s=1,join_s=1.5,relocate=0,replicas=0,nodes=5,messages=0,depth=12,fibers=2
mutants="
session_resume_early        swarm    session|exactly_once|membership|order
session_resume_late         swarm    session|exactly_once|answers|progress|membership
session_never_trim          swarm    memory|progress
flow_credit_lost            swarm    progress|session
refund_forgotten            swarm,memory_s=3 progress|session
queue_unbounded             overload memory
flow_waiters_not_woken      overload progress|session|answers
flow_room_not_told          overload progress|session|answers
member_impatient            swarm    membership
leave_at_once               elastic  answers|linearizable|exactly_once|one_owner|order|progress
leave_without_answers       elastic  answers|one_owner|exactly_once|progress
leave_any_answer            elastic,$leaving answers|one_owner|exactly_once|progress
leave_before_arrivals       elastic,$leaving answers|one_owner|exactly_once|progress
leave_undrained             elastic  answers|one_owner|exactly_once|progress
reloc_home_records_late     swarm    .
reloc_requester_forwards    swarm    order|linearizable|answers|progress
reloc_keeps_noted           swarm    .
reloc_waiters_not_run       swarm    answers|progress
reloc_row_left_behind       swarm    .
reloc_queue_backwards       swarm    order|linearizable
reloc_hand_overtakes        swarm    .
reloc_counts_answers        swarm    .
location_fence_ignored      swarm    order|linearizable|answers|progress
location_localize_overtakes swarm    order|linearizable|answers|progress
location_term_ignored       swarm    order|linearizable|answers|progress
move_fence_ignored          elastic  order|linearizable|answers
move_rows_not_awaited       elastic  .
move_parked_forgotten       elastic  answers|progress
move_waits_for_itself       elastic,$parking answers|progress
move_directory_left_behind  elastic  .
loss_successors_not_told    swarm    answers|progress
loss_trail_ignored          swarm    answers|progress
early_ack                   copies   linearizable|exactly_once|order
no_id_check                 copies   exactly_once|copies|linearizable|order
no_resend                   copies   answers|progress
not_settled                 elastic  fencing
retarget_alone              elastic  fencing
move_parked_last            elastic  order|linearizable
leave_unflushed             elastic  one_owner|answers
share_unsynchronized        shared   order
share_queue_passed          shared   order
share_notice_overtaken      shared   copies|linearizable|progress
share_all_are_changers      shared   copies|linearizable
share_row_leaves_silently   shared   copies|linearizable
share_outlives_owner        shared   copies
share_update_dropped        shared   exactly_once|order
share_forgets_unsent        shared   exactly_once|order
share_leaves_unsent         shared   exactly_once
share_copy_beside_row       shared   copies
intent_copy_stays           shared   copies
window_death_untold         window   window
window_ids_stay             window   exactly_once
window_leaves_open          window   window
window_shows_ahead          window   linearizable
"
# name, the test that must fail
unit='
tick_before_deltas            test_clocked
tick_before_parts             test_clocked
tick_before_route             test_clocked
fresh_before_values           test_clocked
fresh_of_fetched              test_clocked
bound_off_by_one              test_clocked
window_unbounded              test_store_window
ids_not_forgotten             test_store_recent
window_idles_open             test_store_window
dead_worker_counted           test_clocked
joiner_forgotten              test_clock_limit
manifest_before_shards        test_checkpoint
no_sync_before_rename         test_checkpoint
sums_not_verified             test_checkpoint
update_after_the_cut_included test_checkpoint
sides_of_the_cut_mixed        test_checkpoint
no_term_check                 test_succession
slot_move_order               test_store_cluster
pull_overtaken                test_store_order
reloc_passer_forgotten        test_store_loss
no_fence                      test_store_replica
lease_ignored                 test_store_replica
ring_entry_twice              test_clocked
vap_bound_doubled             test_vap
vap_clock_free                test_vap
vap_home_unnoted              test_vap
vap_unbounded                 test_vap
vap_visible_early             test_vap
move_trail_of_row_here        test_store_loss
share_first_copies            test_shared
share_pending_ignored         test_shared
share_give_up_overtaken       test_shared
share_slot_leaves_silently    test_shared
intent_late                   test_intent
moved_row_missed              test_checkpoint
intent_never_moves            test_intent
'
failed=0 found=''
while read -r name profile checkers; do
    [ -n "$name" ] || continue
    [ $# -eq 0 ] || [[ " $* " == *" $name "* ]] || continue
    # shellcheck disable=SC2046
    out=$(timeout 3600 "$build/tide" sim $(words "$profile") --seeds "0..$((seeds - 1))" --jobs "$jobs" \
        --failures-max 1 --mutant "$name" 2>&1)
    line=$(sed -n 's/^seed \([0-9]*\) FAILED: \(.*\)$/\1 \2/p' <<<"$out" | head -1)
    seed=${line%% *} checker=${line#* }
    if [ -z "$line" ] && ! grep -q " seeds, 0 failed" <<<"$out"; then
        echo "UNKNOWN    $name: the seeds of $profile were not run to their end"
        failed=$((failed + 1))
    elif [ -z "$line" ]; then
        echo "NOT FOUND  $name: $seeds seeds of $profile pass"
        failed=$((failed + 1))
    elif ! grep -Eq "$checkers" <<<"$checker"; then
        echo "ODD        $name: seed $seed of $profile, found by $checker"
        failed=$((failed + 1))
    else
        printf 'found      %-28s %-13s seed %s of %s\n' "$name" "$checker" "$seed" "$profile"
        found="$found $profile:$seed"
    fi
done <<<"$mutants"
while read -r name test; do
    [ -n "$name" ] || continue
    [ $# -eq 0 ] || [[ " $* " == *" $name "* ]] || continue
    if TIDE_MUTANT=$name timeout 600 "$build/tests/$test" >/dev/null 2>&1; then
        echo "NOT FOUND  $name: $test passes"
        failed=$((failed + 1))
    elif TIDE_MUTANT='' timeout 600 "$build/tests/$test" >/dev/null 2>&1; then
        printf 'found      %-28s %s\n' "$name" "$test"
    else
        echo "UNMUTATED  $test fails without a mistake"
        failed=$((failed + 1))
    fi
done <<<"$unit"
for one in $found; do
    # shellcheck disable=SC2046
    timeout 300 "$build/tide" sim $(words "${one%%:*}") --seed "${one##*:}" >/dev/null 2>&1 || {
        echo "UNMUTATED  seed ${one##*:} of ${one%%:*} fails without a mistake"
        failed=$((failed + 1))
    }
done
[ "$failed" -eq 0 ] && echo "all mistakes were found" || echo "$failed failures"
exit $((failed > 0))
