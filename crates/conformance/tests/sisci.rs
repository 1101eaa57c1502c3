// SPDX-License-Identifier: MIT OR Apache-2.0
//! The suite over the wire made of SISCI calls, in every switch of the report. Run by
//! scripts/sisci-wire.sh, which builds the library.

use bellwire_conformance::fixtures::Sisci;

bellwire_conformance::suite!(sisci, Sisci::new(2, ""), ignore = "needs libsisci: scripts/sisci-wire.sh");
bellwire_conformance::suite!(sisci_loopback, Sisci::new(1, ""), ignore = "needs libsisci: scripts/sisci-wire.sh");
bellwire_conformance::suite!(sisci_shadow, Sisci::new(2, "memory=shadow"), ignore = "needs libsisci: scripts/sisci-wire.sh");
bellwire_conformance::suite!(sisci_descriptors, Sisci::new(2, "descriptors=32"), ignore = "needs libsisci: scripts/sisci-wire.sh");
bellwire_conformance::suite!(sisci_dma, Sisci::new(2, "dma=0"), ignore = "needs libsisci: scripts/sisci-wire.sh");
bellwire_conformance::suite!(sisci_events, Sisci::new(2, "events=memory"), ignore = "needs libsisci: scripts/sisci-wire.sh");
bellwire_conformance::suite!(
    sisci_report,
    Sisci::new(2, "memory=shadow,descriptors=32,dma=8192,events=memory"),
    ignore = "needs libsisci: scripts/sisci-wire.sh"
);
