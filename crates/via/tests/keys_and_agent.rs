// SPDX-License-Identifier: MIT OR Apache-2.0
//! Where keys are set, no packet leaves without: not by the host's agent either.
#![forbid(unsafe_code)]

use bellwire_via::Nic;
use bellwire_via::nic::{AgentNic, NicConfig, OpenError};
use bellwire_via::wire::Keys;
use std::sync::Arc;

#[test]
fn a_nic_of_the_agent_with_keys_is_refused() {
    //= P-AUTH-3
    let keys = Some(Arc::new(Keys::shared([1; 32])));
    assert!(Nic::open(NicConfig { keys: keys.clone(), ..NicConfig::default() }).is_ok());
    let refused = Nic::open(NicConfig { keys, agent: Some(AgentNic::default()), ..NicConfig::default() });
    assert!(matches!(refused, Err(OpenError::AgentWithKeys)));
    assert!(OpenError::AgentWithKeys.to_string().contains("unset BELLWIRE_NIC, or the keys"));
}
