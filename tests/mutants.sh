#!/bin/bash
# Mistakes planted at TIDE_MUTANT(name) (a build with -DTIDE_MUTANTS=ON): each must be found within SEEDS seeds of its
# profile, by a checker that fits, or by the test that is named; and the program without a mistake passes the seeds and
# the tests that found them. Tests are for mistakes in what the workload does not use (clocks, terms), or that it meets
# too rarely. Some need a moment that a profile seldom comes to: settings behind it, separated by commas, make it come
# sooner. Nothing that is planted may be missing here. Mistakes in Lua are in tests/mutants.txt: they are planted in a
# copy of lua/.
#   tests/mutants.sh BUILD [NAME...]     SEEDS=1000 JOBS=2
# A name takes a few seconds when it is found at once, and as long as SEEDS seeds when it is not.
set -u
build=$(readlink -f "${1:?usage: tests/mutants.sh BUILD [NAME...]}")
shift
root=$(cd "$(dirname "$0")/.." && pwd)
seeds=${SEEDS:-1000}
jobs=${JOBS:-2}
liveness='spin|timer|turns|asleep|unreceived|queue' # they see sooner what does not come to an end

# name, then profile and settings, and the checkers that may find it; or a test, and which cases of it, or a setting
leaving=leave_s=1,join_s=1.5,latency_us=50000,jitter=1
parking=leave_s=1,join_s=1.5,relocate=0,replicas=0,nodes=5,messages=0,depth=12,fibers=2
saving=nodes=3,tables=1,counters=0,keys=10,crash_s=0,flip_s=0,join_s=0,leave_s=0,disk=0.03,checkpoint_s=0.3,chaos_s=30
copying=shared=1,localizes=0.5,keys=4,latency_us=50000,jitter=1,messages=0,tables=4,nodes=4
waiting=crash_s=5,messages=0.8,nodes=6,net_window_control_bytes=1000,net_window_bulk_bytes=1000
returning=leave_s=0.6,join_s=0.8,relocate=1,localizes=0.4,depth=4,keys=6,latency_us=12000,jitter=1,messages=0,replicas=0,nodes=8
returning=$returning,tables=1,batch=20,burst=20,fibers=2,threads=2,counters=1,pushes=0.4
mutants="
session_resume_early        swarm    session|exactly_once|membership|order
session_resume_late         swarm    session|exactly_once|answers|progress|membership
session_never_trim          swarm    memory|progress
flow_credit_lost            swarm    progress|session
refund_forgotten            swarm,memory_s=3 progress|session
queue_unbounded             overload memory
memory_refused_applied      overload exactly_once
flow_waiters_not_woken      overload progress|session|answers
flow_room_not_told          overload progress|session|answers
member_impatient            swarm    membership|answers
leave_at_once               elastic  answers|linearizable|exactly_once|one_owner|order|progress
leave_without_answers       elastic  answers|one_owner|exactly_once|progress
leave_any_answer            elastic,$leaving answers|one_owner|exactly_once|progress
leave_before_arrivals       elastic,$leaving answers|one_owner|exactly_once|progress
leave_undrained             elastic  answers|one_owner|exactly_once|progress
walk_skips_cold             test_tier a_generation_has_the_rows_that_are_on_the_disk
read_error_initial          test_tier a_row_that_cannot_be_read_is_an_error_not_an_initial_row
cold_sent_back              test_tier a_pull_that_comes_straight*
clean_survives_push         test_tier pushes_while_a_generation_is_written_are_frozen
freeze_loses_push           tier     .
freeze_before_written       tier     .
compact_resurrects          test_tier segments_that_are_mostly_garbage_are_emptied
compact_unlinks_read        test_tier segments_that_are_mostly_garbage_are_emptied
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
returned_in_line            swarm,$returning order|linearizable
slot_not_closed               test_store_relocate asynchronous_order_is_kept_while_slots_move_too
answers_half_made             journal  .
dead_home_mapped              test_store_loss
location_parts_uncounted      test_location the_fence_lasts_until_the_last_part_is_back
finished_keeps_waiters        test_net *who_waits_for_credit_when_its_own_node_has_left_is_told*
begun_when_fenced             test_admission who_stands_in_line_when_its_own_node_has_left_is_told
walk_past_moved               test_evict a_walk_misses_no_entry_that_moves
evicted_row_returns           test_evict an_evicted_key_is_a_new_key
evicted_untaken_lost          test_evict what_goes_during_a_generation_is_kept_for_it
gone_untold                   test_evict keys_that_went_are_named_once
victim_never_worn             test_evict what_was_popular_once_makes_room
sketch_stays                  test_store_move counts_of_keys_move_with_their_slot
share_ignored                 test_share an_actor_with_a_share_takes_no_more
rows_push_twice               test_rows a_push_that_is_sent_again_is_applied_once
rows_homes_first              test_rows a_push_is_answered_by_the_former_home_that_applied_it
client_sequence_anew          clients  exactly_once
client_push_elsewhere         clients  exactly_once
client_map_kept               test_rows slots_that_move_are_found
rows_read_pushes              test_rows rights_are_checked_at_the_node
late_refusal_taken            test_budget a_push_that_went_to_the_next_home_is_not_refused_by_the_last
leaver_died_untold            test_store_loss
early_refused                 test_net what_is_for_a_member*
loss_failed_early             test_store_loss a_node_that_awaits_a_slot*
next_of_dead_kept             test_store_loss nobody_waits_for_what*
given_up_is_anew              test_store_loss a_row_that_its_new_home*
wish_not_repeated             test_store_loss a_wish_that_died_with_a_former_home*
wish_granted_twice            test_relocate wishes_that_may_be_lost*
row_unasked_dropped           test_relocate wishes_that_may_be_lost*
closed_keeps_wishes           test_store_relocate asynchronous_order_is_kept_while_slots_move_too
home_keeps_operations         test_store_relocate asynchronous_order_is_kept_while_slots_move_too
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
share_unsynchronized        shared   order|linearizable
share_queue_passed          shared   order
share_notice_overtaken      shared   copies|linearizable|progress
share_all_are_changers      shared   copies|linearizable
share_fresh_unsubscribed    shared   copies|linearizable
share_news_forgotten        shared   copies|linearizable|progress
share_row_leaves_silently   shared   copies|linearizable
share_outlives_owner        shared   copies
share_update_dropped        shared   exactly_once|order
share_forgets_unsent        shared   exactly_once|order
share_leaves_unsent         shared   exactly_once
share_copy_beside_row       shared,$copying copies|progress
intent_copy_stays           shared   copies
window_death_untold         window   window
window_ids_stay             window   exactly_once
window_leaves_open          window   window
yield_takes_wake              test_actor
room_by_messages            swarm    spin
receiver_woken_twice        swarm    unreceived
address_reused              swarm,actor_generations=16 crash
task_in_place               journal  blocks
decision_unsynced           journal  crash
exchange_on_control           test_exchange a_blocked_control_thread*
redial_forgotten            swarm    queue
told_again_at_once          swarm    turns
link_not_touched            swarm    queue
waiters_of_the_dead         swarm,$waiting queue
drop_unanswered             swarm    progress
inbox_not_woken             swarm    asleep
retry_at_once               overload timer
tick_before_deltas            test_clocked
tick_before_parts             test_clocked
unsent_marked                 test_clock_memory
tick_refused                  test_clock_memory
round_unasked                 test_clock_memory
tick_before_route             test_clocked
fresh_before_values           test_clocked
fresh_of_fetched              test_clocked
bound_off_by_one              test_clocked
window_unbounded              test_store_window
ids_not_forgotten             test_store_recent
window_idles_open             test_store_window
window_safe_early             test_store_window what_is_answered_behind*
dead_worker_counted           test_clocked
joiner_forgotten              test_clock_limit
share_fates_untold            test_shared rows_that_are_lost_do_not_delay_the_copies_of_others
base_pruned_first             test_checkpoint what_may_come_back_keeps_what_it_is_built_on
walks_awaited_of_gone         test_checkpoint a_generation_does_not_wait_for_who_has_gone
manifest_before_shards        test_checkpoint crashes_leave_the_newest_generation
no_sync_before_rename         test_checkpoint crashes_leave_the_newest_generation
sums_not_verified             test_checkpoint_damage every_flipped_bit_is_detected
update_after_the_cut_included test_checkpoint a_cut_by_clocks_is_exact*
sides_of_the_cut_mixed        test_checkpoint a_cut_of_rows_with_clocks_is_exact*
no_term_check                 test_succession
unprobed                      test_suspicion
stall_not_excused             test_suspicion
no_refutation                 test_suspicion
noise_unlearned               test_suspicion
slot_move_order               test_store_cluster
joiner_told_early             test_store_move slots_wait_until*
pull_overtaken                test_store_order
memory_rows_unbounded         test_budget
memory_cap_ignored            test_budget
rate_ignored                  test_admission
memory_grant_unheard          test_budget
loan_given_early              test_store
reloc_passer_forgotten        test_store_loss
no_fence                      test_store_replica
lease_ignored                 test_store_replica
lease_from_answer             test_store_replica a_lease_ends_before_its_grant
ring_entry_twice              test_clocked
vap_bound_doubled             test_vap
vap_clock_free                test_vap
vap_home_unnoted              test_vap
vap_unbounded                 test_vap
vap_visible_early             test_vap
move_trail_of_row_here        test_store_loss
rebuilds_wait_in_line         test_store_replica who_cannot_join_holds_up_no_other
share_first_copies            test_shared
share_queue_unbounded         test_shared
share_pending_ignored         test_shared
share_give_up_overtaken       test_shared
share_slot_leaves_silently    test_shared
intent_late                   test_intent
sequence_digit_in_use         test_checkpoint rows_of_a_node_that_joined_are_in_the_sixteenth_generation
moved_row_missed              test_checkpoint rows_that_only_move_are_in_every_full_generation
intent_never_moves            test_intent
stay_queue_forgotten          test_intent
exchange_no_repair            test_exchange_deaths
exchange_shortest_prefix      test_exchange_deaths
exchange_late_counts          test_exchange_deaths
exchange_all_leaves           test_send_window
joiner_by_old_home            test_clocked who_begins_while_a_slot_moves_is_waited_for
fresh_untold                  test_clocked what_a_new_home_told_too_early_is_told_again
fence_confirms                test_clocked a_row_that_comes_late_hides_no_own_update
removal_not_synced            test_checkpoint what_may_come_back_stays_whole
others_unasked                journal progress
unread_pruned                 disk,$saving checkpoint
rest_not_excused              test_ring a_new_controller_takes_nobody_for_dead_who_rested
rest_not_disturbed            test_ring who_does_not_know_its_new_neighbours_beats_for_them
one_observer                  test_succession the_word_of_one_member_about_another_is_not_enough
join_forgotten                test_quorum who_joins_while_the_controller_dies*
end_untold                    test_store_replica a_cluster_that_ends*
health_counts_dead            test_store_replica a_copy_of_the_dead_counts_for_nothing
not_settled                   test_store_replica two_that_leave_take_no_push_with_them
late_value_taken              test_vap TIDE_TEST_SEEDS=3
vap_no_retrace                test_vap bound_holds_while_slots_move
ticks_not_awaited             test_checkpoint TIDE_TEST_SEEDS=100
copies_of_first_rows          test_store_replica a_push_of_many_keys_is_the_same_on_all_copies
window_told_early             test_store_recent
passed_on_early               test_store_change an_old_home*
window_shows_ahead            test_store_change a_home_that_goes*
leave_unflushed               test_store_change a_row_on_its_way*
move_parked_last              test_store_change what_waits*
retarget_alone                test_store_change pushes_that_go_again*
joined_before                 test_store_change who_has_joined*
last_home_alone               test_store_change a_home_before*
lda_own_count_kept            test_lda
lda_proposals_swapped         test_lda
descent_flight_ignored        test_descent
vertex_children_backwards     test_vertex
vertex_class_dropped          test_forest plans_agree_with_a_naive_grouping
vertex_kinds_mixed            test_vertex
vertex_others_stay            test_vertex
vertex_piece_renumbered       test_vertex pieces_add_up
vertex_width_forgotten        test_vertex pieces_add_up
drop_waiter_untold            test_drop.sh
drop_life_ignored             test_drop.sh
drop_frees_held               test_drop.sh
drop_frees_lent               test_drop.sh
domain_mixed                  test_clock domains_are_apart_simulated
run_memory_forgotten          test_budget a_run_has_a_budget_of_its_own
answer_is_an_end              test_runs.sh
fibers_preempted              test_actor
right_from_hello              test_tls
rights_actor_open             test_rights
rights_any_frame              test_rights
client_kills                  test_rights a_client_kills_nobody*
answer_of_any_client          test_rights a_client_answers_no_call_to_others*
tls_name_unchecked            test_tls
tls_no_verification           test_tls
tls_revoked_stays             test_tls
tls_key_of_group              test_tls
tls_anyone_admin              test_tls
tls_owed_again                test_tls
tls_known_for_ever            test_tls
tls_former_authority          test_tls
journal_damage_is_torn        test_control
journal_goes_on_broken        test_control
entry_skipped                 test_control
overruled_entry_stays         test_raft_log
snapshot_entry_kept           test_raft_log
exchange_error_dropped        test_exchange
exchange_kept_lost            test_exchange
exchange_owner_forgets        test_exchange
exchange_view_of_mender       test_exchange_deaths
exchange_share_twice          test_exchange
chain_of_another              test_checkpoint generations_in_two*
restore_beside_rows           test_checkpoint a_restore_brings*
restore_first_rate            test_checkpoint a_restore_brings*
restore_former_clocks         test_checkpoint tables_come_back_as*
copies_written_too            test_checkpoint
$(python3 "$root/tests/plant.py" names)
"
python3 "$root/tests/plant.py" check || exit 1
trees=$(mktemp -d)
trap 'rm -rf "$trees"' EXIT

