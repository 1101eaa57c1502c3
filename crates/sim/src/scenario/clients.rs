// SPDX-License-Identifier: MIT OR Apache-2.0
//! Many clients of one endpoint.

use super::client_server::{self as shared, Case, Figures};
use super::traffic::{transport, transports};
use super::{Kind, OptionSpec, Run, Scenario, ScenarioError, traffic};
use crate::resident::PAYLOAD_BYTES_MAX;
use bellwire_report::model::{Axis, Cell, Column, Plot, Report, Scale, Unit};

pub(super) const SCENARIO: Scenario = Scenario {
    name: "clients",
    summary: "many clients of one server endpoint",
    about: "\
All clients are in one virtual network and ask one endpoint of a server with one thread. What finds no room in that endpoint is refused, and comes again.

Rates are requests answered: for all clients, and for the client that gets least, the mean, and the one that gets most. Jain's index is 1 when all get the same, 1/n when one gets all. Response: from writing a request to \
taking its reply; a request without a reply counts for the longest. \
The server's processor is the bottleneck, unless NICs are told to take longer for a packet than it does. K: attempts to send that an endpoint has in a turn of its NIC.",
    options: &[
        shared::CLIENTS,
        shared::TRANSPORT,
        traffic::CHANNELS,
        shared::OUTSTANDING,
        shared::INBOX,
        OptionSpec::several("sizes", Kind::Count(0, PAYLOAD_BYTES_MAX as u64), "16,8192", "bytes of a request; replies have one word"),
        shared::TAKE,
        shared::WRITE,
        shared::SWITCH,
        shared::FRAMES,
        shared::LOAD,
        shared::UNLOAD,
        shared::STAY,
        shared::VICTIM,
        shared::LOITER,
        shared::PACKET,
        shared::NIC_SWITCH,
        shared::LOOK,
        shared::DMA,
        shared::BUS,
        shared::IMAGE,
        traffic::LATENCY,
        traffic::RATE,
        OptionSpec::one("start", Kind::Time, "50ms", "time before anything counts"),
        OptionSpec::one("time", Kind::Time, "400ms", "time in which everything counts"),
        traffic::FAULTS,
    ],
    run,
};

fn run(run: &Run<'_>) -> Result<Report, ScenarioError> {
    let values = &run.values;
    let mut cases = Vec::new();
    for &bytes in values.numbers("sizes") {
        for channels in transports(values) {
            for &clients in values.numbers("clients") {
                for &loiter in values.numbers("loiter") {
                    cases.push(Case { clients: clients as usize, own_endpoint: false, threads: false, bytes: bytes as usize, loiter: loiter as u32, channels });
                }
            }
        }
    }
    let name = |case: &Case| format!("{} clients, {} bytes, {}", case.clients, case.bytes, transport(case.channels));
    shared::report(run, "Clients of one endpoint", cases, name, columns(), row, plots)
}

fn columns() -> Vec<Column> {
    let mut columns = vec![Column::new("size", Unit::Bytes), Column::plain("clients")];
    columns.extend(shared::columns());
    columns.push(Column::new("requests", Unit::MegabytesPerSecond));
    columns
}

fn row(case: &Case, figures: &Figures) -> Vec<Cell> {
    let mut row = vec![case.bytes.into(), case.clients.into()];
    row.extend(shared::row(case, figures));
    row.push((figures.all() * case.bytes as f64 / 1e6).into());
    row
}

fn plots(done: &[(Case, Figures)]) -> Vec<Plot> {
    let name = |case: &Case| format!("{} B, {}", case.bytes, transport(case.channels));
    let rate = |name: &str, scale| Axis::new(name, Unit::ThousandPerSecond, scale);
    vec![
        shared::plot("Requests answered for all clients", rate("all", Scale::Linear), done, name, |f| f.all() / 1e3),
        shared::plot("For a client, on average", rate("mean", Scale::Log10), done, name, |f| f.mean() / 1e3),
        shared::plot("Response time", Axis::new("mean", Unit::Microseconds, Scale::Log10), done, name, |f| f.response.0 / 1e3),
    ]
}
