//! Before load is sent to a public address, somebody says that it may be.

use crate::client::Proxy;
use crate::client::config::BaseUrl;
use crate::client::public::{Public, public};
use crate::plan::{Plan, Series};
use crate::search::config::{Mode, Over};
use crate::stats::step::StepKind;
use crate::units::{Rate, short};
use crate::workload::config::Source;
use anyhow::{Context, Result, bail};
use std::io::{BufRead, IsTerminal, Write};

/// So many requests a second are sent to anybody without a question.
const UNASKED: f64 = 10.0;

/// A closed loop of one worker, in words: how many a second that is, the server says.
const ALONE: &str = "one request at a time, as fast as it answers";

/// Asks, on the terminal, whether the load of plans may be sent where a server of them has a public address and the load may pass 10 requests
/// a second, once for each address; never where all are private, and not where `yes` was said on the command line. At the beginning, since
/// nobody sits at the terminal when a sweep gets there.
///
/// # Errors
/// It may not be, or there is no terminal to ask on.
pub(crate) fn ask(plans: &[&Plan], yes: bool) -> Result<()> {
    let mut all: Vec<Sent> = Vec::new();
    for series in plans.iter().flat_map(|plan| plan.series()) {
        let Some(most) = may_send(&series) else { continue };
        let server = &series.plan.server;
        for url in server.target.urls() {
            let sent = (url.clone(), server.proxy.clone(), most.clone());
            if !all.contains(&sent) {
                all.push(sent);
            }
        }
    }
    of_urls(&all, yes)
}

/// Whom something is sent, the proxy on the way, and how much, in words.
pub(crate) type Sent = (BaseUrl, Proxy, String);

/// The same for these.
///
/// # Errors
/// As [`ask`].
pub(crate) fn of_urls(all: &[Sent], yes: bool) -> Result<()> {
    if yes {
        return Ok(());
    }
    for what in questions(all, public) {
        one(&what)?;
    }
    Ok(())
}

/// What there is to ask about, once for each public address.
fn questions(all: &[Sent], public: impl Fn(&BaseUrl, &Proxy) -> Option<Public>) -> Vec<String> {
    let mut looked: Vec<(&BaseUrl, &Proxy, Option<Public>)> = Vec::new();
    let mut places: Vec<(Public, &BaseUrl, Vec<&str>)> = Vec::new();
    for (url, proxy, most) in all {
        let known = looked.iter().find(|(u, p, _)| (*u, *p) == (url, proxy)).map(|(.., leads)| leads.clone());
        let leads = known.unwrap_or_else(|| {
            let leads = public(url, proxy);
            looked.push((url, proxy, leads.clone()));
            leads
        });
        let Some(leads) = leads else { continue };
        let at = places.iter().position(|(to, ..)| *to == leads).unwrap_or_else(|| {
            places.push((leads, url, Vec::new()));
            places.len() - 1
        });
        if !places[at].2.contains(&most.as_str()) {
            places[at].2.push(most);
        }
    }
    let shown = |(leads, url, most): &(Public, &BaseUrl, Vec<&str>)| {
        format!("{url} has {leads}, and this may send it {}", most.join("; "))
    };
    places.iter().map(shown).collect()
}

/// One question.
fn one(what: &str) -> Result<()> {
    if !(std::io::stdin().is_terminal() && std::io::stderr().is_terminal()) {
        bail!(
            "{what}: say --yes if it is yours to load, or keep the load at {UNASKED} req/s and below (search.max-rate = {UNASKED}; of a closed \
             loop workload.pace = {UNASKED})"
        );
    }
    let mut err = std::io::stderr().lock();
    write!(err, "{what}.\nIs it yours to load, and does whoever pays for it know? [y/N] ")
        .and_then(|()| err.flush())
        .context("failed to ask on the terminal")?;
    let mut answer = String::new();
    std::io::stdin().lock().read_line(&mut answer).context("failed to read the answer")?;
    if !matches!(answer.trim().to_lowercase().as_str(), "y" | "yes") {
        bail!("nothing was sent");
    }
    Ok(())
}

