//! Confirmation before loading a public address.

use crate::client::Proxy;
use crate::client::config::BaseUrl;
use crate::client::consent::{allow, allow_every, host};
use crate::client::public::{Public, public};
use crate::plan::{Plan, Series};
use crate::search::config::{Mode, Over};
use crate::stats::step::StepKind;
use crate::units::{Rate, short};
use crate::workload::config::Source;
use anyhow::{Context, Result, bail};
use std::io::{BufRead, IsTerminal, Write};

/// Highest rate, in requests per second, that needs no confirmation.
const MAX_UNCONFIRMED: f64 = 10.0;

/// Description of a closed loop with one request in flight, whose rate depends on the server.
const ONE_AT_A_TIME: &str = "one request at a time, as fast as it answers";

/// Asks on the terminal before the plans load a public address with more than 10 requests per second, once per address.
///
/// Asks nothing for private addresses, or if `yes` is set. Asks before the sweep starts, because later nobody watches the terminal.
/// Addresses are checked again when they are connected to: a name may lead elsewhere by then.
///
/// # Errors
/// The user declines, or there is no terminal to ask on.
pub(crate) fn ask(plans: &[&Plan], yes: bool) -> Result<()> {
    let mut targets: Vec<LoadTarget> = Vec::new();
    let mut gentle: Vec<BaseUrl> = Vec::new();
    for series in plans.iter().flat_map(|plan| plan.series()) {
        let server = &series.plan.server;
        let Some(load) = load_to_confirm(&series) else {
            gentle.extend(server.target.urls().iter().cloned());
            continue;
        };
        for url in server.target.urls() {
            let target = LoadTarget { url: url.clone(), proxy: server.proxy.clone(), load: load.clone() };
            if !targets.contains(&target) {
                targets.push(target);
            }
        }
    }
    ask_for(&targets, yes)?;
    // So little load needs no consent, unless another series sends the same host more.
    let is_loaded = |url: &BaseUrl| targets.iter().any(|target| host(&target.url) == host(url));
    gentle.iter().filter(|url| !is_loaded(url)).for_each(allow);
    Ok(())
}

/// A server, and the load that it may get.
#[derive(PartialEq, Eq)]
pub(crate) struct LoadTarget {
    /// Address of the server.
    pub(crate) url: BaseUrl,
    /// Proxy setting on the way to it.
    pub(crate) proxy: Proxy,
    /// Description of the load, such as "up to 40 requests per second".
    pub(crate) load: String,
}

/// Asks on the terminal before loading public addresses, once per address.
///
/// # Errors
/// The user declines, or there is no terminal to ask on.
pub(crate) fn ask_for(targets: &[LoadTarget], yes: bool) -> Result<()> {
    if yes {
        allow_every();
        return Ok(());
    }
    for Destination { warning, urls } in destinations(targets, public) {
        confirm(&warning)?;
        urls.into_iter().for_each(allow);
    }
    Ok(())
}

/// A public address that may be loaded.
struct Destination<'a> {
    /// The address and everything that may be sent to it, as a clause.
    warning: String,
    /// The URLs that lead to it.
    urls: Vec<&'a BaseUrl>,
}

/// Returns the public addresses among the targets. Calls `public` once per server, since it resolves names.
fn destinations<'a>(
    targets: &'a [LoadTarget],
    public: impl Fn(&BaseUrl, &Proxy) -> Option<Public>,
) -> Vec<Destination<'a>> {
    struct AddressLoad<'a> {
        address: Public,
        urls: Vec<&'a BaseUrl>,
        loads: Vec<&'a str>,
    }
    let mut resolved: Vec<(&BaseUrl, &Proxy, Option<Public>)> = Vec::new();
    let mut found: Vec<AddressLoad<'a>> = Vec::new();
    for LoadTarget { url, proxy, load } in targets {
        let known = resolved.iter().find(|(u, p, _)| (*u, *p) == (url, proxy)).map(|(.., to)| to.clone());
        let address = known.unwrap_or_else(|| {
            let address = public(url, proxy);
            resolved.push((url, proxy, address.clone()));
            address
        });
        let Some(address) = address else { continue };
        match found.iter_mut().find(|f| f.address == address) {
            Some(known) => {
                known.urls.push(url);
                if !known.loads.contains(&load.as_str()) {
                    known.loads.push(load);
                }
            }
            None => found.push(AddressLoad { address, urls: vec![url], loads: vec![load] }),
        }
    }
    let destination = |f: AddressLoad<'a>| Destination {
        warning: format!("{} has {}, and this may send it {}", f.urls[0], f.address, f.loads.join("; ")),
        urls: f.urls,
    };
    found.into_iter().map(destination).collect()
}

