// SPDX-License-Identifier: MIT OR Apache-2.0
//! The list of all cases, and the macro that makes tests of them.

/// Makes one `#[test]` per case in a module `$name`, each on a fixture of its own; with
/// `$attribute` each has that, too.
///
/// ```ignore
/// bellwire_conformance::suite!(sim, Sim::new(SimConfig::default(), 2));
/// ```
#[macro_export]
macro_rules! suite {
    ($name:ident, $fixture:expr) => {
        $crate::suite!($name, $fixture, allow(unused));
    };
    ($name:ident, $fixture:expr, $attribute:meta) => {
        mod $name {
            #[allow(unused_imports)]
            use super::*;
            $crate::cases_of!($fixture; $attribute;
                states: states_of_a_vi, connect_pending, disconnect_in_traffic, old_frames_do_not_reach_a_new_connection,
                    destroy_gives_posted_receives_back, death_of_a_peer;
                transfer: every_size, exact_fit, order_of_mixed_sizes, scatter_and_gather, both_directions;
                reliability: no_receive_descriptor, longer_than_the_descriptor, reception_means_in_memory, a_broken_connection_delivers_a_prefix;
                rdma: write_every_size, write_with_immediate, read_every_size, no_read_at_the_unreliable_level, write_then_send,
                    writes_and_reads_in_order, fence, many_reads, gather_and_empty, the_direct_way,
                    order_while_the_way_changes;
                protection: remote_access, to_the_last_byte, deregistered_in_flight, rights_taken_in_flight, local_tags;
                faults: faulty_sends, faulty_receives, over_the_maximum_transfer_size, descriptors_in_memory;
                memory: registration_errors, handles_carry_generations, in_use_is_refused, overlapping_regions, changed_attributes,
                    regions_used_again_and_again;
                completion: one_entry_per_completion, overflow, resize, notifications, shared_receive_queue, shared_queue_refuses_faults;
                inbox: inbox_takes_messages_in_order, what_is_kept_does_not_stop_others, what_another_engine_keeps_is_not_touched, inbox_has_a_limit, write_with_trailer,
                       immediate_data_of_a_write_is_a_message;
                extensions: waits_for_a_receive_descriptor, order_is_kept_while_waiting, waits_for_a_shared_descriptor, disconnect_while_waiting,
                    inline_sends, unsignalled;
                connect: before_and_after, discriminators, several_waits, no_match, timeouts, found_and_slow, found_and_away_for_a_moment, reject_and_cancel, given_up_while_accepted,
                    attributes_must_agree, unasked_outcome, reconnect;
                peer: crossed_and_staggered, several_with_the_same_addresses, one_sided, other_addresses_do_not_meet, attributes_must_agree;
                pressure: thousands_of_sends, everybody_gets_a_turn, many_vis, queues_are_bounded;
            );
        }
    };
}

/// The tests of [`suite!`].
#[doc(hidden)]
#[macro_export]
macro_rules! cases_of {
    ($fixture:expr; $attribute:meta; $($group:ident : $($case:ident),+ ;)+) => {
        $(mod $group {
            #[allow(unused_imports)]
            use super::*;
            $(#[test]
            #[$attribute]
            fn $case() {
                $crate::cases::$group::$case(&mut $crate::Stage::new($fixture));
            })+
        })+
    };
}
