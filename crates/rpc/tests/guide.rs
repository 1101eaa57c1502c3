// SPDX-License-Identifier: MIT OR Apache-2.0
//! The program of docs/guide/rpc.md.

use std::sync::mpsc;

use bellwire_rpc::{Node, Procedure};

const ADD: Procedure<[u32; 2], u32> = Procedure::new("add", 1);

#[test]
fn the_program_of_the_guide() {
    let (tell, told) = mpsc::channel();
    // It serves until the process ends.
    std::thread::spawn(move || -> Result<(), bellwire_rpc::Error> {
        let node = Node::open()?;
        tell.send(node.address()).unwrap();
        node.serve(&ADD, |[a, b], _| Ok(a + b))?;
        node.drive(|| false)?;
        Ok(())
    });
    let address = told.recv().unwrap();
    let client = || -> Result<u32, Box<dyn std::error::Error>> {
        let node = Node::open()?;
        let peer = node.connect(&address)?;
        let sum = node.call(peer, &ADD, &[2, 3])?;
        Ok(sum)
    };
    assert_eq!(client().unwrap(), 5);
}
