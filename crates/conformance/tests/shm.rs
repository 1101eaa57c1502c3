// SPDX-License-Identifier: MIT OR Apache-2.0
//! The suite over shared memory: two NICs in mapped and in guarded mode, and one NIC with itself.

use bellwire_conformance::fixtures::Shm;
use bellwire_via::wire::Attach;
use bellwire_via::wire::shm::ProtectionMode;

bellwire_conformance::suite!(mapped, Shm::new(ProtectionMode::Mapped, 2));
bellwire_conformance::suite!(attached, Shm::with_attach(ProtectionMode::Mapped, 2, Attach::Always));
bellwire_conformance::suite!(attached_loopback, Shm::with_attach(ProtectionMode::Mapped, 1, Attach::Always));
bellwire_conformance::suite!(strict, Shm::new(ProtectionMode::Mapped, 2).strict());
bellwire_conformance::suite!(strict_attached, Shm::with_attach(ProtectionMode::Mapped, 2, Attach::Always).strict());
bellwire_conformance::suite!(strict_guarded_loopback, Shm::new(ProtectionMode::Guarded, 1).strict());
bellwire_conformance::suite!(guarded, Shm::new(ProtectionMode::Guarded, 2));
bellwire_conformance::suite!(mapped_loopback, Shm::new(ProtectionMode::Mapped, 1));
bellwire_conformance::suite!(guarded_loopback, Shm::new(ProtectionMode::Guarded, 1));