/// What a series may send, in words, where that may be more than goes unasked.
fn may_send(series: &Series) -> Option<String> {
    let plan = &series.plan;
    let (search, per_level) = (&plan.search, plan.workload.per_level());
    let beyond = |rate: f64| (rate * per_level > UNASKED).then_some(rate * per_level);
    let most = search.max_rate.map(Rate::get);
    // What a trace sends at the speed of its own is known once it is read.
    let untold = matches!(plan.workload.source, Source::Trace(_));
    let closed = |in_flight: u32| {
        let paced = plan.pace(StepKind::List).is_some_and(|pace| pace * per_level <= UNASKED);
        (!paced).then(|| match in_flight {
            1 => ALONE.to_owned(),
            n => format!("requests as fast as it answers, up to {n} at once"),
        })
    };
    // One at a time first: of a search that chooses its rates, and where a list asks for it.
    let alone = || {
        let first = search.baseline || matches!(search.mode, Mode::Adaptive(_));
        let paced = plan.pace(StepKind::Baseline).is_some_and(|pace| pace * per_level <= UNASKED);
        (first && !paced).then(|| ALONE.to_owned())
    };
    let rate = match &search.mode {
        Mode::Rates(rates) => {
            // A surge after the search is above the rate that was found, and never above max-rate.
            let surge = plan.recovery.map_or(1.0, |recovery| recovery.factor.get());
            let highest = rates.iter().map(|r| r.get()).reduce(f64::max);
            highest.map(|rate| most.map_or(rate * surge, |most| rate.max(most.min(rate * surge))))
        }
        Mode::Adaptive(a) if a.over == Over::Rate => most,
        Mode::Ramp(_) => most,
        Mode::Concurrency(n) => return closed(n.iter().map(|n| n.get()).max().unwrap_or(1)).or_else(alone),
        Mode::Ladder(ladder) => return closed(ladder.max.get()),
        Mode::Burst(n) => return closed(n.get()),
        Mode::Adaptive(_) => return closed(plan.step.max_in_flight).or_else(alone),
    };
    // A step under the profiler has a level of its own.
    let profiled = || {
        let level = plan.profile.as_ref()?.level?.get();
        beyond(level).map(|rate| format!("up to {} requests a second", short(rate)))
    };
    let peak = || search.peak.and_then(|peak| closed(peak.concurrency.get()));
    match rate {
        None => Some("as many requests as it can take".into()),
        Some(_) if untold => {
            Some("a trace, at more than 10 requests a second for all that is known yet".into())
        }
        Some(rate) => {
            let most = beyond(rate).map(|rate| format!("up to {} requests a second", short(rate)));
            most.or_else(profiled).or_else(peak).or_else(alone)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(search: &str) -> Option<String> {
        paced("", search)
    }

    fn paced(pace: &str, search: &str) -> Option<String> {
        let text = format!(
            "name = \"x\"\n[server]\nurl = \"http://203.0.113.7\"\n[slo]\nttft.p99 = \"1s\"\n[workload]\n{pace}\n[workload.prompts.synthetic]\n\
             input-tokens = {{ fixed = 9 }}\noutput-tokens = {{ fixed = 9 }}\n[search]\n{search}\n"
        );
        may_send(&Plan::from_text(&text).unwrap().series()[0])
    }

    #[test]
    fn what_may_pass_ten_a_second_is_asked_about() {
        for (search, asks) in [
            ("", Some("as many")),
            ("max-rate = 10", None),
            ("max-rate = 10.5", Some("up to 10.5 requests a second")),
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
            let got = of(search);
            assert_eq!(got.is_some(), asks.is_some(), "{search}: {got:?}");
            assert!(got.unwrap_or_default().contains(asks.unwrap_or_default()), "{search}");
        }
    }

    #[test]
    fn a_pace_bounds_what_is_sent_by_workers_and_nothing_else() {
        for (pace, search, asks) in [
            ("pace = 10", "concurrency = [8]", false),
            ("pace = 11", "concurrency = [8]", true),
            ("pace = 10", "concurrency = [1]\nbaseline = true", false),
            ("pace = 10", "rates = [40]", true),
            ("pace = 10", "", true),
        ] {
            assert_eq!(paced(pace, search).is_some(), asks, "{pace}, {search}");
        }
    }

    #[test]
    fn without_a_terminal_it_takes_a_yes() {
        let to = |url: &str| [(url.parse().unwrap(), Proxy::None, "a lot".to_owned())];
        let (public, private) = (to("http://203.0.113.7"), to("http://10.0.0.1"));
        // The tests of a crate have no terminal on all three at once, or somebody is asked and says nothing.
        if !std::io::stdin().is_terminal() {
            let said = of_urls(&public, false).unwrap_err().to_string();
            assert!(said.contains("--yes") && said.contains("203.0.113.7"), "{said}");
        }
        assert!(of_urls(&public, true).is_ok());
        assert!(of_urls(&private, false).is_ok());
    }

    #[test]
    fn each_address_is_asked_about_once() {
        let to = |url: &str, most: &str| (url.parse().unwrap(), Proxy::None, most.to_owned());
        let all = [
            to("http://one.example.com", "a lot"),
            to("http://one.example.com", "more"),
            to("http://also-one.example.com", "a lot"),
            to("http://10.0.0.1", "a lot"),
            to("http://two.example.com", "a lot"),
        ];
        let looked = std::cell::Cell::new(0);
        let public = |url: &BaseUrl, _: &Proxy| {
            looked.set(looked.get() + 1);
            let last = if url.to_string().contains("two") { 2 } else { 1 };
            let address = std::net::IpAddr::from([203, 0, 113, last]);
            (!url.to_string().contains("10.0")).then_some(Public::Address(address))
        };
        let asked = questions(&all, public);
        assert_eq!((asked.len(), looked.get()), (2, 4), "{asked:?}");
        assert!(asked[0].contains("203.0.113.1, and") && asked[0].ends_with("a lot; more"), "{asked:?}");
        assert!(asked[1].contains("203.0.113.2, and"), "{asked:?}");
    }
}
