// SPDX-License-Identifier: MIT OR Apache-2.0
//! Many virtual networks into one server with few endpoint frames.

use super::client_server::{self as shared, Case, Figures};
use super::traffic::{transport, transports};
use super::{Kind, OptionSpec, Run, Scenario, ScenarioError, traffic};
use crate::resident::PAYLOAD_BYTES_MAX;
use bellwire_report::model::{Axis, Cell, Column, Plot, Report, Scale, Unit};

pub(super) const SCENARIO: Scenario = Scenario {
    name: "networks",
    summary: "virtual networks into one server with few endpoint frames",
    about: "\
Each client has a virtual network for itself: its endpoint, and one at the server. The server's NIC holds a few endpoints in frames; the others are in host memory, and are loaded when a message \
comes for one (which is refused meanwhile) or the server writes into one. single: the server has one thread, which is suspended while it writes into an endpoint that is not resident. threads: it has \
one thread for each endpoint, and only that one is suspended.

Rates are requests answered: for all clients, and for the client that gets least, the mean, and the one that gets most. Jain's index is 1 when all get the same, 1/n when one gets all. Response: from writing a request to \
taking its reply; a request without a reply counts for the longest. Refused: messages that found no endpoint, or no room; they come again. \
The server's processor is the bottleneck, unless NICs are told to take longer for a packet than it does. K: attempts to send that an endpoint has in a turn of its NIC.",
    options: &[
        shared::CLIENTS,
        OptionSpec::several("servers", Kind::Word(&["single", "threads"]), "single,threads", "threads of the server: one, or one for each endpoint"),
        shared::TRANSPORT,
        traffic::CHANNELS,
        shared::FRAMES,
        shared::OUTSTANDING,
        shared::INBOX,
        OptionSpec::one("size", Kind::Count(0, PAYLOAD_BYTES_MAX as u64), "16", "bytes of a request; replies have one word"),
        shared::TAKE,
        shared::WRITE,
        shared::SWITCH,
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
        OptionSpec::one("start", Kind::Time, "200ms", "time before anything counts"),
        OptionSpec::one("time", Kind::Time, "1s", "time in which everything counts"),
        traffic::FAULTS,
    ],
    run,
};

fn run(run: &Run<'_>) -> Result<Report, ScenarioError> {
    let values = &run.values;
    let mut cases = Vec::new();
    for server in values.words("servers") {
        for channels in transports(values) {
            for &clients in values.numbers("clients") {
                for &loiter in values.numbers("loiter") {
                    let (bytes, loiter) = (values.count("size"), loiter as u32);
                    cases.push(Case { clients: clients as usize, own_endpoint: true, threads: server == "threads", bytes, loiter, channels });
                }
            }
        }
    }
    let title = format!("Virtual networks into one server with {} frames", values.number("frames"));
    let name = |case: &Case| format!("{} clients, {}, {}", case.clients, case.server(), transport(case.channels));
    shared::report(run, title, cases, name, columns(), row, plots)
}

fn columns() -> Vec<Column> {
    let mut columns = vec![Column::plain("server"), Column::plain("networks")];
    columns.extend(shared::columns());
    columns.extend([Column::plain("loads"), Column::plain("unloads")]);
    columns
}

fn row(case: &Case, figures: &Figures) -> Vec<Cell> {
    let mut row = vec![case.server().into(), case.clients.into()];
    row.extend(shared::row(case, figures));
    row.extend([figures.loads.into(), figures.unloads.into()]);
    row
}

fn plots(done: &[(Case, Figures)]) -> Vec<Plot> {
    let name = |case: &Case| format!("{}, {}", case.server(), transport(case.channels));
    let rate = |name: &str, scale| Axis::new(name, Unit::ThousandPerSecond, scale);
    vec![
        shared::plot("Requests answered for all clients", rate("all", Scale::Linear), done, name, |f| f.all() / 1e3),
        shared::plot("For a client, on average", rate("mean", Scale::Log10), done, name, |f| f.mean() / 1e3),
        shared::plot("For the client that gets least", rate("least", Scale::Log10), done, name, |f| f.rates[0] / 1e3),
        shared::plot("Response time", Axis::new("mean", Unit::Microseconds, Scale::Log10), done, name, |f| f.response.0 / 1e3),
    ]
}
