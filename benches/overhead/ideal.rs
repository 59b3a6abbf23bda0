//! The client that does nothing but write a request, read, and stamp: what any other client is measured against.

use super::clients::{Load, Quantiles, Said};
use goodput::units::Rate;
use goodput::workload::arrivals::{Arrivals, Times};
use goodput::workload::seed::{Purpose, stream};
use std::error::Error;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::Command;
use std::time::Duration;
use tokio::time::Instant;

/// Threads of an open loop: more than there are answers under way.
const THREADS: usize = 128;

/// Runs the client in a process of its own.
pub(crate) fn run(url: &str, load: Load) -> Result<Said, Box<dyn Error>> {
    let (kind, n) = match load {
        Load::Streams(n) => ("streams", n),
        Load::Rate(n) => ("rate", n),
    };
    let mut command = Command::new(std::env::current_exe()?);
    let done = command.args(["ideal", url, kind, &n.to_string()]).output()?;
    let text = String::from_utf8(done.stdout)?;
    let figures: Vec<f64> = text.split_whitespace().map(str::parse).collect::<Result<_, _>>()?;
    let [requests, t50, t99, i50, i99] = figures[..] else {
        return Err(format!("{text}{}", String::from_utf8_lossy(&done.stderr)).into());
    };
    let quantiles = |p50, p99| Quantiles { p50, p99 };
    let ttft = quantiles(t50, t99);
    Ok(Said { requests: requests as usize, ttft, from_sent: ttft, itl: quantiles(i50, i99) })
}

/// Is the client: prints the number of requests, and median and p99 of TTFT and ITL in ms.
pub(crate) fn main(url: &str, load: Load) {
    let address = url.trim_start_matches("http://").to_owned();
    let began = Instant::now() + Duration::from_millis(500);
    let dues: Vec<Option<Duration>> = match load {
        Load::Streams(_) => vec![None; load.requests()],
        Load::Rate(n) => {
            let rng = stream(1, "overhead", 1, Purpose::Arrivals);
            let times = Times::new(Arrivals::Poisson, Rate::try_from(n as f64).unwrap(), rng);
            times.take(load.requests()).map(Some).collect()
        }
    };
    let threads = match load {
        Load::Streams(n) => n,
        Load::Rate(_) => THREADS,
    };
    let thread = |k: usize| {
        let dues: Vec<_> = dues.iter().skip(k).step_by(threads).copied().collect();
        let address = address.clone();
        std::thread::spawn(move || one_after_another(&address, load, began, &dues))
    };
    let running: Vec<_> = (0..threads).map(thread).collect();
    let seen: Vec<Vec<Duration>> = running.into_iter().flat_map(|thread| thread.join().unwrap()).collect();
    let ms = |d: &Duration| d.as_secs_f64() * 1e3;
    let requests = seen.len();
    let ttft = Quantiles::of(seen.iter().map(|times| ms(&times[0])).collect()).unwrap();
    let itl = Quantiles::of(seen.iter().flat_map(|times| times[1..].iter().map(ms)).collect()).unwrap();
    println!("{requests} {} {} {} {}", ttft.p50, ttft.p99, itl.p50, itl.p99);
}

/// Sends requests over one connection. Returns for each the TTFT, from when it was sent, and then the gaps.
fn one_after_another(
    address: &str,
    load: Load,
    began: Instant,
    dues: &[Option<Duration>],
) -> Vec<Vec<Duration>> {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_nodelay(true).unwrap();
    let body = format!(r#"{{"model":"overhead","prompt":"a","stream":true,"max_tokens":{}}}"#, load.tokens());
    let request = format!(
        "POST /v1/completions HTTP/1.1\r\nhost: {address}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    let exchange = |due: &Option<Duration>| {
        std::thread::sleep((began + due.unwrap_or_default()).saturating_duration_since(Instant::now()));
        let mut last = Instant::now();
        stream.write_all(request.as_bytes()).unwrap();
        let (mut gaps, mut tail) = (Vec::with_capacity(load.tokens()), Vec::new());
        let mut buffer = [0; 16 << 10];
        loop {
            let read = stream.read(&mut buffer).unwrap();
            let now = Instant::now();
            assert!(read > 0, "the server has closed the connection");
            let text = &buffer[..read];
            // Each write of the server has one token; the head of the answer has none.
            if text.windows(6).any(|six| six == b"\"text\"") {
                gaps.push(now - last);
                last = now;
            }
            tail.extend_from_slice(text);
            if tail.ends_with(b"\r\n0\r\n\r\n") {
                return gaps;
            }
        }
    };
    dues.iter().map(exchange).collect()
}