/// Shows a warning on the terminal and asks for confirmation.
fn confirm(warning: &str) -> Result<()> {
    if !(std::io::stdin().is_terminal() && std::io::stderr().is_terminal()) {
        bail!(
            "{warning}: add --yes if you may load this server, or limit the load to {MAX_UNCONFIRMED} req/s (search.max-rate = \
             {MAX_UNCONFIRMED}; in a closed loop workload.pace = {MAX_UNCONFIRMED})"
        );
    }
    let mut err = std::io::stderr().lock();
    write!(err, "{warning}.\nMay you load this server, and does its owner know? [y/N] ")
        .and_then(|()| err.flush())
        .context("failed to ask on the terminal")?;
    let mut answer = String::new();
    std::io::stdin().lock().read_line(&mut answer).context("failed to read the answer")?;
    if !matches!(answer.trim().to_lowercase().as_str(), "y" | "yes") {
        bail!("not confirmed: no requests were sent");
    }
    Ok(())
}

/// Describes the load of a series; `None` if it stays within [`MAX_UNCONFIRMED`].
fn load_to_confirm(series: &Series) -> Option<String> {
    let plan = &series.plan;
    let (search, per_level) = (&plan.search, plan.workload.per_level());
    let above = |rate: f64| (rate * per_level > MAX_UNCONFIRMED).then_some(rate * per_level);
    let max_rate = search.max_rate.map(Rate::get);
    // The rate of a trace at its own speed is unknown until the trace is read.
    let is_trace = matches!(plan.workload.source, Source::Trace(_));
    let closed = |in_flight: u32| {
        let paced = plan.pace(StepKind::List).is_some_and(|pace| pace * per_level <= MAX_UNCONFIRMED);
        (!paced).then(|| match in_flight {
            1 => ONE_AT_A_TIME.to_owned(),
            n => format!("requests as fast as it answers, up to {n} at once"),
        })
    };
    // The adaptive search, and lists that ask for it, begin with a closed loop of one request in flight.
    let baseline = || {
        let has_baseline = search.baseline || matches!(search.mode, Mode::Adaptive(_));
        let paced = plan.pace(StepKind::Baseline).is_some_and(|pace| pace * per_level <= MAX_UNCONFIRMED);
        (has_baseline && !paced).then(|| ONE_AT_A_TIME.to_owned())
    };
    let rate = match &search.mode {
        Mode::Rates(rates) => {
            // A surge after the search multiplies the rate found, up to max-rate.
            let surge = plan.recovery.map_or(1.0, |recovery| recovery.factor.get());
            let highest = rates.iter().map(|r| r.get()).reduce(f64::max);
            highest.map(|rate| max_rate.map_or(rate * surge, |max| rate.max(max.min(rate * surge))))
        }
        Mode::Adaptive(a) if a.over == Over::Rate => max_rate,
        Mode::Ramp(_) => max_rate,
        Mode::Concurrency(n) => {
            return closed(n.iter().map(|n| n.get()).max().unwrap_or(1)).or_else(baseline);
        }
        Mode::Ladder(ladder) => return closed(ladder.max.get()),
        Mode::Burst(n) => return closed(n.get()),
        Mode::Adaptive(_) => return closed(plan.step.max_in_flight).or_else(baseline),
    };
    // The profile step has its own level.
    let profile = || {
        let level = plan.profile.as_ref()?.level?.get();
        above(level).map(|rate| format!("up to {} requests per second", short(rate)))
    };
    let peak = || search.peak.and_then(|peak| closed(peak.concurrency.get()));
    match rate {
        None => Some("as many requests as it can take".into()),
        Some(_) if is_trace => Some("a trace, possibly at more than 10 requests per second".into()),
        Some(rate) => {
            let listed = above(rate).map(|rate| format!("up to {} requests per second", short(rate)));
            listed.or_else(profile).or_else(peak).or_else(baseline)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn load(search: &str) -> Option<String> {
        paced_load("", search)
    }

    fn paced_load(pace: &str, search: &str) -> Option<String> {
        let text = format!(
            "name = \"x\"\n[server]\nurl = \"http://203.0.113.7\"\n[slo]\nttft.p99 = \"1s\"\n[workload]\n{pace}\n[workload.prompts.synthetic]\n\
             input-tokens = {{ fixed = 9 }}\noutput-tokens = {{ fixed = 9 }}\n[search]\n{search}\n"
        );
        load_to_confirm(&Plan::from_text(&text).unwrap().series()[0])
    }

    #[test]
    fn loads_above_ten_requests_per_second_need_confirmation() {
        for (search, asks) in [
            ("", Some("as many")),
            ("max-rate = 10", None),
            ("max-rate = 10.5", Some("up to 10.5 requests per second")),
            ("rates = [1, 10]", None),
            ("rates = [1, 40, 2]", Some("up to 40 requests")),
            ("rates = [1]\n[profile]\nlevel = 500", Some("up to 500 requests")),
            ("rates = [1]\n[profile]\nlevel = 5", None),
            ("rates = [8]\n[recovery]\nfactor = 1.5", Some("up to 12 requests")),
            ("rates = [8]\nmax-rate = 10\n[recovery]\nfactor = 1.2", None),
            ("ramp = { start = 1 }", Some("as many")),
            ("ramp = { start = 1 }\nmax-rate = 8", None),
            ("concurrency = [1]", Some("one request at a time, as fast as it answers")),
            ("rates = [1, 10]\nbaseline = true", Some("one request at a time")),
            ("rates = [1, 10]\nbaseline = true\nmax-rate = 10", None),
            ("adaptive = { over = \"concurrency\" }\nmax-rate = 5", Some("up to 4096 at once")),
            ("concurrency = [1, 8]", Some("up to 8 at once")),
        ] {
            let got = load(search);
            assert_eq!(got.is_some(), asks.is_some(), "{search}: {got:?}");
            assert!(got.unwrap_or_default().contains(asks.unwrap_or_default()), "{search}");
        }
    }

    #[test]
    fn a_pace_limits_closed_loops_but_not_rates() {
        for (pace, search, asks) in [
            ("pace = 10", "concurrency = [8]", false),
            ("pace = 11", "concurrency = [8]", true),
            ("pace = 10", "concurrency = [1]\nbaseline = true", false),
            ("pace = 10", "rates = [40]", true),
            ("pace = 10", "", true),
        ] {
            assert_eq!(paced_load(pace, search).is_some(), asks, "{pace}, {search}");
        }
    }

    #[test]
    fn without_a_terminal_a_public_address_needs_yes() {
        let to = |url: &str| {
            [LoadTarget { url: url.parse().unwrap(), proxy: Proxy::None, load: "a lot".to_owned() }]
        };
        let (public, private) = (to("http://203.0.113.7"), to("http://10.0.0.1"));
        // Run from a terminal, the test would wait for an answer.
        if !std::io::stdin().is_terminal() {
            let error = ask_for(&public, false).unwrap_err().to_string();
            assert!(error.contains("--yes") && error.contains("203.0.113.7"), "{error}");
        }
        assert!(ask_for(&public, true).is_ok());
        assert!(ask_for(&private, false).is_ok());
    }

    #[test]
    fn each_address_is_asked_about_once() {
        let to = |url: &str, load: &str| LoadTarget {
            url: url.parse().unwrap(),
            proxy: Proxy::None,
            load: load.to_owned(),
        };
        let all = [
            to("http://one.example.com", "a lot"),
            to("http://one.example.com", "more"),
            to("http://also-one.example.com", "a lot"),
            to("http://10.0.0.1", "a lot"),
            to("http://two.example.com", "a lot"),
        ];
        let lookups = std::cell::Cell::new(0);
        let public = |url: &BaseUrl, _: &Proxy| {
            lookups.set(lookups.get() + 1);
            let last = if url.to_string().contains("two") { 2 } else { 1 };
            let address = std::net::IpAddr::from([203, 0, 113, last]);
            (!url.to_string().contains("10.0")).then_some(Public::Address(address))
        };
        let all = destinations(&all, public);
        let asked: Vec<&str> = all.iter().map(|d| d.warning.as_str()).collect();
        assert_eq!((asked.len(), lookups.get()), (2, 4), "{asked:?}");
        assert_eq!(all[0].urls.len(), 3, "consent is for each of its names");
        assert!(asked[0].contains("203.0.113.1, and") && asked[0].ends_with("a lot; more"), "{asked:?}");
        assert!(asked[1].contains("203.0.113.2, and"), "{asked:?}");
    }
}
