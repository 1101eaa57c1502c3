// SPDX-License-Identifier: MIT OR Apache-2.0
//! The choices of the report on a VI library made of SISCI, as switches: `BELLWIRE_SISCI_WIRE`,
//! `name=value` with commas between.

/// The use of registered memory for peers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Memory {
    /// The program's own; everything is copied into the peer's segment and out of it again.
    Shadow,
    /// Memory that the engine allocates is a segment: peers that may write it do, in one copy.
    Allocate,
}

/// How a sleeper is woken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Events {
    /// A thread, the event manager, looks at words in shared memory while the NIC sleeps.
    Memory,
    /// A remote interrupt.
    Interrupt,
}

/// The switches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Switches {
    /// `memory=shadow`, `memory=allocate`.
    pub memory: Memory,
    /// `descriptors=N`: receive descriptors are published when there are N (1 to 32), or when the
    /// NIC has nothing else to do.
    pub descriptors: usize,
    /// `dma=BYTES`: payload from so many bytes on goes by DMA, else by stores; `dma=never`.
    pub dma_from: Option<usize>,
    /// `events=memory`, `events=interrupt`.
    pub events: Events,
}

impl Default for Switches {
    fn default() -> Self {
        Self { memory: Memory::Allocate, descriptors: 1, dma_from: None, events: Events::Interrupt }
    }
}

const DESCRIPTORS_MAX: usize = 32;

impl Switches {
    /// The default, changed by a text; `None`: it means nothing.
    pub fn parse(text: &str) -> Option<Self> {
        let mut switches = Self::default();
        for word in text.split(',').map(str::trim).filter(|w| !w.is_empty()) {
            match word.split_once('=')? {
                ("memory", "shadow") => switches.memory = Memory::Shadow,
                ("memory", "allocate") => switches.memory = Memory::Allocate,
                ("descriptors", n) => switches.descriptors = n.parse().ok().filter(|n| (1..=DESCRIPTORS_MAX).contains(n))?,
                ("dma", "never") => switches.dma_from = None,
                ("dma", bytes) => switches.dma_from = Some(bytes.parse().ok()?),
                ("events", "memory") => switches.events = Events::Memory,
                ("events", "interrupt") => switches.events = Events::Interrupt,
                _ => return None,
            }
        }
        Some(switches)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn switches_are_read() {
        assert_eq!(Switches::parse(""), Some(Switches::default()));
        let all = Switches::parse("memory=shadow, descriptors=32,dma=4096,events=memory").unwrap();
        assert_eq!(all, Switches { memory: Memory::Shadow, descriptors: 32, dma_from: Some(4096), events: Events::Memory });
        assert_eq!(Switches::parse("dma=9,dma=never").unwrap().dma_from, None);
        for nonsense in ["memory", "memory=user", "descriptors=0", "descriptors=33", "dma=big", "events=", "speed=1"] {
            assert_eq!(Switches::parse(nonsense), None, "{nonsense}");
        }
    }
}