# words PROFILE,SETTING,...: the options of tide sim
words() { sed 's/^/--profile /; s/,/ --set /g' <<<"$1"; }

# by_seeds NAME PROFILE CHECKERS: says how it went; 0: found, by a seed that is added to `finders`
by_seeds() {
    local out line seed checker
    # shellcheck disable=SC2046
    out=$(timeout 3600 "$build/tide" sim $(words "$2") --seeds "0..$((seeds - 1))" --jobs "$jobs" \
        --failures-max 1 --mutant "$1" 2>&1)
    line=$(sed -n 's/^seed \([0-9]*\) FAILED: \(.*\)$/\1 \2/p' <<<"$out" | head -1)
    seed=${line%% *} checker=${line#* }
    if [ -z "$line" ] && ! grep -q " seeds, 0 failed" <<<"$out"; then
        echo "UNKNOWN    $1: the seeds of $2 were not run to their end"
    elif [ -z "$line" ]; then
        echo "NOT FOUND  $1: $seeds seeds of $2 pass"
    elif ! grep -Eq "$3" <<<"$checker" && ! { [[ $3 = *progress* ]] && grep -Eq "^($liveness)$" <<<"$checker"; }; then
        echo "ODD        $1: seed $seed of $2, found by $checker"
    else
        printf 'found      %-28s %-13s seed %s of %s\n' "$1" "$checker" "$seed" "$2"
        finders+=("seed $2 $seed")
        return 0
    fi
    return 1
}

# run_test MUTANT TEST [CASES | SETTING]
run_test() {
    local setting='' cases='' tree=$root
    case ${3:-} in *=*) setting=$3 ;; *) cases=${3:-} ;; esac
    if [ -n "$1" ] && grep -q "^$1 " "$root/tests/mutants.txt"; then
        tree=$trees/$1
        [ -e "$tree" ] || python3 "$root/tests/plant.py" "$1" "$tree"
    fi
    (
        cd "$tree" || exit 0
        export TIDE_MUTANT=$1 TIDE=$build/tide TIDE_BUILD_DIR=$build TIDE_LUA_PATH=$tree/lua
        case $2 in
        */*.sh) timeout 600 bash "tests/$2" ;;
        *.sh) timeout 600 bash "tests/sim/$2" ;;
        *_spec.lua) timeout 60 busted --lua=/usr/bin/lua5.4 "tests/lua/$2" ;;
        *) env ${setting:+"$setting"} timeout 600 "$build/tests/$2" ${cases:+"$cases"} ;;
        esac
    ) >/dev/null 2>&1
}

# by_test NAME TEST [CASES | SETTING]
by_test() {
    if run_test "$@"; then
        echo "NOT FOUND  $1: $2 passes"
        return 1
    fi
    printf 'found      %-28s %s %s\n' "$1" "$2" "${3:-}"
    finders+=("test $2 ${3:-}")
}

# unharmed KIND WHAT [MORE]: a finder passes when nothing is planted
unharmed() {
    if [ "$1" = test ]; then
        run_test '' "$2" "${3:-}"
    else
        # shellcheck disable=SC2046
        timeout 300 "$build/tide" sim $(words "$2") --seed "$3" >/dev/null 2>&1
    fi
}

planted=0 found=0 failed=0 finders=()
while read -r name where how; do
    [ -n "$name" ] || continue
    [ $# -eq 0 ] || [[ " $* " == *" $name "* ]] || continue
    planted=$((planted + 1))
    if [[ $where = test_* || $where = */test_*.sh || $where = *_spec.lua ]]; then by_test "$name" "$where" "$how"; else by_seeds "$name" "$where" "$how"; fi &&
        found=$((found + 1))
done <<<"$mutants"
while read -r one; do
    grep -q "^$one " <<<"$mutants" || [ "$one" = name ] || {
        echo "UNLISTED   $one is planted, and nobody looks for it"
        failed=$((failed + 1))
    }
done < <(grep -rhoE 'TIDE_MUTANT\([a-z_]+' "$root/runtime" "$root/kernels" "$root/lua" | sed 's/.*(//' | sort -u)
while read -r kind what more; do
    [ -z "$kind" ] || unharmed "$kind" "$what" "$more" || {
        echo "UNHARMED   $kind $what $more fails without a mistake"
        failed=$((failed + 1))
    }
done < <(printf '%s\n' "${finders[@]}" | sort -u)
echo "$planted planted, $found found"
[ "$planted" -eq "$found" ] && [ "$failed" -eq 0 ]
