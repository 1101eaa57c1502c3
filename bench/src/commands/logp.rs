// SPDX-License-Identifier: MIT OR Apache-2.0
//! `bellwire logp`: arguments, and where the parameters go.

use bellwire_bench::layer;
use bellwire_bench::model::{self, Options, report};
use bellwire_bench::plan::Group;
use bellwire_bench::samples::Metric;
use bellwire_report::plot;
use clap::{Args, ValueEnum};

use super::measured::{self, Level, Measured, Told};

const LONG_ABOUT: &str = "\
Measures the parameters of the LogP model over the C interface of libvipl.so, with two processes, each on a processor of its own:

  o_send, o_recv   processor time of a send and of a receive
  L                latency: half a round trip less both
  g                gap: time between two messages of a long stream
  G                time per byte of long messages
  upkeep           collecting a completion and posting a receive again, which a ping-pong does while its message flies

and the signature: the mean time between two requests against their number, with several delays after each.

With --layer am, Active Messages beside the raw VI that they use, by turns in one run: half a round trip of a short request and its reply, what it is above the raw VI's (delta), \
L, o_s, o_r, g; and the bandwidth of bulk messages beside that of the raw RDMA write. With --compare, the same of other libraries, and how the goals stand.

With --peers, the half round trip and the message rate of virtual interfaces, of virtual interfaces with a completion queue, of Active Messages, of tag matching and of verbs, with so many \
connected peers of which one is active: what idle peers cost.

With --layer rpc, remote procedure calls beside the Active Messages that they use: half a round trip, and a stream with 16 calls under way.";

const AFTER_HELP: &str = "\
Examples:
  bellwire logp                                  sizes 8 to 4096, three rounds
  bellwire logp --quick --sizes 8                a first look
  bellwire logp --json logp.json --plot signature.svg
  bellwire logp --layer am --plot bulk.svg       Active Messages beside the raw VI
  bellwire logp --layer am --compare             and beside UCX, libfabric, GASNet-EX
  bellwire logp --layer rpc                      remote procedure calls beside Active Messages
  bellwire logp --peers 1,16,64                  every layer with idle peers
  BELLWIRE_MODE=guarded bellwire logp            peers map queues only

Environment:
  BELLWIRE_VIPL    path of libvipl.so, unless --lib is given
  BELLWIRE_GASNET  path of GASNet-EX's testam, built for its smp conduit; --compare looks for it on the PATH otherwise

Exit status:
  0 if everything was measured; 1 if the library or one of the measurements failed.";

/// Largest size of a message, bytes.
const SIZE_MAX: u64 = 256 << 10;

/// Which layer is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Layer {
    /// Virtual interfaces
    Vi,
    /// Active Messages, beside virtual interfaces
    Am,
    /// Remote procedure calls, beside Active Messages
    Rpc,
}

/// Measure the LogP parameters: overheads, latency, gap
#[derive(Debug, Args)]
#[command(long_about = LONG_ABOUT, after_help = AFTER_HELP, mut_arg("plot", |plot| plot.help("Plot the signature; with --layer am, bulk bandwidth against size")))]
pub struct Arguments {
    /// What is measured
    #[arg(long, value_enum, default_value = "vi")]
    layer: Layer,

    /// Message sizes in bytes, the first also for the signature; only with --layer vi [default:
    /// 8,56,256,1024,4096]
    #[arg(long, value_name = "BYTES,...", value_delimiter = ',', value_parser = clap::value_parser!(u64).range(1..=SIZE_MAX))]
    sizes: Vec<u64>,

    /// Measure others' active messages in the same run: UCX, libfabric, GASNet-EX; only with
    /// --layer am
    #[arg(long)]
    compare: bool,

    /// Latency and rate of every layer with so many connected peers, one of them active
    #[arg(long, value_name = "N,...", value_delimiter = ',', num_args = 0..=1, require_equals = false, default_missing_value = measured::PEERS_DEFAULT, value_parser = measured::peers_parser(),
        conflicts_with_all = ["layer", "sizes", "compare"])]
    peers: Option<Vec<u16>>,

    /// Reliability level of the connections
    #[arg(long, value_enum, default_value = "delivery")]
    reliability: Level,

    #[command(flatten)]
    measured: Measured,

    #[command(flatten)]
    told: Told,
}

/// Measures and reports.
///
/// # Errors
/// What the exit status is about, as text.
pub fn run(arguments: &Arguments) -> Result<(), String> {
    let text = |error: bellwire_bench::Error| error.to_string();
    check(arguments);
    if let Some(peers) = &arguments.peers {
        return many_peers(arguments, peers);
    }
    if arguments.layer == Layer::Am {
        return layers(arguments);
    }
    if arguments.layer == Layer::Rpc {
        return calls(arguments);
    }
    let model = model::run(&options(arguments)?).map_err(text)?;
    arguments.told.tell(&model, || report::table(&model), |path| plot::write(&report::plots(&model), path))?;
    measured::ended(&model.failures)
}

/// What a layer knows nothing of is refused, not left out.
fn check(arguments: &Arguments) {
    let layer = arguments.layer;
    if !arguments.sizes.is_empty() && layer != Layer::Vi {
        measured::refuse("--sizes is of --layer vi: the other layers have sizes of their own");
    }
    if arguments.compare && layer != Layer::Am {
        measured::refuse("--compare needs --layer am; the raw VI is compared with others by `bellwire perf --compare`");
    }
    if arguments.told.plot.is_some() && layer == Layer::Rpc {
        measured::refuse("--layer rpc has nothing to plot");
    }
}

fn layers(arguments: &Arguments) -> Result<(), String> {
    let text = |error: bellwire_bench::Error| error.to_string();
    let layers = layer::run(&options(arguments)?, arguments.compare).map_err(text)?;
    arguments.told.tell(&layers, || layer::report::table(&layers), |path| plot::write(&layer::report::plots(&layers), path))?;
    measured::ended(&layers.failures)
}

fn many_peers(arguments: &Arguments, peers: &[u16]) -> Result<(), String> {
    let mut peers: Vec<usize> = peers.iter().map(|&peers| usize::from(peers)).collect();
    peers.sort_unstable();
    peers.dedup();
    let session = arguments.measured.session(arguments.reliability)?;
    measured::metrics("logp --peers", vec![Group::Peers], peers, &arguments.told, session, &[Metric::PeersLatency, Metric::PeersRate])
}

fn calls(arguments: &Arguments) -> Result<(), String> {
    let calls = layer::rpc::run(&options(arguments)?).map_err(|error| error.to_string())?;
    arguments.told.tell(&calls, || layer::rpc::table(&calls), |_| Ok(()))?;
    measured::ended(&calls.failures)
}

fn options(arguments: &Arguments) -> Result<Options, String> {
    let mut sizes = Vec::new();
    for &size in if arguments.sizes.is_empty() { &[8, 56, 256, 1024, 4096] } else { &*arguments.sizes } {
        if !sizes.contains(&size) {
            sizes.push(size);
        }
    }
    Ok(Options {
        sizes,
        session: arguments.measured.session(arguments.reliability)?,
        limits: arguments.told.limits(),
        quick: arguments.told.quick,
        quiet: arguments.told.quiet,
    })
}
